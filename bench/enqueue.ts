/**
 * How fast are jobs accepted on SQLite, durably? In bulk, and one by one with a commit each.
 *
 *     npm run bench:enqueue
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
  type Contestant,
} from "./bench.ts";
import { loadPlainjob, plainjobVersions } from "./plainjob.ts";

const BULK = Number(process.env["JOBS"] ?? 100_000);
const SINGLES = Number(process.env["SINGLES"] ?? 5_000);
const ROUNDS = Number(process.env["ROUNDS"] ?? 3);
const PAYLOADS = [
  ["10 B", 10],
  ["1 kB", 1_000],
] as const;

const noop = defineTask({ name: "noop", async run(_input: string) {} });

async function timed(
  folder: string,
  jobs: number,
  work: (holdfast: Holdfast) => Promise<unknown>,
): Promise<number> {
  await using holdfast = await openHoldfast(`sqlite:${join(folder, "jobs.db")}`);
  const startedAt = performance.now();
  await work(holdfast);
  const rate = (jobs / (performance.now() - startedAt)) * 1_000;
  const [stats] = await holdfast.stats();
  if (stats?.counts.pending !== jobs)
    throw new Error(`${stats?.counts.pending} of ${jobs} accepted`);
  return rate;
}

const inBulk = (folder: string, payload: string): Promise<number> =>
  timed(folder, BULK, (holdfast) => holdfast.enqueueMany(noop, copies(payload, BULK)));

const oneByOne = (folder: string, payload: string): Promise<number> =>
  timed(folder, SINGLES, async (holdfast) => {
    for (let job = 0; job < SINGLES; job += 1) await holdfast.enqueue(noop, payload);
  });

async function main(): Promise<void> {
  const plainjob = await loadPlainjob();
  const rows: string[][] = [];
  for (const [label, bytes] of PAYLOADS) {
    const payload = "x".repeat(bytes - 2);
    const contestants: Contestant[] = [
      { name: `holdfast in bulk, ${label}`, round: (folder) => inBulk(folder, payload) },
      {
        name: `plainjob in bulk, ${label}`,
        round: async (folder) => plainjob.enqueueBulk(folder, payload, BULK),
      },
      { name: `holdfast one by one, ${label}`, round: (folder) => oneByOne(folder, payload) },
      {
        name: `plainjob one by one, ${label}`,
        round: async (folder) => plainjob.enqueueOneByOne(folder, payload, SINGLES),
      },
    ];
    const rates = await compete(contestants, ROUNDS);
    rows.push([label, ...rates.map((each) => perSecond(median(each)))]);
  }
  console.log(
    `\nEnqueue: ${BULK.toLocaleString("en")} jobs in bulk, ${SINGLES.toLocaleString("en")} one by one, ` +
      `median of ${ROUNDS} rounds taken in turn.`,
  );
  console.log(`${machine()}; ${plainjobVersions()}\n`);
  printTable(
    [
      "payload",
      "holdfast in bulk",
      "plainjob in bulk",
      "holdfast one by one",
      "plainjob one by one",
    ],
    rows,
  );
}

await main();
