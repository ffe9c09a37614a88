import { deepEqual, equal, ok } from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeIds } from "../../src/core/id.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import type { Turn } from "./store-claimer.ts";
import { Crew, openFile, temporaryFolder } from "./store-crew.ts";

const PROCESSES = 8;
const JOBS = 20_000;
const ENQUEUE_BATCH = 5_000;

test("two claimers never get the same job", { timeout: 60_000 }, async (t) => {
  using folder = temporaryFolder();
  const path = join(folder.path, "race.db");
  const store = await openFile(path);
  const ids = await fill(store);
  using crew = new Crew();
  const workers = Array.from({ length: PROCESSES }, (_, at) => `w${at}`);
  const journalOf = (worker: string): string => join(folder.path, `${worker}.jsonl`);
  for (const worker of workers) {
    crew.add(join(import.meta.dirname, "store-claimer.ts"), [path, worker, journalOf(worker)]);
  }
  await crew.go();
  const startedAt = performance.now();
  await crew.ended();
  const seconds = (performance.now() - startedAt) / 1_000;

  const journals = workers.map((worker) => readJournal(journalOf(worker)));
  const shares = journals.map((turns) => turns.flatMap(({ claimed }) => claimed).length);
  const stale = journals.flat().reduce((sum, turn) => sum + turn.stale, 0);
  t.diagnostic(
    `${JOBS} jobs, ${PROCESSES} processes: ${Math.round(JOBS / seconds)} jobs/s; ` +
      `${Math.min(...shares)} to ${Math.max(...shares)} claims each; ${stale} stale settlements refused`,
  );
  equal(
    journals.flat().reduce((sum, turn) => sum + turn.staleAccepted, 0),
    0,
    "a stale settlement was accepted",
  );
  assertExclusive(journals, ids);
  ok(stale > 0, "stale settlements were tried");
  const busy = shares.filter((share) => share > 0).length;
  ok(busy >= PROCESSES / 2, `only ${busy} of ${PROCESSES} processes took part`);
  const [stats] = await store.jobs.stats();
  deepEqual([stats?.counts.done, stats?.counts.pending, stats?.counts.processing], [JOBS, 0, 0]);
  await store.close();
});

async function fill(store: Store): Promise<string[]> {
  await store.migrate();
  const nextId = makeIds(systemRuntime);
  const ids = Array.from({ length: JOBS }, nextId);
  for (let from = 0; from < JOBS; from += ENQUEUE_BATCH) {
    await store.jobs.enqueue(ids.slice(from, from + ENQUEUE_BATCH).map(newJob));
  }
  return ids;
}

function newJob(id: string): NewJob {
  const plain = { queue: "race", task: "run", payload: "{}", priority: 0 };
  return { id, ...plain, maxAttempts: 3, key: null, start: null };
}

function readJournal(path: string): Turn[] {
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as Turn);
}

/** Each epoch of each job went to one process, which alone settled it, and each job was done once. */
function assertExclusive(journals: readonly Turn[][], ids: readonly string[]): void {
  const claims = new Map<string, number>();
  const settled = new Set<string>();
  const done = new Map<string, number>();
  for (const [owner, turns] of journals.entries()) {
    for (const { id, epoch } of turns.flatMap((turn) => turn.claimed)) {
      ok(!claims.has(`${id} ${epoch}`), `${id} was claimed twice at epoch ${epoch}`);
      claims.set(`${id} ${epoch}`, owner);
    }
  }
  for (const [owner, turns] of journals.entries()) {
    for (const { id, epoch, status } of turns.flatMap((turn) => turn.settled)) {
      equal(claims.get(`${id} ${epoch}`), owner, "settled by a process that had not claimed it");
      ok(!settled.has(`${id} ${epoch}`), `${id} was settled twice at epoch ${epoch}`);
      settled.add(`${id} ${epoch}`);
      if (status === "done") done.set(id, (done.get(id) ?? 0) + 1);
    }
  }
  deepEqual(new Set(done.keys()), new Set(ids), "every job was done");
  ok(
    [...done.values()].every((times) => times === 1),
    "a job was done more than once",
  );
  equal(settled.size, claims.size, "every claim was settled");
}
