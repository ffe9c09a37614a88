/**
 * Redaction rules: which parts of users' data the dashboard, the API, the command line and logs do not show.
 *
 * A rule is the name of a field, which is hidden wherever it is (`password`), or a path from the root of an input, a result or
 * other data (`card.number`, `customers.*.email`, where * is any one field or element). What is hidden is replaced by a text
 * that says so. Workers always get the whole data.
 */
import { type InvalidArgumentError, invalid } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";

export const HIDDEN = "[hidden by redaction]";

export const RULES_MAX = 200;
const RULE_LENGTH_MAX = 256;

/** What such a rule may look like, for messages. */
export const RULE_ALLOWED =
  "the name of a field, such as password, or a path, such as card.number or customers.*.email";

/** Deeper data is hidden as a whole: it cannot be compared with the rules in time. */
const DEPTH_MAX = 100;

/** An error whose causes are nested deeper is cut off there. */
const CAUSES_MAX = 10;

/** Fields of errors that hold text, to which no rule applies. */
const OF_ERRORS = new Set(["name", "message", "stack", "code"]);

/** The fields of answers, events and rows that hold users' data. */
const DATA_FIELDS = new Set(["input", "payload", "result", "data", "patch"]);

/** Fields of answers that hold no data of users, although theirs may be called like it. */
const NOT_DATA = new Set(["schema", "properties"]);

/** Of an item's audit line: from a hash of all its data, a short value that is hidden could be guessed. */
const DATA_HASHES = new Set(["dataHash", "previousHash", "hash"]);

export function isRule(text: string): boolean {
  const segments = text.split(".");
  return (
    text.length <= RULE_LENGTH_MAX && text !== "*" && segments.every((one) => one.trim() !== "")
  );
}

export class Redaction {
  readonly rules: readonly string[];
  readonly #names: ReadonlySet<string>;
  readonly #paths: readonly (readonly string[])[];

  constructor(rules: readonly string[] = []) {
    const wrong = rules.find((rule) => typeof rule !== "string" || !isRule(rule));
    if (wrong !== undefined || rules.length > RULES_MAX) {
      const problem =
        wrong === undefined
          ? `has more than ${RULES_MAX} rules.`
          : `'${wrong}' is no rule. Give ${RULE_ALLOWED}.`;
      throw invalid("redact", problem);
    }
    this.rules = rules;
    const split = rules.map((rule) => rule.trim().split("."));
    this.#names = new Set(
      split.flatMap(([name = "", ...rest]) => (rest.length === 0 ? [name.toLowerCase()] : [])),
    );
    this.#paths = split.filter((path) => path.length > 1);
  }

  get isEmpty(): boolean {
    return this.rules.length === 0;
  }

  /** Whether a field of this name is hidden wherever it is. */
  hides(name: string): boolean {
    return this.#names.has(name.toLowerCase());
  }

  /** Users' data without what the rules hide. The data is not changed; parts that have nothing to hide are shared. */
  data(value: unknown): unknown {
    return this.isEmpty ? value : this.#copy(value, this.#paths, 0);
  }

  /** An answer of ours, with the users' data in it redacted. */
  answer(json: unknown): unknown {
    return this.isEmpty ? json : this.#answer(json, 0);
  }

  /** An error without what the rules hide in its own fields, and in those of its causes. The error is not changed. */
  error(error: Error): Error {
    return this.isEmpty ? error : this.#error(error, 0);
  }

  #error(error: Error, depth: number): Error {
    const copy = new Error(error.message);
    Object.setPrototypeOf(copy, Object.getPrototypeOf(error) as object);
    const own = Object.getOwnPropertyDescriptors(error);
    for (const [name, field] of Object.entries(own)) {
      // The engine computes the stack of the error itself only.
      const given: unknown = name === "stack" ? error.stack : field.value;
      const value = this.#ofError(name, given, depth);
      const { enumerable = false } = field;
      Object.defineProperty(copy, name, { value, enumerable, writable: true, configurable: true });
    }
    return copy;
  }

  #ofError(name: string, value: unknown, depth: number): unknown {
    if (OF_ERRORS.has(name)) return value;
    if (this.hides(name)) return HIDDEN;
    if (depth > CAUSES_MAX) return HIDDEN;
    if (value instanceof Error) return this.#error(value, depth + 1);
    if (Array.isArray(value)) return value.map((one) => this.#ofError("", one, depth + 1));
    return this.data(value);
  }

  /** Where a hidden value was sent back unchanged, the value that it stands for. Throws where there is none. */
  restored(given: unknown, original: unknown, at = "input"): unknown {
    if (given === HIDDEN) {
      if (original === undefined) throw hiddenAt(at);
      return original;
    }
    if (typeof given !== "object" || given === null) return given;
    const before = (typeof original === "object" && original !== null ? original : {}) as Record<
      string,
      unknown
    >;
    if (Array.isArray(given))
      return given.map((one, index) => this.restored(one, before[index], `${at}[${index}]`));
    return mapped(given, (value, name) =>
      this.restored(value, Object.hasOwn(before, name) ? before[name] : undefined, `${at}.${name}`),
    );
  }

  #answer(json: unknown, depth: number): unknown {
    if (typeof json !== "object" || json === null || depth > DEPTH_MAX) return json;
    if (Array.isArray(json)) return json.map((one) => this.#answer(one, depth + 1));
    const isItemLine = Object.hasOwn(json, "dataHash");
    return mapped(json, (value, name) => {
      if (DATA_FIELDS.has(name)) return this.data(value);
      if (isItemLine && DATA_HASHES.has(name)) return HIDDEN;
      return NOT_DATA.has(name) ? value : this.#answer(value, depth + 1);
    });
  }

  /** `paths`: the rest of the paths that lead here. */
  #copy(value: unknown, paths: readonly (readonly string[])[], depth: number): unknown {
    if (typeof value !== "object" || value === null) return value;
    if (depth > DEPTH_MAX) return HIDDEN;
    const within = (name: string): (readonly string[])[] =>
      paths.filter(([first]) => first === "*" || first === name).map((path) => path.slice(1));
    const copied = (one: unknown, name: string): unknown => {
      const left = within(name);
      if (left.some((path) => path.length === 0)) return HIDDEN;
      return this.#copy(one, left, depth + 1);
    };
    if (Array.isArray(value)) return value.map((one, index) => copied(one, String(index)));
    return mapped(value, (one, name) => (this.hides(name) ? HIDDEN : copied(one, name)));
  }
}

/** Defined, not assigned: a field may be called __proto__. */
function mapped(value: object, of: (value: unknown, name: string) => unknown): object {
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, of(one, name)]));
}

function hiddenAt(field: string): InvalidArgumentError {
  const problem = `is '${HIDDEN}', which stands for a value that a redaction rule hides, and there is none at this place.`;
  return invalid(field, problem);
}

/** Whether a body has the text that stands for hidden values. */
export function hasHidden(body: unknown): boolean {
  return (JSON.stringify(body) ?? "").includes(JSON.stringify(HIDDEN));
}

/** An input as it was shown, with the values that were hidden. */
export async function restoredInput(
  parts: {
    readonly jobs: { get(id: string): Promise<{ readonly input: unknown } | null> };
    readonly redaction: Redaction;
  },
  id: string,
  input: unknown,
): Promise<unknown> {
  const { jobs, redaction } = parts;
  if (redaction.isEmpty || !hasHidden(input)) return input;
  return redaction.restored(input, (await jobs.get(id))?.input);
}

/** A logger of an application that gets thrown errors without what the rules hide in their fields. */
export function redactingLogger(logger: Logger, redaction: Redaction): Logger {
  if (redaction.isEmpty) return logger;
  const shown = (facts: object): object =>
    mapped(facts, (value) => (value instanceof Error ? redaction.error(value) : value));
  return {
    debug: (facts, message) => logger.debug(shown(facts), message),
    info: (facts, message) => logger.info(shown(facts), message),
    warn: (facts, message) => logger.warn(shown(facts), message),
    error: (facts, message) => logger.error(shown(facts), message),
  };
}

// The rules of this process, for its command line and its log. A server has those of its Holdfast.

let own = new Redaction();

export function useRedaction(rules: readonly string[]): void {
  own = new Redaction(rules);
}

export function ownRedaction(): Redaction {
  return own;
}
