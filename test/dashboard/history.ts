/**
 * A day as a shop has it: a steady stream, a deploy, a crash. The jobs are written as if workers had run them, and every
 * figure of the day is counted from them by the same code as in production.
 */
import { kindIdOf } from "../../src/core/error-kind.ts";
import { Histogram } from "../../src/core/histogram.ts";
import { sql } from "../../src/database/sql.ts";
import type { Holdfast } from "../../src/index.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const ROWS_MAX = 1_000;

const DEPLOYED = 38;
const CRASHED = 18;

/** Build and worker before the deploy, and those after it. */
const OLD = { version: "7be02c1", id: "shop-worker-2" };
const NEW = { version: "9c41d07", id: "shop-worker-5" };

/** What the shop does, and how it fails. */
const KINDS = [
  {
    queue: "orders",
    task: "order.ship",
    upTo: 0.5,
    error: "CarrierTimeout: no answer from ups within 10 s",
  },
  {
    queue: "billing",
    task: "invoice.charge",
    upTo: 0.8,
    error: "PaymentDeclined: card ending in 4419 was declined",
  },
  {
    queue: "reports",
    task: "report.merge",
    upTo: 1,
    error: "QueryTimeout: no answer from the warehouse within 30 s",
  },
] as const;

const [SHIPPING] = KINDS;

/** Chance that is the same every time. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

function minuteOf(at: number): number {
  return Math.floor(at / MINUTE_MS) * MINUTE_MS;
}

type Row = Record<string, string | number | null>;

interface Tables {
  readonly job: Row[];
  readonly finished: Row[];
  readonly attempt: Row[];
}

interface Past {
  readonly number: number;
  readonly enqueuedAt: number;
  readonly waitMs: number;
  readonly runMs: number;
  /** Attempts that failed before the last one. */
  readonly retries: number;
  readonly isFailed: boolean;
  readonly worker: string;
  readonly kind: (typeof KINDS)[number];
  /** The first attempt ended with its worker. */
  readonly isCrashed: boolean;
}

function idOf(ms: number, number: number): string {
  const time = ms.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${number.toString(16).padStart(12, "0")}`;
}

function rowsOf(past: Past, tables: Tables): void {
  const { number, enqueuedAt, waitMs, runMs, retries, isFailed, isCrashed, worker, kind } = past;
  const { queue, task } = kind;
  const id = idOf(enqueuedAt, number);
  const job_key = `${task.split(".")[0]}-${number}`;
  const same = { id, queue, task, rank: 0, job_key, max_attempts: 3 };
  const input = { id: String(number), cents: 1_000 + (number % 900) };
  const [name, message] = kind.error.split(": ");
  const error = JSON.stringify({ name, message });
  const gone = { name: "WorkerGone", message: `The process of worker ${NEW.id} ended.` };
  const startedAt = enqueuedAt + waitMs;
  for (let at = 0; at < retries; at += 1) {
    const [from, epoch] = [startedAt + at * (runMs + 40), at + 1];
    const outcome = isCrashed ? "crashed" : "retry";
    tables.attempt.push({
      job_id: id,
      epoch,
      attempt: epoch,
      worker: isCrashed ? NEW.id : worker,
      outcome,
      started_at: from,
      ended_at: from + runMs,
      error: isCrashed ? JSON.stringify(gone) : error,
      error_kind: kindIdOf(task, isCrashed ? JSON.stringify(gone) : error),
    });
  }
  const lastAt = startedAt + retries * (runMs + 40);
  tables.job.push({ ...same, payload: JSON.stringify(input), enqueued_at: enqueuedAt });
  tables.finished.push({
    ...same,
    epoch: retries + 1,
    attempts: retries + 1,
    crashes: isCrashed ? 1 : 0,
    status: isFailed ? "failed" : "done",
    worker,
    started_at: lastAt,
    finished_at: lastAt + runMs,
    result: isFailed ? null : JSON.stringify({ tracking: `T-${number}` }),
    error: isFailed ? error : null,
    error_kind: isFailed ? kindIdOf(task, error) : null,
    lane: null,
  });
}

export interface HistoryOptions {
  readonly minutes: number;
  readonly perMinute: number;
}

/** The jobs of every minute, until this instant. */
function* pastOf({ minutes, perMinute }: HistoryOptions, until: number): Generator<Past> {
  const random = chance(7);
  const now = minuteOf(until);
  let number = 10_000;
  for (let ago = minutes; ago >= 0; ago -= 1) {
    const isCrash = ago === CRASHED;
    const isAfter = ago < CRASHED && ago > CRASHED - 5;
    const isBad = ago < DEPLOYED && ago > DEPLOYED - 12;
    const jobs = Math.round(perMinute * (0.9 + random() * 0.2) * (isCrash ? 0.6 : 1));
    const failed = isBad ? Math.round(random() * 4) : random() > 0.9 ? 1 : 0;
    const worker = ago >= DEPLOYED ? OLD.id : "";
    for (let at = 0; at < jobs; at += 1) {
      const isFailed = at < failed;
      const isCrashed = isCrash && at >= failed && at < failed + jobs / 8;
      const draw = random();
      const kind = KINDS.find(({ upTo }) => !isFailed && draw < upTo) ?? SHIPPING;
      const enqueuedAt = now - ago * MINUTE_MS + Math.floor((at * (MINUTE_MS - 2_000)) / jobs);
      if (enqueuedAt >= until) return;
      const isRetried = isAfter ? random() < 0.1 : random() < 0.012;
      number += 1;
      yield {
        number,
        enqueuedAt,
        waitMs: Math.round(isAfter ? 200 + random() * 9_000 : 2 + random() ** 8 * 60),
        runMs: Math.round(25 + random() * 60),
        retries: isFailed ? 2 : isRetried || isCrashed ? 1 : 0,
        isFailed,
        isCrashed,
        worker,
        kind,
      };
    }
  }
}

/** Only jobs that were claimed count how long they waited. */
function pickupRows(all: readonly Past[]): Row[] {
  const waits = new Map<string, Histogram>();
  for (const { enqueuedAt, waitMs, kind } of all) {
    const minute = minuteOf(enqueuedAt + waitMs);
    const key = `${minute} ${kind.queue}`;
    const histogram = waits.get(key) ?? new Histogram();
    histogram.add(waitMs);
    waits.set(key, histogram);
  }
  return [...waits].map(([key, histogram]) => {
    const [minute = "", queue = ""] = key.split(" ");
    return { minute: Number(minute), queue, source: "history", waits: histogram.toText() };
  });
}

/** How long jobs ran and waited, as their workers would have written it. */
function timesRows(all: readonly Past[]): Row[] {
  const times = new Map<string, { row: Row; runs: Histogram; waits: Histogram }>();
  for (const { enqueuedAt, waitMs, runMs, isFailed, kind, worker } of all) {
    const hour = Math.floor((enqueuedAt + waitMs) / HOUR_MS) * HOUR_MS;
    const key = `${hour} ${kind.task} ${worker}`;
    const build = worker === OLD.id ? OLD.version : NEW.version;
    const one = times.get(key) ?? {
      row: { hour, task: kind.task, source: `history ${worker}`, build },
      runs: new Histogram(),
      waits: new Histogram(),
    };
    one.waits.add(waitMs);
    if (!isFailed) one.runs.add(runMs);
    times.set(key, one);
  }
  return [...times.values()].map(({ row, runs, waits }) => {
    return { ...row, runs: runs.toText(), waits: waits.toText() };
  });
}

function workerRow(of: { id: string; version: string }, reason: string | null, at: number): Row {
  return {
    id: of.id,
    type: "shop-worker",
    instance: 1,
    status: "stopped",
    reason,
    hostname: "node-c",
    pid: 77,
    version: of.version,
    node_version: "24.21.0",
    platform: "linux",
    arch: "arm64",
    queues: '["orders","billing","reports"]',
    tasks: "[]",
    concurrency: 20,
    started_at: at - 1_200_000,
    heartbeat_at: at - 30_000,
    stopped_at: at,
  };
}

/** Writes the jobs before those that are there, and has all counted. The worker that runs now has run since the deploy. */
export async function writeHistory(
  { store }: Holdfast,
  worker: { readonly id: string },
  options: HistoryOptions,
): Promise<void> {
  const { engine } = store.db;
  const [first] = await engine.all<{ at: number }>(
    sql`select min(enqueued_at) as at from holdfast.job`,
  );
  const opened = first?.at ?? (await store.db.clock());
  const now = minuteOf(opened);
  const past = [...pastOf(options, opened)].map((one) => ({
    ...one,
    worker: one.worker === "" ? worker.id : one.worker,
  }));
  const tables: Tables = { job: [], finished: [], attempt: [] };
  for (const one of past) rowsOf(one, tables);
  await engine.transaction(async (tx) => {
    for (const [table, rows] of Object.entries({
      ...tables,
      pickup_stat: pickupRows(past),
      task_stat: timesRows(past),
    })) {
      for (let from = 0; from < rows.length; from += ROWS_MAX)
        await tx.insert(table, rows.slice(from, from + ROWS_MAX));
    }
    await tx.insert("build", [
      {
        version: OLD.version,
        first_at: now - 30 * 60 * MINUTE_MS,
        last_at: now - DEPLOYED * MINUTE_MS,
      },
      { version: NEW.version, first_at: now - DEPLOYED * MINUTE_MS, last_at: now + 3_600_000 },
    ]);
    await tx.insert("worker", [
      workerRow(OLD, null, now - DEPLOYED * MINUTE_MS),
      workerRow(NEW, "gone", now - CRASHED * MINUTE_MS),
    ]);
    await tx.run(sql`
      update holdfast.worker set started_at = ${now - DEPLOYED * MINUTE_MS} where id = ${worker.id}`);
    // What a shop without a past wrote.
    await tx.run(sql`delete from holdfast.task_total`);
    await tx.run(sql`delete from holdfast.error_minute`);
    await tx.run(sql`delete from holdfast.error_hour`);
    await tx.run(sql`delete from holdfast.error_kind`);
    await tx.run(sql`delete from holdfast.minute_total`);
    await tx.run(sql`delete from holdfast.span_total`);
    await tx.run(sql`
      update holdfast.counts set folded_until = ${now - (options.minutes + 1) * MINUTE_MS} where id = 1`);
  });
  // Every minute that is over.
  while ((await store.stats.foldMinutes({ limit: 500 })) > 0);
  await store.stats.takeCounts({ everyMs: 0, rest: 0 });
  await writePending(store, past, now);
}

/** A monitor counts at the end of every minute how many jobs are pending. */
async function writePending(
  { db: { engine } }: Holdfast["store"],
  past: readonly Past[],
  now: number,
): Promise<void> {
  const pending = new Map<number, number>();
  for (const { enqueuedAt, waitMs } of past) {
    const end = minuteOf(enqueuedAt) + MINUTE_MS;
    if (enqueuedAt + waitMs >= end) pending.set(end, (pending.get(end) ?? 0) + 1);
  }
  await engine.transaction(async (tx) => {
    await tx.run(sql`
      update holdfast.span_total set pending = 0 where step_ms = ${MINUTE_MS} and at < ${now}`);
    for (const [end, jobs] of pending) {
      await tx.run(sql`
        update holdfast.span_total set pending = ${jobs}
         where step_ms = ${MINUTE_MS} and at = ${end - MINUTE_MS} and queue = ''`);
    }
  });
}
