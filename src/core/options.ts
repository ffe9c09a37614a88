/** Checks of arguments and options that several parts of the API share. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { suggest } from "./text.ts";
import { InvalidArgumentError } from "./errors.ts";

/** The option that has these options as its value. */
interface Around {
  readonly field: string;
  /** A value that would be accepted, as code. */
  readonly example?: string;
}

/** Refuses unknown options: a misspelt option that is ignored is hard to find. */
export function checkKnown(options: object, known: ReadonlySet<string>, around?: Around): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    const { field, example } = around ?? { field: "options" };
    const such = example === undefined ? "" : ` such as ${example}`;
    const problem = `must be an object${such}, not ${shown(options)}.`;
    throw new InvalidArgumentError({ field, problem });
  }
  for (const name of Object.keys(options)) {
    if (known.has(name)) continue;
    const meant = suggest(name, [...known]);
    const advice =
      peerAdvice(name, known) ??
      (meant === null ? `The options are: ${[...known].join(", ")}.` : `Did you mean ${meant}?`);
    throw new InvalidArgumentError({
      field: around === undefined ? name : `${around.field}.${name}`,
      problem: `there is no such option. ${advice}`,
    });
  }
}

/** What other libraries call it. The first name in a list of options is the one that it takes. */
const PEER_NAMES: Readonly<
  Record<string, readonly (readonly [option: string, written: string])[]>
> = {
  jobId: [["key", "key"]],
  jobKey: [["key", "key"]],
  singletonKey: [["key", "key"]],
  deduplication: [["key", "key"]],
  idempotencyKey: [["key", "key"]],
  attempts: [
    ["maxAttempts", "maxAttempts"],
    ["retry", "retry: { maxAttempts }"],
  ],
  retries: [
    ["maxAttempts", "maxAttempts"],
    ["retry", "retry: { maxAttempts }"],
  ],
  retryLimit: [
    ["maxAttempts", "maxAttempts"],
    ["retry", "retry: { maxAttempts }"],
  ],
  backoff: [["retry", "retry: { backoff: { initial, max, factor } }"]],
  retryBackoff: [["retry", "retry: { backoff: { initial, max, factor } }"]],
  startAfter: [["delay", "delay or runAt"]],
  handler: [["run", "run"]],
  processor: [["run", "run"]],
  limiter: [["concurrency", "holdfast.queues.set(queue, { rate })"]],
  removeOnComplete: [["retention", "retention"]],
  repeat: [["delay", "defineSchedule()"]],
  teamSize: [["concurrency", "concurrency"]],
  batchSize: [["concurrency", "concurrency"]],
};

function peerAdvice(name: string, known: ReadonlySet<string>): string | null {
  const names = Object.hasOwn(PEER_NAMES, name) ? (PEER_NAMES[name] ?? []) : [];
  const found = names.find(([option]) => known.has(option));
  return found === undefined ? null : `Here it is called: ${found[1]}.`;
}

/** Shows numbers and booleans, but no text, which may be a secret. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  return typeof value === "number" || typeof value === "boolean" ? String(value) : kindOf(value);
}

/** Shows what was given instead of a number. A text is only shown if it looks like a number. */
export function shownNumber(value: unknown): string {
  if (typeof value !== "string") return shown(value);
  return /^\s*[-+]?[\d.]{1,20}\s*$/.test(value) ? `the text ${JSON.stringify(value)}` : "a text";
}

export function checkWhole(
  field: string,
  value: number,
  range: { least: number; most: number },
): number {
  if (Number.isInteger(value) && value >= range.least && value <= range.most) return value;
  throw new InvalidArgumentError({
    field,
    problem: `must be a whole number from ${range.least} to ${range.most}, not ${shownNumber(value)}.`,
  });
}

export function checkBoolean(field: string, value: boolean): boolean {
  if (typeof value === "boolean") return value;
  throw new InvalidArgumentError({ field, problem: `must be true or false, not ${shown(value)}.` });
}

export function checkText(field: string, value: string): string {
  if (typeof value === "string") return value;
  throw new InvalidArgumentError({ field, problem: `must be text, not ${kindOf(value)}.` });
}

/** Text of a person, which every database must store and return unchanged. */
export function checkWords(field: string, value: string, most: number): string {
  if (checkText(field, value).length > most) {
    throw new InvalidArgumentError({ field, problem: `at most ${most} characters are allowed.` });
  }
  if (value.isWellFormed() && !value.includes("\0")) return value;
  const problem = "contains half of a character (a lone surrogate) or a null character.";
  throw new InvalidArgumentError({ field, problem });
}

export function checkList<Item>(field: string, value: readonly Item[]): readonly Item[] {
  if (Array.isArray(value)) return value as readonly Item[];
  throw new InvalidArgumentError({ field, problem: `must be a list, not ${kindOf(value)}.` });
}

export function checkSchema<Schema extends StandardSchemaV1 | null>(
  field: string,
  schema: Schema,
): Schema {
  if (schema === null || typeof schema?.["~standard"]?.validate === "function") return schema;
  const problem =
    "this is not a Standard Schema. Use a schema of zod, valibot, arktype or a similar library.";
  throw new InvalidArgumentError({ field, problem });
}

function kindOf(value: unknown): string {
  return value === null ? "null" : typeof value;
}
