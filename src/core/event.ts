/** An event: emitted once for each key. Jobs wait for it. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { invalid } from "./errors.ts";
import { checkName } from "./name.ts";
import { by, checkSchema, needed, optionsOf } from "./options.ts";

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

interface EventDefinition {
  readonly name: string;
  readonly payload?: StandardSchemaV1 | undefined;
}

const eventOptions = optionsOf<EventDefinition>()({
  name: needed(by(checkName)),
  payload: by(checkSchema<StandardSchemaV1>),
});

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

export function defineEvent(definition: EventDefinition): EventType {
  const { name, payload = null } = eventOptions.read(definition);
  if (name.startsWith(OURS)) {
    throw invalid("name", "an event's name must not begin with '@'.");
  }
  return { name, payload };
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
