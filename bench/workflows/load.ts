/** Clients in four processes update the parts of a few orders, and wait for the lock of each as long as it takes. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { sql } from "../../src/database/sql.ts";
import type { SqlEngine } from "../fill.ts";
import { freshStatistics, scratchPlace } from "../places.ts";
import type { ClientsConfig, ClientsReport } from "./client-process.ts";
import { openIn, type Mode } from "./open.ts";
import { ACTOR, order, part } from "./order.ts";
import type { Store } from "../../src/app/store.ts";

const PROGRAM = join(import.meta.dirname, "client-process.ts");
export const PROCESSES = 4;
const PARTS = 10;

export interface LoadOptions {
  readonly engine: SqlEngine;
  readonly mode: Mode;
  readonly clients: number;
  readonly parents: number;
  /** Of each client. */
  readonly updates: number;
  /** From the beginning of an update to that of the next; 0: one after the other without a pause. */
  readonly everyMs: number;
}

export interface LoadReport extends LoadOptions {
  /** Milliseconds that each update waited for its lock, as the audit tells. */
  readonly waits: readonly number[];
  readonly took: readonly number[];
  readonly timeouts: number;
  readonly errors: readonly string[];
  /** How long it really took. */
  readonly ms: number;
}

export async function measureLoad(options: LoadOptions): Promise<LoadReport> {
  const { engine, mode, clients, parents, updates, everyMs } = options;
  await using place = await scratchPlace(engine);
  await using holdfast = await openIn(place.url, mode);
  const parts: string[][] = [];
  for (let made = 0; made < parents; made += 1) {
    const parent = await holdfast.workflows.start(order, { data: {}, actor: ACTOR });
    const news = Array.from({ length: PARTS }, () => ({ data: {}, parent }));
    const started = await holdfast.workflows.startMany(part, news, { actor: ACTOR });
    parts.push(started.map(({ id }) => id));
  }
  await freshStatistics(engine, place);
  const config = { url: place.url, mode, all: clients, everyMs, parts };
  const processes = Array.from({ length: PROCESSES }, (_, process) => ({
    ...config,
    updates,
    clients: numbers(clients).filter((number) => number % PROCESSES === process),
  }));
  const members = await Promise.all(processes.map(start));
  const startedAt = performance.now();
  const reports = await Promise.all(members.map(run));
  const ms = performance.now() - startedAt;
  const errors = reports.flatMap((report) => report.errors);
  return {
    ...options,
    ms,
    waits: await waitsIn(holdfast.store),
    took: reports.flatMap((report) => report.took),
    timeouts: errors.filter((code) => code === "LOCK_NOT_ACQUIRED").length,
    errors: errors.filter((code) => code !== "LOCK_NOT_ACQUIRED"),
  };
}

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, number) => number);
}

async function start(config: ClientsConfig): Promise<ChildProcess> {
  const process = fork(PROGRAM, [JSON.stringify(config)], { serialization: "advanced" });
  await once(process, "message");
  return process;
}

async function run(process: ChildProcess): Promise<ClientsReport> {
  const ended = once(process, "exit");
  const said = once(process, "message");
  process.send("go");
  const [report] = await Promise.race([said, ended.then(() => [null])]);
  await ended;
  if (report === null) throw new Error(`a process of clients ended with ${process.exitCode}`);
  return report as ClientsReport;
}

async function waitsIn({ db: { engine } }: Store): Promise<number[]> {
  const rows = await engine.all<{ waited: number }>(sql`
    select lock_wait_us as waited
      from holdfast.item_audit
     where action = 'update'
       and lock_wait_us is not null`);
  return rows.map(({ waited }) => waited / 1_000);
}
