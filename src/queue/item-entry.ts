/** The jobs that a state asks for when an item enters it. */
import { checkKnown } from "../core/check.ts";
import { InvalidArgument } from "../core/errors.ts";
import { calledId } from "../core/id.ts";
import type { ItemRecord } from "../core/item.ts";
import type { Task } from "../core/task.ts";
import type { EnqueueOnEntry, StateRules } from "../core/workflow.ts";
import type { NewJob } from "../store/store.ts";
import type { Patience } from "./item-patience.ts";
import { checkInputs, defaultsOf, newJob, termsHere } from "./new-job.ts";
import { checkOptions, type EnqueueOptions } from "./options.ts";

const ENTRY_JOBS_MAX = 1_000;
/** No key: a job that was there already would not be the item's. */
const OPTIONS = new Set(["queue", "priority", "delay"]);

interface Wanted {
  readonly task: Task;
  readonly input: unknown;
  readonly options: EnqueueOptions;
}

export async function jobsOnEntry(
  rules: StateRules,
  facts: { readonly item: ItemRecord; readonly parent: ItemRecord | null },
  newId: () => string,
  patience: Patience,
): Promise<NewJob[]> {
  const jobs: NewJob[] = [];
  for (const { task, input, options } of wantedBy(rules, facts)) {
    const defaults = defaultsOf(task);
    checkKnown(options, OPTIONS);
    await patience.with("enter", () => checkInputs(task, [input]));
    // Whoever ends a job that somebody waits for sees it in its id.
    const id = rules.whenJobsEnd === null ? newId() : calledId(newId());
    const terms = termsHere(checkOptions(options, defaults));
    jobs.push(newJob(id, defaults.name, input, terms));
  }
  return jobs;
}

function wantedBy({ enter }: StateRules, facts: object): Wanted[] {
  if (enter === null) return [];
  const wanted: Wanted[] = [];
  let isOver = false;
  const enqueue: EnqueueOnEntry = (task, input, options = {}) => {
    if (isOver) throw tooLate();
    if (wanted.length === ENTRY_JOBS_MAX) throw tooManyJobs(ENTRY_JOBS_MAX);
    wanted.push({ task, input, options });
  };
  const value = enter({ ...facts, enqueue } as never);
  isOver = true;
  if (value instanceof Promise) {
    value.catch(() => {}); // it is refused, whatever becomes of it
    throw tooLate();
  }
  return wanted;
}

function tooLate(): InvalidArgument {
  const problem = "it must have enqueued its jobs when it returns: it cannot be asynchronous.";
  return new InvalidArgument({ field: "enter", problem });
}

export function tooManyJobs(most: number): InvalidArgument {
  const problem = `the states that are entered enqueue at most ${most} jobs.`;
  return new InvalidArgument({ field: "enter", problem });
}
