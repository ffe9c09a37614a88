/**
 * Whether this process is well, whether it is alive, and whether it is ready for work: for people, and for whoever starts
 * and ends processes by what these say.
 *
 * Alive is not the same as well. A database that is gone makes a process useless, but to start it anew helps nobody; so only
 * what a new start would mend counts: a worker whose loops or whose keeper stand still while the database answers. A process
 * whose event loop is blocked says so by not answering at all.
 */
import { toMs, type Duration } from "../core/duration.ts";
import { describeError } from "../core/error-record.ts";
import { SchemaTooNew, SchemaTooOld, StoreGone } from "../core/errors.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import type { WorkerRecord } from "../store/registry.ts";
import { ownTrace } from "../worker/process-trace.ts";
import type { Worker } from "../worker/worker.ts";
import { Kept } from "./kept.ts";

/** However many probes there are, the database is asked once a second … */
const ANSWER_KEPT_MS = 1_000;
/** … and nobody waits longer for it. */
const ANSWER_MS_MAX = 2_000;
/** A loop or a keeper that stands still for so long does not go on by itself: no call to a database takes as long. */
const WEDGED_AFTER = "2m";
/** Signs of life that may be missed before one speaks of silence, and of death. */
const BEATS_LATE = 3;
const BEATS_WEDGED = 6;
/** Workers that are looked at for those of our children. */
const SEEN_MAX = 1_000;

const MS_PER_S = 1_000;

export type Verdict = "ok" | "degraded" | "down";

/** What is answered over HTTP: down with 503, everything else with 200. */
export interface Answer {
  readonly status: Verdict;
  readonly [fact: string]: unknown;
}

export interface HealthAnswer extends Answer {
  /** In seconds. */
  readonly uptime: number;
  readonly timestamp: string;
  /** The build of the application. */
  readonly version: string;
  readonly checks: readonly Check[];
}

export interface ProbeAnswer extends Answer {
  /** Why not; nothing when all is well. */
  readonly reasons: readonly string[];
}

export interface Check {
  readonly name: string;
  readonly status: Verdict;
  readonly detail: string;
}

export interface HealthParts {
  readonly holdfast: Holdfast;
  /** This process is to have a worker, and is not ready without; one that stands by has none yet. Default false. */
  readonly awaitsWorker?: boolean;
  /** The jobs are run by processes that this one watches over; their workers are known by their rows. Default: none are. */
  readonly children?: Children;
  /** How long a worker may stand still before the process counts as dead. Default 2 minutes. */
  readonly wedgedAfter?: Duration;
}

export interface Children {
  /** Their process ids, of those that run now. */
  readonly pids: () => readonly number[];
  /** How often their workers give a sign of life. */
  readonly heartbeatMs: number;
}

/** What the database said when it was last asked. */
interface Said {
  readonly answers: boolean;
  /** Why the database or its tables cannot be used; null: nobody said so. */
  readonly problem: string | null;
  /** Those of this host, where children run the jobs. */
  readonly workers: readonly WorkerRecord[];
}

const SILENT: Said = { answers: false, problem: null, workers: [] };
/** A new start would not mend it, and would throw away what this process still has. */
const GONE: Said = {
  ...SILENT,
  problem: "the database's file was deleted or replaced: nothing is accepted; see the log",
};

export class Health {
  readonly #parts: HealthParts;
  readonly #wedgedMs: number;
  readonly #startedAt: number;
  readonly #database: Kept<Said>;
  readonly #workers = new Set<Worker>();
  /** Since when the database has answered, as far as we know: before, nobody could get on. Null: it does not. */
  #answersSince: number | null = Number.NEGATIVE_INFINITY;
  /** When it last did. */
  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor(parts: HealthParts) {
    const { holdfast, wedgedAfter = WEDGED_AFTER } = parts;
    const { runtime } = holdfast;
    this.#parts = parts;
    this.#wedgedMs = toMs("wedgedAfter", wedgedAfter, { min: 1_000 });
    this.#startedAt = runtime.monotonic();
    this.#database = new Kept({
      runtime,
      ask: () => this.#look(),
      forMs: ANSWER_KEPT_MS,
      waitMs: ANSWER_MS_MAX,
    });
  }

  /** From now on the process is as well as this worker. */
  watch(worker: Worker): void {
    this.#workers.add(worker);
  }

  async health(): Promise<HealthAnswer> {
    const { runtime, version } = this.#parts.holdfast;
    const said = await this.#ask();
    const workers = [...this.#workers].map((worker) => this.#checkWorker(worker));
    const checks = [
      checkDatabase(said),
      ...checkSchema(said),
      ...this.#checkPush(),
      ...this.#checkAwaited(),
      ...workers,
      ...this.#checkChildren(said),
    ];
    return {
      status: worstOf(checks),
      uptime: Math.floor((runtime.monotonic() - this.#startedAt) / MS_PER_S),
      timestamp: new Date(runtime.now()).toISOString(),
      version,
      checks,
    };
  }

  /** Nobody waits for the database here: what is known of it is what it said before, and the next one knows what it says now. */
  async live(): Promise<ProbeAnswer> {
    void this.#database.get();
    return probed([...this.#workers].flatMap((worker) => this.#wedged(worker)));
  }

  async ready(): Promise<ProbeAnswer> {
    const said = await this.#ask();
    const checks = [checkDatabase(said), ...checkSchema(said), ...this.#checkAwaited()];
    const down = checks.filter(({ status }) => status !== "ok").map(({ detail }) => detail);
    const { children } = this.#parts;
    const idle = children === undefined || said.workers.some(works) ? [] : [NONE_WORKS];
    return probed([
      ...down,
      ...(down.length > 0 ? [] : idle),
      ...[...this.#workers].flatMap(unready),
    ]);
  }

  async #ask(): Promise<Said> {
    const said = await this.#database.get();
    if (said === null) this.#answersSince = null;
    return said ?? SILENT;
  }

  async #look(): Promise<Said> {
    const said = await this.#said().catch(saidBy);
    const now = this.#parts.holdfast.runtime.monotonic();
    this.#answersSince = said.answers ? (this.#answersSince ?? now) : null;
    if (said.answers) this.#answeredAt = now;
    return said;
  }

  async #said(): Promise<Said> {
    const { holdfast, children } = this.#parts;
    const { store } = holdfast;
    await store.checkSchema();
    if (children === undefined) return { answers: true, problem: null, workers: [] };
    const alive = await store.workers({ alive: true, limit: SEEN_MAX });
    const pids = new Set(children.pids());
    const workers = alive.filter((worker) => isHere(worker) && pids.has(worker.pid));
    return { answers: true, problem: null, workers };
  }

  /** Without push nothing is lost; jobs are picked up later. */
  #checkPush(): Check[] {
    const state = this.#parts.holdfast.store.pushState();
    if (state === "up")
      return [{ name: "push", status: "ok", detail: "other processes are heard" }];
    if (state !== "down") return [];
    const detail = "push is down: jobs of other processes are found by polling, within 10 seconds";
    return [{ name: "push", status: "degraded", detail }];
  }

  #checkAwaited(): Check[] {
    const { awaitsWorker = false } = this.#parts;
    if (!awaitsWorker || this.#workers.size > 0) return [];
    return [{ name: "worker", status: "degraded", detail: "no worker is registered yet" }];
  }

  /** Each of the processes that run our jobs. Of a database that does not answer nobody knows. */
  #checkChildren({ answers, workers }: Said): Check[] {
    const { children } = this.#parts;
    if (children === undefined || !answers) return [];
    const pids = children.pids();
    if (pids.length === 0) return [{ name: "worker", status: "degraded", detail: NONE_WORKS }];
    const lateMs = BEATS_LATE * children.heartbeatMs;
    return pids.map((pid) =>
      checkChild(
        pid,
        workers.find((worker) => worker.pid === pid),
        lateMs,
      ),
    );
  }

  #checkWorker(worker: Worker): Check {
    const { id, state, wish, running } = worker.status();
    const name = `worker ${id}`;
    const [wedged] = this.#wedged(worker);
    if (wedged !== undefined) return { name, status: "down", detail: wedged };
    const [missing] = unready(worker);
    if (missing !== undefined) return { name, status: "degraded", detail: missing };
    const { beatAgeMs = 0, heartbeatMs = 0 } = worker.pulse() ?? {};
    if (beatAgeMs > BEATS_LATE * heartbeatMs) {
      return { name, status: "degraded", detail: `no sign of life for ${seconds(beatAgeMs)}` };
    }
    const doing = wish === "pause" ? "paused" : state;
    return { name, status: "ok", detail: `${doing}, ${running} jobs` };
  }

  /** What stands still that a new start would mend. */
  #wedged(worker: Worker): string[] {
    const pulse = worker.pulse();
    if (pulse === null) return [];
    const { id } = worker;
    const { loops, beatAgeMs, heartbeatMs } = pulse;
    const stuck = loops.filter(({ lateMs }) => this.#standsStill(lateMs, this.#wedgedMs));
    const silence = Math.max(this.#wedgedMs, BEATS_WEDGED * heartbeatMs);
    return [
      ...stuck.map(
        ({ name, lateMs }) =>
          `worker ${id}: its loop '${name}' has stood still for ${seconds(lateMs)}`,
      ),
      ...(this.#standsStill(beatAgeMs, silence)
        ? [`worker ${id}: its keeper has given no sign of life for ${seconds(beatAgeMs)}`]
        : []),
    ];
  }

  /** Only the time counts in which the database could have answered. */
  #standsStill(forMs: number, limitMs: number): boolean {
    if (this.#answersSince === null) return false;
    const since = this.#parts.holdfast.runtime.monotonic() - forMs;
    return this.#answeredAt - Math.max(since, this.#answersSince) > limitMs;
  }
}

/** Whoever says something about the tables answers. */
function saidBy(error: unknown): Said {
  if (error instanceof StoreGone) return GONE;
  const isMisfit = error instanceof SchemaTooOld || error instanceof SchemaTooNew;
  if (!isMisfit) return SILENT;
  return { answers: true, problem: describeError(error).message, workers: [] };
}

const NONE_WORKS = "none of the processes that run jobs has a worker that works";

/** Process ids are told apart by the host, and by the namespace that they are from. */
function isHere({ hostname, hostBoot }: WorkerRecord): boolean {
  const here = ownTrace();
  return hostname === here.hostname && hostBoot === here.hostBoot;
}

function works({ status }: WorkerRecord): boolean {
  return status === "running";
}

function checkChild(pid: number, worker: WorkerRecord | undefined, lateMs: number): Check {
  if (worker === undefined) {
    return { name: `process ${pid}`, status: "degraded", detail: "no worker is registered yet" };
  }
  const { id, status, wish, running, silentMs } = worker;
  const name = `worker ${id}`;
  if (!works(worker)) return { name, status: "degraded", detail: `worker ${id} is ${status}` };
  if (silentMs > lateMs) {
    return { name, status: "degraded", detail: `no sign of life for ${seconds(silentMs)}` };
  }
  return { name, status: "ok", detail: `${wish === "pause" ? "paused" : status}, ${running} jobs` };
}

function checkDatabase({ answers, problem }: Said): Check {
  if (answers) return { name: "database", status: "ok", detail: "it answers" };
  return { name: "database", status: "down", detail: problem ?? "the database does not answer" };
}

/** Of a database that does not answer nobody knows. */
function checkSchema({ answers, problem }: Said): Check[] {
  if (!answers) return [];
  if (problem === null) return [{ name: "schema", status: "ok", detail: "it fits" }];
  return [{ name: "schema", status: "down", detail: problem }];
}

function unready(worker: Worker): string[] {
  const { id, state } = worker.status();
  if (state !== "running") return [`worker ${id} is ${state}`];
  return worker.pulse() === null ? [`worker ${id} registers anew`] : [];
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
