/**
 * Accepting jobs.
 *
 * The plain way is one round trip: what comes without keys is inserted, and the database itself notices an id that is
 * there already. Then, or where there are keys, the careful way looks first: which ids are known, who holds which key.
 */
import { bareName } from "../core/name.ts";
import { isDuplicate } from "../database/mysql/errors.ts";
import {
  fill,
  inGroups,
  insertions,
  jsonList,
  literal,
  RawSql,
  tuple,
} from "../database/mysql/literals.ts";
import { allRows, numberIn } from "../database/mysql/session.ts";
import type { Exchange, Sessions } from "../database/mysql/sessions.ts";
import { traceRows } from "../tracing/store.ts";
import { isKeyed, type Keyed, nameOf } from "./keys.ts";
import { statements } from "./mysql-statements.ts";
import type { Enqueued, NewJob } from "./store.ts";

/** How often the careful way begins again because somebody inserted the same ids meanwhile. */
const ROUNDS_MAX = 5;

/** The database's now, kept in the session, so that all rows of a batch carry the same one. */
const NOW = "@holdfast_now";

type Holder = [task: string, key: string, id: string];

/** Ids by task and key. */
type Holders = Map<string, string>;

export class Insertion {
  readonly #sessions: Sessions;
  /** The clock of the database, as an expression. */
  readonly #now: () => string;

  constructor(sessions: Sessions, now: () => string) {
    this.#sessions = sessions;
    this.#now = now;
  }

  async insert(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    if (jobs.every(({ key }) => key === null)) {
      const accepted = await this.#unlessThere(jobs);
      if (accepted !== null) return accepted;
    }
    return this.#sessions.transaction((exchange) => this.#carefully(exchange, jobs), {
      duplicatesMax: ROUNDS_MAX,
    });
  }

  /** Null: one of the ids is there already. Nothing was written. */
  async #unlessThere(jobs: readonly NewJob[]): Promise<Enqueued[] | null> {
    try {
      return await this.#sessions.transaction((exchange) => this.#plainly(exchange, jobs), {
        duplicatesMax: 0,
      });
    } catch (error) {
      if (isDuplicate(error)) return null;
      throw error;
    }
  }

  async #plainly(exchange: Exchange, jobs: readonly NewJob[]): Promise<Enqueued[]> {
    exchange.add(`set ${NOW} = ${this.#now()}`);
    // Only an instant has to be compared with the clock; a span says by itself whether it is over.
    const now = jobs.some(comesAt) ? await readNow(exchange) : null;
    addJobs(exchange, jobs, now);
    return jobs.map(({ id }) => ({ id, added: true }));
  }

  async #carefully(exchange: Exchange, jobs: readonly NewJob[]): Promise<Enqueued[]> {
    exchange.add(`set ${NOW} = ${this.#now()}`);
    const fresh = await notThereYet(exchange, jobs);
    const holders = await holdKeys(exchange, fresh.filter(isKeyed));
    const holderOf = (job: NewJob): string =>
      (isKeyed(job) ? holders.get(nameOf(job)) : undefined) ?? job.id;
    const accepted = fresh.filter((job) => holderOf(job) === job.id);
    addJobs(exchange, accepted, await readNow(exchange));
    const added = new Set(accepted);
    const looked = new Set(fresh);
    // The same job twice in a batch is added once.
    return jobs.map((job) => ({
      id: looked.has(job) ? holderOf(job) : job.id,
      added: added.delete(job),
    }));
  }
}

async function readNow(exchange: Exchange): Promise<number> {
  const at = exchange.add(`select ${NOW}`);
  return numberIn((await exchange.send("arrays"))[at]) as number;
}

/**
 * The jobs whose ids are unknown, each id once. A call that is repeated must not touch the key of a job that it finds:
 * the job may have finished, and another may hold the key.
 */
async function notThereYet(exchange: Exchange, jobs: readonly NewJob[]): Promise<NewJob[]> {
  const firsts = [...new Map(jobs.toReversed().map((job) => [job.id, job])).values()].toReversed();
  const groups = [...inGroups(firsts.map(({ id }) => id))];
  const at = exchange.add(...groups.map((group) => fill(statements.findJobs, jsonList(group))));
  const answers = await exchange.send("arrays");
  const there = new Set(allRows<[string]>(answers.slice(at)).map(([id]) => id));
  return firsts.filter(({ id }) => !there.has(id));
}

/** Who holds the keys of these jobs from now on. The first job of a batch with a key is the one that may have it. */
async function holdKeys(exchange: Exchange, jobs: readonly Keyed[]): Promise<Holders> {
  if (jobs.length === 0) return new Map();
  const [seen] = (await findHolders(exchange, jobs, statements.findKeys)) as [Holders];
  const firsts = new Map<string, Keyed>();
  for (const job of jobs) {
    const name = nameOf(job);
    if (!seen.has(name) && !firsts.has(name)) firsts.set(name, job);
  }
  if (firsts.size === 0) return seen;
  // In one order for everybody: two batches with the same keys must not wait for one another.
  const inOrder = [...firsts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, job]) => job);
  const rows = inOrder.map(({ task, key, id }) => tuple([bareName(task), key, id]));
  exchange.add(...insertions(statements.insertKeys, rows));
  const asked = [statements.lockKeys, statements.findKept];
  const [held, kept] = (await findHolders(exchange, inOrder, ...asked)) as [Holders, Holders];
  const ours = inOrder.filter((job) => held.get(nameOf(job)) === job.id);
  const isKept = (job: Keyed): boolean => kept.has(nameOf(job));
  giveBack(exchange, ours.filter(isKept));
  keep(
    exchange,
    ours.filter((job) => !isKept(job)),
  );
  const keepers = ours
    .filter(isKept)
    .map((job) => [nameOf(job), kept.get(nameOf(job)) ?? ""] as const);
  return new Map([...seen, ...held, ...keepers]);
}

/** They cannot have the keys that they took: somebody has ended and keeps them. */
function giveBack(exchange: Exchange, jobs: readonly Keyed[]): void {
  for (const group of inGroups(jobs.map(({ id }) => id))) {
    exchange.add(fill(statements.deleteKeys, jsonList(group)));
  }
}

/** They keep their keys for a while after their end. */
function keep(exchange: Exchange, jobs: readonly Keyed[]): void {
  const rows = jobs.flatMap(({ task, key, id, keyForMs = null }) =>
    keyForMs === null ? [] : [tuple([bareName(task), key, id, keyForMs])],
  );
  exchange.add(...insertions(statements.insertKept, rows));
}

/** The answers to several questions about the same keys, each as who holds which. */
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

/** Spelt with `or`: not every server finds rows by a list of pairs. */
function anyOf(jobs: readonly Keyed[]): RawSql {
  const pairs = jobs.map(
    ({ task, key }) => `k.task = ${literal(bareName(task))} and k.job_key = ${literal(key)}`,
  );
  return new RawSql(pairs.join(" or "));
}

/** Adds the rows of new jobs. */
function addJobs(exchange: Exchange, jobs: readonly NewJob[], now: number | null): void {
  const starts = jobs.map((job) => ({ job, due: dueTime(job, now) }));
  const ready = starts
    .filter(({ due }) => due === null)
    .map(({ job }) => `(${travels(job)},${NOW})`);
  const waiting = starts
    .filter(({ due }) => due !== null)
    .map(({ job, due }) => `(${travels(job)},'scheduled',${due})`);
  exchange.add(...insertions(statements.insertJobs, jobs.map(jobRow)));
  exchange.add(...insertions(statements.insertReady, ready));
  exchange.add(...insertions(statements.insertWaiting, waiting));
  exchange.add(
    ...insertions(
      statements.insertTraces,
      traceRows(jobs).map((row) => tuple(Object.values(row))),
    ),
  );
}

function travels({ id, queue, task, priority, key, maxAttempts }: NewJob): string {
  return [id, queue, task, 0 - priority, key, 0, 0, 0, maxAttempts].map(literal).join(",");
}

function jobRow({ id, queue, task, payload, priority, maxAttempts, key }: NewJob): string {
  const values = [id, queue, task, payload, 0 - priority, maxAttempts, key];
  return `(${values.map(literal).join(",")},${NOW})`;
}

function comesAt({ start }: NewJob): boolean {
  return start !== null && "at" in start;
}

/** When a job that has to wait is due, as an expression; null: it is pending at once. */
function dueTime({ start }: NewJob, now: number | null): string | null {
  if (start === null) return null;
  if ("at" in start) return now === null || start.at > now ? String(start.at) : null;
  return start.delayMs > 0 ? `${NOW} + ${start.delayMs}` : null;
}
