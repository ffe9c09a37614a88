/** What the workers of this process have done, told apart by queue and task as far as the limits allow. */
import type { ClaimedJob } from "../store/store.ts";
import { attemptOutcomes, type AttemptOutcome, type Meter } from "../worker/meter.ts";
import { Bounded, OTHER } from "./bounded.ts";
import { Buckets } from "./buckets.ts";
import type { MetricText } from "./metric-text.ts";

/** Queues that are told apart … */
export const QUEUES_MAX = 100;
/** … and tasks of queues: each is two dozen time series. */
export const TASKS_MAX = 200;

const MS_PER_S = 1_000;

class TaskFigures {
  readonly runs = new Buckets();
  readonly outcomes: Record<AttemptOutcome, number>;

  constructor() {
    const none = attemptOutcomes.map((outcome) => [outcome, 0]);
    this.outcomes = Object.fromEntries(none) as Record<AttemptOutcome, number>;
  }
}

export class WorkerMeter implements Meter {
  readonly #claims = new Buckets();
  readonly #pickups = new Bounded(QUEUES_MAX, () => new Buckets());
  /** By queue, then by task. */
  readonly #tasks = new Map<string, Map<string, TaskFigures>>();
  #taskCount = 0;

  claimed(tookMs: number): void {
    this.#claims.add(tookMs / MS_PER_S);
  }

  started({ queue }: ClaimedJob, waitedMs: number | null): void {
    if (waitedMs !== null) this.#pickups.get(queue).add(waitedMs / MS_PER_S);
  }

  ended({ queue, task }: ClaimedJob, outcome: AttemptOutcome, tookMs: number): void {
    const figures = this.#of(queue, task);
    figures.outcomes[outcome] += 1;
    figures.runs.add(tookMs / MS_PER_S);
  }

  write(text: MetricText): void {
    text.addBuckets("holdfast_claim_duration_seconds", this.#claims);
    for (const [queue, pickups] of this.#pickups.entries()) {
      text.addBuckets("holdfast_pickup_latency_seconds", pickups, { queue });
    }
    for (const [queue, tasks] of this.#tasks) {
      for (const [task, { runs, outcomes }] of tasks) {
        text.addBuckets("holdfast_attempt_duration_seconds", runs, { queue, task });
        for (const outcome of attemptOutcomes) {
          text.add("holdfast_attempts_total", outcomes[outcome], { queue, task, outcome });
        }
      }
    }
  }

  #of(queue: string, task: string): TaskFigures {
    const known = this.#tasks.get(queue)?.get(task);
    if (known !== undefined) return known;
    const isOther = queue === OTHER && task === OTHER;
    if (this.#taskCount >= TASKS_MAX && !isOther) return this.#of(OTHER, OTHER);
    const figures = new TaskFigures();
    const tasks = this.#tasks.get(queue) ?? new Map<string, TaskFigures>();
    this.#tasks.set(queue, tasks.set(task, figures));
    this.#taskCount += 1;
    return figures;
  }
}
