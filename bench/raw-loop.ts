/**
 * The raw limit on SQLite: the store's own hot statements in a bare loop. Nothing is checked, no task is run, nothing
 * is said: what a worker adds to this is its cost.
 */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { statements } from "../src/store/sqlite/statements.ts";

const LEASE_MS = 30_000;

type Ready = [
  string,
  string,
  string,
  number,
  string | null,
  number,
  number,
  number,
  number,
  number,
];
type Taken = [string, string, number, string | null, number, number, number, number];

/** Drains the default queue in batches, settling one batch and claiming the next in one transaction. */
export function drainRaw(file: string, tasks: readonly string[], batch: number): number {
  const db = new DatabaseSync(file, { timeout: 0 });
  db.exec("pragma journal_mode = wal; pragma synchronous = full;");
  const prepare = (text: string): StatementSync => {
    const statement = db.prepare(text);
    statement.setReturnArrays(true);
    return statement;
  };
  const peek = prepare(statements.peekTasks);
  const deleteReady = prepare(statements.deleteReady);
  const insertLease = prepare(statements.insertLease);
  const readJob = prepare(statements.readJob);
  const takeLease = prepare(statements.takeLease);
  const insertFinished = prepare(statements.insertFinished);
  const names = JSON.stringify(tasks);
  let held: [id: string, epoch: number][] = [];
  let drained = 0;
  do {
    const now = Date.now();
    db.exec("begin immediate");
    for (const [id, epoch] of held) {
      const [q, t, rank, key, n, crashes, most, at] = takeLease.get(
        id,
        "raw",
        epoch,
      ) as unknown as Taken;
      const done = "done";
      insertFinished.run(
        id,
        q,
        t,
        rank,
        key,
        epoch,
        n,
        crashes,
        most,
        done,
        "raw",
        at,
        now,
        null,
        null,
      );
    }
    drained += held.length;
    held = (peek.all("default", names, batch) as unknown as Ready[]).map((row) => {
      const [id, q, t, rank, key, epoch, n, crashes, most] = row;
      deleteReady.run(id);
      const until = now + LEASE_MS;
      insertLease.run(id, q, t, rank, key, epoch + 1, n + 1, crashes, most, "raw", until, now, now);
      readJob.get(id);
      return [id, epoch + 1];
    });
    db.exec("commit");
  } while (held.length > 0);
  db.close();
  return drained;
}
