/**
 * Debounce and throttle: many calls with one key become one job.
 *
 * `pacing` has the job that a key stands for. Every call locks that row first, so calls with the same key are in turn. A
 * debounced job is changed only while it is unclaimed and has never run: it is taken from its table and put back, so a
 * claim either had it before, and the call makes another job, or sees the new input.
 */
import type { Duration } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import { bareName, checkKey } from "../core/name.ts";
import { by, type Checked, duration, instant, needed, optionsOf } from "../core/options.ts";
import { asRow, type Engine, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { JobColumns, WaitingRow } from "./rows.ts";
import type { NewJob, OnConflict, Pace } from "./store.ts";

export interface Paced extends NewJob {
  readonly pace: Pace;
}

export function isPaced(job: NewJob): job is Paced {
  return job.pace !== undefined;
}

/** A debounce with a limit. */
interface DebounceOptions {
  readonly wait: Duration;
  readonly maxWait?: Duration | undefined;
}

const debounceOptions = optionsOf<DebounceOptions>()({
  wait: needed(duration({ least: 1 })),
  maxWait: duration({ least: 1 }),
});

function debounceOf(field: string, given: Duration | DebounceOptions) {
  const options = typeof given === "object" ? given : { wait: given };
  const around = { field, example: '{ wait: "5s", maxWait: "1m" }' };
  const checked = debounceOptions.read(options, around);
  if ((checked.maxWaitMs ?? checked.waitMs) >= checked.waitMs) return checked;
  throw invalid(`${field}.maxWait`, "must not be shorter than wait.");
}

/** The options of enqueue() that debounce and throttle need or exclude. */
export const paceFields = {
  key: by(checkKey),
  debounce: by(debounceOf),
  throttle: duration({ least: 1 }),
  keyFor: duration({ least: 1 }),
  delay: duration({}),
  runAt: instant(),
};

export function paceOf(
  options: Checked<typeof paceFields> & { readonly onConflict?: OnConflict },
): Pace {
  const { key, debounce, throttleMs, keyForMs, onConflict, delayMs, runAt } = options;
  const field = debounce === undefined ? "throttle" : "debounce";
  if (key === undefined) {
    throw invalid(field, "requires `key`.");
  }
  const delays = debounce === undefined ? {} : { throttle: throttleMs, delay: delayMs, runAt };
  const conflicting = Object.entries({ ...delays, keyFor: keyForMs, onConflict });
  const [other] = conflicting.find(([, value]) => value !== undefined) ?? [];
  if (other !== undefined) {
    throw invalid(other, `cannot be combined with ${field}.`);
  }
  if (debounce === undefined) return { kind: "throttle", key, periodMs: throttleMs ?? 0 };
  return { kind: "debounce", key, waitMs: debounce.waitMs, maxWaitMs: debounce.maxWaitMs ?? null };
}

/** The driver of a user transaction may return text for numbers. */
interface PaceRow {
  readonly id: string;
  readonly first: number | string;
  readonly until: number | string;
}

/** The job that this call stands for: this one, to be added, or the one that is there. */
export async function paced(
  engine: Engine,
  tx: Transaction,
  job: Paced,
  now: number,
): Promise<NewJob | { readonly holder: string }> {
  const { pace, ...rest } = job;
  const where = isPace(job);
  const [row] = await tx.all<PaceRow>(sql`
    select job_id as id, first_at as first, until_at as until
      from holdfast.pacing
     where ${where}
     ${engine.lockRows()}`);
  // A clock that was set back must not hold the key any longer than it would have.
  const isThrottled =
    pace.kind === "throttle" &&
    row !== undefined &&
    Number(row.until) > now &&
    Number(row.until) <= now + pace.periodMs;
  if (isThrottled) return { holder: row.id };
  if (pace.kind === "debounce" && row !== undefined) {
    const dueAt = debouncedUntil(pace, Math.min(Number(row.first), now), now);
    if (await postpone(engine, tx, { id: row.id, payload: job.payload, dueAt, now })) {
      await tx.run(sql`update holdfast.pacing set until_at = ${dueAt} where ${where}`);
      return { holder: row.id };
    }
  }
  const until = pace.kind === "throttle" ? now + pace.periodMs : debouncedUntil(pace, now, now);
  if (row === undefined) {
    const key = { kind: pace.kind, task: bareName(job.task), pace_key: pace.key };
    await tx.insert("pacing", [{ ...key, job_id: job.id, first_at: now, until_at: until }]);
  } else {
    await tx.run(sql`
      update holdfast.pacing
         set job_id = ${job.id}, first_at = ${now}, until_at = ${until}
       where ${where}`);
  }
  const start = pace.kind === "throttle" ? job.start : { at: until };
  return { ...rest, pace, start };
}

function debouncedUntil(
  { waitMs, maxWaitMs }: Extract<Pace, { kind: "debounce" }>,
  first: number,
  now: number,
): number {
  return Math.min(now + waitMs, maxWaitMs === null ? Number.MAX_SAFE_INTEGER : first + maxWaitMs);
}

/** False: the job has started or ended. One that is pending already keeps its place. */
async function postpone(
  engine: Engine,
  tx: Transaction,
  { id, payload, dueAt, now }: { id: string; payload: string; dueAt: number; now: number },
): Promise<boolean> {
  if (!engine.mayBeId(id)) return false;
  // In the order in which a job passes through them, so it cannot slip past.
  for (const table of ["waiting", "ready"] as const) {
    const isNew = table === "waiting" ? sql`epoch = 0 and status = 'scheduled'` : sql`epoch = 0`;
    const where = sql`id = ${id} and ${isNew}`;
    const [row] = await tx.take<JobColumns & Partial<WaitingRow>>({ table, where });
    if (row === undefined) continue;
    const due = table === "waiting" ? { due_at: Math.max(dueAt, now) } : {};
    await tx.insert(table, [asRow({ ...row, ...due })]);
    await tx.run(sql`
      update holdfast.job set payload = ${payload} where id = ${id} and payload <> ${payload}`);
    return true;
  }
  return false;
}

function isPace({ task, pace }: Paced): Sql {
  return sql`kind = ${pace.kind} and task = ${bareName(task)} and pace_key = ${pace.key}`;
}

/** Deletes keys whose time is over and whose job no longer waits. */
export async function prunePacing(engine: Engine, tx: Transaction, limit: number): Promise<void> {
  const rows = await tx.all<{ id: string }>(sql`
    select p.job_id as id
      from holdfast.pacing p
     where p.until_at < ${engine.now()}
       and not exists (select 1 from holdfast.waiting w where w.id = p.job_id)
       and not exists (select 1 from holdfast.ready r where r.id = p.job_id)
     limit ${limit}`);
  if (rows.length === 0) return;
  const ids = rows.map(({ id }) => id);
  // Compared again: a key that is used at this moment has another job or another time.
  await tx.run(sql`
    delete from holdfast.pacing
     where ${engine.among(sql`job_id`, ids)}
       and until_at < ${engine.now()}`);
}
