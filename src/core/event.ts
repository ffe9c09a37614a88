/** An event: emitted once for each key. Jobs wait for it. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { InvalidArgumentError } from "./errors.ts";
import { checkName } from "./name.ts";
import { checkKnown, checkSchema } from "./options.ts";

const EVENT_FIELDS = new Set(["name", "payload"]);
/** Events of Holdfast begin with this. */
const OURS = "@";

/** An event, as `defineEvent()` returns it. `Payload` is what `emit()` takes and `ctx.event()` returns. */
export interface EventType<Payload = unknown> {
  /** The name that it was defined with. */
  readonly name: string;
  /** The schema of the payload; null: it is not validated. */
  readonly payload: StandardSchemaV1 | null;
  /** Exists for the compiler only. */
  readonly types?: {
    /** What `emit()` takes. */
    readonly payload: Payload;
  };
}

/**
 * Defines an event, which jobs wait for with `ctx.event()`. Its payload has a schema, or a type alone.
 *
 * @example
 * ```ts
 * const paid = defineEvent({ name: "order.paid", payload: z.object({ cents: z.int() }) });
 * ```
 */
export function defineEvent<Schema extends StandardSchemaV1>(definition: {
  /** The name that `emit()` and `ctx.event()` agree on; it does not begin with `@`. */
  readonly name: string;
  /** The schema that validates payloads when they are emitted. */
  readonly payload: Schema;
}): EventType<StandardSchemaV1.InferInput<Schema>>;

export function defineEvent<Payload = null>(definition: {
  /** The name that `emit()` and `ctx.event()` agree on; it does not begin with `@`. */
  readonly name: string;
  /** Left out: the payload has a type alone, and is not validated. */
  readonly payload?: undefined;
}): EventType<Payload>;

export function defineEvent(definition: {
  readonly name: string;
  readonly payload?: StandardSchemaV1 | undefined;
}): EventType {
  checkKnown(definition, EVENT_FIELDS);
  const { payload = null } = definition;
  const name = checkName("name", definition.name);
  if (name.startsWith(OURS)) {
    throw new InvalidArgumentError({
      field: "name",
      problem: "an event's name must not begin with '@'.",
    });
  }
  return { name, payload: checkSchema("payload", payload) };
}

export interface NewEvent {
  readonly name: string;
  readonly key: string;
  readonly payload: string | null;
}

/** What `emit()` did. */
export interface Emitted {
  /** False: it was emitted before, and the first payload stays. */
  readonly first: boolean;
  /** How many jobs waited for it. */
  readonly woken: number;
}
