/**
 * The raw limit on SQLite: the store's own hot statements in a bare loop. Nothing is checked, no task is run, nothing
 * is said: what a worker adds to this is its cost.
 */
import { DatabaseSync } from "node:sqlite";
import { statements } from "../src/store/sqlite/statements.ts";

const LEASE_MS = 30_000;

interface Ready {
  id: string;
  queue: string;
  task: string;
  rank: number;
  job_key: string | null;
  epoch: number;
  attempts: number;
  crashes: number;
  max_attempts: number;
  ready_at: number;
}

interface Taken {
  queue: string;
  task: string;
  rank: number;
  job_key: string | null;
  attempts: number;
  crashes: number;
  max_attempts: number;
  claimed_at: number;
}

/** Drains the default queue in batches, settling one batch and claiming the next in one transaction. */
export function drainRaw(file: string, tasks: readonly string[], batch: number): number {
  const db = new DatabaseSync(file, { timeout: 0 });
  db.exec("pragma journal_mode = wal; pragma synchronous = full;");
  const peek = db.prepare(statements.peekTasks);
  const deleteReady = db.prepare(statements.deleteReady);
  const insertLease = db.prepare(statements.insertLease);
  const readJob = db.prepare(statements.readJob);
  const takeLease = db.prepare(statements.takeLease);
  const insertFinished = db.prepare(statements.insertFinished);
  const names = JSON.stringify(tasks);
  let held: { id: string; epoch: number }[] = [];
  let drained = 0;
  do {
    const now = Date.now();
    db.exec("begin immediate");
    for (const { id, epoch } of held) {
      const row = takeLease.get(id, "raw", epoch) as unknown as Taken;
      const { queue, task, rank, job_key, attempts, crashes, max_attempts, claimed_at } = row;
      insertFinished.run(
        ...[id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts],
        ...["done", "raw", claimed_at, now, null, null],
      );
    }
    drained += held.length;
    held = (peek.all("default", names, batch) as unknown as Ready[]).map((row) => {
      const { id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts } = row;
      deleteReady.run(queue, rank, row.ready_at, id);
      insertLease.run(
        ...[id, queue, task, rank, job_key, epoch + 1, attempts + 1, crashes, max_attempts],
        ...["raw", now + LEASE_MS, now, now],
      );
      readJob.get(id);
      return { id, epoch: epoch + 1 };
    });
    db.exec("commit");
  } while (held.length > 0);
  db.close();
  return drained;
}
