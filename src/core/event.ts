/** An event: something that is said once, under a key, and that jobs wait for. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { InvalidArgumentError } from "./errors.ts";
import { checkName } from "./name.ts";
import { checkKnown } from "./options.ts";

const KNOWN = new Set(["name", "payload"]);
/** Names of our own begin with this. */
const OURS = "@";

/** `Payload` is what is said with it. */
export interface EventType<Payload = unknown> {
  readonly name: string;
  readonly payload: StandardSchemaV1 | null;
  /** Exists for the compiler only. */
  readonly types?: { readonly payload: Payload };
}

export function defineEvent<Schema extends StandardSchemaV1>(definition: {
  readonly name: string;
  readonly payload: Schema;
}): EventType<StandardSchemaV1.InferInput<Schema>>;

export function defineEvent<Payload = null>(definition: {
  readonly name: string;
  readonly payload?: undefined;
}): EventType<Payload>;

export function defineEvent(definition: {
  readonly name: string;
  readonly payload?: StandardSchemaV1 | undefined;
}): EventType {
  checkKnown(definition, KNOWN);
  const { payload = null } = definition;
  const name = checkName("name", definition.name);
  if (name.startsWith(OURS)) {
    throw new InvalidArgumentError({
      field: "name",
      problem: "an event's name must not begin with '@'.",
    });
  }
  if (payload !== null && typeof payload["~standard"]?.validate !== "function") {
    throw new InvalidArgumentError({
      field: "payload",
      problem: "this is not a Standard Schema. Use zod, valibot, arktype or another that is.",
    });
  }
  return { name, payload };
}
