/**
 * A worker under one id, from its registration until its row is closed.
 *
 * It starts and stops the loops around the poll cycle. It decides nothing about a job's state: it reports outcomes, and the
 * store moves the rows.
 */
import { BulkCarrier } from "../bulk/carrier.ts";
import type { BulkStore } from "../bulk/store.ts";
import { type HoldfastError, ShuttingDownError, WorkerEvictedError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { type Logger, silentLogger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { type Gauge, type Runtime, sleep, type Timer } from "../core/runtime.ts";
import type { Context } from "../core/task.ts";
import { withinLimit } from "../core/wait.ts";
import type { Hint } from "../database/engine.ts";
import type { Children } from "../isolation/children.ts";
import type { Upcoming } from "../jobs/store.ts";
import type { LocksStore } from "../locks/store.ts";
import type { QueuesStore } from "../queues/store.ts";
import type { WorkersStore } from "../registry/store.ts";
import type {
  DesiredState,
  HeartbeatWrite,
  Registered,
  WorkerVitals,
} from "../registry/worker-record.ts";
import { Scheduler } from "../schedules/scheduler.ts";
import type { SchedulesStore } from "../schedules/store.ts";
import type { TracesStore } from "../tracing/tracing.ts";
import { ItemMaintenance } from "../workflows/maintenance.ts";
import type { ItemsStore } from "../workflows/store.ts";
import type { Workflows } from "../workflows/workflows.ts";
import { ABORT_GRACE_MS, type AttemptStore } from "./attempt.ts";
import { TRUST_MARGIN } from "./attempts.ts";
import type { Pulse } from "./events.ts";
import { type LeaseRenewerHost, startLeaseRenewer } from "./lease-renewer-host.ts";
import { leaseList, type LeaseList, type Report } from "./lease-renewer.ts";
import { Maintenance } from "./maintenance.ts";
import type { WorkerSettings } from "./options.ts";
import { PollCycle } from "./poll-cycle.ts";
import { Reaper } from "./reaper.ts";
import { register } from "./registration.ts";
import type { Counters, Reporter } from "./reporter.ts";

/** The parts of the store that a worker uses. */
interface WorkerStore extends AttemptStore {
  readonly bulk: BulkStore;
  readonly items: ItemsStore;
  readonly locks: LocksStore;
  readonly queues: QueuesStore;
  readonly schedules: SchedulesStore;
  readonly traces: TracesStore;
  readonly workers: WorkersStore;
}

/** After writes of other processes, cancel requests are read at most this often … */
const DESIRED_STATE_MS = 200;

/** … the desired state of the worker at most this often … */
const STATE_LOOK_MS = 1_000;

/** … bulk actions at most this often … */
const BULK_LOOK_MS = 1_000;

/** … and due jobs this long after the first write. */
const NEWS_MS = 100;

/** Workers that wait for the same job spread their queries over this much time. */
const SPREAD_MS = 10;

/** The time that an aborted task has to end, and a moment more to be settled. */
const LAST_WAIT_MS = ABORT_GRACE_MS + 1_000;

/** How long a stop waits for the database after its timeout. */
const DATABASE_MS_MIN = 2_000;

/** All processes notice the end of an outage within this time: the longest pause of a failing loop, and a moment more. */
const LAST_CHANCE_MS = 6_000;

const TRUST_CHECK_MS_MAX = 1_000;

export interface WorkerSessionParts {
  readonly store: WorkerStore;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
  readonly workflows: Workflows;
  /** The client that its tasks get. */
  readonly client: Context["holdfast"];
  /** The threads and processes of isolated tasks; null: they run on this thread. */
  readonly children: Children | null;
  readonly reporter: Reporter;
  /** An operator wants this worker to end. */
  readonly onDesiredState: (desiredState: "drain" | "stop") => void;
  /** The worker's row was closed or deleted. */
  readonly onEvicted: () => void;
}

interface Loops {
  /** The first claims and settles; the others overlap it where the store benefits. */
  readonly pollCycle: readonly Loop[];
  readonly maintenance: Loop;
  readonly bulk: Loop;
  /** Only for a worker with workflows. */
  readonly items?: Loop;
  readonly schedules: Loop;
  readonly watch: Loop;
  readonly desiredState: Loop;
  readonly reaper: Loop;
}

export class WorkerSession {
  readonly id: string;
  readonly registered: Registered;
  readonly #parts: WorkerSessionParts;
  readonly #renewer: LeaseRenewerHost;
  readonly #pollCycle: PollCycle;
  readonly #reaper: Reaper;
  readonly #scheduler: Scheduler;
  readonly #loops: Loops;
  readonly #unwatch: () => void;
  readonly #stopping = new AbortController();
  readonly #gauge: Gauge;
  #news: Timer | null = null;
  #desiredState: DesiredState = "run";
  #vitalsAt = Number.NEGATIVE_INFINITY;
  /** What the worker had counted under earlier ids. Their rows have it, and the sum over rows must not have it twice. */
  readonly #countedBefore: Counters;
  #heartbeatAt: number;
  #ended: Promise<void> | null = null;
  /** Another process wrote, and the database does not tell what. */
  #isUnsure = false;
  #askedAt = 0;
  /** Until when a stop waits for the database, on the monotonic clock. */
  #limitAt = Number.POSITIVE_INFINITY;

  /** Waits for a slot, if it must and may. The signal ends the wait. */
  static async start(parts: WorkerSessionParts, signal: AbortSignal): Promise<WorkerSession> {
    const { store, runtime, settings } = parts;
    const { leaseMs, extendAt, maxBlockMs, endBlocked, heartbeatMs, queues } = settings;
    const id = `${settings.name}-${makeIds(runtime)()}`;
    let session: WorkerSession | null = null;
    let renewer: LeaseRenewerHost | null = null;
    let registered: Registered | null = null;
    try {
      registered = await register(id, { ...parts, signal });
      renewer = startLeaseRenewer({
        ...parts,
        settings: { worker: id, leaseMs, extendAt, maxBlockMs, endBlocked, heartbeatMs, queues },
        // It reports nothing before the worker gives it a lease.
        report: (report) => session?.onRenewerReport(report),
        heartbeat: (written) => session?.onHeartbeat(written),
        held: () => session?.held() ?? leaseList([]),
      });
      const entered = await store.workers.move(id, { state: "running", reason: null });
      if (!entered) throw new WorkerEvictedError({ worker: id });
      // Its loops begin after the caller could add listeners.
      session = new WorkerSession(parts, { id, registered, renewer });
      return session;
    } catch (error) {
      await renewer?.stop();
      if (registered !== null) {
        await store.workers.move(id, { state: "stopped", reason: "failed" }).catch(() => {});
      }
      throw error;
    }
  }

  private constructor(
    parts: WorkerSessionParts,
    { id, registered, renewer }: { id: string; registered: Registered; renewer: LeaseRenewerHost },
  ) {
    const { store, reporter, settings } = parts;
    this.id = id;
    this.registered = registered;
    this.#parts = parts;
    this.#heartbeatAt = parts.runtime.monotonic();
    this.#renewer = renewer;
    reporter.enter(id);
    this.#countedBefore = reporter.counters;
    const wake = (): void => this.wakePollCycle();
    const wakeOverlapping = (): void =>
      this.#loops.pollCycle.slice(1).forEach((loop) => loop.wake());
    const guarded = settings.slots !== null;
    const waking = { wake, wakeOverlapping };
    this.#pollCycle = new PollCycle({ ...parts, ...waking, worker: id, guarded, renewer });
    this.#reaper = new Reaper({ ...parts, worker: id, closed: registered.closed });
    this.#scheduler = new Scheduler({ ...parts, idleMs: settings.pollMs });
    this.#loops = this.#startLoops();
    this.#unwatch = store.db.watch((hint) => this.onHint(hint));
    this.#gauge = parts.runtime.gauge();
  }

  get running(): number {
    return this.#pollCycle.running;
  }

  get buffered(): number {
    return this.#pollCycle.buffered;
  }

  get desiredState(): DesiredState {
    return this.#desiredState;
  }

  pulse(): Pulse {
    const { runtime, settings } = this.#parts;
    const { pollCycle, ...others } = this.#loops;
    const loops = [...pollCycle, ...Object.values<Loop>(others)];
    return {
      heartbeatMs: settings.heartbeatMs,
      heartbeatAgeMs: runtime.monotonic() - this.#heartbeatAt,
      loops: loops.map(({ name, lateMs }) => ({ name, lateMs })),
    };
  }

  held(): LeaseList {
    return this.#pollCycle.held();
  }

  onRenewerReport(report: Report): void {
    this.#pollCycle.onRenewerReport(report);
  }

  /** Handles the answer to a heartbeat. */
  onHeartbeat(heartbeat: HeartbeatWrite | null): void {
    this.#heartbeatAt = this.#parts.runtime.monotonic();
    if (this.#stopping.signal.aborted) return;
    if (heartbeat === null) return this.#parts.onEvicted();
    this.#applyDesiredState(heartbeat.desiredState);
    this.#reaper.onHeartbeat(heartbeat);
    this.#loops.reaper.wake();
    this.#pollCycle.onPending(heartbeat.pending);
  }

  /** Stops claiming, waits for running jobs, then aborts and releases them; the attempt does not count. */
  async stop(options: { timeoutMs: number; hurry: AbortSignal; reason: string }): Promise<void> {
    this.#pollCycle.stopClaiming();
    // From here on another worker may have the slot.
    const stopping = this.#move("stopping", options.reason);
    await this.#end(new ShuttingDownError(), options);
    await this.#withDatabase(async () => {
      await stopping;
      await this.#move("stopped", options.reason);
    });
  }

  /** Ends without the row, which is not ours: no job that began under it may continue. */
  async abandon(): Promise<void> {
    this.#pollCycle.stopClaiming();
    const hurry = AbortSignal.abort();
    await this.#end(new WorkerEvictedError({ worker: this.id }), { timeoutMs: 0, hurry });
  }

  #end(reason: HoldfastError, limits: { timeoutMs: number; hurry: AbortSignal }): Promise<void> {
    this.#ended ??= this.#endOnce(reason, limits);
    return this.#ended;
  }

  async #endOnce(
    reason: HoldfastError,
    { timeoutMs, hurry }: { timeoutMs: number; hurry: AbortSignal },
  ): Promise<void> {
    const { runtime } = this.#parts;
    this.#limitAt = runtime.monotonic() + timeoutMs;
    await this.#pollCycle.idleWithin(timeoutMs, hurry);
    this.#pollCycle.abortAll(reason);
    await this.#pollCycle.restWithin(LAST_WAIT_MS);
    const leastAt = runtime.monotonic() + DATABASE_MS_MIN;
    this.#limitAt = hurry.aborted ? leastAt : Math.max(this.#limitAt, leastAt);
    const { pollCycle, ...others } = this.#loops;
    await this.#withDatabase(async () => {
      await Promise.all(pollCycle.map((loop) => loop.stop()));
      await this.#pollCycle.settleTheRest();
    });
    this.#unwatch();
    this.#news?.cancel();
    this.#stopping.abort();
    await this.#withDatabase(async () => {
      await Promise.all(Object.values(others).map((loop: Loop) => loop.stop()));
      await this.#renewer.stop();
    });
    this.#gauge.stop();
  }

  /** A worker stops even if the database does not answer. */
  async #withDatabase(body: () => Promise<void>): Promise<void> {
    const { runtime, logger } = this.#parts;
    if (await withinLimit(runtime, this.#limitAt - runtime.monotonic(), body)) return;
    logger.warn({ worker: this.id }, "the database did not answer; the worker stops without it");
  }

  /** A worker stops even if the database is unavailable: the reaper closes its row later. */
  async #move(state: "stopping" | "stopped", reason: string): Promise<void> {
    const { store, logger } = this.#parts;
    try {
      const last = state === "stopped" ? { vitals: this.#vitals() } : {};
      await store.workers.move(this.id, { state, reason, ...last });
    } catch (error) {
      logger.warn({ worker: this.id, err: error }, `could not record that the worker is ${state}`);
    }
  }

  #startLoops(): Loops {
    const { store, runtime, logger, settings, reporter } = this.#parts;
    const { maintenanceIntervalMs, leaseMs, graceMs, maxCrashes, retention } = settings;
    const lastChanceMs = Math.min(leaseMs, LAST_CHANCE_MS);
    const maintenance = new Maintenance({
      store,
      runtime,
      logger,
      // A lease that is claimed after a query ends no sooner than one of ours would.
      settings: {
        everyMs: maintenanceIntervalMs,
        idleMs: leaseMs,
        graceMs,
        lastChanceMs,
        maxCrashes,
        retention,
      },
      onUpcoming: (upcoming) => this.onUpcoming(upcoming),
      onReclaimed: (job) => reporter.recovered(job),
      onExpired: (job) => reporter.expired(job),
    });
    const loop = (name: string, once: () => Promise<number>): Loop =>
      new Loop({ name, runtime, logger, once });
    // Errors here also occur in the first loop, which logs them.
    const overlapping = (): Loop =>
      new Loop({
        name: "overlapping poll cycle",
        runtime,
        logger: silentLogger,
        once: () => this.#pollCycle.overlap(),
      });
    return {
      pollCycle: [
        loop("poll cycle", () => this.#pollCycle.once()),
        ...Array.from({ length: store.db.pollCycles - 1 }, overlapping),
      ],
      maintenance: loop("maintenance", () => maintenance.once()),
      bulk: this.#bulkLoop(loop),
      ...this.#itemLoop(loop),
      schedules: loop("schedules", () => this.#scheduler.once()),
      watch: loop("watch", () => this.#watch()),
      desiredState: loop("desired state", () => this.readDesiredState()),
      reaper: loop("reaper", () => this.#reaper.once()),
    };
  }

  /** Actions that no other process carries out. */
  #bulkLoop(loop: (name: string, once: () => Promise<number>) => Loop): Loop {
    const { store, runtime, logger, settings } = this.#parts;
    const newId = makeIds(runtime);
    const carrier = new BulkCarrier({ store, newId, logger, name: this.id });
    let lookedAt = Number.NEGATIVE_INFINITY;
    return loop("bulk actions", async () => {
      const restMs = lookedAt + BULK_LOOK_MS - runtime.monotonic();
      if (restMs > 0) return restMs; // hints about other changes wake it too
      if (await carrier.once()) return 0;
      lookedAt = runtime.monotonic();
      return settings.leaseMs;
    });
  }

  #itemLoop(loop: (name: string, once: () => Promise<number>) => Loop): { items?: Loop } {
    const { settings } = this.#parts;
    if (settings.workflows.length === 0) return {};
    const items = new ItemMaintenance({ ...this.#parts, settings });
    return { items: loop("items", () => items.once()) };
  }

  async #watch(): Promise<number> {
    const { runtime, settings } = this.#parts;
    this.#pollCycle.watch();
    const now = runtime.monotonic();
    // Twice for every heartbeat, so that its vitals are never old.
    if (now - this.#vitalsAt >= settings.heartbeatMs / 2) {
      this.#renewer.vitals(this.#vitals());
      // The first heartbeat learns of the other workers, one of which may have died and left jobs behind.
      if (this.#vitalsAt === Number.NEGATIVE_INFINITY) this.#renewer.heartbeatNow();
      this.#vitalsAt = now;
    }
    const trustMs = settings.leaseMs * (TRUST_MARGIN / 2);
    return Math.min(TRUST_CHECK_MS_MAX, trustMs, settings.heartbeatMs / 2);
  }

  #vitals(): WorkerVitals {
    const { counters } = this.#parts.reporter;
    const counted = (name: keyof Counters): number => counters[name] - this.#countedBefore[name];
    return {
      claimed: counted("claimed"),
      done: counted("done"),
      failed: counted("failed"),
      retried: counted("retried"),
      leasesLost: counted("leasesLost"),
      running: this.#pollCycle.running,
      loopDelayMs: this.#gauge.loopDelayMs(),
      memoryBytes: this.#gauge.memoryBytes(),
    };
  }

  /** Reads cancel requests, and the desired state if it may have changed. */
  async readDesiredState(): Promise<number> {
    const { store, runtime, settings } = this.#parts;
    if (this.#pollCycle.running > 0)
      this.#pollCycle.cancel(await store.jobs.cancelRequests(this.id));
    const now = runtime.monotonic();
    if (this.#isUnsure && now - this.#askedAt >= STATE_LOOK_MS) {
      this.#isUnsure = false;
      this.#askedAt = now;
      const desiredState = await store.workers.desiredStateOf(this.id);
      if (desiredState !== null) this.#applyDesiredState(desiredState);
      else if (!this.#stopping.signal.aborted) this.#parts.onEvicted();
    }
    await sleep(runtime, DESIRED_STATE_MS, { signal: this.#stopping.signal });
    return this.#isUnsure ? STATE_LOOK_MS : settings.pollMs;
  }

  #applyDesiredState(desiredState: DesiredState): void {
    if (desiredState === this.#desiredState) return;
    this.#desiredState = desiredState;
    const { reporter } = this.#parts;
    if (desiredState === "pause") {
      this.#pollCycle.pause();
      reporter.worker("paused", { running: this.#pollCycle.running });
    }
    if (desiredState === "run") {
      this.#pollCycle.resume();
      reporter.worker("resumed");
    }
    if (desiredState === "drain" || desiredState === "stop")
      this.#parts.onDesiredState(desiredState);
  }

  onHint(hint: Hint): void {
    const { desiredState, items, schedules } = this.#loops;
    if (hint.kind === "waiting") this.onWaiting(hint.inMs);
    if (hint.kind === "unknown") this.#isUnsure = true;
    if (hint.kind === "cancel" || hint.kind === "unknown") desiredState.wake();
    // The jobs that an item waits for may have ended.
    const concernsItems = hint.kind === "finished" && items !== undefined;
    if (hint.kind === "unknown" || concernsItems) this.onNews();
    if (hint.kind === "finished" && this.#scheduler.awaitsJobs) schedules.wake();
    if (hint.kind === "workers") this.#renewer.heartbeatNow();
    const ours = hint.kind === "pending" && this.#parts.settings.queues.includes(hint.queue);
    if (ours || hint.kind === "unknown") this.#pollCycle.onPending(true);
  }

  onWaiting(inMs: number | undefined): void {
    const { maintenance, bulk, items, schedules } = this.#loops;
    if (inMs === undefined) {
      maintenance.wake();
      bulk.wake();
      items?.wake();
      schedules.wake();
      return;
    }
    // Not all at the same moment: the first worker makes the job pending, and the others find nothing to do.
    maintenance.wakeWithin(inMs + SPREAD_MS * this.#parts.runtime.random());
  }

  /** Maintenance has looked for the work of these loops too. */
  onUpcoming({ bulkInMs, schedulesInMs }: Upcoming): void {
    const { bulk, schedules } = this.#loops;
    if (bulkInMs !== null) bulk.wakeWithin(bulkInMs);
    if (schedulesInMs !== null) schedules.wakeWithin(Math.max(0, schedulesInMs));
  }

  wakePollCycle(): void {
    for (const loop of this.#loops.pollCycle) loop.wake();
  }

  /** Another process may have written jobs that are due soon. Maintenance runs once for several hints. */
  onNews(): void {
    this.#news ??= this.#parts.runtime.timer(
      NEWS_MS,
      () => {
        this.#news = null;
        this.#loops.maintenance.wake();
        this.#loops.items?.wake();
      },
      "background",
    );
  }
}
