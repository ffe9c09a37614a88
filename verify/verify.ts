/**
 * One run of the torture kit: real processes on a real database, killed, frozen and cut off by a plan derived from a
 * seed; then the checker compares everything that was left behind with the promises.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Holdfast, openHoldfast } from "../src/app/holdfast.ts";
import { HoldfastError } from "../src/core/errors.ts";
import { sleep, systemRuntime } from "../src/core/runtime.ts";
import { Bank, LEDGER } from "./tasks.ts";
import type { Columns, Rows, Table, Ticking, Witnessed } from "./check/history.ts";
import { judge, type Verdict } from "./check/verdict.ts";
import { type Database, type Row, watchedTables, WITNESS } from "./database.ts";
import { DRAIN_MS_MAX, type Drained, notReached } from "./not-reached.ts";
import { type Health, Nemesis, Processes, Proxy } from "./processes.ts";
import {
  countFaults,
  type FaultCounts,
  type FaultKind,
  GOVERNED,
  GRACE_MS,
  type Input,
  LEASE_MS,
  MAINTENANCE_MS,
  makePlan,
  type Plan,
  type Preset,
  TICKER,
} from "./plan.ts";
import { ProcessLog, processLogPath, readProcessLogs } from "./process.ts";

export interface VerifyOptions {
  /** Where to create the scratch database. Default: an SQLite file in a temporary folder. */
  readonly url?: string;
  readonly seed: number;
  /** `torturePreset` or `demoPreset`. */
  readonly preset: Preset;
  /** Kills the server and starts it again. */
  readonly restart?: () => Promise<void>;
  readonly onStart?: (start: { readonly database: string; readonly plan: Plan }) => void;
  readonly onProgress?: (progress: Progress) => void;
  /** Opens something on the database of the run, which is closed at its end. */
  readonly beside?: (holdfast: Holdfast) => Promise<AsyncDisposable>;
  /** The run is over. Its database is there until this resolves. */
  readonly onReport?: (report: Report) => Promise<void>;
  readonly signal?: AbortSignal;
}

export interface Progress {
  readonly elapsedMs: number;
  readonly jobs: number;
  readonly done: number;
  readonly workers: readonly Health[];
  readonly faults: FaultCounts;
}

export interface Report extends Verdict {
  readonly database: string;
  readonly seed: number;
  readonly ms: number;
  readonly faults: FaultCounts;
  readonly planned: FaultCounts;
  readonly drainedMs: number | null;
  /** Faults that were left out, and why. */
  readonly notes: readonly string[];
}

/** How often the progress is shown. */
const LOOK_MS = 250;

const DOUBTS_MS = 1_000;

/** The kit gives up when no job has ended for this long. */
const STUCK_MS = 60_000;

/** If a job has ended this recently, the rest is slow, and not stuck. */
const SLOW_MS = 15_000;

const BACKOFF_MS_MAX = 200;

/** After kill -9 of all workers, all start again, and the jobs that they held pause before their next attempt. */
const ALL_KILLED_MS = 15_000;

/** How late an overloaded machine may be. */
const SLACK_MS = 15_000;

const RECONNECT_MS = 2_000;

/** Jobs that fill the queue with limits before all workers are killed, and again after. */
const FILL = { jobs: 12, workMs: 500 } as const;

/** So long the kit waits until as many of them run as may. */
const FILL_MS_MAX = 3_000;

const FILL_LOOK_MS = 50;

const TRIES_MAX = 100;

class KitFailedError extends HoldfastError {
  constructor({ errors }: Processes) {
    const output = errors.trim() === "" ? "" : ` Their last output:\n${errors.trim()}`;
    super("KIT_FAILED", `The processes of the test keep exiting by themselves.${output}`);
  }
}

export async function verify(options: VerifyOptions): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-verify-"));
  try {
    await using database = await openDatabase(options.url, folder);
    return await new Run(database, folder, options).run();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What a run ends with. */
interface Ending {
  readonly bank: Bank;
  readonly nemesis: Nemesis;
  readonly drained: Drained;
  readonly schedule: Ticking | null;
}

class Run {
  readonly #database: Database;
  readonly #folder: string;
  readonly #options: VerifyOptions;
  readonly #plan: Plan;
  readonly #signal: AbortSignal;
  readonly #startedAt = systemRuntime.monotonic();

  constructor(database: Database, folder: string, options: VerifyOptions) {
    this.#database = database;
    this.#folder = folder;
    this.#options = options;
    const { seed, preset, restart, signal = new AbortController().signal } = options;
    this.#signal = signal;
    const kinds: FaultKind[] = ["kill", "kill-all", "freeze", "block", ...database.faults];
    if (restart !== undefined) kinds.push("restart");
    this.#plan = makePlan(seed, preset, kinds);
  }

  async run(): Promise<Report> {
    const { url, faults, label } = this.#database;
    const { onStart, beside, onReport } = this.#options;
    await using holdfast = await openHoldfast(url);
    await using opened = new AsyncDisposableStack();
    if (beside !== undefined) opened.use(await beside(holdfast));
    onStart?.({ database: label, plan: this.#plan });
    await this.#database.watch(watchedTables(this.#database.prefix));
    const from = await this.#prepare(holdfast);
    await using bank = await Bank.open();
    await using proxy = faults.includes("deafen") ? await Proxy.before(url) : null;
    using processLog = new ProcessLog(processLogPath(this.#folder, "nemesis"));
    await using processes = this.#processes(bank.url, proxy, processLog);
    const ending = new AbortController();
    const nemesis = new Nemesis({
      processes,
      database: this.#database,
      proxy,
      processLog,
      restart: this.#options.restart ?? null,
      fill: () => this.#fill(holdfast, processLog),
      signal: AbortSignal.any([this.#signal, ending.signal]),
    });
    await this.#watch(processes, nemesis, processes.start());
    const person = this.#resolveEffects({ holdfast, bank, processLog }, ending.signal);
    const struck = nemesis.carryOut(this.#plan.faults, this.#faultsMs);
    try {
      await this.#watch(processes, nemesis, struck);
      const schedule = from === null ? null : await this.#endTicks(holdfast, from);
      const drained = await this.#drain(processes, nemesis);
      await processes.stop();
      const report = await this.#judge({ bank, nemesis, drained, schedule });
      await onReport?.(report);
      return report;
    } finally {
      ending.abort();
      // A server that is being restarted is back before we return.
      await Promise.allSettled([person, struck]);
    }
  }

  /** Sets the limits and creates the schedule. Returns its first tick, or null. */
  async #prepare(holdfast: Holdfast): Promise<number | null> {
    const { queue, concurrency, laneConcurrency, rate } = GOVERNED;
    const { count, periodMs: per, burst } = rate;
    if (this.#plan.shares.governed !== undefined) {
      const eachLane = { concurrency: laneConcurrency };
      await holdfast.queues.set(queue, { concurrency, eachLane, rate: { count, per, burst } });
    }
    if (!this.#plan.ticks) return null;
    const { name, task, everyMs: every } = TICKER;
    const input: Input = { n: -1, ms: 0 };
    const options = { maxAttempts: 1_000 };
    // A tick that is more than a minute late counts as missed: not even then may it be left out.
    const missed = { all: 1_000 };
    const schedule = { name, task, every, input, options, missed };
    return (await holdfast.schedules.create(schedule)).nextAt;
  }

  /** Ends the schedule, so that the remaining jobs can end. */
  async #endTicks(holdfast: Holdfast, from: number): Promise<Ticking> {
    const { name, task, everyMs } = TICKER;
    for (let tries = 1; ; tries += 1) {
      try {
        const { pausedAt, lastAt } = await holdfast.schedules.pause(name);
        const last = Math.floor((pausedAt ?? 0) / everyMs) * everyMs;
        // The pause comes after the ticks that were due. One that became due meanwhile is owed.
        const until = lastAt === last - everyMs ? lastAt : last;
        return { task, everyMs, from, until };
      } catch (error) {
        if (tries === TRIES_MAX) throw error; // Its connection was cut, again and again.
        await sleep(systemRuntime, LOOK_MS, { signal: this.#signal });
      }
    }
  }

  async #fill(holdfast: Holdfast, processLog: ProcessLog): Promise<void> {
    const { queue, lanes, concurrency } = GOVERNED;
    const task = "governed";
    for (let index = 0; index < FILL.jobs; index += 1) {
      const n = this.#plan.jobs + index;
      const lane = lanes[index % lanes.length] as string;
      const input: Input = { n, ms: FILL.workMs, lane };
      processLog.say({ f: "enqueue", type: "invoke", n, task });
      try {
        const options = { queue, lane, maxAttempts: 1_000 };
        const { id } = await holdfast.enqueue(task, input, options);
        processLog.say({ f: "enqueue", type: "ok", n, id });
      } catch (error) {
        processLog.say({ f: "enqueue", type: "info", n, task, error: String(error) });
      }
    }
    const until = systemRuntime.monotonic() + FILL_MS_MAX;
    const leases = `select count(*) as running from ${this.#database.prefix}lease where queue = '${queue}'`;
    while (systemRuntime.monotonic() < until) {
      const [row] = await this.#database.query(leases).catch(() => []);
      if (Number(row?.["running"]) >= concurrency) return;
      await sleep(systemRuntime, FILL_LOOK_MS, { signal: this.#signal });
    }
  }

  #processes(bank: string, proxy: Proxy | null, processLog: ProcessLog): Processes {
    const { faults: _f, calmMs: _c, jobsPerSecondLeast: _j, ticks: _t, ...plan } = this.#plan;
    const { url } = this.#database;
    const skew = faketime();
    return new Processes({
      ...plan,
      folder: this.#folder,
      bank,
      url: (_role, place) => (place % 4 === 0 ? (proxy?.url ?? url) : url),
      // SQLite uses the clock of its processes, which are all on one host.
      env: (role, place) =>
        role === "worker" && place === 1 && proxy !== null && skew !== null ? skew : {},
      onEnd: (worker, how) => processLog.say({ f: "ended", worker, how }),
    });
  }

  /** Shows the progress until a phase is over. */
  async #watch(processes: Processes, nemesis: Nemesis, phase: Promise<void>): Promise<void> {
    const over = phase.then(() => true);
    over.catch(() => {}); // A look may fail first.
    const next = (): Promise<boolean> =>
      sleep(systemRuntime, LOOK_MS, { signal: this.#signal }).then(() => false);
    do {
      await this.#look(processes, nemesis);
    } while (!(await Promise.race([over, next()])));
  }

  /** How many jobs are finished and unfinished; null: the database does not answer now. */
  async #look(
    processes: Processes,
    nemesis: Nemesis,
  ): Promise<{ done: number; rest: number } | null> {
    this.#signal.throwIfAborted();
    if (processes.hasFailed) throw new KitFailedError(processes);
    const { prefix } = this.#database;
    try {
      const [row] = await this.#database.query(
        `select (select count(*) from ${prefix}finished) as done, (select count(*) from (${unfinishedRows(prefix)}) u) as rest`,
      );
      const done = Number(row?.["done"]);
      this.#options.onProgress?.({
        elapsedMs: systemRuntime.monotonic() - this.#startedAt,
        jobs: this.#plan.jobs,
        done,
        workers: processes.health,
        faults: nemesis.done,
      });
      return { done, rest: Number(row?.["rest"]) };
    } catch {
      return null;
    }
  }

  /** So late a fault may still begin. */
  get #faultsMs(): number {
    return this.#plan.isOnTime ? this.#plan.ms : Number.POSITIVE_INFINITY;
  }

  /** Waits for the remaining jobs after the last fault. */
  async #drain(processes: Processes, nemesis: Nemesis): Promise<Drained> {
    const startedAt = systemRuntime.monotonic();
    const { jobs, jobsPerSecondLeast, isOnTime } = this.#plan;
    const { done = 0 } = (await this.#look(processes, nemesis)) ?? {};
    const backlogMs = (Math.max(0, jobs - done) / jobsPerSecondLeast) * 1_000;
    let best = { done, ms: 0 };
    const allKilledMs = nemesis.done["kill-all"] === undefined ? 0 : ALL_KILLED_MS;
    const neededMs =
      LEASE_MS + GRACE_MS + MAINTENANCE_MS + BACKOFF_MS_MAX + allKilledMs + SLACK_MS + backlogMs;
    // A slow machine needs more than that, and is not to blame while the run waits anyway.
    const limitMs = isOnTime ? Math.max(neededMs, DRAIN_MS_MAX) : neededMs;
    for (;;) {
      const look = await this.#look(processes, nemesis);
      const ms = Math.round(systemRuntime.monotonic() - startedAt);
      if (look?.rest === 0 && !processes.isProducing) return { ms, limitMs, isCutShort: false };
      if (look !== null && look.done > best.done) best = { done: look.done, ms };
      const isSlow = isOnTime && ms > DRAIN_MS_MAX && ms - best.ms < SLOW_MS;
      if (isSlow || ms - best.ms > STUCK_MS || ms > STUCK_MS + limitMs) {
        return { ms: null, limitMs, isCutShort: isSlow };
      }
      await sleep(systemRuntime, LOOK_MS, { signal: this.#signal });
    }
  }

  /** Plays the person who checks the bank's books when it is unknown whether a charge was made. */
  async #resolveEffects(
    { holdfast, bank, processLog }: { holdfast: Holdfast; bank: Bank; processLog: ProcessLog },
    signal: AbortSignal,
  ): Promise<void> {
    const look = async (): Promise<void> => {
      for (const doubt of await holdfast.jobs.effectsInDoubt()) {
        const { job, name, occurrence } = doubt;
        const cents = bank.charged(`${job}/${name}/${occurrence}`);
        const found = cents !== null;
        processLog.say({ f: "resolved", job, step: `${name}/${occurrence}`, found });
        await holdfast.jobs.resolve(doubt, found ? { done: true, result: cents } : { done: false });
      }
    };
    while (!signal.aborted) {
      await look().catch(() => {}); // The database is away, or the effect is no longer in doubt.
      await sleep(systemRuntime, DOUBTS_MS, { signal });
    }
  }

  async #judge({ bank, nemesis, drained, schedule }: Ending): Promise<Report> {
    const verdict = await judge({
      said: readProcessLogs(this.#folder),
      witnessed: readWitness(this.#database),
      rows: await readRows(this.#database),
      charges: bank.charges,
      limits: {
        drain: drained.limitMs,
        recover: LEASE_MS + GRACE_MS + MAINTENANCE_MS + SLACK_MS,
        reconnect: RECONNECT_MS + SLACK_MS,
      },
      rules: this.#plan.shares.governed === undefined ? null : GOVERNED,
      schedule,
      drainedMs: drained.ms,
      isCutShort: drained.isCutShort,
    });
    return {
      ...verdict,
      database: this.#database.label,
      seed: this.#plan.seed,
      ms: Math.round(systemRuntime.monotonic() - this.#startedAt),
      faults: nemesis.done,
      planned: countFaults(this.#plan),
      drainedMs: drained.ms,
      notes: [
        ...notReached({ plan: this.#plan, done: nemesis.done, verdict, drained }),
        ...this.#notes(),
      ],
    };
  }

  #notes(): string[] {
    if (this.#database.faults.includes("storm")) return [];
    const notes: string[] = [];
    if (faketime() === null) notes.push("no clock was wrong: faketime is not installed");
    if (this.#options.restart === undefined)
      notes.push("the server was not restarted: no command to restart it was given");
    return notes;
  }
}

const FAKETIME = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/** Variables that make a process's clock wrong by a minute and a half; null: faketime is not installed. */
function faketime(): Record<string, string> | null {
  const library = FAKETIME.find((path) => existsSync(path));
  if (library === undefined) return null;
  return { LD_PRELOAD: library, FAKETIME: "+90s", FAKETIME_DONT_FAKE_MONOTONIC: "1" };
}

/** Creates the scratch database on the server or next to the file of the URL; without a URL, in the folder. */
async function openDatabase(url: string | undefined, folder: string): Promise<Database> {
  if (url !== undefined && /^(?:postgres|postgresql|mysql|mariadb):/.test(url)) {
    const { ServerDatabase } = await import("./database.ts");
    return ServerDatabase.create(url);
  }
  const { SqliteDatabase } = await import("./database.ts");
  return SqliteDatabase.create(url, folder);
}

// Reads what a run left in the database, by plain SQL.

const PAGE = 20_000;

async function readRows(database: Database): Promise<Rows> {
  const { prefix } = database;
  const ask = (text: string): Promise<Row[]> => database.query(text);
  const jobs = await ask(`select id, task, payload from ${prefix}job`);
  const finished = await ask(
    `select id, status, epoch, attempts, crashes, max_attempts, worker, result from ${prefix}finished`,
  );
  const attempts = await ask(`select job_id, epoch, worker, outcome, error from ${prefix}attempt`);
  const ledger = await ask(`select job_id, epoch from ${LEDGER}`);
  const ticks = await ask(`select tick, job_id from ${prefix}schedule_run where is_manual = 0`);
  const unfinished = await ask(unfinishedRows(prefix));
  return {
    jobs: jobs.map((row) => ({
      id: String(row["id"]),
      task: String(row["task"]),
      payload: String(row["payload"]),
    })),
    finished: finished.map((row) => ({
      id: String(row["id"]),
      status: String(row["status"]),
      epoch: Number(row["epoch"]),
      attempts: Number(row["attempts"]),
      crashes: Number(row["crashes"]),
      maxAttempts: Number(row["max_attempts"]),
      worker: optional(row["worker"]),
      result: optional(row["result"]),
    })),
    attempts: attempts.map((row) => ({
      job: String(row["job_id"]),
      epoch: Number(row["epoch"]),
      worker: String(row["worker"]),
      outcome: String(row["outcome"]),
      isOutage: row["outcome"] === "released" && row["error"] !== null,
    })),
    ledger: ledger.map((row) => ({ job: String(row["job_id"]), epoch: Number(row["epoch"]) })),
    ticks: ticks.map((row) => ({ tick: Number(row["tick"]), job: optional(row["job_id"]) })),
    unfinished: unfinished.map((row) => ({ id: String(row["id"]), table: String(row["tbl"]) })),
  };
}

function unfinishedRows(prefix: string): string {
  return ["ready", "waiting", "lease"]
    .map((table) => `select id, '${table}' as tbl from ${prefix}${table}`)
    .join(" union all ");
}

/** In the order of the changes. */
async function* readWitness(database: Database): AsyncIterable<Witnessed> {
  for (let after = 0; ;) {
    const page = await database.query(
      `select seq, at_ms, tx, tbl, was, became from ${WITNESS}
        where seq > ${after} order by seq limit ${PAGE}`,
    );
    for (const row of page) {
      after = Number(row["seq"]);
      yield {
        seq: after,
        at: Number(row["at_ms"]),
        tx: String(row["tx"]),
        table: String(row["tbl"]) as Table,
        before: columns(row["was"]),
        after: columns(row["became"]),
      };
    }
    if (page.length < PAGE) return;
  }
}

function columns(json: unknown): Columns | null {
  return typeof json === "string" ? (JSON.parse(json) as Columns) : null;
}

function optional(value: Row[string] | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}
