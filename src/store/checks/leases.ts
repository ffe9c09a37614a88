/** Who owns jobs: leases, and the workers that hold them. */
import { subjects } from "../../core/audit.ts";
import type { Offender } from "../../core/finding.ts";
import { formatMs } from "../../core/duration.ts";
import type { Engine } from "../engine.ts";
import { reclaimExpired, reclaimFrom, type Cared } from "../jobs.ts";
import { sql } from "../sql.ts";
import { asking, type Check, type Fixing, type Mended } from "./check.ts";

/** Upkeep takes a lease back two seconds after its end; one that lies about for this long is missed by everybody. */
const EXPIRED_MS = 60_000;
/** A worker hands its jobs back before it has stopped. */
const STOPPED_MS = 60_000;
/** A job is renewed at half of its lease, so a tenth before its end it must have been. */
const UNMOVED_SHARE = 10;
const UNMOVED_MS_MIN = 10_000;
/** As a worker of ours has it by default. */
const GRACE_MS = 2_000;
const CRASHES_MAX = 3;
/** What a worker's id has behind its name: a hyphen and a UUID. */
const ID_LENGTH = 37;

interface LeaseRow {
  id: string;
  worker: string;
  at: number;
}

export const leaseChecks: readonly Check[] = [
  {
    name: "lease-and-elsewhere",
    severity: "critical",
    problem:
      "A worker holds jobs that are also pending, waiting or finished: they may be done twice.",
    remedy:
      "Stop that worker. Delete the lease of a job that has finished, and the other row of one that has not.",
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
      ({ id, worker, at, place }) => ({
        subject: subjects.job(id),
        detail: `is held by ${worker} and ${place}`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "lease-of-stopped-worker",
    severity: "warning",
    problem:
      "Workers that have stopped still hold jobs: nobody works on them until their leases run out.",
    remedy: "Take the jobs back (--fix); each counts as a crash and is tried again.",
    cost: "quick",
    find: asking<LeaseRow>(ofStopped, ({ id, worker, at }) => ({
      subject: subjects.job(id),
      detail: `is held by ${worker}, which has stopped`,
      sinceAt: at,
    })),
    fix: takeFromStopped,
  },
  {
    name: "lease-expired",
    severity: "warning",
    problem: "Leases ran out long ago and nobody took the jobs back: no worker does its upkeep.",
    remedy: "Start a worker: each does the upkeep for all. Or take the jobs back now (--fix).",
    cost: "quick",
    find: asking<LeaseRow>(
      (engine, { limit }) => sql`
        select id, locked_by as worker, locked_until as at
          from holdfast.lease
         where locked_until < ${engine.now()} - ${GRACE_MS + EXPIRED_MS}
         order by locked_until
         limit ${limit}`,
      ({ id, worker, at }) => ({
        subject: subjects.job(id),
        detail: `was held by ${worker}, whose lease ran out`,
        sinceAt: at,
      }),
    ),
    fix: (engine, { limit, sign }) =>
      takenBack(
        engine,
        sign,
        reclaimExpired(engine, { graceMs: GRACE_MS, crashesMax: CRASHES_MAX, limit }),
      ),
  },
  {
    name: "lease-never-renewed",
    severity: "warning",
    problem:
      "Jobs are at the end of their leases and were never renewed: their worker is wedged or dead.",
    remedy:
      "See what that worker does (holdfast workers). Its jobs are tried again when their leases have run out.",
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
      ({ id, worker, at, forMs }) => ({
        subject: subjects.job(id),
        detail: `is held by ${worker} under a lease of ${formatMs(forMs)}, never renewed`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "lease-of-unknown-worker",
    severity: "warning",
    problem:
      "Jobs are held by workers that are not in the registry, though they are called like ours.",
    remedy:
      "Somebody deleted the workers' rows. Their jobs are tried again when their leases have run out.",
    cost: "quick",
    find: asking<LeaseRow>(
      // A program with the lease verbs is called what it likes; what is called like a declared type is one of ours.
      (_engine, { limit }) => sql`
        select l.id, l.locked_by as worker, l.claimed_at as at
          from holdfast.lease l
         where l.locked_by like '%-________-____-____-____-____________'
           and exists (select 1
                         from holdfast.worker_type t
                        where t.name = substr(l.locked_by, 1, length(l.locked_by) - ${ID_LENGTH}))
           and not exists (select 1 from holdfast.worker w where w.id = l.locked_by)
         limit ${limit}`,
      ({ id, worker, at }) => ({
        subject: subjects.job(id),
        detail: `is held by ${worker}, which is not in the registry`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "claim-of-two-workers",
    severity: "critical",
    problem: "Two workers hold jobs of one and the same claim.",
    remedy: "Stop both workers. Their jobs are tried again when their leases have run out.",
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
        detail: `is of ${one} and of ${other}`,
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

/** One that has stopped never runs again, so what was found stays true. */
async function takeFromStopped(engine: Engine, { limit, sign }: Fixing): Promise<Mended> {
  const held = await engine.all<LeaseRow>(ofStopped(engine, { limit }));
  const workers = [...new Set(held.map(({ worker }) => worker))];
  if (workers.length === 0) return { subjects: [], queues: [] };
  return takenBack(engine, sign, reclaimFrom(engine, { workers, crashesMax: CRASHES_MAX, limit }));
}

/** The verbs that upkeep uses have transactions of their own, so the line follows in the next. */
async function takenBack(
  engine: Engine,
  sign: Fixing["sign"],
  taking: Promise<Cared>,
): Promise<Mended> {
  const { settled, queues } = await taking;
  const ids = settled.map(({ id }) => subjects.job(id));
  await engine.transaction((tx) => sign(tx, ids));
  return { subjects: ids, queues };
}
