/** Leases that their workers left behind, and jobs that are overdue: the fixes of these checks move jobs. */
import { subjects } from "../audit/entry.ts";
import { formatMs } from "../core/duration.ts";
import {
  asking,
  type Check,
  type FixedRows,
  type Fixing,
  type Offender,
} from "../database/check.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { aboutJob } from "./checks.ts";
import type { JobHooks, MoveContext } from "./hooks.ts";
import { DEFAULT_CRASHES_MAX } from "./leases.ts";
import { promoteDue, reclaimExpired, reclaimFrom } from "./maintenance.ts";
import type { SettledWithDependents } from "./settle.ts";

/** Maintenance reclaims a lease two seconds after it expires; after this long no worker can be doing it. */
const EXPIRED_MS = 60_000;

/** A worker releases its jobs before it stops. */
const STOPPED_MS = 60_000;

/** Leases are renewed halfway, so with a tenth left one must have been renewed. */
const UNMOVED_SHARE = 10;

const UNMOVED_MS_MIN = 10_000;

/** The default of a worker. */
const GRACE_MS = 2_000;

/** The part of a worker id after its name: a hyphen and a UUID. */
const ID_LENGTH = 37;

interface LeaseRow {
  id: string;
  worker: string;
  at: number;
}

const LEASE_CHECKS: readonly MovingCheck[] = [
  {
    name: "lease-and-elsewhere",
    severity: "critical",
    problem: "Workers hold jobs that are also pending, waiting or finished: they may run twice.",
    remedy:
      "Stop that worker. If the job has finished, delete its lease; otherwise delete the other row.",
    cost: "quick",
    find: asking<LeaseRow & { place: string }>(
      (_engine, { limit }) => sql`
        select id, worker, at, place
          from (select l.id, l.locked_by as worker, l.claimed_at as at,
                       case when exists (select 1 from holdfast.finished f where f.id = l.id) then 'finished'
                            when exists (select 1 from holdfast.ready r where r.id = l.id) then 'pending'
                            when exists (select 1 from holdfast.waiting w where w.id = l.id) then 'waiting'
                        end as place
                  from holdfast.lease l) held
         where place is not null
         limit ${limit}`,
      ({ id, worker, at, place }) => aboutJob(id, `is held by ${worker} and is also ${place}`, at),
    ),
  },
  {
    name: "lease-of-stopped-worker",
    severity: "warning",
    problem: "Stopped workers still hold jobs, which do not run until the leases expire.",
    remedy: "Reclaim the jobs (--fix). Each counts as a crash and is retried.",
    cost: "quick",
    find: asking<LeaseRow>(ofStopped, ({ id, worker, at }) =>
      aboutJob(id, `is held by ${worker}, which has stopped`, at),
    ),
    fix: takeFromStopped,
  },
  {
    name: "lease-expired",
    severity: "warning",
    problem: "Leases expired long ago and were not reclaimed: no worker is doing maintenance.",
    remedy:
      "Start a worker: any worker does the maintenance for all queues. Or reclaim the jobs now (--fix).",
    cost: "quick",
    find: asking<LeaseRow>(
      (engine, { limit }) => sql`
        select id, locked_by as worker, locked_until as at
          from holdfast.lease
         where locked_until < ${engine.now()} - ${GRACE_MS + EXPIRED_MS}
         order by locked_until
         limit ${limit}`,
      ({ id, worker, at }) => aboutJob(id, `was held by ${worker}, whose lease has expired`, at),
    ),
    fix: async (context, { limit, sign }) => {
      const chore = { graceMs: GRACE_MS, maxCrashes: DEFAULT_CRASHES_MAX, limit };
      return takenBack(context.engine, sign, await reclaimExpired(context, chore));
    },
  },
  {
    name: "lease-never-renewed",
    severity: "warning",
    problem: "Leases are about to expire and were never renewed: the worker is stuck or dead.",
    remedy:
      "Find out what that worker is doing (holdfast workers). Its jobs are retried when their leases expire.",
    cost: "quick",
    find: asking<LeaseRow & { forMs: number }>(
      (engine, { limit }) => sql`
        select id, locked_by as worker, claimed_at as at, locked_until - claimed_at as "forMs"
          from holdfast.lease
         where heartbeat_at <= claimed_at
           and claimed_at < ${engine.now()} - ${UNMOVED_MS_MIN}
           and ${UNMOVED_SHARE} * (locked_until - ${engine.now()}) < locked_until - claimed_at
         order by claimed_at
         limit ${limit}`,
      ({ id, worker, at, forMs }) =>
        aboutJob(id, `is held by ${worker} under a lease of ${formatMs(forMs)}, never renewed`, at),
    ),
  },
  {
    name: "lease-of-unknown-worker",
    severity: "warning",
    problem: "Jobs are held by workers that are not registered, although their type is.",
    remedy:
      "The workers' rows were deleted manually. Their jobs are retried when their leases expire.",
    cost: "quick",
    find: asking<LeaseRow>(
      // Programs that use the lease API choose any name; a name of a declared type belongs to a worker.
      (_engine, { limit }) => sql`
        select l.id, l.locked_by as worker, l.claimed_at as at
          from holdfast.lease l
         where l.locked_by like '%-________-____-____-____-____________'
           and exists (select 1
                         from holdfast.worker_type t
                        where t.name = substr(l.locked_by, 1, length(l.locked_by) - ${ID_LENGTH}))
           and not exists (select 1 from holdfast.worker w where w.id = l.locked_by)
         limit ${limit}`,
      ({ id, worker, at }) => aboutJob(id, `is held by ${worker}, which is not registered`, at),
    ),
  },
  {
    name: "claim-of-two-workers",
    severity: "critical",
    problem: "Two workers hold jobs of the same claim.",
    remedy: "Stop both workers. Their jobs are retried when their leases expire.",
    cost: "quick",
    find: asking<{ claim: number; one: string; other: string; at: number }>(
      (_engine, { limit }) => sql`
        select claim_id as claim, min(locked_by) as one, max(locked_by) as other, min(claimed_at) as at
          from holdfast.lease
         where claim_id is not null
         group by claim_id
        having min(locked_by) <> max(locked_by)
         limit ${limit}`,
      ({ claim, one, other, at }): Offender => ({
        subject: `claim ${claim}`,
        detail: `belongs to both ${one} and ${other}`,
        sinceAt: at,
      }),
    ),
  },
];

function ofStopped(engine: Engine, { limit }: { readonly limit: number }) {
  return sql`
    select l.id, l.locked_by as worker, w.stopped_at as at
      from holdfast.lease l
      join holdfast.worker w on w.id = l.locked_by
     where w.status = 'stopped'
       and w.stopped_at < ${engine.now()} - ${STOPPED_MS}
     limit ${limit}`;
}

/** A stopped worker never runs again, so the finding cannot become outdated. */
async function takeFromStopped(context: MoveContext, { limit, sign }: Fixing): Promise<FixedRows> {
  const { engine } = context;
  const held = await engine.all<LeaseRow>(ofStopped(engine, { limit }));
  const workers = [...new Set(held.map(({ worker }) => worker))];
  if (workers.length === 0) return { subjects: [], queues: [] };
  const chore = { workers, maxCrashes: DEFAULT_CRASHES_MAX, limit };
  return takenBack(engine, sign, await reclaimFrom(context, chore));
}

/** The maintenance operations have their own transactions, so the audit line follows in the next one. */
async function takenBack(
  engine: Engine,
  sign: Fixing["sign"],
  { settled, queues }: SettledWithDependents,
): Promise<FixedRows> {
  const ids = settled.map(({ id }) => subjects.job(id));
  await engine.transaction((tx) => sign(tx, ids));
  return { subjects: ids, queues };
}

/** Maintenance promotes due jobs within a second. */
const OVERDUE_MS = 60_000;

const OVERDUE_CHECKS: readonly MovingCheck[] = [
  {
    name: "job-overdue",
    severity: "warning",
    problem: "Due jobs were not promoted to pending: no worker is doing maintenance.",
    remedy:
      "Start a worker: any worker does the maintenance for all queues. Or make the jobs pending now (--fix).",
    cost: "quick",
    find: asking<{ id: string; status: string; at: number }>(
      (engine, { limit }) => overdue(engine, limit),
      ({ id, status, at }) => aboutJob(id, `is ${status} and was due`, at),
    ),
    fix: promoteNow,
  },
];

async function promoteNow(context: MoveContext, { limit, sign }: Fixing): Promise<FixedRows> {
  const { engine } = context;
  const before = await engine.all<{ id: string }>(overdue(engine, limit));
  const { queues } = await promoteDue(context, limit);
  const after = await engine.all<{ id: string }>(overdue(engine, limit));
  const left = new Set(after.map(({ id }) => id));
  const promoted = before.filter(({ id }) => !left.has(id)).map(({ id }) => subjects.job(id));
  await engine.transaction((tx) => sign(tx, promoted));
  return { subjects: promoted, queues };
}

function overdue(engine: Engine, limit: number): Sql {
  return sql`
    select id, status, due_at as at
      from holdfast.waiting
     where due_at < ${engine.now()} - ${OVERDUE_MS}
     order by due_at
     limit ${limit}`;
}

/** A check whose fix moves jobs. */
interface MovingCheck extends Omit<Check, "fix"> {
  readonly fix?: (context: MoveContext, fixing: Fixing) => Promise<FixedRows>;
}

function withHooks(checks: readonly MovingCheck[], hooks: readonly JobHooks[]): Check[] {
  return checks.map(({ fix, ...check }) =>
    fix === undefined
      ? check
      : { ...check, fix: (engine, fixing) => fix({ engine, hooks }, fixing) },
  );
}

export function leaseChecks(hooks: readonly JobHooks[]): Check[] {
  return withHooks(LEASE_CHECKS, hooks);
}

export function overdueChecks(hooks: readonly JobHooks[]): Check[] {
  return withHooks(OVERDUE_CHECKS, hooks);
}
