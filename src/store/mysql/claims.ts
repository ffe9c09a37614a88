/** Jobs on their way from `ready` into leases. */
import type { Claiming } from "../engine.ts";
import type { ClaimedJob, Wanted } from "../store.ts";
import { allRows } from "./answers.ts";
import type { Answer } from "./session.ts";
import type { Exchange } from "./sessions.ts";
import { statements } from "./statements.ts";
import { fill, inGroups, jsonList, list, nothing, Piece } from "./text.ts";

/** How often a claim looks again that found nothing where something is: whoever had it locked may have let it go. */
const ROUNDS_MAX = 3;

/** A row of `ready`, in the order of the columns of `lockReady`. */
export type Pending = [
  id: string,
  queue: string,
  task: string,
  rank: number,
  jobKey: string | null,
  epoch: number,
  attempts: number,
  crashes: number,
  attemptsMax: number,
  readyAt: number,
];

/** A row of `peek`. */
type Peeked = [id: string, queue: string, rank: number, readyAt: number];

export function anyPending({ queues, tasks }: Wanted): string[] {
  return queuesOf({ queues }).map((queue) => fill(statements.anyPending, queue, ofTasks(tasks)));
}

function lockReady(queue: string, { tasks }: Wanted, limit: number): string {
  return fill(statements.lockReady, queue, ofTasks(tasks), limit);
}

function ofTasks(tasks: readonly string[] | null): Piece {
  return tasks === null ? nothing : new Piece(`and task in (${list(tasks).text})`);
}

/**
 * What a claim says first. Of one queue it locks jobs at once. Of several it looks how many each has of those that come
 * first: only these are locked, because a job that is locked and then left alone looks taken to everybody else.
 */
export function firstLook(wanted: Wanted): string[] {
  const [queue, ...others] = queuesOf(wanted);
  if (queue === undefined) return [];
  return others.length === 0 ? [lockReady(queue, wanted, wanted.limit)] : peeks(wanted);
}

/** Locks the jobs to claim, beginning with what the first look has shown. */
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

/** Locks each queue's share. What others took of it is made up for by any queue that has more. */
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
    // What is locked here already is found again, and something new may have come before it.
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

function queuesOf({ queues }: Pick<Wanted, "queues">): string[] {
  return [...new Set(queues)];
}

function byPlace(a: Peeked, b: Peeked): number {
  return a[2] - b[2] || a[3] - b[3] || (a[0] < b[0] ? -1 : 1);
}

function inClaimOrder(a: Pending, b: Pending): number {
  return a[3] - b[3] || a[9] - b[9] || (a[0] < b[0] ? -1 : 1);
}

/** Moves what was picked under leases and commits, together with whatever else was gathered. */
export async function claim(
  exchange: Exchange,
  { worker, leaseMs, claimId }: Claiming,
  { picked, now }: { picked: readonly Pending[]; now: number },
): Promise<ClaimedJob[]> {
  const lockedUntil = now + leaseMs;
  const ids = picked.map(([id]) => id).toSorted();
  const groups = [...inGroups(ids)].map(jsonList);
  for (const group of groups) {
    const lease = [worker, lockedUntil, now, now, claimId];
    exchange.add(fill(statements.copyToLease, ...lease, group));
    exchange.add(fill(statements.deleteReady, group));
  }
  const from = exchange.add(...groups.map((group) => fill(statements.readJobs, group)));
  exchange.commit();
  const answers = await exchange.send("arrays");
  const read = allRows<[string, string, number]>(answers.slice(from, from + groups.length));
  const jobs = new Map(read.map(([id, payload, enqueuedAt]) => [id, { payload, enqueuedAt }]));
  return picked.flatMap((row) => {
    const [id, queue, task, rank, , epoch, attempts, crashes, attemptsMax, readyAt] = row;
    const job = jobs.get(id);
    if (job === undefined) return []; // somebody deleted it by hand: its lease will run out
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
        attemptsMax,
        crashes,
        enqueuedAt: job.enqueuedAt,
        readyAt,
        lockedUntil,
      },
    ];
  });
}
