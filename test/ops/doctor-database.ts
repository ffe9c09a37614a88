/** A database of one engine, for an account with all privileges. It is emptied after every violation. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { openStore, type Store } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import { sampledEngines as engines, type EngineUnderTest } from "../registry/places.ts";
import type { PlantTarget } from "../support/violations.ts";
import { START_AT, testRuntime, type TestClock } from "../support/runtime.ts";
import { emptyTables, GUARDED_TABLES, WORKFLOW_TABLES } from "../support/tables.ts";

export { engines, type EngineUnderTest };

export class DoctorDatabase implements PlantTarget, AsyncDisposable {
  readonly store: Store;
  readonly clock: TestClock;
  readonly url: string;
  readonly #leave: () => Promise<void>;

  private constructor(parts: {
    store: Store;
    clock: TestClock;
    url: string;
    leave: () => Promise<void>;
  }) {
    this.store = parts.store;
    this.clock = parts.clock;
    this.url = parts.url;
    this.#leave = parts.leave;
  }

  static async make({ place }: EngineUnderTest): Promise<DoctorDatabase> {
    const where = await place();
    const { url } = where;
    const runtime = testRuntime();
    const store = await openStore(url, { runtime });
    await store.migrate();
    const leave = async (): Promise<void> => {
      await store.close();
      await where[Symbol.asyncDispose]();
    };
    return new DoctorDatabase({ store, clock: runtime.clock, url, leave });
  }

  get kind(): string {
    return this.store.db.engine.address?.engine ?? "";
  }

  /** Nothing watches meanwhile: no trigger of the tables it names, no foreign key. Afterwards, everything does again. */
  readonly byHand = async (words: string): Promise<void> => {
    const prefix = this.kind === "postgres" ? "holdfast." : "holdfast_";
    const text = words.replaceAll("holdfast.", prefix);
    const tables = [...words.matchAll(/holdfast\.(\w+)/g)].map(([, name]) => `holdfast_${name}`);
    if (this.kind === "postgres") return this.#asMaster(text);
    if (this.kind === "sqlite") return this.#inFile(text, new Set(tables));
    const connection = await createConnection(this.url);
    try {
      await withoutTriggers(connection, tables, text);
    } finally {
      await connection.end();
    }
  };

  /** As if nothing had ever happened. */
  async recover(): Promise<void> {
    this.clock.set(START_AT);
    await this.byHand("delete from holdfast.migration where version > 900");
    await emptyTables(this.store.db.engine);
    const [any] = await this.store.db.engine.all(sql`
      select 1 as found from holdfast.workflow
       union all
      select 1 from holdfast.item_due
       union all
      select 1 from holdfast.item_job
       limit 1`);
    if (any === undefined) return;
    for (const table of [...GUARDED_TABLES, ...WORKFLOW_TABLES]) {
      await this.byHand(`delete from holdfast.${table}`);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#leave();
  }

  #asMaster(text: string): Promise<void> {
    const { engine } = this.store.db;
    return engine.transaction((tx) =>
      tx.script(`set local session_replication_role = replica; ${text}`),
    );
  }

  async #inFile(text: string, tables: ReadonlySet<string>): Promise<void> {
    const { path } = (this.store.db.engine.address?.options ?? {}) as { path: string };
    const db = new DatabaseSync(path, { enableForeignKeyConstraints: false });
    const guards = db
      .prepare("select name, tbl_name as owner, sql from sqlite_schema where type = 'trigger'")
      .all()
      .filter(({ owner }) => tables.has(String(owner)));
    db.exec(guards.map(({ name }) => `drop trigger ${String(name)};`).join(""));
    db.exec(text);
    db.exec(guards.map((guard) => `${String(guard["sql"])};`).join(""));
    db.close();
  }
}

async function withoutTriggers(
  connection: Connection,
  tables: readonly string[],
  text: string,
): Promise<void> {
  await connection.query("set sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES', foreign_key_checks = 0");
  const [guards] = await connection.query<RowDataPacket[]>(
    `select trigger_name as name, action_timing as moment, event_manipulation as event, event_object_table as owner,
            action_statement as body
       from information_schema.triggers
      where event_object_schema = database() and event_object_table in (?)`,
    [tables],
  );
  for (const { name } of guards) await connection.query(`drop trigger ${String(name)}`);
  await connection.query(text);
  for (const { name, moment, event, owner, body } of guards) {
    await connection.query(
      `create trigger ${String(name)} ${String(moment)} ${String(event)} on ${String(owner)} for each row ${String(body)}`,
    );
  }
}

/** The check finds this subject, and says what it was told to say. */
export async function assertFound(store: Store, name: string, subject: string): Promise<void> {
  const found = await store.checks.examine(name, { limit: 10 });
  assert.ok(found !== null, `${name} found nothing`);
  const { check, offenders, severity, problem, remedy } = found;
  assert.equal(check, name);
  assert.deepEqual(
    offenders.map((each) => each.subject),
    [subject],
  );
  assert.ok(offenders.every(({ detail }) => detail !== "" && !detail.includes("undefined")));
  const record = (await store.checks.list()).find((each) => each.name === name);
  assert.deepEqual(
    [severity, problem, remedy],
    [record?.severity, record?.problem, record?.remedy],
  );
}
