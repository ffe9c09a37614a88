/** Looks at the application's rows from outside, and gets in its way. */
import { randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { fileOf } from "./app.ts";

export interface Witness extends AsyncDisposable {
  run(text: string): Promise<void>;
  orders(): Promise<number>;
  /** Whether a transaction waits for a row that another one has locked. */
  someoneWaits(): Promise<boolean>;
  /** Takes a key in a transaction of its own, for a job that is nowhere. */
  takeKey(task: string, key: string): Promise<{ commit(): Promise<void> }>;
}

const COUNT = "select count(*) as n from orders";

export function openWitness(url: string): Promise<Witness> {
  if (url.startsWith("sqlite:")) return onSqlite(url);
  return url.startsWith("postgres") ? onPostgres(url) : onMysql(url);
}

async function onSqlite(url: string): Promise<Witness> {
  const db = new DatabaseSync(fileOf(url));
  const never = (): never => {
    throw new Error("one transaction at a time writes there");
  };
  return {
    run: async (text) => db.exec(text),
    orders: async () => Number(db.prepare(COUNT).get()?.["n"]),
    someoneWaits: async () => never(),
    takeKey: async () => never(),
    [Symbol.asyncDispose]: async () => db.close(),
  };
}

async function onPostgres(url: string): Promise<Witness> {
  const [look, act] = [new Client(url), new Client(url)];
  await Promise.all([look.connect(), act.connect()]);
  return {
    run: async (text) => void (await look.query(text)),
    orders: async () => Number((await look.query<{ n: string }>(COUNT)).rows[0]?.n),
    async someoneWaits() {
      const { rows } = await look.query(
        "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      return rows.length > 0;
    },
    async takeKey(task, key) {
      await act.query("begin");
      const insertion = "insert into holdfast.job_key (task, job_key, job_id) values ($1, $2, $3)";
      await act.query(insertion, [task, key, randomUUID()]);
      return { commit: async () => void (await act.query("commit")) };
    },
    [Symbol.asyncDispose]: async () => void (await Promise.all([look.end(), act.end()])),
  };
}

async function onMysql(url: string): Promise<Witness> {
  const [look, act] = [await createConnection(url), await createConnection(url)];
  return {
    run: async (text) => void (await look.query(text)),
    async orders() {
      const [rows] = await look.query(COUNT);
      return Number((rows as { n: number }[])[0]?.n);
    },
    async someoneWaits() {
      // InnoDB's own table of waits is renewed only after 100 ms without a query. So a query by another test
      // twice waits; once may be a moment before that.
      const isAtIt = async (): Promise<boolean> => {
        const [rows] = await look.query(`
          select 1
            from information_schema.processlist
           where db = database() and info like 'insert into holdfast_job_key%'`);
        return (rows as unknown[]).length > 0;
      };
      if (!(await isAtIt())) return false;
      await pause(50);
      return isAtIt();
    },
    async takeKey(task, key) {
      await act.query("start transaction");
      const insertion = "insert into holdfast_job_key (task, job_key, job_id) values (?, ?, ?)";
      await act.query(insertion, [task, key, randomUUID()]);
      return { commit: async () => void (await act.query("commit")) };
    },
    [Symbol.asyncDispose]: async () => void (await Promise.all([look.end(), act.end()])),
  };
}
