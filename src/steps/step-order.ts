/**
 * Which step is which: by name and occurrence, and by their order where that does not depend on their pace.
 *
 * The next attempt meets the same steps, if the task is the same; what it meets instead is noticed rather than given the
 * result of something else.
 */
import { InvalidArgumentError } from "../core/errors.ts";
import type { NewStep, StepKind, StepMatching, StepRecord } from "../core/task.ts";
import { StepsChangedError } from "./errors.ts";

export class StepOrder {
  /** How often a name was used, in which run last, and whether ever in a loose one. */
  readonly #uses = new Map<string, { times: number; run: number; loose: boolean }>();
  #positions = 0;
  /** From the first step that began beside another on, the order depends on their pace. */
  #isOrdered = true;
  /** A piece of the function that runs without waiting; loose, when it began while steps were being made. */
  #run = { number: 0, loose: false };
  #isRunOver = true;

  /** When a step begins in a loose run depends on the pace of the others: another of its name could be taken for it. */
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

/** What was kept of a step. Throws StepsChangedError where something else was. */
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
    if (row !== undefined && !isSame(row, step)) throw changed(row, step);
  }
  return kept;
}

function isSame(row: StepRecord, step: NewStep): boolean {
  return row.name === step.name && row.occurrence === step.occurrence && row.kind === step.kind;
}

function changed(row: StepRecord, step: NewStep): StepsChangedError {
  return new StepsChangedError({
    position: step.position,
    kept: wordsOf(row),
    found: wordsOf(step),
  });
}

function wordsOf({ kind, name, occurrence }: NewStep): string {
  return `${kind} '${name}'${occurrence > 1 ? ` (${occurrence})` : ""}`;
}

function ambiguous(name: string): InvalidArgumentError {
  return new InvalidArgumentError({
    field: "name",
    problem: `another step called '${name}' runs beside this one, and the next attempt could not tell them apart. Give each a name of its own, such as '${name} 42'.`,
  });
}
