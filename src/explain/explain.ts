/** Explains why a job does not run, or why a queue does not move. */
import type { Explanation, QueueExplanation } from "../core/explanation.ts";
import type { ExplainStore } from "./store.ts";
import { explainJob } from "./job.ts";
import { explainQueue } from "./queue.ts";

export class Explainer {
  readonly #store: ExplainStore;

  constructor(store: ExplainStore) {
    this.#store = store;
  }

  /** Null: there is no such job. */
  async job(id: string): Promise<Explanation | null> {
    const facts = await this.#store.job(id);
    return facts === null ? null : explainJob(facts);
  }

  async queue(name: string): Promise<QueueExplanation> {
    return explainQueue(await this.#store.queue(name));
  }
}
