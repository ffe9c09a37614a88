/**
 * Which step is which: by name and occurrence, and by their order where that does not depend on their pace.
 *
 * The next attempt meets the same steps, if the task is the same; what it meets instead is noticed rather than given the
 * result of something else.
 */
import { InvalidArgument } from "../core/errors.ts";
import type { StepKind } from "../core/step.ts";
import { StepsChanged } from "../core/step-errors.ts";
import type { StepMatching } from "../core/task.ts";
import type { NewStep, StepRecord } from "../store/journal.ts";

export class StepOrder {
  /** How often a name was used, in which run last, and whether ever in a loose one. */
  readonly #uses = new Map<string, { times: number; run: number; loose: boolean }>();
  #places = 0;
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
    this.#places += 1;
    return { name, occurrence, place: this.#isOrdered ? this.#places : 0, kind };
  }

  #enterRun(underWay: number): void {
    if (!this.#isRunOver) return;
    this.#run = { number: this.#run.number + 1, loose: underWay > 0 };
    this.#isRunOver = false;
    queueMicrotask(() => (this.#isRunOver = true));
  }
}

/** What was kept of a step. Throws StepsChanged where something else was. */
export function keptOf(
  step: NewStep,
  rows: readonly StepRecord[],
  matching: StepMatching,
): StepRecord | undefined {
  const kept = rows.find(
    ({ name, occurrence }) => name === step.name && occurrence === step.occurrence,
  );
  const isPlaced = matching === "in order" && step.place > 0;
  const there = isPlaced ? rows.find(({ place }) => place === step.place) : undefined;
  for (const row of [kept, there]) {
    if (row !== undefined && !isSame(row, step)) throw changed(row, step);
  }
  return kept;
}

function isSame(row: StepRecord, step: NewStep): boolean {
  return row.name === step.name && row.occurrence === step.occurrence && row.kind === step.kind;
}

function changed(row: StepRecord, step: NewStep): StepsChanged {
  return new StepsChanged({ place: step.place, kept: wordsOf(row), found: wordsOf(step) });
}

function wordsOf({ kind, name, occurrence }: NewStep): string {
  return `${kind} '${name}'${occurrence > 1 ? ` (${occurrence})` : ""}`;
}

function ambiguous(name: string): InvalidArgument {
  return new InvalidArgument({
    field: "name",
    problem: `another step called '${name}' runs beside this one, and the next attempt could not tell them apart. Give each a name of its own, such as '${name} 42'.`,
  });
}
