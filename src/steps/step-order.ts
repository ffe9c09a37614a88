/**
 * Identifies steps by name and occurrence, and by position where that does not depend on timing.
 *
 * If the task has changed, the next attempt fails with StepsChangedError instead of using the result of another step.
 */
import { type InvalidArgumentError, invalid } from "../core/errors.ts";
import type { NewStep, StepKind, StepMatching, StepRecord } from "../core/task.ts";
import { StepsChangedError } from "./errors.ts";

export class StepOrder {
  /** How often each name was used, in which run last, and whether ever in a loose one. */
  readonly #uses = new Map<string, { times: number; run: number; loose: boolean }>();
  #positions = 0;
  /** False from the first concurrent step on: the order then depends on timing. */
  #isOrdered = true;
  /** A synchronous piece of the function; loose, if it began while steps were in progress. */
  #run = { number: 0, loose: false };
  #isRunOver = true;

  /** The order of loose runs depends on timing, so a repeated name would be ambiguous there. */
  next(name: string, kind: StepKind, underWay: number): NewStep {
    this.#enterRun(underWay);
    if (underWay > 0) this.#isOrdered = false;
    const { number: run, loose } = this.#run;
    const before = this.#uses.get(name);
    const isElsewhere = before !== undefined && before.run !== run;
    if (isElsewhere && (loose || before.loose)) throw ambiguous(name);
    const occurrence = (before?.times ?? 0) + 1;
    this.#uses.set(name, { times: occurrence, run, loose: loose || before?.loose === true });
    this.#positions += 1;
    return { name, occurrence, position: this.#isOrdered ? this.#positions : 0, kind };
  }

  #enterRun(underWay: number): void {
    if (!this.#isRunOver) return;
    this.#run = { number: this.#run.number + 1, loose: underWay > 0 };
    this.#isRunOver = false;
    queueMicrotask(() => (this.#isRunOver = true));
  }
}

/** The stored row of a step. Throws StepsChangedError if another step has its place. */
export function keptOf(
  step: NewStep,
  rows: readonly StepRecord[],
  matching: StepMatching,
): StepRecord | undefined {
  const kept = rows.find(
    ({ name, occurrence }) => name === step.name && occurrence === step.occurrence,
  );
  const isPositioned = matching === "in order" && step.position > 0;
  const there = isPositioned ? rows.find(({ position }) => position === step.position) : undefined;
  for (const row of [kept, there]) {
    const { name, occurrence, kind, position } = step;
    const isSame = row?.name === name && row.occurrence === occurrence && row.kind === kind;
    if (row === undefined || isSame) continue;
    throw new StepsChangedError({ position, kept: describe(row), found: describe(step) });
  }
  return kept;
}

function describe({ kind, name, occurrence }: NewStep): string {
  return `${kind} '${name}'${occurrence > 1 ? ` (${occurrence})` : ""}`;
}

function ambiguous(name: string): InvalidArgumentError {
  return invalid(
    "name",
    `another step named '${name}' runs concurrently, and the next attempt could not tell them apart. Give each a different name, such as '${name} 42'.`,
  );
}
