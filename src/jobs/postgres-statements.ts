/**
 * The hot statements on PostgreSQL: each operation is one statement, so one round trip and one commit.
 *
 * In all of them, rows of a batch are found by `id = any(…)`, which stays an index scan whatever batch size the planner
 * assumes. A fence is part of the condition of the DELETE or the lock, so it is checked again under the row's lock. `ctid` is
 * used only for rows that SKIP LOCKED has locked, because an update by another transaction would have moved them.
 *
 * Plain texts in one object, so that a test can plant a bug in one of them.
 */
import { bareName } from "../core/name.ts";
import type { Sending } from "../database/postgres/session.ts";
import { isKeyed, type Keyed, nameOf } from "./keys.ts";
import type { NewJob } from "./store.ts";

/** The database's clock in milliseconds, when the statement arrived. Tests pass the time as a parameter. */
const clock = (parameter: string): string =>
  `coalesce(${parameter}::bigint, (extract(epoch from statement_timestamp()) * 1000)::bigint)`;

/**
 * Values that all jobs of a batch share are sent once: shorter lists are filled up with their first value. Payloads are one
 * text: in a list, the driver and then the server would search each for quotes.
 */
const JOBS = `
  select i.id, coalesce(i.queue, ($3::text[])[1]) as queue, coalesce(i.task, ($4::text[])[1]) as task,
         coalesce(i.payload, '') as payload, -- one that is empty makes an empty list
         coalesce(i.rank, ($6::int[])[1]) as rank, coalesce(i.max_attempts, ($7::int[])[1]) as max_attempts,
         i.job_key, coalesce(i.start_at, t.now + i.delay_ms, t.now) as due_at, i.lane,
         coalesce(i.shift, ($12::bigint[])[1]) as shift, coalesce(i.start_by, t.now + i.start_within) as start_by, t.now
    from (select ${clock("$1")} as now) t,
         unnest($2::uuid[], $3::text[], $4::text[], string_to_array($5::text, E'\\x1e'), $6::int[], $7::int[], $8::text[],
                $9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[])
         as i (id, queue, task, payload, rank, max_attempts, job_key, start_at, delay_ms, lane, shift, start_by, start_within)`;

const INSERT_JOB = `
  insert into holdfast.job (id, queue, task, payload, rank, max_attempts, job_key, enqueued_at)
  select id, queue, task, payload, rank, max_attempts, job_key, now
    from input`;

const INSERT_WAITING = `
  insert into holdfast.waiting
         (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, status, due_at, lane, start_by)
  select id, queue, task, rank, job_key, 0, 0, 0, max_attempts, 'scheduled', due_at, lane, start_by
    from input
   where due_at > now`;

const INSERT_READY = `
  insert into holdfast.ready
         (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at, lane, place, start_by)
  select id, queue, task, rank, job_key, 0, 0, 0, max_attempts, now, coalesce(lane, ''), now + shift, start_by
    from input
   where due_at <= now`;

/** The leases whose fence is current. The list of pairs is hashed once: a join could become a scan of the table. */
const FENCED = `
         id = any($1::uuid[])
     and locked_by = $2
     and ((id, epoch) in (select f.id, f.epoch
                            from unnest($1::uuid[], $3::int[]) as f (id, epoch))) is true`;

const TAKE_LEASES = `
  delete from holdfast.lease
   where ${FENCED}
  returning *`;

/** A requested cancel wins over done. */
const FINISH = `
  insert into holdfast.finished
         (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
          status, worker, started_at, finished_at, result, lane)
  select o.id, o.queue, o.task, o.rank, o.job_key, o.epoch, o.attempts, o.crashes, o.max_attempts,
         case when o.cancel_requested_at is null then 'done' else 'cancelled' end,
         o.locked_by, o.claimed_at, (select now from clock),
         case when o.cancel_requested_at is null then i.result end, nullif(o.lane, '')
    from ours o
    join unnest($1::uuid[], $3::int[], $4::text[]) as i (id, epoch, result)
      on i.id = o.id and i.epoch = o.epoch`;

const DROP_KEYS = `
  delete from holdfast.job_key k
   using ours o
   where o.job_key is not null
     and k.job_id = o.id`;

const PENDING = `
       select ctid, place, id
         from holdfast.ready
        where queue = q.name
          and lane = ''
          and ($7::text[] is null or task = any($7::text[]))
          and (start_by is null or start_by > (select now from clock))
        order by place, id
        limit $8
          for update skip locked`;

/** Queues whose claims must look at rules, lanes or a pause: see limits/. The plain claim takes nothing from them. */
const GOVERNED = `
  select name
    from holdfast.queue
   where name = any($6::text[])
     and governed = 1`;

const LEASE = `
  insert into holdfast.lease
         (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts,
          locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
  select id, queue, task, rank, job_key, epoch + 1, attempts + 1, crashes, max_attempts,
         $2, c.now + $9::bigint, c.now, c.now, $10::bigint
    from taken, clock c`;

/**
 * The whole answer of a cycle is one row of two texts: reading a thousand rows in the driver would be half of the cost.
 * No name and no JSON contains these two characters.
 */
export const FIELD = "\u001F";

export const ROW = "\u001E";

const claimed = (more: string): string => `
  select string_agg(concat_ws(E'\\x1f', t.id, t.epoch + 1, t.attempts + 1, t.rank, t.ready_at, t.max_attempts, t.crashes,
                              j.enqueued_at, t.queue, t.task, j.payload${more}), E'\\x1e')
    from taken t
    join holdfast.job j on j.id = t.id`;

const CLAIMED = claimed("");

/** The lane comes last: it may contain the character between fields. */
const CLAIMED_WITH_LANE = claimed(", t.lane");

/** The settled jobs; an empty text if all were settled and the caller knows their columns. */
const settled = (known: string): string => `
  case when ${known} and (select count(*) - count(cancel_requested_at) = cardinality($1::uuid[]) from ours)
       then ''
       else (select string_agg(concat_ws(E'\\x1f', id, epoch, attempts, cancel_requested_at is not null, queue, task),
                               E'\\x1e')
               from ours)
  end`;

const ANSWER = `
select ${settled("$11::boolean")} as settled,
       (${CLAIMED}) as claimed,
       (select now from clock) + $9::bigint as locked_until,
       (select string_agg(name, E'\\x1e') from governed) as governed`;

const TAKEN = "id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ready_at";

/** In the order of the primary key: it reads only the rows it takes, and those of other tasks. */
const TAKE_FROM_ONE = `
  delete from holdfast.ready
   where ctid = any(array(select ctid
                            from holdfast.ready
                           where queue = ($6::text[])[1]
                             and lane = ''
                             and ($7::text[] is null or task = any($7::text[]))
                             and (start_by is null or start_by > (select now from clock))
                           order by place, id
                           limit (select case when exists (select from governed) then 0 else $8::int end)
                             for update skip locked))
  returning ${TAKEN}`;

/** One index range per queue, then the first of all: ordering across queues in one scan would sort the backlog. */
const TAKE_FROM_SEVERAL = `
  delete from holdfast.ready
   where ctid = any(array(select p.ctid
                            from unnest($6::text[]) as q (name)
                           cross join lateral (${PENDING}) p
                           where not exists (select from governed g where g.name = q.name)
                           order by p.place, p.id
                           limit $8))
  returning ${TAKEN}`;

const FIRST_OF_LANES = `
  from unnest($1::text[], $2::int[]) a (name, places)
 cross join lateral (select ctid, id, task, lane
                       from holdfast.ready
                      where queue = $3
                        and lane = a.name
                        and ($4::text[] is null or task = any($4::text[]))
                        and (start_by is null or start_by > $5::bigint)
                      order by place, id
                      limit a.places
                        for update skip locked) r`;

/** In the lease, the lane is named as the job was enqueued in it. */
const leaseOfLane = (worker: string, now: string, leaseMs: string, claimId: string): string => `
  insert into holdfast.lease
         (id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane,
          locked_by, locked_until, claimed_at, heartbeat_at, claim_id)
  select id, queue, task, rank, job_key, epoch + 1, attempts + 1, crashes, max_attempts, split_part(lane, E'\\x1f', 1),
         ${worker}, ${now}::bigint + ${leaseMs}::bigint, ${now}::bigint, ${now}::bigint, ${claimId}::bigint
    from taken`;

const CLOCK = `clock as materialized (select ${clock("$5")} as now)`;

const settleAndClaim = (take: string, answer: string): string => `
with ${CLOCK},
ours as (${TAKE_LEASES}
),
ended as (${FINISH}
),
freed as (${DROP_KEYS}
),
governed as materialized (${GOVERNED}
),
taken as (${take}
),
leased as (${LEASE}
)
${answer}`;

/** By id, not by ctid: a cancel may have moved the row between our snapshot and our lock. */
const extend = (whenLocked: string): string => `
with clock as materialized (select ${clock("$4")} as now),
ours as (
  select id
    from holdfast.lease
   where ${FENCED}
     for no key update ${whenLocked}
)
update holdfast.lease
   set locked_until = greatest(locked_until, (select now from clock) + $5::bigint),
       heartbeat_at = (select now from clock)
 where id = any(array(select id from ours))
returning id, epoch, locked_until, cancel_requested_at is not null`;

export const statements = {
  /** Fails as a whole if a job exists. */
  insert: `
with input as materialized (${JOBS}
),
jobs as (${INSERT_JOB}
),
later as (${INSERT_WAITING}
)
${INSERT_READY}`,

  /** The same, for pending jobs that differ only in id and payload: the other values are sent once. */
  insertAlike: `
with input as materialized (
  select i.id, coalesce(i.payload, '') as payload, ${clock("$1")} as now
    from unnest($2::uuid[], string_to_array($3::text, E'\\x1e')) as i (id, payload)
),
jobs as (
  insert into holdfast.job (id, queue, task, payload, rank, max_attempts, enqueued_at)
  select id, $4, $5, payload, $6::int, $7::int, now
    from input
)
insert into holdfast.ready
       (id, queue, task, rank, epoch, attempts, crashes, max_attempts, ready_at, lane, place)
select id, $4, $5, $6::int, 0, 0, 0, $7::int, now, '', now + $8::bigint
  from input`,

  /** As `insert`, with traces and tags. */
  insertTraced: `
with input as materialized (${JOBS}
),
jobs as (${INSERT_JOB}
),
later as (${INSERT_WAITING}
),
traced as (
  insert into holdfast.job_trace (job_id, traceparent, tracestate)
  select t.job_id, t.traceparent, t.tracestate
    from unnest($15::uuid[], $16::text[], $17::text[]) as t (job_id, traceparent, tracestate)
),
tagged as (
  insert into holdfast.job_tag (tag, job_id)
  select t.tag, t.job_id
    from unnest($18::text[], $19::uuid[]) as t (tag, job_id)
)
${INSERT_READY}`,

  /** Leaves existing jobs alone, and returns the added ones. */
  insertNew: `
with input as materialized (
  select n.*
    from (${JOBS}) n
   where not exists (select from holdfast.job j where j.id = n.id)
),
jobs as (${INSERT_JOB}
),
later as (${INSERT_WAITING}
),
now_pending as (${INSERT_READY}
)
select id from input`,

  existing: `
select id
  from holdfast.job
 where id = any($1::uuid[])`,

  /** In one global order, so that two batches with the same keys do not deadlock. */
  insertKeys: `
insert into holdfast.job_key (task, job_key, job_id)
select k.task, k.job_key, k.job_id
  from unnest($1::text[], $2::text[], $3::uuid[]) with ordinality as k (task, job_key, job_id, place)
 order by k.task, k.job_key, k.place
    on conflict do nothing`,

  /** The holders of these keys, and ended jobs that keep one. Runs after the insert, so no other job can take a key of ours. */
  keyHolders: `
select k.task, k.job_key, k.job_id,
       (select f.id
          from holdfast.kept_key p
          join holdfast.finished f on f.id = p.job_id
         where p.task = k.task
           and p.job_key = k.job_key
           and f.finished_at + p.keep_ms > ${clock("$3")}) as kept_by
  from unnest($1::text[], $2::text[]) as w (task, job_key)
  join holdfast.job_key k on k.task = w.task and k.job_key = w.job_key`,

  dropKeys: `
delete from holdfast.job_key
 where job_id = any($1::uuid[])`,

  keepKeys: `
insert into holdfast.kept_key (task, job_key, job_id, keep_ms)
select k.task, k.job_key, k.job_id, k.keep_ms
  from unnest($1::text[], $2::text[], $3::uuid[], $4::bigint[]) as k (task, job_key, job_id, keep_ms)
 order by k.task, k.job_key
    on conflict (task, job_key) do update set job_id = excluded.job_id, keep_ms = excluded.keep_ms`,

  claimFromOne: settleAndClaim(TAKE_FROM_ONE, ANSWER),

  claimFromSeveral: settleAndClaim(TAKE_FROM_SEVERAL, ANSWER),

  /** The first jobs of each lane: it looks up one lane after the other. */
  lockLanes: `
select r.id, r.task, r.lane
${FIRST_OF_LANES}`,

  /** Jobs that `lockLanes` has locked. */
  leaseLocked: `
with taken as (
  delete from holdfast.ready
   where id = any($1::uuid[])
  returning ${TAKEN}, lane
),
leased as (${leaseOfLane("$2", "$3", "$4", "$5")}
)
${CLAIMED}`,

  /** Both at once. */
  takeLanes: `
with taken as (
  delete from holdfast.ready
   where ctid = any(array(select r.ctid
${FIRST_OF_LANES}))
  returning ${TAKEN}, lane
),
leased as (${leaseOfLane("$6", "$5", "$7", "$8")}
)
${CLAIMED_WITH_LANE}`,

  settle: `
with ${CLOCK},
ours as (${TAKE_LEASES}
),
ended as (${FINISH}
),
freed as (${DROP_KEYS}
)
select ${settled("$6::boolean")} as settled, null as claimed, null as locked_until, null as governed`,

  takeLeases: TAKE_LEASES.trim(),

  /** A transaction that closes the worker's row waits for this claim, or this claim sees the closed row. */
  guard: `
select id
  from holdfast.worker
 where id = $1
   and status in ('starting', 'running')
   for share`,

  /** Passes over leases that another transaction is writing to, so that it cannot deadlock. */
  extend: extend("skip locked"),

  /** For one lease at a time, which cannot deadlock. */
  extendOne: extend(""),

  held: `
select id
  from holdfast.lease
 where ${FENCED}`,
};

// Keys of jobs that are enqueued together on PostgreSQL. keys.ts has the rules for all engines.

/** Tries to take keys whose holders finished in the meantime. */
const KEY_ROUNDS_MAX = 10;

interface Asking {
  readonly send: (sending: Sending) => Promise<{ rows: unknown[] }>;
  readonly text: (name: keyof typeof statements) => string;
  /** A test's clock. */
  readonly now: number | null;
}

interface HolderRow {
  task: string;
  job_key: string;
  job_id: string;
  kept_by: string | null;
}

/** For each job with a key, the id that holds the key from now on. */
export async function holdKeys(
  jobs: readonly NewJob[],
  asking: Asking,
): Promise<Map<string, string>> {
  const holders = new Map<string, string>();
  const keyed = jobs.filter(isKeyed);
  if (keyed.length === 0) return holders;
  const { send, text } = asking;
  const { rows } = await send({ text: text("existing"), values: [keyed.map(({ id }) => id)] });
  // A repeated call must not touch the key: its job may have finished, and another may hold it.
  const existing = new Set((rows as { id: string }[]).map(({ id }) => id));
  for (const id of existing) holders.set(id, id);
  const fresh = keyed.filter(({ id }) => !existing.has(id));
  let open = fresh;
  for (let round = 0; open.length > 0 && round < KEY_ROUNDS_MAX; round += 1) {
    await askForKeys(open, asking, holders);
    open = open.filter(({ id }) => !holders.has(id));
  }
  await keepKeys(
    fresh.filter(({ id }) => holders.get(id) === id),
    asking,
  );
  return holders;
}

async function askForKeys(
  jobs: readonly Keyed[],
  { send, text, now }: Asking,
  holders: Map<string, string>,
): Promise<void> {
  const tasks = jobs.map(({ task }) => bareName(task));
  const keys = jobs.map(({ key }) => key);
  const ids = jobs.map(({ id }) => id);
  await send({ text: text("insertKeys"), values: [tasks, keys, ids] });
  const { rows } = await send({ text: text("keyHolders"), values: [tasks, keys, now] });
  const found = new Map(
    (rows as HolderRow[]).map((row) => [nameOf({ task: row.task, key: row.job_key }), row]),
  );
  const ours = new Set(ids);
  const kept = [...found.values()].filter(
    ({ job_id, kept_by }) => kept_by !== null && ours.has(job_id),
  );
  if (kept.length > 0) {
    await send({ text: text("dropKeys"), values: [kept.map(({ job_id }) => job_id)] });
  }
  for (const job of jobs) {
    const row = found.get(nameOf(job));
    if (row === undefined) continue;
    const keeping = ours.has(row.job_id) ? row.kept_by : null;
    holders.set(job.id, keeping ?? row.job_id);
  }
}

async function keepKeys(jobs: readonly Keyed[], { send, text }: Asking): Promise<void> {
  const keeping = jobs.flatMap(({ id, task, key, keyForMs = null }) =>
    keyForMs === null ? [] : [{ id, task: bareName(task), key, keyForMs }],
  );
  if (keeping.length === 0) return;
  const values = [
    keeping.map(({ task }) => task),
    keeping.map(({ key }) => key),
    keeping.map(({ id }) => id),
    keeping.map(({ keyForMs }) => keyForMs),
  ];
  await send({ text: text("keepKeys"), values });
}
