/**
 * The one database of a simulation: the real SQLite engine in memory, with a witness beside it.
 *
 * It is opened and migrated once, and emptied for every seed. Everybody's calls go through one connection, as they would
 * through the one writer that SQLite allows.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { noGauge, type Runtime } from "../../src/core/runtime.ts";
import { sqliteStatements } from "../../src/jobs/sqlite.ts";
import type { JobStatements } from "../../src/jobs/store.ts";
import { SqliteEngine } from "../../src/database/sqlite/engine.ts";
import { NO_HASH } from "../../src/audit/entry.ts";
import type { Chance } from "./chance.ts";
import { WITNESS_TABLES, type Change } from "./witness.ts";
import { noMachine, type World } from "./world.ts";
import { storeOn } from "../../src/app/store.ts";

/** What SQLite says when another process holds the lock. */
const SQLITE_BUSY = 5;

const NEW_HEAD = `
  update holdfast_audit_head
     set seq = 0, hash = '${NO_HASH}', pruned_seq = 0, pruned_hash = '${NO_HASH}'`;

export interface Tables {
  readonly job: { id: string; task: string; payload: string; job_key: string | null }[];
  readonly finished: { id: string; status: string; result: string | null }[];
  readonly attempt: {
    job_id: string;
    epoch: number;
    attempt: number;
    worker: string;
    outcome: string;
  }[];
  readonly job_key: { task: string; job_key: string; job_id: string }[];
  readonly schedule_run: { tick: number; job_id: string | null }[];
}

export class Database {
  readonly engine: SqliteEngine;
  readonly statements: JobStatements;
  readonly #db: DatabaseSync;
  readonly #tables: readonly string[];
  readonly #noteMoment: StatementSync;
  readonly #unfinished: StatementSync;
  #world: World | null = null;
  #chance: Chance | null = null;
  #transactions = 0;
  /** How likely it is that a transaction finds the database locked. */
  busyShare = 0;

  static async open(): Promise<Database> {
    let database: Database | null = null;
    const world = (): World => database?.currentWorld as World;
    const runtime: Runtime = {
      now: () => database?.nowAt ?? 1,
      monotonic: () => database?.currentWorld?.nowMs ?? 0,
      random: () => database?.draw() ?? 0,
      fillRandom: () => {},
      timer: (ms, call) =>
        world().after(Math.max(1, ms), noMachine, "the lock is tried again", call),
      afterIo: (call) => void world().after(0, noMachine, "after io", call),
      gauge: () => noGauge,
    };
    const engine = await SqliteEngine.open({ path: ":memory:", runtime, create: true });
    await (await storeOn(engine)).migrate();
    const db = await engine.userTransaction(
      async ({ client }) => client as DatabaseSync,
      async () => {},
    );
    db.exec(WITNESS_TABLES);
    // Every seed begins with an empty audit.
    for (const guard of ["head_grows", "head_is_pruned", "is_kept"])
      db.exec(`drop trigger holdfast_audit_${guard}`);
    db.function("sim_now", () => database?.nowAt ?? 1);
    database = new Database(engine, db);
    return database;
  }

  private constructor(engine: SqliteEngine, db: DatabaseSync) {
    this.engine = engine;
    this.statements = sqliteStatements(engine);
    this.#db = db;
    this.#tables = db
      .prepare(
        `select name from sqlite_schema
          where type = 'table'
            and name not in ('holdfast_migration', 'holdfast_audit_head', 'sim_moment', 'sim_witness')
          order by name = 'holdfast_worker_type'`, // a type that has workers stays
      )
      .all()
      .map((row) => String(row["name"]));
    this.#noteMoment = db.prepare("update sim_moment set tx = ?, at = ?");
    this.#unfinished = db.prepare(
      "select count(*) as n from holdfast_job where id not in (select id from holdfast_finished)",
    );
    const exec = db.exec.bind(db);
    // Every write of the product begins with this one statement.
    db.exec = (text) => {
      if (text !== "begin immediate") return exec(text);
      this.#begin();
      exec(text);
      this.#noteMoment.run(this.#transactions, this.nowAt);
    };
  }

  get currentWorld(): World | null {
    return this.#world;
  }

  get nowAt(): number {
    return this.#world?.databaseNow ?? 1;
  }

  /** How many transactions have begun. */
  get transactions(): number {
    return this.#transactions;
  }

  draw(): number {
    return this.#chance?.draw() ?? 0;
  }

  /** Empty, as it was after the migrations, for the next world. */
  enter(world: World): void {
    if (this.#db.isTransaction) this.#db.exec("rollback");
    this.#world = null;
    for (const table of this.#tables) this.#db.exec(`delete from ${table}`);
    this.#db.exec(NEW_HEAD);
    this.#db.exec("delete from sim_witness");
    this.#world = world;
    this.#chance = world.chance("database");
    this.#transactions = 0;
    this.busyShare = 0;
  }

  /** How many jobs have not come to an end. */
  unfinished(): number {
    return Number(this.#unfinished.get()?.["n"]);
  }

  changes(): Change[] {
    return this.#all("select * from sim_witness order by seq");
  }

  tables(): Tables {
    return {
      job: this.#all("select id, task, payload, job_key from holdfast_job order by id"),
      finished: this.#all("select id, status, result from holdfast_finished order by id"),
      attempt: this.#all(
        "select job_id, epoch, attempt, worker, outcome from holdfast_attempt order by job_id, epoch",
      ),
      job_key: this.#all("select task, job_key, job_id from holdfast_job_key order by job_id"),
      schedule_run: this.#all("select tick, job_id from holdfast_schedule_run order by tick"),
    };
  }

  #begin(): void {
    const world = this.#world;
    if (world !== null && this.#chance?.isHit(this.busyShare) === true) {
      world.coverage.hit("fault: the database is locked");
      world.trace.say("database", "is locked");
      throw Object.assign(new Error("database is locked"), { errcode: SQLITE_BUSY });
    }
    this.#transactions += 1;
  }

  #all<T>(text: string): T[] {
    return this.#db.prepare(text).all() as T[];
  }
}
