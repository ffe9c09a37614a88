/**
 * One run of the torture kit: real processes on a real database, killed, frozen and cut off by a plan that a seed decides;
 * then everything that was left behind is held against what is promised.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HoldfastError } from "../core/errors.ts";
import { systemRuntime, sleep } from "../core/runtime.ts";
import { openHoldfast, type Holdfast } from "../worker/holdfast.ts";
import { Bank } from "./bank.ts";
import type { Limits } from "./check/history.ts";
import { judge, type Verdict } from "./check/verdict.ts";
import { Crew } from "./crew.ts";
import { openDatabase, watchedTables, type Database } from "./database.ts";
import { readRows, readWitness, unfinishedRows } from "./evidence.ts";
import { Journal, journalPath, readJournals } from "./journal.ts";
import { Nemesis } from "./nemesis.ts";
import { GRACE_MS, LEASE_MS, makePlan, UPKEEP_MS, type FaultKind, type Plan } from "./plan.ts";
import { Proxy } from "./proxy.ts";

export interface VerifyOptions {
  /** Where: a database of the kit's own is made there. Default: an SQLite file in a temporary folder. */
  readonly url?: string;
  readonly seed: number;
  /** How long all of it takes, about. */
  readonly ms: number;
  /** How many are enqueued while the faults last. Default 164. */
  readonly jobsPerSecond?: number;
  /** Kills the server and starts it again, where that may be done. */
  readonly restart?: () => Promise<void>;
  readonly onProgress?: (progress: Progress) => void;
  readonly signal?: AbortSignal;
}

export interface Progress {
  readonly elapsedMs: number;
  readonly ms: number;
  readonly jobs: number;
  readonly done: number;
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
}

export interface Report extends Verdict {
  readonly database: string;
  readonly seed: number;
  readonly ms: number;
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  readonly planned: Readonly<Partial<Record<FaultKind, number>>>;
  readonly drainedMs: number | null;
  /** What was left out, and why. */
  readonly notes: readonly string[];
}

/** After the last fault everything comes to its end in this time, and is then looked at. */
const CALM_MS = 12_000;
const LOOK_MS = 250;
/** While the faults last, a look only tells somebody how far it is. */
const TELL_MS = 1_000;
/** Nobody waits longer than this for the end of what should have ended. */
const DRAIN_MS_MAX = 60_000;
const BACKOFF_MS_MAX = 200;
/** A machine that has more to do than it has cores is late by so much. */
const SLACK_MS = 15_000;
/** What is not done when the faults end, or not enqueued yet, takes its time too. */
const JOBS_PER_S_LEAST = 40;
const RECONNECT_MS = 2_000;

class KitFailed extends HoldfastError {
  constructor(facts: { errors: string }) {
    const said = facts.errors.trim() === "" ? "" : ` The last they said:\n${facts.errors.trim()}`;
    super("KIT_FAILED", `The kit's processes keep ending by themselves.${said}`);
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
    const { seed, ms, jobsPerSecond, restart, signal = new AbortController().signal } = options;
    this.#signal = signal;
    const kinds: FaultKind[] = ["kill", "freeze", "block", ...database.faults];
    if (restart !== undefined) kinds.push("restart");
    this.#plan = makePlan({ seed, ms: Math.max(ms - CALM_MS, CALM_MS), kinds, jobsPerSecond });
  }

  async run(): Promise<Report> {
    const { url, faults } = this.#database;
    await using holdfast = await openHoldfast(url);
    await this.#database.watch(watchedTables(this.#database.prefix));
    await using bank = await Bank.open();
    await using proxy = faults.includes("deafen") ? await Proxy.before(url) : null;
    using journal = new Journal(journalPath(this.#folder, "nemesis"));
    await using crew = this.#crew(bank.url, proxy);
    await crew.start();
    const ending = new AbortController();
    const nemesis = new Nemesis({
      crew,
      database: this.#database,
      proxy,
      journal,
      restart: this.#options.restart ?? null,
      signal: AbortSignal.any([this.#signal, ending.signal]),
    });
    const person = this.#resolveDoubts({ holdfast, bank, journal }, ending.signal);
    const struck = nemesis.carryOut(this.#plan.faults);
    try {
      await Promise.all([this.#watch(crew, nemesis, struck), struck]);
      const drained = await this.#drain(crew, nemesis);
      await crew.stop();
      return await this.#judge(bank, nemesis, drained);
    } finally {
      ending.abort();
      // A server that is being restarted is there again when we leave.
      await Promise.allSettled([person, struck]);
    }
  }

  #crew(bank: string, proxy: Proxy | null): Crew {
    const { seed, jobs, ms, workers, producers } = this.#plan;
    const { url } = this.#database;
    const skew = faketime();
    return new Crew({
      folder: this.#folder,
      bank,
      seed,
      jobs,
      ms,
      workers,
      producers,
      url: (_role, place) => (place % 4 === 0 ? (proxy?.url ?? url) : url),
      // SQLite's clock is that of its processes, and they are all on one host.
      env: (role, place) =>
        role === "worker" && place === 1 && proxy !== null && skew !== null ? skew : {},
    });
  }

  /** Tells how far it is, until the faults are over. */
  async #watch(crew: Crew, nemesis: Nemesis, struck: Promise<void>): Promise<void> {
    while (!nemesis.isOver) {
      await this.#look(crew, nemesis);
      await Promise.race([struck, sleep(systemRuntime, TELL_MS)]);
    }
  }

  /** How many jobs are done, and how many wait; null: the database does not answer now. */
  async #look(crew: Crew, nemesis: Nemesis): Promise<{ done: number; rest: number } | null> {
    this.#signal.throwIfAborted();
    if (crew.hasFailed) throw new KitFailed({ errors: crew.errors });
    const { prefix } = this.#database;
    try {
      const [row] = await this.#database.query(
        `select (select count(*) from ${prefix}finished) as done, (select count(*) from (${unfinishedRows(prefix)}) u) as rest`,
      );
      const elapsedMs = systemRuntime.monotonic() - this.#startedAt;
      const { ms } = this.#options;
      const { jobs } = this.#plan;
      const { done: faults } = nemesis;
      const done = Number(row?.["done"]);
      this.#options.onProgress?.({ elapsedMs, ms, jobs, done, faults });
      return { done, rest: Number(row?.["rest"]) };
    } catch {
      return null;
    }
  }

  /** How long it took from the last fault until nothing was left to do, and how long it may take. */
  async #drain(crew: Crew, nemesis: Nemesis): Promise<{ ms: number | null; limitMs: number }> {
    const startedAt = systemRuntime.monotonic();
    const { done = 0 } = (await this.#look(crew, nemesis)) ?? {};
    const backlogMs = (Math.max(0, this.#plan.jobs - done) / JOBS_PER_S_LEAST) * 1_000;
    const limitMs = LEASE_MS + GRACE_MS + UPKEEP_MS + BACKOFF_MS_MAX + SLACK_MS + backlogMs;
    for (;;) {
      const look = await this.#look(crew, nemesis);
      const ms = Math.round(systemRuntime.monotonic() - startedAt);
      if (look?.rest === 0 && !crew.isProducing) return { ms, limitMs };
      if (ms > DRAIN_MS_MAX + backlogMs) return { ms: null, limitMs };
      await sleep(systemRuntime, LOOK_MS);
    }
  }

  /** The person who looks into the bank's books when nobody knows whether a charge was made. */
  async #resolveDoubts(
    { holdfast, bank, journal }: { holdfast: Holdfast; bank: Bank; journal: Journal },
    signal: AbortSignal,
  ): Promise<void> {
    const look = async (): Promise<void> => {
      for (const doubt of await holdfast.jobs.doubts()) {
        const { job, name, occurrence } = doubt;
        const cents = bank.charged(`${job}/${name}/${occurrence}`);
        const found = cents !== null;
        journal.say({ f: "resolved", job, step: `${name}/${occurrence}`, found });
        await holdfast.jobs.resolve(doubt, found ? { done: true, result: cents } : { done: false });
      }
    };
    while (!signal.aborted) {
      await look().catch(() => {}); // The database is away, or the doubt is gone.
      await sleep(systemRuntime, TELL_MS, { signal });
    }
  }

  async #judge(
    bank: Bank,
    { done: faults }: Nemesis,
    drained: { ms: number | null; limitMs: number },
  ): Promise<Report> {
    const verdict = await judge({
      said: readJournals(this.#folder),
      witnessed: readWitness(this.#database),
      rows: await readRows(this.#database),
      charges: bank.charges,
      limits: this.#limits(drained.limitMs),
      drainedMs: drained.ms,
    });
    const planned: Partial<Record<FaultKind, number>> = {};
    for (const { kind } of this.#plan.faults) planned[kind] = (planned[kind] ?? 0) + 1;
    return {
      ...verdict,
      database: this.#database.label,
      seed: this.#plan.seed,
      ms: Math.round(systemRuntime.monotonic() - this.#startedAt),
      faults,
      planned,
      drainedMs: drained.ms,
      notes: this.#notes(),
    };
  }

  #limits(drain: number): Limits {
    return {
      drain,
      recover: LEASE_MS + GRACE_MS + UPKEEP_MS + SLACK_MS,
      reconnect: RECONNECT_MS + SLACK_MS,
    };
  }

  #notes(): string[] {
    if (this.#database.faults.includes("storm")) return [];
    return [
      ...(faketime() === null ? ["no clock was wrong: faketime is not installed"] : []),
      ...(this.#options.restart === undefined
        ? ["the server was not restarted: nobody said how"]
        : []),
    ];
  }
}

const FAKETIME = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];

/** What makes a process's clock wrong by a minute and a half; null: that program is not installed. */
function faketime(): Record<string, string> | null {
  const library = FAKETIME.find((path) => existsSync(path));
  if (library === undefined) return null;
  return { LD_PRELOAD: library, FAKETIME: "+90s", FAKETIME_DONT_FAKE_MONOTONIC: "1" };
}
