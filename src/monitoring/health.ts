/**
 * Health, liveness and readiness of this process, for people and for orchestrators.
 *
 * Alive is not the same as healthy. Without its database a process is useless, but a restart does not help. So liveness fails
 * only for what a restart fixes: a worker whose loops or lease renewer are stuck while the database answers. A process with a
 * blocked event loop does not answer at all.
 */
import { Cached } from "../core/wait.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { describeError } from "../core/error-record.ts";
import { SchemaTooNewError, SchemaTooOldError, StoreGoneError } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Database } from "../database/database.ts";
import { ownTrace } from "../registry/heartbeat.ts";
import type { WorkersStore } from "../registry/store.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import type { Worker } from "../worker/worker.ts";

/** However many probes arrive, the database is queried once a second … */
const ANSWER_KEPT_MS = 1_000;

/** … and a probe waits no longer than this. */
const ANSWER_MS_MAX = 2_000;

/** A loop or lease renewer stuck for this long does not recover by itself: no database call takes as long. */
const WEDGED_AFTER = "2m";

/** Missed heartbeats before a worker counts as late, and as dead. */
const HEARTBEATS_LATE = 3;

const HEARTBEATS_WEDGED = 6;

/** How many workers are searched for those of the child processes. */
const SEEN_MAX = 1_000;

const MS_PER_S = 1_000;

export type Verdict = "ok" | "degraded" | "down";

/** Over HTTP, down is a 503 and everything else a 200. */
export interface Answer {
  readonly status: Verdict;
  readonly [fact: string]: unknown;
}

interface HealthAnswer extends Answer {
  /** In seconds. */
  readonly uptime: number;
  readonly timestamp: string;
  /** The build of the application. */
  readonly version: string;
  readonly checks: readonly Check[];
}

export interface ProbeAnswer extends Answer {
  /** Empty when the status is ok. */
  readonly reasons: readonly string[];
}

export interface Check {
  readonly name: string;
  readonly status: Verdict;
  readonly detail: string;
}

export interface HealthParts {
  readonly holdfast: {
    readonly runtime: Runtime;
    readonly version: string;
    readonly store: {
      readonly db: Database;
      readonly workers: WorkersStore;
      checkSchema(): Promise<void>;
    };
  };
  /** The process should have a worker and is not ready without one; a standby has none yet. Default false. */
  readonly awaitsWorker?: boolean;
  /** Child processes run the jobs; their workers are known by their rows. Default: none. */
  readonly children?: Children;
  /** How long a worker may be stuck before the process counts as dead. Default 2 minutes. */
  readonly wedgedAfter?: Duration;
}

export interface Children {
  /** Process ids of the running ones. */
  readonly pids: () => readonly number[];
  /** How often their workers send a heartbeat. */
  readonly heartbeatMs: number;
}

/** The result of the last query to the database. */
interface DatabaseState {
  readonly answers: boolean;
  /** Why the database or its tables cannot be used; null: no known reason. */
  readonly problem: string | null;
  /** The workers of the child processes on this host. */
  readonly workers: readonly WorkerRecord[];
}

const SILENT: DatabaseState = { answers: false, problem: null, workers: [] };

/** A restart would not fix this, and would discard what the process still has in memory. */
const GONE: DatabaseState = {
  ...SILENT,
  problem: "the database file was deleted or replaced, so all work is refused; see the log",
};

export class Health {
  readonly #parts: HealthParts;
  readonly #wedgedMs: number;
  readonly #startedAt: number;
  readonly #database: Cached<DatabaseState>;
  readonly #workers = new Set<Worker>();
  /** Since when the database has been answering; before that no loop could make progress. Null: it does not answer. */
  #answersSince: number | null = Number.NEGATIVE_INFINITY;
  /** When it last did. */
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(parts: HealthParts) {
    const { holdfast, wedgedAfter = WEDGED_AFTER } = parts;
    const { runtime } = holdfast;
    this.#parts = parts;
    this.#wedgedMs = toMs("wedgedAfter", wedgedAfter, { min: 1_000 });
    this.#startedAt = runtime.monotonic();
    this.#database = new Cached({
      runtime,
      ask: () => this.#look(),
      forMs: ANSWER_KEPT_MS,
      waitMs: ANSWER_MS_MAX,
    });
  }

  /** From now on the worker's health counts as the process's. */
  watch(worker: Worker): void {
    this.#workers.add(worker);
  }

  async health(): Promise<HealthAnswer> {
    const { runtime, version } = this.#parts.holdfast;
    const state = await this.#ask();
    const workers = [...this.#workers].map((worker) => this.#checkWorker(worker));
    const checks = [
      checkDatabase(state),
      ...checkSchema(state),
      ...this.#checkPush(),
      ...this.#checkAwaited(),
      ...workers,
      ...this.#checkChildren(state),
    ];
    return {
      status: worstOf(checks),
      uptime: Math.floor((runtime.monotonic() - this.#startedAt) / MS_PER_S),
      timestamp: new Date(runtime.now()).toISOString(),
      version,
      checks,
    };
  }

  /** Does not wait for the database: uses the last known result and starts a query for the next probe. */
  async live(): Promise<ProbeAnswer> {
    void this.#database.get();
    return probed([...this.#workers].flatMap((worker) => this.#wedged(worker)));
  }

  async ready(): Promise<ProbeAnswer> {
    const state = await this.#ask();
    const checks = [checkDatabase(state), ...checkSchema(state), ...this.#checkAwaited()];
    const reasons = checks.filter(({ status }) => status !== "ok").map(({ detail }) => detail);
    const isIdle = this.#parts.children !== undefined && !state.workers.some(works);
    if (reasons.length === 0 && isIdle) reasons.push(NONE_WORKS);
    return probed([...reasons, ...[...this.#workers].flatMap(unready)]);
  }

  async #ask(): Promise<DatabaseState> {
    const state = await this.#database.get();
    if (state === null) this.#answersSince = null;
    return state ?? SILENT;
  }

  async #look(): Promise<DatabaseState> {
    const state = await this.#query().catch(stateAfter);
    const now = this.#parts.holdfast.runtime.monotonic();
    this.#answersSince = state.answers ? (this.#answersSince ?? now) : null;
    if (state.answers) this.#answeredAt = now;
    return state;
  }

  async #query(): Promise<DatabaseState> {
    const { holdfast, children } = this.#parts;
    const { store } = holdfast;
    await store.checkSchema();
    if (children === undefined) return { answers: true, problem: null, workers: [] };
    const alive = await store.workers.list({ alive: true, limit: SEEN_MAX });
    const pids = new Set(children.pids());
    // A process id is unique only within a host and its process namespace.
    const { hostname, hostBoot } = ownTrace();
    const workers = alive.filter(
      (worker) =>
        worker.hostname === hostname && worker.hostBoot === hostBoot && pids.has(worker.pid),
    );
    return { answers: true, problem: null, workers };
  }

  /** Without push no job is lost, only picked up later. */
  #checkPush(): Check[] {
    const state = this.#parts.holdfast.store.db.pushState();
    if (state === "up")
      return [{ name: "push", status: "ok", detail: "notifications from other processes arrive" }];
    if (state !== "down") return [];
    const detail =
      "push is down; workers find jobs of other processes by polling, within 10 seconds";
    return [{ name: "push", status: "degraded", detail }];
  }

  #checkAwaited(): Check[] {
    const { awaitsWorker = false } = this.#parts;
    if (!awaitsWorker || this.#workers.size > 0) return [];
    return [{ name: "worker", status: "degraded", detail: "no worker is registered yet" }];
  }

  /** One check per child process; unknown while the database does not answer. */
  #checkChildren({ answers, workers }: DatabaseState): Check[] {
    const { children } = this.#parts;
    if (children === undefined || !answers) return [];
    const pids = children.pids();
    if (pids.length === 0) return [{ name: "worker", status: "degraded", detail: NONE_WORKS }];
    const lateMs = HEARTBEATS_LATE * children.heartbeatMs;
    const byPid = new Map(workers.map((worker) => [worker.pid, worker]));
    return pids.map((pid) => checkChild(pid, byPid.get(pid), lateMs));
  }

  #checkWorker(worker: Worker): Check {
    const { id, state, desiredState, running } = worker.status();
    const name = `worker ${id}`;
    const [wedged] = this.#wedged(worker);
    if (wedged !== undefined) return { name, status: "down", detail: wedged };
    const [missing] = unready(worker);
    if (missing !== undefined) return { name, status: "degraded", detail: missing };
    const { heartbeatAgeMs = 0, heartbeatMs = 0 } = worker.pulse() ?? {};
    if (heartbeatAgeMs > HEARTBEATS_LATE * heartbeatMs) {
      return { name, status: "degraded", detail: `no heartbeat for ${seconds(heartbeatAgeMs)}` };
    }
    const doing = desiredState === "pause" ? "paused" : state;
    return { name, status: "ok", detail: `${doing}, ${running} jobs` };
  }

  /** What is stuck and a restart would fix. */
  #wedged(worker: Worker): string[] {
    const pulse = worker.pulse();
    if (pulse === null) return [];
    const { id } = worker;
    const { loops, heartbeatAgeMs, heartbeatMs } = pulse;
    const stuck = loops.filter(({ lateMs }) => this.#standsStill(lateMs, this.#wedgedMs));
    const silence = Math.max(this.#wedgedMs, HEARTBEATS_WEDGED * heartbeatMs);
    return [
      ...stuck.map(
        ({ name, lateMs }) =>
          `worker ${id}: the loop '${name}' has been stuck for ${seconds(lateMs)}`,
      ),
      ...(this.#standsStill(heartbeatAgeMs, silence)
        ? [`worker ${id}: the lease renewer has sent no heartbeat for ${seconds(heartbeatAgeMs)}`]
        : []),
    ];
  }

  /** Only time in which the database answered counts. */
  #standsStill(forMs: number, limitMs: number): boolean {
    if (this.#answersSince === null) return false;
    const since = this.#parts.holdfast.runtime.monotonic() - forMs;
    return this.#answeredAt - Math.max(since, this.#answersSince) > limitMs;
  }
}

/** A schema error is an answer: the database is up. */
function stateAfter(error: unknown): DatabaseState {
  if (error instanceof StoreGoneError) return GONE;
  const isMisfit = error instanceof SchemaTooOldError || error instanceof SchemaTooNewError;
  if (!isMisfit) return SILENT;
  return { answers: true, problem: describeError(error).message, workers: [] };
}

const NONE_WORKS = "no child process has a running worker";

function works({ status }: WorkerRecord): boolean {
  return status === "running";
}

function checkChild(pid: number, worker: WorkerRecord | undefined, lateMs: number): Check {
  if (worker === undefined) {
    return { name: `process ${pid}`, status: "degraded", detail: "no worker is registered yet" };
  }
  const { id, status, desiredState, running, silentMs } = worker;
  const name = `worker ${id}`;
  if (!works(worker)) return { name, status: "degraded", detail: `worker ${id} is ${status}` };
  if (silentMs > lateMs) {
    return { name, status: "degraded", detail: `no heartbeat for ${seconds(silentMs)}` };
  }
  const doing = desiredState === "pause" ? "paused" : status;
  return { name, status: "ok", detail: `${doing}, ${running} jobs` };
}

function checkDatabase({ answers, problem }: DatabaseState): Check {
  if (answers) return { name: "database", status: "ok", detail: "the database answers" };
  return { name: "database", status: "down", detail: problem ?? "the database does not answer" };
}

/** Unknown while the database does not answer. */
function checkSchema({ answers, problem }: DatabaseState): Check[] {
  if (!answers) return [];
  if (problem === null)
    return [{ name: "schema", status: "ok", detail: "the schema version is compatible" }];
  return [{ name: "schema", status: "down", detail: problem }];
}

function unready(worker: Worker): string[] {
  const { id, state } = worker.status();
  if (state !== "running") return [`worker ${id} is ${state}`];
  return worker.pulse() === null ? [`worker ${id} is registering again`] : [];
}

function worstOf(checks: readonly Check[]): Verdict {
  const verdicts = new Set(checks.map(({ status }) => status));
  if (verdicts.has("down")) return "down";
  return verdicts.has("degraded") ? "degraded" : "ok";
}

function probed(reasons: readonly string[]): ProbeAnswer {
  return { status: reasons.length === 0 ? "ok" : "down", reasons };
}

function seconds(ms: number): string {
  return `${Math.round(ms / MS_PER_S)} s`;
}
