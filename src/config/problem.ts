/** Problems of the configuration, reported all at once so that five mistakes do not take five starts to fix. */
import { HoldfastError } from "../core/errors.ts";

export interface Problem {
  /** The setting's name in its source. */
  readonly name: string;
  /** Null: the value is missing. */
  readonly source: string | null;
  /** The given value without secrets. */
  readonly given: string | null;
  /** A sentence that says what is allowed. */
  readonly problem: string;
}

/** A problem without a value to quote. */
export function problemWith(name: string, problem: string, source: string | null = null): Problem {
  return { name, source, given: null, problem };
}

export const COMMAND_LINE = "command line";

export class ConfigInvalidError extends HoldfastError {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super("CONFIG_INVALID", inWords(problems));
    this.problems = problems;
  }

  /** All problems are on the command line. */
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
  return [`The configuration has ${problems.length} problems:`, ...lines].join("\n");
}
