/**
 * Does every request of every page of the dashboard answer in time when much is stored? `npm run bench:dashboard`
 *
 * A shop of a week is made by SQL; then each request is sent many times over HTTP, one after the other. The aim is 100 ms for
 * 95 of 100. It fails if one request misses it. Then searches without a match go on, as the page lets them: how many jobs do
 * they look at in a second?
 *
 * Environment: FINISHED (10,000,000 on PostgreSQL, 1,000,000 elsewhere), PENDING (1,000,000 and 100,000), ROUNDS (40),
 * AIM (100), SEARCH_MS (20,000: how long a search goes on), ONLY (part of the names of requests),
 * ENGINES=sqlite,postgres,mariadb.
 */
import { startServer } from "../src/app/server.ts";
import { openHoldfast, type Holdfast } from "../src/index.ts";
import { fillShop, kindOf, nameOf, QUEUES, TASKS } from "./dashboard-fill.ts";
import { numberFrom, wordsFrom } from "./environment.ts";
import { milliseconds, printTable, progress, quantile, whole } from "./figures.ts";
import { SQL_ENGINES, type SqlEngine } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { scratchPlace } from "./places.ts";
import { describeServer, getServers } from "./servers.ts";

const ROUNDS = numberFrom("ROUNDS", 40);
const AIM_MS = numberFrom("AIM", 100);
/** Requests before the first that is measured: plans are made, and code is compiled. */
const WARM_UP = 5;
const SHOWN = 12;
const SEARCH_MS = numberFrom("SEARCH_MS", 20_000);
const ONLY = process.env["ONLY"] ?? "";

function sizeOf(engine: SqlEngine): { finished: number; pending: number } {
  const isLarge = engine === "postgres";
  return {
    finished: numberFrom("FINISHED", isLarge ? 10_000_000 : 1_000_000),
    pending: numberFrom("PENDING", isLarge ? 1_000_000 : 100_000),
  };
}

/** Which jobs the requests are about: some old, some new. */
interface Known {
  readonly newest: readonly string[];
  readonly failed: readonly string[];
  readonly middle: string;
}

async function knownJobs(holdfast: Holdfast): Promise<Known> {
  const ids = async (filter: object): Promise<string[]> =>
    (await holdfast.jobs.list({ ...filter, limit: 100 })).map(({ id }) => id);
  const newest = await ids({ status: "done" });
  const failed = await ids({ status: "failed" });
  // Half a week before the newest: by its time, an id is the page's cursor.
  const at = Number.parseInt((newest[0] ?? "").replaceAll("-", "").slice(0, 12), 16) - 302_400_000;
  const hex = at.toString(16).padStart(12, "0");
  return { newest, failed, middle: `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000` };
}

type Requests = Record<string, (round: number) => string>;

function of(list: readonly string[], round: number): string {
  return list[round % list.length] ?? "";
}

function queue(round: number): string {
  return nameOf("queue", round % QUEUES);
}

function search(query: string): () => string {
  return () => `jobs?${query}`;
}

/** Every request of every page, by the page that sends it. */
function requests(known: Known): Requests {
  return { ...overviewAndLists(known), ...others(known) };
}

function overviewAndLists({ newest, middle }: Known): Requests {
  return {
    "shell: session": () => "session",
    "overview: overview": () => "overview",
    ...Object.fromEntries(
      ["15m", "1h", "4h", "24h", "7d"].map((range) => [
        `overview: series ${range}`,
        () => `series?range=${range}`,
      ]),
    ),
    "queues: series of one": (round) => `series?range=7d&queue=${queue(round)}`,
    "jobs: counts": () => "counts",
    "jobs: names": () => "names",
    "jobs: all": search("limit=50"),
    "jobs: all, an old page": search(`limit=50&before=${middle}`),
    ...Object.fromEntries(
      [
        "pending",
        "processing",
        "scheduled",
        "retry",
        "waiting",
        "done",
        "failed",
        "cancelled",
        "expired",
      ].map((status) => [`jobs: ${status}`, search(`status=${status}&limit=50`)]),
    ),
    "jobs: failed, by end": search("status=failed&order=ended&limit=50"),
    "jobs: failed in an hour": () =>
      `jobs?status=failed&order=ended&endedSince=${Date.now() - 7_200_000}&endedUntil=${Date.now() - 3_600_000}&limit=50`,
    "jobs: failed with a kind of error": (round) =>
      `jobs?status=failed&order=ended&kind=${kindOf(round)}&limit=50`,
    "jobs: ended in a minute of last week": (round) =>
      `jobs?endedSince=${Date.now() - 302_400_000 + round * 60_000}&endedUntil=${Date.now() - 302_340_000 + round * 60_000}&limit=50`,
    "jobs: keys that begin": search("keyPrefix=finished-4711&limit=50"),
    "jobs: done of a queue": (round) => `jobs?status=done&queue=${queue(round)}&limit=50`,
    "jobs: pending of a queue": (round) => `jobs?status=pending&queue=${queue(round)}&limit=50`,
    "jobs: a queue that is not there": search("queue=none&limit=50"),
    "jobs: a task": search(`task=${nameOf("task", 7)}&limit=50`),
    "jobs: failed of a task": search(
      `status=failed&order=ended&task=${nameOf("task", 20)}&limit=50`,
    ),
    "jobs: a key": (round) => `jobs?key=finished-${(round + 1) * 10}`,
    "jobs: a tag": search("tag=tenant-20&limit=50"),
    "jobs: a tag, failed": search("tag=tenant-0&status=failed&limit=50"),
    "jobs: a worker": search("worker=worker-3&limit=50"),
    "jobs: a build": search("build=9c41d07&limit=50"),
    "jobs: an hour": () =>
      `jobs?enqueuedSince=${Date.now() - 7_200_000}&enqueuedUntil=${Date.now() - 3_600_000}&limit=50`,
    "jobs: error text": search("error=carrier%2030&limit=50"),
    "jobs: error text, failed": search("status=failed&error=carrier%2030&limit=50"),
    "jobs: error text that is not there": search("error=nowhere-to-be-found&limit=50"),
    "jobs: input text": search("input=%22cents%22%3A4711&limit=50"),
    "jobs: input text that is not there": search("input=nowhere-to-be-found&limit=50"),
    "jobs: rows on the screen": () =>
      `jobs?${newest
        .slice(0, 50)
        .map((id) => `id=${id}`)
        .join("&")}`,
    "jobs: pasted id": (round) => `find?text=${of(newest, round)}`,
    "jobs: pasted prefix": (round) => `find?text=${of(newest, round).slice(0, 13)}`,
    "jobs: pasted key": (round) => `find?text=finished-${(round + 1) * 10}`,
    "jobs: the beginning of a key": (round) => `find?text=finished-${round + 1}`,
    "jobs: pasted nonsense": () => "find?text=nothing-like-it",
  };
}

function others({ newest, failed }: Known): Requests {
  return {
    "one job: story": (round) => `jobs/${of(newest, round)}/story`,
    "one job: story of a failed one": (round) => `jobs/${of(failed, round)}/story`,
    "one job: events": (round) => `jobs/${of(failed, round)}/events`,
    "one job: explanation": (round) => `jobs/${of(newest, round)}/explanation`,
    "errors: open": () => "errors",
    "errors: resolved": () => "errors?state=resolved",
    "errors: of an hour": () => `errors?since=${Date.now() - 3_600_000}`,
    "errors: of a build": () => "errors?build=9c41d07",
    "tasks: all": () => "stats/tasks?range=7d",
    "tasks: one": (round) => `tasks/${nameOf("task", round % TASKS)}?range=7d`,
    "builds: all": () => "builds?range=7d",
    "builds: one": () => "builds/9c41d07",
    "errors: one": () => `errors/${kindOf(1)}`,
    "workers: list": () => "workers",
    "workers: types": () => "worker-types",
    "workers: drift": () => "drift",
    "workers: leases": () => "leases?worker=worker-3",
    "queues: list": () => "queues",
    "queues: limits": () => "limits",
    "queues: one": (round) => `queues/${queue(round)}`,
    "queues: explanation": (round) => `queues/${queue(round)}/explanation`,
    "schedules: list, with runs": () => "schedules?limit=200&runs=24",
    "flows: list": () => "flows",
    "jobs: failed": () => "jobs?status=failed",
    "bulk: list": () => "bulk",
    "locks: held": () => "locks",
    "locks: heat of 4 hours": () => "locks/heat?range=4h",
    "locks: heat of 7 days": () => "locks/heat?range=7d",
    "audit: verified": () => "audit/verify",
    "alerts: findings": () => "invariants",
    "alerts: raised": () => "alerts",
    "audit: last page": () => "audit",
    "workflows: list": () => "workflows",
    "enqueue: tasks": () => "tasks",
    "effects: in doubt": () => "effects",
  };
}

interface Timed {
  readonly name: string;
  readonly times: readonly number[];
}

/** Searches that match nothing, so they look at all jobs: how far do they get in a second? */
const SEARCHES: Readonly<Record<string, string>> = {
  "a queue": "queue=none",
  "a task": "task=none",
  "a tag that many have, and a queue": `tag=tenant-20&queue=none`,
  "a worker": "worker=none",
  "an error's text": "error=nowhere-to-be-found",
  "an error's text, failed": "status=failed&error=nowhere-to-be-found",
  "an input's text": "input=nowhere-to-be-found",
  "failed before the week, by end": "status=failed&order=ended&queue=none",
};

interface Searched {
  readonly name: string;
  readonly examined: number;
  readonly ms: number;
  readonly requests: number;
  readonly isComplete: boolean;
}

/** As the page does it: one request after the other, for at most so long. */
async function searched(api: string, name: string, query: string): Promise<Searched> {
  const startedAt = performance.now();
  const found = { examined: 0, requests: 0 };
  let next: string | null = null;
  do {
    const before: string = next === null ? "" : `&before=${next}`;
    const response = await fetch(`${api}jobs?${query}&limit=50${before}`);
    const page = (await response.json()) as { examined: number; next: string | null };
    if (!response.ok) throw new Error(`${name}: ${response.status} ${JSON.stringify(page)}`);
    found.examined += page.examined;
    found.requests += 1;
    ({ next } = page);
  } while (next !== null && performance.now() - startedAt < SEARCH_MS);
  return { name, ...found, ms: performance.now() - startedAt, isComplete: next === null };
}

interface Measured {
  readonly timed: readonly Timed[];
  readonly searches: readonly Searched[];
}

async function measure(engine: SqlEngine): Promise<Measured> {
  await using place = await scratchPlace(engine);
  await using holdfast = await openHoldfast(place.url);
  const size = sizeOf(engine);
  progress(`${engine}: ${whole(size.finished)} finished, ${whole(size.pending)} pending`);
  await fillShop(engine, place, size);
  await holdfast.store.stats.takeCounts({ everyMs: 0 });
  const known = await knownJobs(holdfast);
  await using server = await startServer({ holdfast, port: 0 });
  const timed: Timed[] = [];
  for (const [name, path] of Object.entries(requests(known))) {
    if (!name.includes(ONLY)) continue;
    const times: number[] = [];
    for (let round = -WARM_UP; round < ROUNDS; round += 1) {
      const startedAt = performance.now();
      const response = await fetch(`${server.url}/api/v1/${path(round + WARM_UP)}`);
      const text = await response.text();
      const ms = performance.now() - startedAt;
      if (!response.ok) throw new Error(`${name}: ${response.status} ${text.slice(0, 300)}`);
      if (round >= 0) times.push(ms);
    }
    timed.push({ name, times });
    progress(`${engine}: ${name} ${milliseconds(quantile(times, 0.95))}`);
  }
  const searches: Searched[] = [];
  for (const [name, query] of Object.entries(SEARCHES)) {
    if (name.includes(ONLY)) searches.push(await searched(`${server.url}/api/v1/`, name, query));
  }
  return { timed, searches };
}

function printSearches(searches: readonly Searched[]): void {
  printTable(
    ["search without a match", "jobs looked at", "requests", "took", "jobs a second"],
    searches.map(({ name, examined, requests: sent, ms, isComplete }) => [
      name,
      `${whole(examined)}${isComplete ? ", all" : ""}`,
      whole(sent),
      milliseconds(ms),
      whole((examined * 1_000) / ms),
    ]),
  );
}

function p95({ times }: Timed): number {
  return quantile(times, 0.95);
}

async function main(): Promise<void> {
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const wanted = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers(wanted);
  const engines = wanted.filter((engine) => !servers.missing.has(engine));
  for (const engine of engines) {
    const { timed, searches } = await measure(engine);
    const { finished, pending } = sizeOf(engine);
    console.log(
      `\n${engine} (${await describeServer(engine)}): ${whole(finished)} finished, ${whole(pending)} pending jobs`,
    );
    const slowest = timed.toSorted((a, b) => p95(b) - p95(a));
    printTable(
      ["request", "p50", "p95", "worst"],
      slowest
        .slice(0, SHOWN)
        .map((one) => [
          one.name,
          milliseconds(quantile(one.times, 0.5)),
          milliseconds(p95(one)),
          milliseconds(Math.max(...one.times)),
        ]),
    );
    const late = timed.filter((one) => p95(one) >= AIM_MS);
    console.log(`${timed.length} requests, ${timed.length - late.length} under ${AIM_MS} ms p95`);
    console.log("");
    printSearches(searches);
    if (late.length > 0) process.exitCode = 1;
  }
}

await main();
