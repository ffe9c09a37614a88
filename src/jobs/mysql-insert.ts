/**
 * Inserting jobs on MySQL and MariaDB.
 *
 * Jobs without keys take one round trip: they are inserted, and the database itself notices an id that exists. Then, or if
 * there are keys, the careful way looks first which ids exist and which jobs hold the keys.
 */
import { bareName } from "../core/name.ts";
import type { MysqlEngine } from "../database/mysql/engine.ts";
import { isDuplicate } from "../database/mysql/errors.ts";
import {
  allRows,
  fill,
  inGroups,
  insertions,
  jsonList,
  literal,
  numberIn,
  RawSql,
  tuple,
} from "../database/mysql/session.ts";
import type { Exchange } from "../database/mysql/sessions.ts";
import { traceRows } from "../tracing/tracing.ts";
import { isKeyed, type Keyed, nameOf } from "./keys.ts";
import { statements } from "./mysql-statements.ts";
import { isAlike, shiftOf, tagRows } from "./rows.ts";
import type { Enqueued, NewJob } from "./store.ts";

/** How often the careful way starts again because another process inserted the same ids. */
const ROUNDS_MAX = 5;

/** For fewer jobs, a list of rows is faster. */
const ALIKE_MIN = 10;

/** The database's clock, read once into the session, so that all rows of a batch have the same time. */
const NOW = "@holdfast_now";

type Holder = [task: string, key: string, id: string];

/** Ids by task and key. */
type Holders = Map<string, string>;

export async function insertJobs(
  engine: MysqlEngine,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  if (jobs.every(({ key }) => key === null)) {
    try {
      return await engine.main.transaction((exchange) => plainly(engine, exchange, jobs), {
        duplicatesMax: 0,
      });
    } catch (error) {
      if (!isDuplicate(error)) throw error; // one of the ids exists; nothing was written
    }
  }
  return engine.main.transaction((exchange) => carefully(engine, exchange, jobs), {
    duplicatesMax: ROUNDS_MAX,
  });
}

async function plainly(
  engine: MysqlEngine,
  exchange: Exchange,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  exchange.add(`set ${NOW} = ${engine.nowText()}`);
  // Only an instant has to be compared with the clock; a delay tells by itself whether it is over.
  const now = jobs.some(comesAt) ? await readNow(exchange) : null;
  addJobs({ exchange, engine }, jobs, now);
  return jobs.map(({ id }) => ({ id, added: true }));
}

async function carefully(
  engine: MysqlEngine,
  exchange: Exchange,
  jobs: readonly NewJob[],
): Promise<Enqueued[]> {
  exchange.add(`set ${NOW} = ${engine.nowText()}`);
  const fresh = await notThereYet(exchange, jobs);
  const holders = await holdKeys(exchange, fresh.filter(isKeyed));
  const holderOf = (job: NewJob): string =>
    (isKeyed(job) ? holders.get(nameOf(job)) : undefined) ?? job.id;
  const accepted = fresh.filter((job) => holderOf(job) === job.id);
  addJobs({ exchange, engine }, accepted, await readNow(exchange));
  const added = new Set(accepted);
  const looked = new Set(fresh);
  // The same job twice in a batch is added once.
  return jobs.map((job) => ({
    id: looked.has(job) ? holderOf(job) : job.id,
    added: added.delete(job),
  }));
}

async function readNow(exchange: Exchange): Promise<number> {
  const at = exchange.add(`select ${NOW}`);
  return numberIn((await exchange.send("arrays"))[at]) as number;
}

/**
 * The jobs whose ids do not exist, each id once. A repeated call must not touch the key of an existing job: the job may have
 * finished, and another may hold the key.
 */
async function notThereYet(exchange: Exchange, jobs: readonly NewJob[]): Promise<NewJob[]> {
  const firsts = [...new Map(jobs.toReversed().map((job) => [job.id, job])).values()].toReversed();
  const groups = [...inGroups(firsts.map(({ id }) => id))];
  const at = exchange.add(...groups.map((group) => fill(statements.findJobs, jsonList(group))));
  const answers = await exchange.send("arrays");
  const there = new Set(allRows<[string]>(answers.slice(at)).map(([id]) => id));
  return firsts.filter(({ id }) => !there.has(id));
}

/** The holders of the keys of these jobs from now on. Of several jobs with the same key, the first may have it. */
async function holdKeys(exchange: Exchange, jobs: readonly Keyed[]): Promise<Holders> {
  if (jobs.length === 0) return new Map();
  const [seen] = (await findHolders(exchange, jobs, statements.findKeys)) as [Holders];
  const firsts = new Map<string, Keyed>();
  for (const job of jobs) {
    const name = nameOf(job);
    if (!seen.has(name) && !firsts.has(name)) firsts.set(name, job);
  }
  if (firsts.size === 0) return seen;
  // In one global order, so that two batches with the same keys do not deadlock.
  const inOrder = [...firsts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, job]) => job);
  const rows = inOrder.map(({ task, key, id }) => tuple([bareName(task), key, id]));
  exchange.add(...insertions(statements.insertKeys, rows));
  const asked = [statements.lockKeys, statements.findKept];
  const [held, kept] = (await findHolders(exchange, inOrder, ...asked)) as [Holders, Holders];
  const ours = inOrder.filter((job) => held.get(nameOf(job)) === job.id);
  // An ended job keeps these keys, so the jobs that took them have to release them.
  const refused = ours.filter((job) => kept.has(nameOf(job)));
  for (const group of inGroups(refused.map(({ id }) => id))) {
    exchange.add(fill(statements.deleteKeys, jsonList(group)));
  }
  const keeping = ours.flatMap((job) => {
    const { task, key, id, keyForMs = null } = job;
    const keeps = keyForMs !== null && !kept.has(nameOf(job));
    return keeps ? [tuple([bareName(task), key, id, keyForMs])] : [];
  });
  exchange.add(...insertions(statements.insertKept, keeping));
  const keepers = refused.map((job) => [nameOf(job), kept.get(nameOf(job)) ?? ""] as const);
  return new Map([...seen, ...held, ...keepers]);
}

/** The answers to several queries about the same keys, each as the holders by key. */
async function findHolders(
  exchange: Exchange,
  jobs: readonly Keyed[],
  ...texts: readonly string[]
): Promise<Holders[]> {
  const groups = [...inGroups(jobs)].map(anyOf);
  const places = texts.map((text) => exchange.add(...groups.map((keys) => fill(text, keys))));
  const answers = await exchange.send("arrays");
  return places.map((at) => {
    const rows = allRows<Holder>(answers.slice(at, at + groups.length));
    return new Map(rows.map(([task, key, id]) => [nameOf({ task, key }), id]));
  });
}

/** With `or`: not every server uses the index for a list of pairs. */
function anyOf(jobs: readonly Keyed[]): RawSql {
  const pairs = jobs.map(
    ({ task, key }) => `k.task = ${literal(bareName(task))} and k.job_key = ${literal(key)}`,
  );
  return new RawSql(pairs.join(" or "));
}

function addJobs(
  { exchange, engine }: { exchange: Exchange; engine: MysqlEngine },
  jobs: readonly NewJob[],
  now: number | null,
): void {
  exchange.add(...insertions(statements.insertJobs, jobs.map(jobRow)));
  const [first] = jobs;
  if (jobs.length >= ALIKE_MIN && first !== undefined && jobs.every((job) => isAlike(job, first))) {
    return addAlike({ exchange, engine }, first, jobs);
  }
  const ready: string[] = [];
  const waiting: string[] = [];
  for (const job of jobs) {
    const due = dueTime(job, now);
    if (due === null) {
      const place = `${NOW} + ${shiftOf(engine, job.queue, 0 - job.priority)}`;
      ready.push(`(${columnsOf(job, "")},${startByText(job)},${NOW},${place})`);
    } else {
      waiting.push(`(${columnsOf(job, null)},${startByText(job)},'scheduled',${due})`);
    }
  }
  exchange.add(...insertions(statements.insertReady, ready));
  exchange.add(...insertions(statements.insertWaiting, waiting));
  const traces = traceRows(jobs).map((row) => tuple(Object.values(row)));
  exchange.add(...insertions(statements.insertTraces, traces));
  const tags = tagRows(jobs).map((row) => tuple(Object.values(row)));
  exchange.add(...insertions(statements.insertTags, tags));
}

function addAlike(
  { exchange, engine }: { exchange: Exchange; engine: MysqlEngine },
  { queue, task, priority, maxAttempts }: NewJob,
  jobs: readonly NewJob[],
): void {
  const rank = 0 - priority;
  const common = [queue, task, rank, maxAttempts, shiftOf(engine, queue, rank)];
  for (const group of inGroups(jobs.map(({ id }) => id))) {
    exchange.add(fill(statements.insertAlike, ...common, jsonList(group)));
  }
}

function columnsOf(job: NewJob, noLane: string | null): string {
  const { id, queue, task, priority, key, maxAttempts, lane } = job;
  const values = [id, queue, task, 0 - priority, key, 0, 0, 0, maxAttempts, lane ?? noLane];
  return values.map(literal).join(",");
}

function startByText({ startBy = null }: NewJob): string {
  if (startBy === null) return "null";
  return "at" in startBy ? String(startBy.at) : `${NOW} + ${startBy.withinMs}`;
}

function jobRow({ id, queue, task, payload, priority, maxAttempts, key }: NewJob): string {
  const values = [id, queue, task, payload, 0 - priority, maxAttempts, key];
  return `(${values.map(literal).join(",")},${NOW})`;
}

function comesAt({ start }: NewJob): boolean {
  return start !== null && "at" in start;
}

/** When a waiting job is due, as an expression; null: it is pending at once. */
function dueTime({ start }: NewJob, now: number | null): string | null {
  if (start === null) return null;
  if ("at" in start) return now === null || start.at > now ? String(start.at) : null;
  return start.delayMs > 0 ? `${NOW} + ${start.delayMs}` : null;
}
