/** The raw loop on SQLite: settling one batch and claiming the next in one transaction. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { statements } from "../../src/jobs/sqlite-statements.ts";
import { fileOf, type Place } from "../places.ts";
import { BATCH, LEASE_MS, QUEUE, TASK, type RawClaim, type RawLoop } from "./raw-batch.ts";

type Ready = [
  id: string,
  queue: string,
  task: string,
  rank: number,
  key: string | null,
  epoch: number,
  attempts: number,
  crashes: number,
  maxAttempts: number,
  ...others: unknown[],
];
type Taken = [
  queue: string,
  task: string,
  rank: number,
  key: string | null,
  attempts: number,
  crashes: number,
  maxAttempts: number,
  lane: string | null,
  claimedAt: number,
];
export type Held = [id: string, epoch: number];

const WORKER = "raw";
const CLAIM = 1;

export async function openSqliteLoop(place: Place): Promise<RawLoop> {
  const db = new DatabaseSync(fileOf(place), { timeout: 0 });
  db.exec("pragma journal_mode = wal; pragma synchronous = full;");
  const turns = new Turns(db);
  return {
    run: async () => drain(turns),
    [Symbol.asyncDispose]: async () => db.close(),
  };
}

function drain(turns: Turns): number {
  let held: Held[] = [];
  let drained = 0;
  do {
    drained += held.length;
    held = turns.turn(held, { worker: WORKER, task: TASK, limit: BATCH });
  } while (held.length > 0);
  return drained;
}

export class Turns {
  readonly #db: DatabaseSync;
  readonly #peek: StatementSync;
  readonly #deleteReady: StatementSync;
  readonly #insertLease: StatementSync;
  readonly #findLease: StatementSync;
  readonly #deleteLease: StatementSync;
  readonly #insertFinished: StatementSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    const prepare = (text: string): StatementSync => {
      const statement = db.prepare(text);
      statement.setReturnArrays(true);
      return statement;
    };
    this.#peek = prepare(statements.peekQueue);
    this.#deleteReady = prepare(statements.deleteReady);
    this.#insertLease = prepare(statements.insertLease);
    this.#findLease = prepare(statements.findLease);
    this.#deleteLease = prepare(statements.deleteLease);
    this.#insertFinished = prepare(statements.insertFinished);
  }

  /** One turn: settles what is held, and claims. */
  turn(held: readonly Held[], wanted: RawClaim): Held[] {
    const now = Date.now();
    this.#db.exec("begin immediate");
    for (const one of held) this.#settle(one, wanted, now);
    const claimed = this.#claim(wanted, now);
    this.#db.exec("commit");
    return claimed;
  }

  #settle([id, epoch]: Held, { worker }: RawClaim, now: number): void {
    const [queue, task, rank, key, attempts, crashes, most, lane, at] = this.#findLease.get(
      id,
      worker,
      epoch,
    ) as unknown as Taken;
    this.#deleteLease.run(id);
    const travels = [id, queue, task, rank, key, epoch, attempts, crashes, most, lane];
    this.#insertFinished.run(...travels, "done", worker, at, now, null, null);
  }

  #claim({ worker, task: only, limit }: RawClaim, now: number): Held[] {
    const rows = this.#peek.all(QUEUE, JSON.stringify([only]), now, limit) as unknown as Ready[];
    return rows.map(([id, queue, task, rank, key, epoch, attempts, crashes, most]) => {
      this.#deleteReady.run(id);
      const travels = [id, queue, task, rank, key, epoch + 1, attempts + 1, crashes, most, null];
      this.#insertLease.run(...travels, worker, now + LEASE_MS, now, now, CLAIM);
      return [id, epoch + 1];
    });
  }
}
