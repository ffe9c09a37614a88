/**
 * Everything at once: worker processes killed and frozen past their leases, connections cut, the server restarted in the
 * middle, while jobs are enqueued and worked off. Nothing is lost, nothing is done twice.
 */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { makeIds } from "../../src/core/id.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { tempFolder } from "../support/folder.ts";
import { seededRandom } from "../support/runtime.ts";
import {
  missingPrograms,
  startMariadb,
  startPostgres,
  type GuardedServer,
} from "../support/servers.ts";
import { judge, type Rows } from "./check.ts";
import { Crew } from "./crew.ts";
import { LEASE_MS, steps, TASK, type Plan } from "./plan.ts";

const LONG = process.env["LONG"] === "1";
const scale = LONG ? 10 : 1;
const plan: Plan = {
  seed: Number(process.env["HOLDFAST_SEED"] ?? Date.now() % 2 ** 31),
  jobs: 10_000 * scale,
  workers: 8,
  ms: 45_000 * scale,
  deeds: { kill: 40 * scale, freeze: 15 * scale, cut: 30 * scale, restart: 2 * scale },
};

/** All jobs are done this long after the last deed, or something is stuck. */
const CALM_MS_MAX = 60_000;
const BATCH = 50;

interface Server {
  readonly name: string;
  readonly skip: string | false;
  readonly start: () => Promise<GuardedServer>;
  /** Runs SQL with a connection of its own. */
  readonly query: (url: string, text: string) => Promise<Record<string, unknown>[]>;
  readonly tables: string;
  /** One connection of a worker's, if there is any. */
  readonly cut: (url: string, whom: number) => Promise<boolean>;
}

export const servers: readonly Server[] = [
  {
    name: "PostgreSQL",
    skip: missingPrograms("postgres"),
    start: startPostgres,
    query: queryPostgres,
    tables: "holdfast.",
    cut: async (url, whom) => {
      const sessions = await queryPostgres(
        url,
        "select pid from pg_stat_activity where application_name like 'holdfast%'",
      );
      const session = sessions[Math.floor(whom * sessions.length)];
      if (session === undefined) return false;
      await queryPostgres(url, `select pg_terminate_backend(${Number(session["pid"])})`);
      return true;
    },
  },
  {
    name: "MariaDB",
    skip: missingPrograms("mysql"),
    start: startMariadb,
    query: queryMysql,
    tables: "holdfast_",
    cut: async (url, whom) => {
      const sessions = await queryMysql(
        url,
        "select id as pid from information_schema.processlist where id <> connection_id() and command <> 'Daemon'",
      );
      const session = sessions[Math.floor(whom * sessions.length)];
      if (session === undefined) return false;
      await queryMysql(url, `kill ${Number(session["pid"])}`);
      return true;
    },
  },
];

export function chaos(server: Server): void {
  test(
    `${server.name}: whatever is killed, frozen, cut or restarted, every job is done once`,
    {
      skip: server.skip,
      timeout: plan.ms + CALM_MS_MAX + 60_000,
    },
    async (t) => {
      await using machine = await server.start();
      using folder = tempFolder();
      const journal = folder.file(".journal");
      const store = await openStore(machine.url);
      await store.migrate();
      await using crew = new Crew({ url: machine.url, journal });
      await crew.start(plan.workers);

      const enqueued = enqueue(store);
      const done = await doDeeds(server, machine, crew);
      const ids = await enqueued;
      const calmMs = await untilDone(server, machine.url, ids.length, crew);
      await crew.stop();
      await store.close();

      const { lost, doubled, attempts, refused } = judge(
        ids,
        await rowsOf(server, machine.url),
        journal,
      );
      t.diagnostic(
        `${ids.length} jobs in ${attempts} attempts by ${plan.workers} processes: ${crew.killed} kill -9, ` +
          `${crew.frozen} frozen past their lease, ${done.cut} connections cut, ${done.restart} restarts; ` +
          `${refused} stale writes refused, all done ${(calmMs / 1_000).toFixed(1)} s after the last; seed ${plan.seed}`,
      );
      assert.deepEqual(
        { lost: lost.slice(0, 5), doubled: doubled.slice(0, 5) },
        { lost: [], doubled: [] },
      );
      assert.ok(refused > 0, "no stale write was refused: the run proved nothing");
      assert.ok(crew.killed >= plan.deeds.kill && crew.frozen >= plan.deeds.freeze);
      assert.ok(done.cut >= plan.deeds.cut && done.restart >= plan.deeds.restart);
    },
  );
}

/** Bit by bit while the deeds are done; a batch that failed is offered again under the same ids. */
async function enqueue(store: Store): Promise<string[]> {
  const nextId = makeIds(systemRuntime);
  const random = seededRandom(plan.seed + 1);
  const ids: string[] = [];
  const pauseMs = (plan.ms / plan.jobs) * BATCH * 0.9;
  while (ids.length < plan.jobs) {
    const jobs = Array.from({ length: BATCH }, () => ({
      id: nextId(),
      queue: "default",
      task: TASK,
      payload: JSON.stringify({ ms: Math.floor(random() * 40) }),
      priority: 0,
      attemptsMax: 1_000,
      key: null,
      start: null,
    }));
    for (let tries = 0; ; tries += 1) {
      try {
        await store.enqueue(jobs);
        break;
      } catch (error) {
        if (tries === 20) throw error;
        await sleep(100);
      }
    }
    ids.push(...jobs.map(({ id }) => id));
    await sleep(pauseMs);
  }
  return ids;
}

async function doDeeds(
  server: Server,
  machine: GuardedServer,
  crew: Crew,
): Promise<{ cut: number; restart: number }> {
  const done = { cut: 0, restart: 0 };
  const frozen: Promise<void>[] = [];
  const startedAt = performance.now();
  for (const { atMs, deed, whom } of steps(plan)) {
    await sleep(Math.max(0, startedAt + atMs - performance.now()));
    if (deed === "kill") crew.kill(whom);
    if (deed === "freeze") {
      const thawed = crew.freeze(whom, LEASE_MS * (1.5 + whom));
      if (thawed !== null) frozen.push(thawed);
    }
    if (deed === "cut" && (await cutOne(server, machine.url, whom))) done.cut += 1;
    if (deed === "restart") {
      await machine.kill();
      await machine.restart();
      done.restart += 1;
    }
  }
  await Promise.all(frozen);
  return done;
}

/** Right after a restart nobody is connected yet. */
async function cutOne({ cut }: Server, url: string, whom: number): Promise<boolean> {
  for (let looks = 0; looks < 50; looks += 1) {
    if (await cut(url, whom)) return true;
    await sleep(50);
  }
  return false;
}

async function untilDone(server: Server, url: string, jobs: number, crew: Crew): Promise<number> {
  const startedAt = performance.now();
  for (;;) {
    const [row] = await server.query(url, `select count(*) as done from ${server.tables}finished`);
    const waitedMs = performance.now() - startedAt;
    if (Number(row?.["done"]) >= jobs) return waitedMs;
    if (waitedMs > CALM_MS_MAX) {
      throw new Error(`${jobs - Number(row?.["done"])} jobs are not done. ${crew.errors}`);
    }
    await sleep(200);
  }
}

async function rowsOf({ query, tables }: Server, url: string): Promise<Rows> {
  const finished = await query(url, `select id, status, epoch, worker from ${tables}finished`);
  const [left] = await query(
    url,
    `select (select count(*) from ${tables}ready) + (select count(*) from ${tables}waiting)
          + (select count(*) from ${tables}lease) as elsewhere`,
  );
  return {
    finished: finished.map((row) => ({
      id: String(row["id"]),
      status: String(row["status"]),
      epoch: Number(row["epoch"]),
      worker: String(row["worker"]),
    })),
    elsewhere: Number(left?.["elsewhere"]),
  };
}

async function queryPostgres(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url, application_name: "nemesis" });
  client.on("error", () => {});
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(text);
    return rows;
  } finally {
    await client.end();
  }
}

async function queryMysql(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = await createConnection({ uri: url });
  try {
    const [rows] = await client.query(text);
    return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
  } finally {
    await client.end();
  }
}
