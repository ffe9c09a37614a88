/**
 * A worker's work under one id: from its registration until its row is closed.
 *
 * A few loops of one shape around its turns, and how they start and stop. It never writes SQL and decides nothing about a
 * job's state: it reports outcomes, and the store moves the rows.
 */
import { ShuttingDown, WorkerDeposed, type HoldfastError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { silentLogger, type Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { sleep, type Gauge, type Runtime, type Timer } from "../core/runtime.ts";
import type { Wish } from "../core/worker-state.ts";
import type { Beat, Registered, WorkerVitals } from "../store/registry.ts";
import type { TaskClient } from "../queue/task-client.ts";
import type { Workflows } from "../queue/workflows.ts";
import type { Hint, Store } from "../store/store.ts";
import { ABORT_GRACE_MS } from "./attempt.ts";
import { TRUST_MARGIN } from "./attempts.ts";
import type { KeeperHost } from "./keeper-host.ts";
import { startKeeper } from "./keeper-late.ts";
import { leaseList, type LeaseList, type Report } from "./keeper.ts";
import type { Pulse } from "./meter.ts";
import { register } from "./registration.ts";
import type { Reporter } from "./reporter.ts";
import type { WorkerSettings } from "./settings.ts";
import { Turns } from "./turns.ts";
import { withinLimit } from "./within-limit.ts";
import { Undertaker } from "./undertaker.ts";
import { ItemUpkeep } from "./item-upkeep.ts";
import { Upkeep } from "./upkeep.ts";

/** Other processes' writes are looked at for cancel requests at most this often … */
const ORDER_LOOK_MS = 200;
/** … for what is wanted of the worker itself … */
const WISH_LOOK_MS = 1_000;
/** … and for jobs that will be due, this long after the first of them. */
const NEWS_MS = 100;
/** Workers that wait for the same job look for it over this much time. */
const SPREAD_MS = 10;
/** What an aborted task has to end by itself, and a moment more to be settled. */
const LAST_WAIT_MS = ABORT_GRACE_MS + 1_000;
/** What a stop waits for the database when its limit is over. */
const DATABASE_MS_MIN = 2_000;
/** An outage is over for everybody within this time: it is the longest pause of a loop that fails, and a moment more. */
const LAST_CHANCE_MS = 6_000;
const TRUST_CHECK_MS_MAX = 1_000;

export interface ShiftParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
  readonly workflows: Workflows;
  readonly client: TaskClient;
  readonly reporter: Reporter;
  /** Somebody wants this worker to end. */
  readonly onWish: (wish: "drain" | "stop") => void;
  /** The row is not ours any more. */
  readonly onDeposed: () => void;
}

interface Loops {
  /** The first claims and settles; the others join it where the store gains from several at once. */
  readonly turns: readonly Loop[];
  readonly upkeep: Loop;
  /** Only of a worker that knows workflows. */
  readonly items?: Loop;
  readonly watch: Loop;
  readonly orders: Loop;
  readonly undertaker: Loop;
}

export class Shift {
  readonly id: string;
  readonly registered: Registered;
  readonly #parts: ShiftParts;
  readonly #keeper: KeeperHost;
  readonly #turns: Turns;
  readonly #undertaker: Undertaker;
  readonly #loops: Loops;
  readonly #unwatch: () => void;
  readonly #stopping = new AbortController();
  readonly #gauge: Gauge;
  #news: Timer | null = null;
  #wish: Wish = "run";
  #toldAt = Number.NEGATIVE_INFINITY;
  #beatAt: number;
  #ended: Promise<void> | null = null;
  /** Something was written of which nobody knows what it is. */
  #isUnsure = false;
  #askedAt = 0;
  /** Until when a stop waits for the database, on the monotonic clock. */
  #limitAt = Number.POSITIVE_INFINITY;

  /** Waits for a slot, if it must and may. The signal ends the wait. */
  static async start(parts: ShiftParts, signal: AbortSignal): Promise<Shift> {
    const { store, runtime, settings } = parts;
    const { leaseMs, extendAt, blockedMsMax, endBlocked, heartbeatMs, queues } = settings;
    const id = `${settings.name}-${makeIds(runtime)()}`;
    let shift: Shift | null = null;
    const openKeeper = (): KeeperHost =>
      startKeeper({
        ...parts,
        settings: { worker: id, leaseMs, extendAt, blockedMsMax, endBlocked, heartbeatMs, queues },
        // It has nothing to report on before the worker gives it something to hold.
        report: (report) => shift?.hearKeeper(report),
        beat: (beat) => shift?.hearBeat(beat),
        held: () => shift?.held() ?? leaseList([]),
      });
    let keeper: KeeperHost | null = null;
    let registered: Registered | null = null;
    try {
      registered = await register(id, { ...parts, signal });
      keeper = openKeeper();
      const entered = await store.moveWorker(id, { state: "running", reason: null });
      if (!entered) throw new WorkerDeposed({ worker: id });
      // Its loops begin after whoever waits for it could begin to listen.
      shift = new Shift(parts, { id, registered, keeper });
      return shift;
    } catch (error) {
      await keeper?.stop();
      if (registered !== null) {
        await store.moveWorker(id, { state: "stopped", reason: "failed" }).catch(() => {});
      }
      throw error;
    }
  }

  private constructor(
    parts: ShiftParts,
    { id, registered, keeper }: { id: string; registered: Registered; keeper: KeeperHost },
  ) {
    const { store, reporter, settings } = parts;
    this.id = id;
    this.registered = registered;
    this.#parts = parts;
    this.#beatAt = parts.runtime.monotonic();
    this.#keeper = keeper;
    reporter.enter(id);
    const wake = (): void => this.#wakeTurns();
    const wakeBeside = (): void => this.#loops.turns.slice(1).forEach((turn) => turn.wake());
    const guarded = settings.slots !== null;
    this.#turns = new Turns({ ...parts, worker: id, guarded, keeper, wake, wakeBeside });
    this.#undertaker = new Undertaker({ ...parts, worker: id, closed: registered.closed });
    this.#loops = this.#startLoops();
    this.#unwatch = store.watch((hint) => this.#hearHint(hint));
    this.#gauge = parts.runtime.gauge();
  }

  get running(): number {
    return this.#turns.running;
  }

  get buffered(): number {
    return this.#turns.buffered;
  }

  get wish(): Wish {
    return this.#wish;
  }

  pulse(): Pulse {
    const { runtime, settings } = this.#parts;
    const { turns, ...others } = this.#loops;
    const loops = [...turns, ...Object.values<Loop>(others)];
    return {
      heartbeatMs: settings.heartbeatMs,
      beatAgeMs: runtime.monotonic() - this.#beatAt,
      loops: loops.map(({ name, lateMs }) => ({ name, lateMs })),
    };
  }

  held(): LeaseList {
    return this.#turns.held();
  }

  hearKeeper(report: Report): void {
    this.#turns.hearKeeper(report);
  }

  /** What was learned with a sign of life. */
  hearBeat(beat: Beat | null): void {
    this.#beatAt = this.#parts.runtime.monotonic();
    if (this.#stopping.signal.aborted) return;
    if (beat === null) return this.#parts.onDeposed();
    this.#hearWish(beat.wish);
    this.#undertaker.hear(beat);
    this.#loops.undertaker.wake();
    this.#turns.hearPending(beat.pending);
  }

  /** Stops claiming, waits for what runs, then aborts it and hands it back uncharged. */
  async stop(options: { timeoutMs: number; hurry: AbortSignal; reason: string }): Promise<void> {
    this.#turns.stopClaiming();
    // From here on another worker may have the slot.
    const told = this.#move("stopping", options.reason);
    await this.#end(new ShuttingDown(), options);
    await this.#withDatabase(async () => {
      await told;
      await this.#move("stopped", options.reason);
    });
  }

  /** The row is not ours: nothing that was begun under it may go on. */
  async abandon(): Promise<void> {
    this.#turns.stopClaiming();
    const hurry = AbortSignal.abort();
    await this.#end(new WorkerDeposed({ worker: this.id }), { timeoutMs: 0, hurry });
  }

  #end(reason: HoldfastError, patience: { timeoutMs: number; hurry: AbortSignal }): Promise<void> {
    this.#ended ??= this.#endOnce(reason, patience);
    return this.#ended;
  }

  async #endOnce(
    reason: HoldfastError,
    { timeoutMs, hurry }: { timeoutMs: number; hurry: AbortSignal },
  ): Promise<void> {
    const { runtime } = this.#parts;
    this.#limitAt = runtime.monotonic() + timeoutMs;
    await this.#turns.idleWithin(timeoutMs, hurry);
    this.#turns.abortAll(reason);
    await this.#turns.restWithin(LAST_WAIT_MS);
    this.#limitAt = Math.max(this.#limitAt, runtime.monotonic() + DATABASE_MS_MIN);
    const { turns, ...others } = this.#loops;
    await this.#withDatabase(async () => {
      await Promise.all(turns.map((turn) => turn.stop()));
      await this.#turns.settleTheRest();
    });
    this.#unwatch();
    this.#news?.cancel();
    this.#stopping.abort();
    await this.#withDatabase(async () => {
      await Promise.all(Object.values(others).map((loop: Loop) => loop.stop()));
      await this.#keeper.stop();
    });
    this.#gauge.stop();
  }

  /** A database that does not answer keeps no worker from stopping. */
  async #withDatabase(body: () => Promise<void>): Promise<void> {
    const { runtime, logger } = this.#parts;
    if (await withinLimit(runtime, this.#limitAt - runtime.monotonic(), body)) return;
    logger.warn({ worker: this.id }, "the database did not answer; the worker stops without it");
  }

  /** A database that is away does not keep a worker from stopping: its row will be found silent. */
  async #move(state: "stopping" | "stopped", reason: string): Promise<void> {
    const { store, logger } = this.#parts;
    try {
      const last = state === "stopped" ? { vitals: this.#vitals() } : {};
      await store.moveWorker(this.id, { state, reason, ...last });
    } catch (error) {
      logger.warn({ worker: this.id, err: error }, `could not write that the worker is ${state}`);
    }
  }

  #startLoops(): Loops {
    const { store, runtime, logger, settings, reporter } = this.#parts;
    const { upkeepMs, leaseMs, graceMs, crashesMax, keepMs } = settings;
    const lastChanceMs = Math.min(leaseMs, LAST_CHANCE_MS);
    const upkeep = new Upkeep({
      store,
      runtime,
      // A lease that somebody takes after a look ends no sooner than one of ours would.
      settings: { everyMs: upkeepMs, idleMs: leaseMs, graceMs, lastChanceMs, crashesMax, keepMs },
      onReclaimed: (job) => reporter.recovered(job),
    });
    const loop = (name: string, once: () => Promise<number>): Loop =>
      new Loop({ name, runtime, logger, once });
    // What fails here fails in the first turn too, which says so.
    const beside = (): Loop =>
      new Loop({
        name: "turn beside",
        runtime,
        logger: silentLogger,
        once: () => this.#turns.onceBeside(),
      });
    return {
      turns: [
        loop("turn", () => this.#turns.once()),
        ...Array.from({ length: store.lanes - 1 }, beside),
      ],
      upkeep: loop("upkeep", () => upkeep.once()),
      ...this.#itemLoop(loop),
      watch: loop("watch", () => this.#watch()),
      orders: loop("orders", () => this.#lookForOrders()),
      undertaker: loop("undertaker", () => this.#undertaker.once()),
    };
  }

  #itemLoop(loop: (name: string, once: () => Promise<number>) => Loop): { items?: Loop } {
    const { settings } = this.#parts;
    if (settings.workflows.length === 0) return {};
    const items = new ItemUpkeep({ ...this.#parts, settings });
    return { items: loop("items", () => items.once()) };
  }

  async #watch(): Promise<number> {
    const { runtime, settings } = this.#parts;
    this.#turns.watch();
    const now = runtime.monotonic();
    // Twice for every sign of life, so that what it carries is never old.
    if (now - this.#toldAt >= settings.heartbeatMs / 2) {
      this.#keeper.vitals(this.#vitals());
      // The first brings news of the others, one of whom may have died and left jobs behind.
      if (this.#toldAt === Number.NEGATIVE_INFINITY) this.#keeper.beatNow();
      this.#toldAt = now;
    }
    const trustMs = settings.leaseMs * (TRUST_MARGIN / 2);
    return Math.min(TRUST_CHECK_MS_MAX, trustMs, settings.heartbeatMs / 2);
  }

  #vitals(): WorkerVitals {
    const { claimed, completed, dead, retried, leasesLost } = this.#parts.reporter.counters;
    return {
      claimed,
      done: completed,
      failed: dead,
      retried,
      leasesLost,
      running: this.#turns.running,
      loopDelayMs: this.#gauge.loopDelayMs(),
      memoryBytes: this.#gauge.memoryBytes(),
    };
  }

  /** Somebody wrote something, and where the database does not say what, it has to be looked for. */
  async #lookForOrders(): Promise<number> {
    const { store, runtime, settings } = this.#parts;
    if (this.#turns.running > 0) this.#turns.cancel(await store.cancelRequests(this.id));
    const now = runtime.monotonic();
    if (this.#isUnsure && now - this.#askedAt >= WISH_LOOK_MS) {
      this.#isUnsure = false;
      this.#askedAt = now;
      const wish = await store.wishOf(this.id);
      if (wish !== null) this.#hearWish(wish);
      else if (!this.#stopping.signal.aborted) this.#parts.onDeposed();
    }
    await sleep(runtime, ORDER_LOOK_MS, { signal: this.#stopping.signal });
    return this.#isUnsure ? WISH_LOOK_MS : settings.pollMs;
  }

  #hearWish(wish: Wish): void {
    if (wish === this.#wish) return;
    this.#wish = wish;
    const { reporter } = this.#parts;
    if (wish === "pause") {
      this.#turns.pause();
      reporter.worker("paused", { running: this.#turns.running });
    }
    if (wish === "run") {
      this.#turns.resume();
      reporter.worker("resumed");
    }
    if (wish === "drain" || wish === "stop") this.#parts.onWish(wish);
  }

  #hearHint(hint: Hint): void {
    const { orders, items } = this.#loops;
    if (hint.kind === "waiting") this.#hearWaiting(hint.inMs);
    if (hint.kind === "unknown") this.#isUnsure = true;
    if (hint.kind === "cancel" || hint.kind === "unknown") orders.wake();
    // The jobs that an item waited for may have ended.
    const concernsItems = hint.kind === "finished" && items !== undefined;
    if (hint.kind === "unknown" || concernsItems) this.#hearNews();
    if (hint.kind === "workers") this.#keeper.beatNow();
    const ours = hint.kind === "pending" && this.#parts.settings.queues.includes(hint.queue);
    if (ours || hint.kind === "unknown") this.#turns.hearPending(true);
  }

  #hearWaiting(inMs: number | undefined): void {
    const { upkeep, items } = this.#loops;
    if (inMs === undefined) {
      upkeep.wake();
      items?.wake();
      return;
    }
    // Not all at the same moment: whoever is first makes the job pending, and the others need only look.
    upkeep.wakeWithin(inMs + SPREAD_MS * this.#parts.runtime.random());
  }

  #wakeTurns(): void {
    for (const turn of this.#loops.turns) turn.wake();
  }

  /** Another process wrote, and may have brought jobs that are due soon: upkeep looks once for a flock of hints. */
  #hearNews(): void {
    this.#news ??= this.#parts.runtime.timer(
      NEWS_MS,
      () => {
        this.#news = null;
        this.#loops.upkeep.wake();
        this.#loops.items?.wake();
      },
      "background",
    );
  }
}
