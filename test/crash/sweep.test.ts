/**
 * kill -9 before and after every statement of every verb.
 *
 * A rehearsal without a kill counts the points of a verb and shows what it does. Then, for every
 * point (of a sample, unless the run is long), a fresh process on a fresh copy of the same database is killed exactly there, and the
 * comes next must find the verb done completely or not at all, and be able to finish every job.
 */
import { deepEqual, equal, ok } from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { SqliteEngine } from "../../src/database/sqlite/engine.ts";
import { type Store, storeOn } from "../../src/app/store.ts";
import { everyNth, notDrawn } from "../support/scale.ts";
import { drain, type Drained } from "./drain.ts";
import { assertWhole, countChanged, ids, readTables, sorted, type Tables } from "./tables.ts";
import { CRASH_AT, prepare, runtimeOn, verbs, type Clock, type Verb } from "./verbs.ts";

const AT_ONCE = 2;
const VICTIM_MS_MAX = 20_000;
const SAMPLE_EVERY = 8;

const victim = join(import.meta.dirname, "victim.ts");
let folder = "";

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-crash-"));
  writeFileSync(join(folder, "empty.db"), "");
  const clock = { now: CRASH_AT };
  const store = await openStore(join(folder, "prepared.db"), clock);
  await prepare(store, clock);
  await store.close();
});

after(() => rmSync(folder, { recursive: true, force: true }));

for (const [name, verb] of Object.entries(verbs)) {
  const title = `kill -9 at every statement of ${name} leaves all of it or nothing`;
  test(title, { skip: notDrawn(2, name) }, async (t) => {
    const rehearsed = await rehearse(name, verb, t.signal);
    const points = rehearsed.points.length;
    const chosen = pointsOf(rehearsed);
    const left = chosen.values();
    let killed = 0;
    let refused = 0;
    const sweep = async (): Promise<void> => {
      for (const point of left) {
        const drained = await killAndRecover(name, verb, point, rehearsed, t.signal);
        refused += drained.refused;
        killed += 1;
      }
    };
    const stop = (error: unknown): never => {
      left.return?.(); // the other sweeper ends after its point
      throw error;
    };
    const sweepers = Array.from({ length: AT_ONCE }, () => sweep().catch(stop));
    await Promise.allSettled(sweepers);
    await Promise.all(sweepers);
    t.diagnostic(`killed at ${killed} of ${points} points of ${name}`);
    t.diagnostic(`${refused} settlements of the dead refused`);
    ok(points >= 4, "a verb begins, changes something and commits");
    equal(killed, chosen.length);
    ok(refused > 0 || verb.onEmptyFile === true, "the dead have tried to settle their jobs");
  });
}

/** All of them, or the two around the commit and a few others. */
function pointsOf({ points, committed }: Rehearsed): number[] {
  const numbers = points.map((_, index) => index + 1);
  const around = numbers.filter((point) => point === committed - 1 || point === committed);
  return [...new Set([...everyNth(SAMPLE_EVERY, numbers), ...around])].toSorted((a, b) => a - b);
}

interface Rehearsed {
  readonly points: readonly string[];
  /** The first point at which the change is committed. */
  readonly committed: number;
  readonly before: Tables;
  readonly after: Tables;
}

async function rehearse(name: string, verb: Verb, signal: AbortSignal): Promise<Rehearsed> {
  const path = copyFor(name, verb, 0);
  const untouched = readTables(path);
  const ended = await runVictim(path, name, 0, signal);
  equal(ended.code, 0, ended.errors);
  const commits = ended.points.filter((point) => point === "after commit");
  equal(commits.length, 1, "one verb is one transaction");
  const done = readTables(path);
  assertWhole(untouched);
  assertWhole(done);
  equal(countChanged(untouched, done), verb.changes, "the verb meets what it was prepared for");
  const committed = ended.points.indexOf("after commit") + 1;
  return { points: ended.points, committed, before: untouched, after: done };
}

async function killAndRecover(
  name: string,
  verb: Verb,
  point: number,
  rehearsed: Rehearsed,
  signal: AbortSignal,
): Promise<Drained> {
  const path = copyFor(name, verb, point);
  const ended = await runVictim(path, name, point, signal);
  const label = rehearsed.points[point - 1] ?? "";
  const where = `point ${point} of ${name}: ${label}`;
  equal(ended.signal, "SIGKILL", `${where}: no process was killed. ${ended.errors}`);
  deepEqual(ended.points, [label]);
  try {
    const found = readTables(path);
    assertWhole(found);
    deepEqual(found, point < rehearsed.committed ? rehearsed.before : rehearsed.after);
    const drained = await recover(path, verb, point >= rehearsed.committed, rehearsed.after);
    assertAllFinished(readTables(path), drained);
    for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
    return drained;
  } catch (error) {
    throw new Error(`Killed at ${where}.\n${String(error)}`, { cause: error });
  }
}

function copyFor(name: string, verb: Verb, point: number): string {
  const path = join(folder, `${name.replaceAll(" ", "-")}-${point}.db`);
  copyFileSync(join(folder, verb.onEmptyFile === true ? "empty.db" : "prepared.db"), path);
  return path;
}

// ── The victim ───────────────────────────────────────────────────────────────────────────────────

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly points: readonly string[];
  readonly errors: string;
}

async function runVictim(
  path: string,
  name: string,
  killAt: number,
  signal: AbortSignal,
): Promise<Ended> {
  const child = spawn(process.execPath, [victim, path, name, String(killAt)], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: VICTIM_MS_MAX, // with SIGTERM, which is not mistaken for the kill we wait for
    signal,
    // Compiling the same sources a hundred times would be most of the test's work.
    env: { ...process.env, NODE_COMPILE_CACHE: join(folder, "compiled") },
  });
  const closed = once(child, "close");
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  const points = output === "" ? [] : (JSON.parse(output) as string[]);
  return { code: child.exitCode, signal: child.signalCode, points, errors };
}

// ── The next process ────────────────────────────────────────────────────────────────────────────

async function recover(
  path: string,
  verb: Verb,
  happened: boolean,
  done: Tables,
): Promise<Drained> {
  const clock = { now: CRASH_AT };
  const store = await openStore(path, clock);
  try {
    if (!happened || verb.takesMore !== true) {
      await verb.act(store);
      deepEqual(readTables(path), done, "a verb repeated by the next process");
    }
    await store.migrate();
    return await drain(store, clock, readTables(path));
  } finally {
    await store.close();
  }
}

/** Every job has finished, in the tables as in what the store answered, and none has twice. */
function assertAllFinished(tables: Tables, { finished }: Drained): void {
  assertWhole(tables);
  deepEqual(sorted(ids(tables, "finished")), sorted(ids(tables, "job")));
  deepEqual(sorted(finished), sorted(ids(tables, "job")));
}

async function openStore(path: string, clock: Clock): Promise<Store> {
  return storeOn(await SqliteEngine.open({ path, runtime: runtimeOn(clock), create: true }));
}
