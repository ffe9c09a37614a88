/**
 * How fast are no-op jobs worked off on SQLite, durably and with history kept?
 *
 *     npm run bench:drain
 *
 * In one run, in turn: the store's statements in a bare loop (the raw limit), a whole Holdfast worker at its defaults,
 * and plainjob, which is installed for the bench on first use.
 */
import { join } from "node:path";
import { defineTask, openHoldfast, type Holdfast } from "../src/index.ts";
import {
  compete,
  copies,
  machine,
  median,
  perSecond,
  printTable,
  ratio,
  type Contestant,
} from "./bench.ts";
import { loadPlainjob, plainjobVersions } from "./plainjob.ts";
import { drainRaw } from "./raw-loop.ts";

const JOBS = Number(process.env["JOBS"] ?? 100_000);
/** The peer is slower by so much that it gets fewer jobs; its rate does not depend on their number. */
const PEER_JOBS = Math.ceil(JOBS / 5);
const ROUNDS = Number(process.env["ROUNDS"] ?? 5);
const BATCH = 500;
const PEER = process.env["PEER"] !== "none";

const noop = defineTask({ name: "noop", async run(_input: string) {} });

async function fill(
  folder: string,
  payload: string,
): Promise<{ holdfast: Holdfast; file: string }> {
  const file = join(folder, "jobs.db");
  const holdfast = await openHoldfast(`sqlite:${file}`);
  await holdfast.enqueueMany(noop, copies(payload, JOBS));
  return { holdfast, file };
}

async function raw(folder: string, payload: string): Promise<number> {
  const { holdfast, file } = await fill(folder, payload);
  await holdfast.close();
  const startedAt = performance.now();
  const drained = drainRaw(file, [noop.name], BATCH);
  if (drained !== JOBS) throw new Error(`the raw loop drained ${drained} of ${JOBS} jobs`);
  return rate(startedAt);
}

async function whole(folder: string, payload: string): Promise<number> {
  const filled = await fill(folder, payload);
  await using holdfast = filled.holdfast;
  const { promise, resolve } = Promise.withResolvers<void>();
  const worker = await holdfast.startWorker({ tasks: [noop] });
  const startedAt = performance.now();
  let done = 0;
  worker.on("job:completed", () => {
    done += 1;
    if (done === JOBS) resolve();
  });
  await promise;
  const result = rate(startedAt);
  const [stats] = await holdfast.stats();
  if (stats?.counts.done !== JOBS)
    throw new Error(`${stats?.counts.done} of ${JOBS} jobs are done`);
  return result;
}

function rate(startedAt: number): number {
  return (JOBS / (performance.now() - startedAt)) * 1_000;
}

async function main(): Promise<void> {
  const plainjob = PEER ? await loadPlainjob() : null;
  const rows: string[][] = [];
  for (const [label, bytes] of [
    ["10 B", 10],
    ["1 kB", 1_000],
  ] as const) {
    const payload = "x".repeat(bytes - 2);
    const contestants: Contestant[] = [
      { name: `raw loop, ${label}`, round: (folder) => raw(folder, payload) },
      { name: `holdfast, ${label}`, round: (folder) => whole(folder, payload) },
    ];
    if (plainjob !== null) {
      const round = (folder: string): Promise<number> => plainjob.drain(folder, payload, PEER_JOBS);
      contestants.push({ name: `plainjob, ${label}`, round });
    }
    const [limit = [], ours = [], peer] = await compete(contestants, ROUNDS);
    rows.push([
      label,
      perSecond(median(limit)),
      perSecond(median(ours)),
      `${Math.round(ratio(ours, limit) * 100)} %`,
      peer === undefined ? "–" : perSecond(median(peer)),
      peer === undefined ? "–" : `${ratio(ours, peer).toFixed(1)} ×`,
    ]);
  }
  console.log(
    `\nDrain: ${JOBS.toLocaleString("en")} no-op jobs, median of ${ROUNDS} rounds taken in turn.`,
  );
  console.log(`${machine()}${plainjob === null ? "" : `; ${plainjobVersions()}`}\n`);
  const head = ["payload", "raw loop", "holdfast", "of raw", "plainjob", "against it"];
  printTable(head, rows);
}

await main();
