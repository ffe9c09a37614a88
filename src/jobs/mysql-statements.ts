/**
 * The hot statements on MySQL and MariaDB.
 *
 * Plain texts in one object, so that a test can plant a bug in one of them.
 *
 * On a small or freshly filled table the optimizer prefers to read everything, and a statement that locks what it reads
 * then waits for rows of other transactions, or deadlocks with them. So every statement that locks names the index: with
 * FORCE INDEX in a SELECT or UPDATE. A DELETE of one table takes no index hint; joined to a list of ids with STRAIGHT_JOIN,
 * it looks up one id after the other.
 */
import type { MysqlEngine } from "../database/mysql/engine.ts";
import {
  allRows,
  type Answer,
  fill,
  inGroups,
  insertions,
  jsonList,
  list,
  nothing,
  RawSql,
  tuple,
} from "../database/mysql/session.ts";
import type { Exchange } from "../database/mysql/sessions.ts";
import { type JobValues, laneName } from "./rows.ts";
import type { ClaimedJob, Claiming, LaneClaims, LockedJob, Wanted } from "./store.ts";

/** The ids of a JSON array as a table. */
const IDS = "json_table(?, '$[*]' columns (id char(36) character set ascii path '$'))";

const JOB_COLUMNS = `id, queue, task, "rank", job_key, epoch, attempts, crashes, max_attempts, lane`;

const LEASE = `
           l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, l.crashes, l.max_attempts, l.lane,
           l.locked_by, l.locked_until, l.claimed_at, l.cancel_requested_at`;

/** MySQL would also try to lock the list of ids. MariaDB does not, and reads this as a comment. */
const OF_LEASES = "/*!80017 of l */";

export const statements = {
  insertJobs: `
    insert into holdfast_job (id, queue, task, payload, "rank", max_attempts, job_key, enqueued_at)
    values ?`,

  insertReady: `
    insert into holdfast_ready (${JOB_COLUMNS}, start_by, ready_at, place)
    values ?`,

  /** Pending jobs that differ only in their ids: the other values are sent once, which takes a third less time. */
  insertAlike: `
    insert into holdfast_ready (${JOB_COLUMNS}, ready_at, place)
    select i.id, ?, ?, ?, null, 0, 0, 0, ?, '', @holdfast_now, @holdfast_now + ?
      from ${IDS} i`,

  insertWaiting: `
    insert into holdfast_waiting (${JOB_COLUMNS}, start_by, status, due_at)
    values ?`,

  insertTraces: `
    insert into holdfast_job_trace (job_id, traceparent, tracestate)
    values ?`,

  insertTags: `
    insert into holdfast_job_tag (tag, job_id)
    values ?`,

  findJobs: `
    select j.id
      from ${IDS} i
      straight_join holdfast_job j force index (primary) on j.id = i.id`,

  /** The committed holders of these keys. */
  findKeys: `
    select task, job_key, job_id
      from holdfast_job_key k force index (primary)
     where ?`,

  /** A held key stays with its holder. Waits for transactions that are about to take or release it. */
  insertKeys: `
    insert into holdfast_job_key (task, job_key, job_id)
    values ?
    on duplicate key update job_id = job_id`,

  /** The definite holders of these keys: the insert has locked the rows. */
  lockKeys: `
    select task, job_key, job_id
      from holdfast_job_key k force index (primary)
     where ?
       for update`,

  /** Ended jobs that keep these keys. */
  findKept: `
    select k.task, k.job_key, k.job_id
      from holdfast_kept_key k force index (primary)
      straight_join holdfast_finished f force index (primary) on f.id = k.job_id
     where (?)
       and f.finished_at + k.keep_ms > @holdfast_now`,

  insertKept: `
    insert into holdfast_kept_key (task, job_key, job_id, keep_ms)
    values ?
    on duplicate key update job_id = values(job_id), keep_ms = values(keep_ms)`,

  deleteKeys: `
    delete k
      from ${IDS} i
      straight_join holdfast_job_key k force index (by_job) on k.job_id = i.id`,

  /** A transaction that closes the worker's row waits for this claim, or this claim sees the closed row. */
  guard: `
    select id
      from holdfast_worker force index (primary)
     where id = ?
       and status in ('starting', 'running')
      lock in share mode`,

  /** Whether a look at the queue is worth a transaction. In any lane, whatever its rules. */
  anyPending: `
    select 1
      from holdfast_ready force index (primary)
     where queue = ? ?
     limit 1`,

  /** Queues whose claims must look at rules, lanes or a pause: see limits/. The plain claim takes nothing from them. */
  governed: `
    select name
      from holdfast_queue force index (primary)
     where name in (?)
       and governed = 1`,

  /** What a claim would find, without locks. */
  peek: `
    select id, queue, place
      from holdfast_ready force index (primary)
     where queue = ?
       and lane = ''
       and (start_by is null or start_by > @holdfast_now) ?
     order by place, id
     limit ?`,

  /** In claim order by the primary key: it reads only the rows it returns, and those of other tasks. */
  lockReady: `
    select ${JOB_COLUMNS}, ready_at, place, start_by
      from holdfast_ready force index (primary)
     where queue = ?
       and lane = ''
       and (start_by is null or start_by > @holdfast_now) ?
     order by place, id
     limit ?
       for update skip locked`,

  /** The same in a lane of a queue with rules. */
  lockLane: `
    select ${JOB_COLUMNS}, ready_at, place, start_by
      from holdfast_ready force index (primary)
     where queue = ?
       and lane = ?
       and (start_by is null or start_by > ?) ?
     order by place, id
     limit ?
       for update skip locked`,

  deleteReady: `
    delete r
      from ${IDS} i
      straight_join holdfast_ready r force index (by_id) on r.id = i.id`,

  deleteDeadlines: `
    delete d
      from ${IDS} i
      straight_join holdfast_deadline d force index (primary) on d.id = i.id`,

  /** Claimed jobs are copied inside the server: their rows are locked, so they cannot change in between. */
  copyToLease: `
    insert into holdfast_lease
           (${JOB_COLUMNS}, locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
    select r.id, r.queue, r.task, r.rank, r.job_key, r.epoch + 1, r.attempts + 1, r.crashes, r.max_attempts, null,
           ?, ?, ?, ?, ?
      from ${IDS} i
      straight_join holdfast_ready r force index (by_id) on r.id = i.id`,

  /** The same for jobs of lanes. In the lease, the lane is named as the job was enqueued in it. */
  copyLanesToLease: `
    insert into holdfast_lease
           (${JOB_COLUMNS}, locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
    select r.id, r.queue, r.task, r.rank, r.job_key, r.epoch + 1, r.attempts + 1, r.crashes, r.max_attempts,
           substring_index(r.lane, char(31 using utf8mb4), 1), ?, ?, ?, ?, ?
      from ${IDS} i
      straight_join holdfast_ready r force index (by_id) on r.id = i.id`,

  /** Their entries among the leases by lane. One may be left over in a database that was restored in parts. */
  insertLanes: `
    insert into holdfast_lane_lease (queue, lane, id, epoch)
    values ?
    on duplicate key update epoch = values(epoch)`,

  readJobs: `
    select j.id, j.payload, j.enqueued_at
      from ${IDS} i
      straight_join holdfast_job j force index (primary) on j.id = i.id`,

  /** The fence is compared under these locks, which are taken in the order of the given ids. */
  lockLeases: `
    select ${LEASE}
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
       for update ${OF_LEASES}`,

  /**
   * Locks the leases. Counts those that one worker holds at one epoch, without a requested cancel and without a key, and how
   * many of them have a lane.
   */
  countLeases: `
    select count(*), count(l.lane)
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
     where l.locked_by = ?
       and l.epoch = ?
       and l.cancel_requested_at is null
       and l.job_key is null
       for update ${OF_LEASES}`,

  /** Only for jobs that are done without a result, which is most of them. */
  copyToFinished: `
    insert into holdfast_finished
           (${JOB_COLUMNS}, status, worker, started_at, finished_at)
    select l.id, l.queue, l.task, l.rank, l.job_key, l.epoch, l.attempts, l.crashes, l.max_attempts, nullif(l.lane, ''),
           'done', l.locked_by, l.claimed_at, ?
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id`,

  deleteLeases: `
    delete l
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id`,

  /** The same with their entries among the leases by lane, if they have some. */
  deleteLanes: `
    delete l, e
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
      left join holdfast_lane_lease e force index (primary)
             on e.queue = l.queue and e.lane = l.lane and e.id = l.id and e.epoch = l.epoch`,

  /** Passes over leases that another transaction has locked. */
  lockFreeLeases: `
    select ${LEASE}
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id
       for update ${OF_LEASES} skip locked`,

  /** Without waiting for locks. */
  seeLeases: `
    select ${LEASE}
      from ${IDS} i
      straight_join holdfast_lease l force index (primary) on l.id = i.id`,

  extendLeases: `
    update holdfast_lease force index (primary)
       set locked_until = greatest(locked_until, ?),
           heartbeat_at = ?
     where id in (?)`,
};

// Which pending jobs a claim takes on MySQL and MariaDB, and how it puts them under leases.

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
