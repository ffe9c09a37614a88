/** What can be done inside of a transaction of the user's: it is there if, and when, they commit. */
import { StoreBusy, StoreRefused } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import { bareName } from "../core/task-name.ts";
import type { Engine, Row, Transaction } from "./engine.ts";
import { isDeclared, say } from "./events.ts";
import { cancelWhereItStands } from "./jobs.ts";
import type { Emitted, NewEvent } from "./journal.ts";
import { asRow, dueTime, readNow } from "./moving.ts";
import { sql } from "./sql.ts";
import type { Enqueued, Hint, NewJob } from "./store.ts";

/** The store, as a guest in somebody's transaction. */
export class Guest {
  readonly #engine: Engine;
  readonly #tx: Transaction;

  constructor(engine: Engine, tx: Transaction) {
    this.#engine = engine;
    this.#tx = tx;
  }

  async enqueue(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    const now = await readNow(this.#engine, this.#tx);
    const enqueued: Enqueued[] = [];
    const added: NewJob[] = [];
    for (const job of jobs) {
      const holder = job.key === null ? job.id : await this.#holdKey(job, job.key);
      if (holder === job.id) added.push(job);
      enqueued.push({ id: holder, added: holder === job.id });
    }
    await this.#tx.insert(
      "job",
      added.map((job) => jobRow(job, now)),
    );
    const due = (job: NewJob): number => dueTime(job, now);
    const ready = added.filter((job) => due(job) <= now);
    const later = added.filter((job) => due(job) > now);
    await this.#tx.insert(
      "ready",
      ready.map((job) => ({ ...newTraveller(job), ready_at: now })),
    );
    await this.#tx.insert(
      "waiting",
      later.map((job) => ({ ...newTraveller(job), status: "scheduled", due_at: due(job) })),
    );
    await this.#tellPending(ready.map(({ queue }) => queue));
    if (later.length > 0) await this.#tell({ kind: "waiting" });
    return enqueued;
  }

  async emit(event: NewEvent): Promise<Emitted> {
    const of = { event: event.name, key: event.key };
    if (!(await isDeclared(this.#tx, of))) {
      await this.#insertOnce("event", { name: of.event, event_key: of.key, awaited: 0 });
    }
    const { queues, ...emitted } = await say(this.#engine, this.#tx, event);
    await this.#tellPending(queues);
    return emitted;
  }

  async cancel(id: string): Promise<Status | null> {
    if (!this.#engine.mayBeId(id)) return null;
    const { status, queues } = await cancelWhereItStands(this.#engine, this.#tx, id);
    await this.#tellPending(queues);
    if (status === "processing") await this.#tell({ kind: "cancel" });
    if (status === "cancelled") await this.#tell({ kind: "finished" });
    return status;
  }

  /** The id that holds the key, if the user commits. */
  async #holdKey({ id, task }: NewJob, key: string): Promise<string> {
    const name = bareName(task);
    const [holder] = await this.#tx.all<{ job_id: string }>(
      sql`select job_id from holdfast.job_key where task = ${name} and job_key = ${key}`,
    );
    if (holder !== undefined) return holder.job_id;
    await this.#insertOnce("job_key", { task: name, job_key: key, job_id: id });
    return id;
  }

  /** Somebody else may do the same at this moment, in a transaction of theirs. */
  async #insertOnce(table: string, row: Row): Promise<void> {
    try {
      await this.#tx.insert(table, [row]);
    } catch (error) {
      if (!(error instanceof StoreRefused)) throw error;
      throw new StoreBusy({ store: this.#engine.name, waitedMs: 0 }, error);
    }
  }

  async #tellPending(queues: readonly string[]): Promise<void> {
    for (const queue of new Set(queues)) await this.#tell({ kind: "pending", queue });
  }

  #tell(hint: Hint): Promise<void> {
    return this.#engine.tellInside(this.#tx, hint);
  }
}

function newTraveller({ id, queue, task, priority, key, attemptsMax }: NewJob): Row {
  const counters = { epoch: 0, attempts: 0, crashes: 0, max_attempts: attemptsMax };
  return asRow({ id, queue, task, rank: 0 - priority, job_key: key, ...counters });
}

function jobRow(job: NewJob, now: number): Row {
  const { id, queue, task, payload, priority, attemptsMax, key } = job;
  return {
    id,
    queue,
    task,
    payload,
    rank: 0 - priority,
    max_attempts: attemptsMax,
    job_key: key,
    enqueued_at: now,
  };
}
