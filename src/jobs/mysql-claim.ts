/** Which pending jobs a claim takes on MySQL and MariaDB, and how it puts them under leases. */
import type { MysqlEngine } from "../database/mysql/engine.ts";
import {
  fill,
  inGroups,
  insertions,
  jsonList,
  list,
  nothing,
  RawSql,
  tuple,
} from "../database/mysql/literals.ts";
import { allRows, type Answer } from "../database/mysql/session.ts";
import type { Exchange } from "../database/mysql/sessions.ts";
import { statements } from "./mysql-statements.ts";
import { type JobValues, laneName } from "./rows.ts";
import type { ClaimedJob, Claiming, LaneClaims, LockedJob, Wanted } from "./store.ts";

/** Looks of a claim that finds only locked jobs: another transaction may have released them in the meantime. */
const ROUNDS_MAX = 3;

/** A row of `lockReady`. */
type Pending = [...job: JobValues, readyAt: number, place: number, startBy: number | null];

interface LockedRow extends LockedJob {
  readonly row: Pending;
}

/** A row of `peek`. */
type Peeked = [id: string, queue: string, place: number];

function lockReady(queue: string, { tasks }: Wanted, limit: number): string {
  return fill(statements.lockReady, queue, ofTasks(tasks), limit);
}

export function ofTasks(tasks: readonly string[] | null): RawSql {
  return tasks === null ? nothing : new RawSql(`and task in (${list(tasks).text})`);
}

/**
 * The first statements of a claim. From one queue it locks jobs at once. From several it first counts how many of the next
 * jobs each has, and locks only these: a job that is locked but not claimed looks taken to other workers.
 */
export function firstLook(wanted: Wanted): string[] {
  const [queue, ...others] = queuesOf(wanted);
  if (queue === undefined) return [];
  return others.length === 0 ? [lockReady(queue, wanted, wanted.limit)] : peeks(wanted);
}

/** Locks the jobs to claim, starting with those of the first look. */
export async function pick(
  exchange: Exchange,
  wanted: Wanted,
  looked: readonly Answer[],
): Promise<Pending[]> {
  const alone = queuesOf(wanted).length === 1;
  let picked = alone
    ? allRows<Pending>(looked)
    : await lockShares(exchange, wanted, sharesIn(looked, wanted.limit));
  for (let round = 1; round < ROUNDS_MAX && picked.length === 0; round += 1) {
    const shares = await peek(exchange, wanted);
    if (shares.size === 0) return [];
    picked = await lockShares(exchange, wanted, shares);
  }
  return alone ? picked : picked.toSorted(inClaimOrder);
}

/** Locks each queue's share. Any queue that has more makes up for jobs that other workers took. */
async function lockShares(
  exchange: Exchange,
  wanted: Wanted,
  shares: ReadonlyMap<string, number>,
): Promise<Pending[]> {
  const picked = await lockEach(exchange, wanted, shares);
  const expected = [...shares.values()].reduce((sum, share) => sum + share, 0);
  for (const queue of queuesOf(wanted)) {
    const missing = expected - picked.length;
    if (missing === 0) break;
    // Jobs that are locked here already are found again, and new jobs may come before them.
    const ours = new Set(picked.filter((row) => row[1] === queue).map(([id]) => id));
    const again = await lockEach(exchange, wanted, new Map([[queue, ours.size + missing]]));
    picked.push(...again.filter(([id]) => !ours.has(id)).slice(0, missing));
  }
  return picked;
}

async function lockEach(
  exchange: Exchange,
  wanted: Wanted,
  shares: ReadonlyMap<string, number>,
): Promise<Pending[]> {
  if (shares.size === 0) return [];
  for (const [queue, share] of shares) exchange.add(lockReady(queue, wanted, share));
  const answers = await exchange.send("arrays");
  return [...allRows<Pending>(answers.slice(-shares.size))];
}

async function peek(exchange: Exchange, wanted: Wanted): Promise<Map<string, number>> {
  const texts = peeks(wanted);
  exchange.add(...texts);
  const answers = await exchange.send("arrays");
  return sharesIn(answers.slice(-texts.length), wanted.limit);
}

function peeks(wanted: Wanted): string[] {
  const tasks = ofTasks(wanted.tasks);
  return queuesOf(wanted).map((queue) => fill(statements.peek, queue, tasks, wanted.limit));
}

/** How many of the first jobs of all queues each queue has. */
function sharesIn(answers: readonly Answer[], limit: number): Map<string, number> {
  const first = allRows<Peeked>(answers).toSorted(byPlace).slice(0, limit);
  const shares = new Map<string, number>();
  for (const [, queue] of first) shares.set(queue, (shares.get(queue) ?? 0) + 1);
  return shares;
}

export function queuesOf({ queues }: Wanted): string[] {
  return [...new Set(queues)];
}

function byPlace(a: Peeked, b: Peeked): number {
  return a[2] - b[2] || (a[0] < b[0] ? -1 : 1);
}

const LANE = 9;

const PLACE = 11;

const START_BY = 12;

function inClaimOrder(a: Pending, b: Pending): number {
  return a[PLACE] - b[PLACE] || (a[0] < b[0] ? -1 : 1);
}

function laneRow([id, queue, , , , epoch, , , , lane]: Pending): string {
  return tuple([queue, laneName(lane) ?? "", id, epoch + 1]);
}

interface ClaimKind {
  readonly commits?: boolean;
  readonly copy?: "copyToLease" | "copyLanesToLease";
}

/** Moves the picked jobs under leases, together with the other statements of the exchange. */
export async function claim(
  exchange: Exchange,
  { worker, leaseMs, claimId }: Claiming,
  { picked, now }: { picked: readonly Pending[]; now: number },
  { commits = false, copy = "copyToLease" }: ClaimKind = {},
): Promise<ClaimedJob[]> {
  const lockedUntil = now + leaseMs;
  // The clock was read before the rows were locked, and some may have become pending in between: none starts before that. A
  // clock that was set back must not count, so not after the end of the lease either.
  const claimedAt = picked.reduce(
    (at, [, , , , , , , , , , readyAt]) => Math.max(at, readyAt),
    now,
  );
  const startedAt = Math.min(claimedAt, lockedUntil);
  const ids = picked.map(([id]) => id).toSorted();
  const groups = [...inGroups(ids)].map(jsonList);
  for (const group of groups) {
    const lease = [worker, lockedUntil, startedAt, startedAt, claimId];
    exchange.add(fill(statements[copy], ...lease, group));
    exchange.add(fill(statements.deleteReady, group));
  }
  const inTime = picked.filter((row) => row[START_BY] !== null).map(([id]) => id);
  for (const group of inGroups(inTime.toSorted())) {
    exchange.add(fill(statements.deleteDeadlines, jsonList(group)));
  }
  if (copy === "copyLanesToLease") {
    exchange.add(...insertions(statements.insertLanes, picked.map(laneRow)));
  }
  const from = exchange.add(...groups.map((group) => fill(statements.readJobs, group)));
  if (commits) exchange.commit();
  const answers = await exchange.send("arrays");
  const read = allRows<[string, string, number]>(answers.slice(from, from + groups.length));
  const jobs = new Map(read.map(([id, payload, enqueuedAt]) => [id, { payload, enqueuedAt }]));
  return picked.flatMap((row) => {
    const [id, queue, task, rank, , epoch, attempts, crashes, maxAttempts, , readyAt] = row;
    const job = jobs.get(id);
    if (job === undefined) return []; // deleted by hand: its lease will expire
    return [
      {
        id,
        worker,
        epoch: epoch + 1,
        queue,
        task,
        payload: job.payload,
        priority: 0 - rank,
        attempt: attempts + 1,
        maxAttempts,
        crashes,
        enqueuedAt: job.enqueuedAt,
        readyAt,
        lockedUntil,
      },
    ];
  });
}

/** Claims from the lanes of a queue with rules. */
export function laneClaims(engine: MysqlEngine, exchange: Exchange): LaneClaims<LockedRow> {
  return {
    tx: engine.transactionOn(exchange),
    // In one packet with the commit.
    runLast: async (queries) => void exchange.add(...queries.map((query) => engine.textOf(query))),
    lock: async ({ queue, tasks, lanes, nowMs }) => {
      const looks = lanes.map(({ lane, limit }) =>
        fill(statements.lockLane, queue, lane, nowMs, ofTasks(tasks), limit),
      );
      const rows = allRows<Pending>(await sendLast(exchange, looks));
      return rows.map((row) => ({ id: row[0], task: row[2], lane: row[LANE] ?? "", row }));
    },
    lease: (jobs, claiming, now) => {
      const picked = jobs.map(({ row }) => row);
      return claim(exchange, claiming, { picked, now }, { copy: "copyLanesToLease" });
    },
  };
}

/** Sends the gathered statements and these; returns the answers of these. */
export async function sendLast(exchange: Exchange, texts: readonly string[]): Promise<Answer[]> {
  const at = exchange.add(...texts);
  return (await exchange.send("arrays")).slice(at);
}
