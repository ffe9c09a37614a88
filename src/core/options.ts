/** Checks that several parts of the API make on what they are given. */
import { suggest } from "./did-you-mean.ts";
import { InvalidArgumentError } from "./errors.ts";

/** The option whose value these options are. */
interface Around {
  readonly field: string;
  /** A value that would be accepted, as code. */
  readonly example?: string;
}

/** Refuses options that do not exist: a misspelt one that is ignored is hard to find. */
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
      meant === null ? `The options are: ${[...known].join(", ")}.` : `Did you mean ${meant}?`;
    throw new InvalidArgumentError({
      field: around === undefined ? name : `${around.field}.${name}`,
      problem: `there is no such option. ${advice}`,
    });
  }
}

/** Numbers and booleans as they are; a text may be a secret. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "an array";
  return typeof value === "number" || typeof value === "boolean" ? String(value) : kindOf(value);
}

/** What was given where a number belongs. A text that reads as one is shown as the text that it is. */
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

/** Something that a person wrote, to be kept and given back exactly as it is. */
export function checkWords(field: string, value: string, most: number): string {
  if (checkText(field, value).length > most) {
    throw new InvalidArgumentError({ field, problem: `at most ${most} characters are allowed.` });
  }
  if (value.isWellFormed() && !value.includes("\0")) return value;
  const problem = "contains half of a character (a lone surrogate) or a zero.";
  throw new InvalidArgumentError({ field, problem });
}

export function checkList<Item>(field: string, value: readonly Item[]): readonly Item[] {
  if (Array.isArray(value)) return value as readonly Item[];
  throw new InvalidArgumentError({ field, problem: `must be a list, not ${kindOf(value)}.` });
}

function kindOf(value: unknown): string {
  return value === null ? "null" : typeof value;
}
