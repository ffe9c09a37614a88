/** A bulk action whose processes are killed at any moment: every job is changed once, and counted once. */
import { deepEqual, equal, ok } from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { checkRequest } from "../../src/bulk/request.ts";
import { isLong, notItsTurn, reasonOf, sized } from "../support/scale.ts";
import { newJob, nextId } from "../support/jobs.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { temporaryFolder } from "./store-crew.ts";

const JOBS = isLong ? 20_000 : 2_000;
const PROCESSES = 2;
const KILLS = isLong ? 30 : 4;

const KINDS = ["sqlite", "postgres"];
const LIMIT_MS = sized(120_000, 900_000);
const here = { timeout: LIMIT_MS, skip: notItsTurn("sqlite", KINDS) };
const skip = reasonOf(missing("postgres"), notItsTurn("postgres", KINDS));
const servers = { timeout: LIMIT_MS, skip };

test("killed processes neither repeat nor skip a job, on SQLite", here, async (t) => {
  using folder = temporaryFolder();
  t.diagnostic(await killAndCheck(`sqlite:${join(folder.path, "bulk.db")}`));
});

test("killed processes neither repeat nor skip a job, on PostgreSQL", servers, async (t) => {
  const database = await scratchDatabase("postgres");
  try {
    t.diagnostic(await killAndCheck(database.url));
  } finally {
    await database.drop();
  }
});

async function killAndCheck(url: string): Promise<string> {
  const store = await openStore(url);
  await store.migrate();
  const jobs = Array.from({ length: JOBS }, () => newJob());
  await store.jobs.enqueue(jobs);
  const request = checkRequest({ action: "cancel", filter: { status: "pending" } });
  const { id } = await store.bulk.create(request, { id: nextId(), actor: "ada" });
  const children = new Set<ChildProcess>();
  try {
    const kills = await carryWithKills(store, url, id, children);
    const row = await store.bulk.get(id);
    deepEqual(
      [row.status, row.looked, row.matched, row.changed, row.refused],
      ["done", JOBS, JOBS, JOBS, 0],
    );
    const lines = await jobLines(store);
    equal(lines.length, JOBS, "one line for each job");
    equal(new Set(lines).size, JOBS, "no job twice");
    equal((await store.jobs.stats())[0]?.counts.cancelled, JOBS);
    return `${JOBS} jobs, ${kills} processes killed`;
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await store.close();
  }
}

/** Kills the processes each time the action has moved on, and starts others. */
async function carryWithKills(
  store: Store,
  url: string,
  id: string,
  children: Set<ChildProcess>,
): Promise<number> {
  const start = async (): Promise<void> => {
    const child = fork(join(import.meta.dirname, "bulk-carrier.ts"), [url, id], { execArgv: [] });
    children.add(child);
    child.once("exit", () => children.delete(child));
    await Promise.race([once(child, "message"), once(child, "exit")]);
  };
  await Promise.all(Array.from({ length: PROCESSES }, start));
  let kills = 0;
  for (let seen = -1; ;) {
    const { status, changed } = await store.bulk.get(id);
    if (status !== "running") break;
    if (changed > seen && kills < KILLS) {
      seen = changed;
      for (const child of children) kills += Number(child.kill("SIGKILL"));
      await Promise.all(Array.from({ length: PROCESSES }, start));
    }
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
  ok(kills > 0, "at least one process was killed in the middle");
  return kills;
}

async function jobLines(store: Store): Promise<string[]> {
  const found: string[] = [];
  for (let after = 0; ;) {
    const page = await store.audit.list({ after, limit: 1_000 });
    found.push(...page.filter(({ action }) => action === "job.cancel").map((line) => line.subject));
    const last = page.at(-1);
    if (last === undefined) return found;
    after = last.seq;
  }
}
