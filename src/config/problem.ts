/** What is wrong with the configuration: all of it at once, so that nobody has to start five times to mend five things. */
import { HoldfastError } from "../core/errors.ts";

export interface Problem {
  /** What the value is called where it was given. */
  readonly name: string;
  /** Where that was; null: nowhere, it is missing. */
  readonly source: string | null;
  /** What was given, without secrets. */
  readonly given: string | null;
  /** A sentence that says what is allowed. */
  readonly problem: string;
}

export const COMMAND_LINE = "command line";

export class ConfigInvalid extends HoldfastError {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super("CONFIG_INVALID", inWords(problems));
    this.problems = problems;
  }

  /** Everything that is wrong was typed just now. */
  get isUsage(): boolean {
    return this.problems.every(({ source }) => source === COMMAND_LINE);
  }
}

export function problemText({ name, source, given, problem }: Problem): string {
  const from = source === null || source === COMMAND_LINE ? "" : ` (${source})`;
  return `${name}${from}${given === null ? "" : ` is ${given}`}: ${problem}`;
}

function inWords(problems: readonly Problem[]): string {
  const [first, ...others] = problems.map(problemText);
  if (others.length === 0) return first ?? "";
  const lines = [first, ...others].map((line) => `  ${line}`);
  return [`${problems.length} things are wrong with the configuration:`, ...lines].join("\n");
}

const NAME_LENGTH_MAX = 64;

/** The known name that somebody may have meant. */
export function suggest(name: string, known: readonly string[]): string | null {
  const near = known
    .map((each) => ({ each, steps: stepsBetween(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, steps }) => steps <= Math.max(1, Math.floor(each.length / 4)))
    .toSorted((one, other) => one.steps - other.steps);
  return near[0]?.each ?? null;
}

export function didYouMean(name: string, known: readonly string[]): string {
  const meant = suggest(name, known);
  return meant === null ? "" : ` Did you mean ${meant}?`;
}

/** How many letters have to be put in, left out or changed to make one of the other. */
function stepsBetween(one: string, other: string): number {
  if (Math.max(one.length, other.length) > NAME_LENGTH_MAX) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [line, letter] of one.split("").entries()) {
    const next = [line + 1];
    for (const [column, their] of other.split("").entries()) {
      const changed = (row[column] ?? 0) + (letter === their ? 0 : 1);
      next.push(Math.min(changed, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
