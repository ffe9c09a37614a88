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
