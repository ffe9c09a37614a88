/** Checks of arguments and options that several parts of the API share. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { type Duration, DURATION_MS_MAX, toMs } from "./duration.ts";
import { type InvalidArgumentError, invalid } from "./errors.ts";
import { isId } from "./id.ts";
import { suggest } from "./text.ts";

/** The option that has these options as its value. */
interface Around {
  readonly field: string;
  /** A value that would be accepted, as code. */
  readonly example?: string;
}

function namesOf(options: object, around: Around | undefined): string[] {
  if (typeof options === "object" && options !== null && !Array.isArray(options))
    return Object.keys(options);
  const { field, example } = around ?? { field: "options" };
  const such = example === undefined ? "" : ` such as ${example}`;
  throw invalid(field, `must be an object${such}, not ${shown(options)}.`);
}

/** A misspelt option that is ignored would be hard to find. */
function unknownOption(
  name: string,
  known: { has(name: string): boolean; keys(): Iterable<string> },
  around: Around | undefined,
): InvalidArgumentError {
  const names = [...known.keys()];
  const meant = suggest(name, names);
  const advice =
    peerAdvice(name, known) ??
    (meant === null ? `The options are: ${names.join(", ")}.` : `Did you mean ${meant}?`);
  const problem = `there is no such option. ${advice}`;
  return invalid(fieldIn(around, name), problem);
}

/** The options of a call stand by themselves in a message. */
function fieldIn(around: Around | undefined, name: string): string {
  return around === undefined || around.field === "options" ? name : `${around.field}.${name}`;
}

/** The last instant that a Date can hold. */
const INSTANT_MAX = 8.64e15;

/** How one option is checked, and its default. */
export interface Option<Given, Value> {
  readonly check: (field: string, given: Given) => Value;
  /** Without a default, the checked options lack an option that is not given. */
  readonly initial?: unknown;
  /** It has a default, or must be given. */
  readonly isAlways?: true;
  /** A duration: milliseconds once it is checked, which its name says from then on. */
  readonly suffix?: "Ms";
  /** Of a number or a duration. */
  readonly range?: { readonly least?: number; readonly most?: number };
}

/** The compiler refuses a table that lacks an option of the interface, has another one, or reads it as another type. */
type TableOf<Options> = {
  readonly [Name in keyof Options]-?: Option<Exclude<Options[Name], undefined>, unknown>;
};

type CheckedName<Name, One> = One extends { readonly suffix: "Ms" } ? `${Name & string}Ms` : Name;

/** What the code works with, once the options are checked. */
export type Checked<Table> = {
  readonly [
    Name in keyof Table as Table[Name] extends { readonly isAlways: true }
      ? CheckedName<Name, Table[Name]>
      : never
  ]: Table[Name] extends Option<never, infer Value> ? Value : never;
} & {
  readonly [
    Name in keyof Table as Table[Name] extends { readonly isAlways: true }
      ? never
      : CheckedName<Name, Table[Name]>
  ]?: Table[Name] extends Option<never, infer Value> ? Value : never;
};

interface Entry {
  readonly name: string;
  /** Its name once it is checked. */
  readonly checkedName: string;
  readonly check: (field: string, given: unknown) => unknown;
  readonly initial: unknown;
}

/** All options of a function, each declared once. */
export class OptionTable<Options extends object, Table extends TableOf<Options>> {
  readonly table: Table;
  readonly #entries = new Map<string, Entry>();
  /** Checked once. */
  readonly #defaults: Record<string, unknown> = {};
  /** Options without a default that must be given, and defaults that no two calls may share. */
  readonly #others: Entry[] = [];

  constructor(table: Table) {
    this.table = table;
    for (const [name, option] of Object.entries(table as Record<string, Option<never, unknown>>)) {
      const { initial, isAlways, suffix = "" } = option;
      const check = option.check as Entry["check"];
      const entry = { name, checkedName: name + suffix, check, initial };
      this.#entries.set(name, entry);
      if (isAlways !== true) continue;
      if (initial === undefined || typeof initial === "object") this.#others.push(entry);
      else this.#defaults[entry.checkedName] = check(name, initial);
    }
  }

  /** Refuses unknown and wrong options, and fills in the defaults. Each enqueued job passes here. */
  read(options: Options, around?: Around): Checked<Table> {
    const checked = { ...this.#defaults };
    for (const name of namesOf(options, around)) {
      const entry = this.#entries.get(name);
      if (entry === undefined) throw unknownOption(name, this.#entries, around);
      const given = (options as Record<string, unknown>)[name];
      if (given === undefined) continue;
      checked[entry.checkedName] = entry.check(fieldIn(around, name), given);
    }
    for (const { name, checkedName, check, initial } of this.#others) {
      if ((options as Record<string, unknown>)[name] !== undefined) continue;
      checked[checkedName] = check(fieldIn(around, name), initial);
    }
    return checked as Checked<Table>;
  }

  /** These options as the value of an option. `example`: a value that would be accepted, as code. */
  nested(example?: string): Option<Options, Checked<Table>> {
    const around = example === undefined ? {} : { example };
    return by((field, given) => this.read(given, { field, ...around }));
  }
}

/** A table for the options of this interface: `optionsOf<StopOptions>()({ timeout: duration({}, "30s") })`. */
export function optionsOf<Options extends object>() {
  return <const Table extends TableOf<Options>>(table: Table): OptionTable<Options, Table> =>
    new OptionTable<Options, Table>(table);
}

/** A builder of options takes the default as its last argument, if there is one. */
type Initial<Given> = readonly [] | readonly [initial: Given];

type WithDefault<One, Given extends Initial<unknown>> = Given extends readonly []
  ? One
  : One & { readonly isAlways: true };

function withDefault<One extends Option<never, unknown>, Given extends Initial<unknown>>(
  option: One,
  [initial]: Given,
): WithDefault<One, Given> {
  const known = initial === undefined ? option : { ...option, initial, isAlways: true };
  return known as WithDefault<One, Given>;
}

/** An option that this function checks. */
export function by<Given, Value, const Default extends Initial<NoInfer<Given>>>(
  check: (field: string, given: Given) => Value,
  ...initial: Default
) {
  return withDefault<Option<Given, Value>, Default>({ check }, initial);
}

/** An option without a default that must be given. */
export function needed<One extends Option<never, unknown>>(
  option: One,
): One & { readonly isAlways: true } {
  return { ...option, isAlways: true };
}

/** An option whose null means that there is none. */
export function nullable<One extends Option<never, unknown>>(option: One): Nullable<One> {
  const check = (field: string, given: never) =>
    given === null ? null : option.check(field, given);
  return { ...option, check } as Option<never, unknown> as Nullable<One>;
}

type Nullable<One> =
  One extends Option<infer Given, infer Value>
    ? Omit<One, "check"> & Option<Given | null, Value | null>
    : never;

/** A list whose members this function checks. */
export function each<Given, Value, Default extends Initial<readonly NoInfer<Given>[]>>(
  check: (field: string, given: Given) => Value,
  ...initial: Default
) {
  const checkAll = (field: string, given: readonly Given[]) =>
    checkList(field, given).map((one) => check(field, one));
  return withDefault<Option<readonly Given[], Value[]>, Default>({ check: checkAll }, initial);
}

export function instant(least = 0): Option<Date | number, number> {
  return by((field, given) => {
    const at = given instanceof Date ? given.getTime() : given;
    if (Number.isSafeInteger(at) && at >= least && at <= INSTANT_MAX) return at;
    throw invalid(field, "must be a valid Date, or whole milliseconds since 1970.");
  });
}

/** The id of something stored, such as "a flow". */
export function idOf(what: string): Option<string, string> {
  return by((field, given) => {
    if (typeof given === "string" && isId(given)) return given;
    throw invalid(field, `must be the id of ${what}.`);
  });
}

/** An option that another function checks, such as the operator's name. */
export function passed<Given>(): Option<Given, Given> {
  return { check: (_field, given) => given };
}

export function whole<Default extends Initial<number>>(
  least: number,
  most: number,
  ...initial: Default
) {
  const range = { least, most };
  const check = (field: string, given: number) => checkWhole(field, given, range);
  return withDefault<Option<number, number>, Default>({ check, range }, initial);
}

export function yes(initial: boolean) {
  return by(checkBoolean, initial);
}

export function choice<const Word extends string, const Default extends Initial<NoInfer<Word>>>(
  words: readonly Word[],
  ...initial: Default
) {
  const check = (field: string, given: Word) => checkChoice(field, given, words);
  return withDefault<Option<Word, Word>, Default>({ check }, initial);
}

interface DurationLimits {
  readonly least?: number;
  readonly most?: number;
}

export function duration<Default extends Initial<Duration>>(
  range: DurationLimits,
  ...initial: Default
) {
  const { least: min = 0, most: max = DURATION_MS_MAX } = range;
  const check = (field: string, given: Duration) => toMs(field, given, { min, max });
  const option = { check, suffix: "Ms", range } as const;
  return withDefault<Option<Duration, number> & { readonly suffix: "Ms" }, Default>(
    option,
    initial,
  );
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

function peerAdvice(name: string, known: { has(name: string): boolean }): string | null {
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
  throw invalid(
    field,
    `must be a whole number from ${range.least} to ${range.most}, not ${shownNumber(value)}.`,
  );
}

export function checkBoolean(field: string, value: boolean): boolean {
  if (typeof value === "boolean") return value;
  throw invalid(field, `must be true or false, not ${shown(value)}.`);
}

function checkChoice<Word extends string>(
  field: string,
  value: Word,
  words: readonly Word[],
): Word {
  if (words.includes(value)) return value;
  const named = words.map((word) => JSON.stringify(word));
  const last = named.pop();
  throw invalid(field, `must be ${named.length === 0 ? "" : `${named.join(", ")} or `}${last}.`);
}

export function checkFunction<Given>(field: string, given: Given): Given {
  if (typeof given === "function") return given;
  throw invalid(field, "must be a function.");
}

export function checkText(field: string, value: string): string {
  if (typeof value === "string") return value;
  throw invalid(field, `must be text, not ${kindOf(value)}.`);
}

/** Text of a person, which every database must store and return unchanged. */
export function checkWords(field: string, value: string, most: number): string {
  if (checkText(field, value).length > most) {
    throw invalid(field, `at most ${most} characters are allowed.`);
  }
  if (value.isWellFormed() && !value.includes("\0")) return value;
  throw invalid(field, "contains half of a character (a lone surrogate) or a null character.");
}

export function checkList<Item>(field: string, value: readonly Item[]): readonly Item[] {
  if (Array.isArray(value)) return value as readonly Item[];
  throw invalid(field, `must be a list, not ${kindOf(value)}.`);
}

export function checkSchema<Schema extends StandardSchemaV1 | null>(
  field: string,
  schema: Schema,
): Schema {
  if (schema === null || typeof schema?.["~standard"]?.validate === "function") return schema;
  const problem =
    "this is not a Standard Schema. Use a schema of zod, valibot, arktype or a similar library.";
  throw invalid(field, problem);
}

function kindOf(value: unknown): string {
  return value === null ? "null" : typeof value;
}
