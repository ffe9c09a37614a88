/** The raw loop on SQLite: settling one batch and claiming the next in one transaction. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { statements } from "../../src/store/sqlite/statements.ts";
import { fileOf, type Place } from "../places.ts";
import { BATCH, LEASE_MS, QUEUE, TASK, type RawLoop } from "./raw-batch.ts";

type Ready = [
  id: string,
  queue: string,
  task: string,
  rank: number,
  key: string | null,
  epoch: number,
  attempts: number,
  crashes: number,
  attemptsMax: number,
];
type Taken = [
  queue: string,
  task: string,
  rank: number,
  key: string | null,
  attempts: number,
  crashes: number,
  attemptsMax: number,
  claimedAt: number,
];
type Held = [id: string, epoch: number];

const WORKER = "raw";
const CLAIM = 1;

export async function openSqliteLoop(place: Place): Promise<RawLoop> {
  const db = new DatabaseSync(fileOf(place), { timeout: 0 });
  db.exec("pragma journal_mode = wal; pragma synchronous = full;");
  const turns = new Turns(db);
  return {
    run: async () => drain(db, turns),
    [Symbol.asyncDispose]: async () => db.close(),
  };
}

function drain(db: DatabaseSync, turns: Turns): number {
  let held: Held[] = [];
  let drained = 0;
  do {
    const now = Date.now();
    db.exec("begin immediate");
    for (const one of held) turns.settle(one, now);
    drained += held.length;
    held = turns.claim(now);
    db.exec("commit");
  } while (held.length > 0);
  return drained;
}

class Turns {
  readonly #peek: StatementSync;
  readonly #deleteReady: StatementSync;
  readonly #insertLease: StatementSync;
  readonly #readJob: StatementSync;
  readonly #takeLease: StatementSync;
  readonly #insertFinished: StatementSync;

  constructor(db: DatabaseSync) {
    const prepare = (text: string): StatementSync => {
      const statement = db.prepare(text);
      statement.setReturnArrays(true);
      return statement;
    };
    this.#peek = prepare(statements.peekTasks);
    this.#deleteReady = prepare(statements.deleteReady);
    this.#insertLease = prepare(statements.insertLease);
    this.#readJob = prepare(statements.readJob);
    this.#takeLease = prepare(statements.takeLease);
    this.#insertFinished = prepare(statements.insertFinished);
  }

  settle([id, epoch]: Held, now: number): void {
    const [queue, task, rank, key, attempts, crashes, most, at] = this.#takeLease.get(
      id,
      WORKER,
      epoch,
    ) as unknown as Taken;
    const travels = [id, queue, task, rank, key, epoch, attempts, crashes, most];
    this.#insertFinished.run(...travels, "done", WORKER, at, now, null, null);
  }

  claim(now: number): Held[] {
    const rows = this.#peek.all(QUEUE, JSON.stringify([TASK]), BATCH) as unknown as Ready[];
    return rows.map(([id, queue, task, rank, key, epoch, attempts, crashes, most]) => {
      this.#deleteReady.run(id);
      const travels = [id, queue, task, rank, key, epoch + 1, attempts + 1, crashes, most];
      this.#insertLease.run(...travels, WORKER, now + LEASE_MS, now, now, CLAIM);
      this.#readJob.get(id);
      return [id, epoch + 1];
    });
  }
}
