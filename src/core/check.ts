/** Checks that several parts of the API make on what they are given. */
import { InvalidArgument } from "./errors.ts";

/** A misspelt option that is silently ignored costs somebody a day. */
export function checkKnown(options: object, known: ReadonlySet<string>): void {
  if (typeof options !== "object" || options === null) {
    const problem = `must be an object, not ${kindOf(options)}.`;
    throw new InvalidArgument({ field: "options", problem });
  }
  for (const name of Object.keys(options)) {
    if (known.has(name)) continue;
    throw new InvalidArgument({
      field: name,
      problem: `there is no such option. The options are: ${[...known].join(", ")}.`,
    });
  }
}

export function checkWhole(
  field: string,
  value: number,
  range: { least: number; most: number },
): number {
  if (Number.isInteger(value) && value >= range.least && value <= range.most) return value;
  throw new InvalidArgument({
    field,
    problem: `must be a whole number from ${range.least} to ${range.most}, not ${String(value)}.`,
  });
}

export function checkText(field: string, value: string): string {
  if (typeof value === "string") return value;
  throw new InvalidArgument({ field, problem: `must be text, not ${kindOf(value)}.` });
}

/** Something that a person wrote, to be kept and given back exactly as it is. */
export function checkWords(field: string, value: string, most: number): string {
  if (checkText(field, value).length > most) {
    throw new InvalidArgument({ field, problem: `at most ${most} characters are allowed.` });
  }
  if (value.isWellFormed() && !value.includes("\0")) return value;
  const problem = "contains half of a character (a lone surrogate) or a zero.";
  throw new InvalidArgument({ field, problem });
}

export function checkList<Item>(field: string, value: readonly Item[]): readonly Item[] {
  if (Array.isArray(value)) return value as readonly Item[];
  throw new InvalidArgument({ field, problem: `must be a list, not ${kindOf(value)}.` });
}

function kindOf(value: unknown): string {
  return value === null ? "null" : typeof value;
}
