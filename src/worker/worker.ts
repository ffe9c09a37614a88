/**
 * The worker: a few loops of one shape around its turns, and how they start and stop.
 *
 * It never writes SQL and decides nothing about a job's state: it reports outcomes, and the store moves the rows.
 */
import { checkKnown } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { ShuttingDown } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { silentLogger, type Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { sleep, type Runtime, type Timer } from "../core/runtime.ts";
import type { Hint, Store } from "../store/store.ts";
import { ABORT_GRACE_MS } from "./attempt.ts";
import { TRUST_MARGIN } from "./attempts.ts";
import type { WorkerEvents } from "./events.ts";
import { startKeeper, type KeeperHost } from "./keeper-host.ts";
import { Reporter, type Counters } from "./reporter.ts";
import type { WorkerSettings } from "./settings.ts";
import { Turns } from "./turns.ts";
import { guardProcess } from "./uncaught.ts";
import { Upkeep } from "./upkeep.ts";

/** Other processes' writes are looked at for cancel requests at most this often … */
const CANCEL_LOOK_MS = 200;
/** … and for jobs that will be due, this long after the first of them. */
const NEWS_MS = 100;
/** What an aborted task has to end by itself, and a moment more to be settled. */
const LAST_WAIT_MS = ABORT_GRACE_MS + 1_000;
const TRUST_CHECK_MS_MAX = 1_000;

const STOP_OPTIONS = new Set(["timeout"]);

export interface WorkerParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
}

export interface WorkerStatus extends Counters {
  readonly id: string;
  readonly state: "running" | "stopping" | "stopped";
  readonly running: number;
  readonly buffered: number;
}

interface Loops {
  /** The first claims and settles; the others join it where the store gains from several at once. */
  readonly turns: readonly Loop[];
  readonly upkeep: Loop;
  readonly watch: Loop;
  readonly cancels: Loop;
}

export class Worker implements AsyncDisposable {
  readonly id: string;
  readonly #parts: WorkerParts;
  readonly #reporter: Reporter;
  readonly #keeper: KeeperHost;
  readonly #turns: Turns;
  readonly #loops: Loops;
  readonly #unguard: () => void;
  readonly #unwatch: () => void;
  readonly #stopping = new AbortController();
  /** Aborts when a stop shall not wait for its jobs any longer. */
  readonly #hurry = new AbortController();
  #state: WorkerStatus["state"] = "running";
  #stopped: Promise<void> | null = null;
  #news: Timer | null = null;

  static async start(parts: WorkerParts): Promise<Worker> {
    const { store, runtime, logger, settings } = parts;
    const { leaseMs, extendAt, blockedMsMax } = settings;
    const id = `${settings.name}-${makeIds(runtime)()}`;
    const keeper = await startKeeper({
      store,
      runtime,
      logger,
      settings: { worker: id, leaseMs, extendAt, blockedMsMax },
      // It has nothing to report on before the worker gives it something to hold.
      report: (report) => worker.#turns.hearKeeper(report),
      held: () => worker.#turns.held(),
    });
    const worker: Worker = new Worker(parts, id, keeper);
    return worker;
  }

  private constructor(parts: WorkerParts, id: string, keeper: KeeperHost) {
    const { store, runtime, logger, settings } = parts;
    this.id = id;
    this.#parts = parts;
    this.#keeper = keeper;
    const reporter = new Reporter({ worker: id, runtime, logger });
    const wake = (): void => this.#wakeTurns();
    this.#reporter = reporter;
    const wakeBeside = (): void => this.#loops.turns.slice(1).forEach((turn) => turn.wake());
    this.#turns = new Turns({ ...parts, worker: id, reporter, keeper, wake, wakeBeside });
    this.#unguard = guardProcess();
    // Before the first turn, and after whoever started the worker could begin to listen.
    const facts = { queues: settings.queues, tasks: [...settings.tasks.keys()] };
    runtime.afterIo(() => reporter.worker("started", facts));
    this.#loops = this.#startLoops();
    this.#unwatch = store.watch((hint) => this.#hearHint(hint));
  }

  on<Name extends keyof WorkerEvents>(
    name: Name,
    listener: (event: WorkerEvents[Name]) => void,
  ): () => void {
    return this.#reporter.events.on(name, listener);
  }

  status(): WorkerStatus {
    return {
      id: this.id,
      state: this.#state,
      running: this.#turns.running,
      buffered: this.#turns.buffered,
      ...this.#reporter.counters,
    };
  }

  /**
   * Stops claiming, waits for what runs, then aborts it and hands it back uncharged. Resolves when everything is
   * settled. A timeout of 0 aborts at once, also when the worker is stopping already.
   */
  async stop(options: { readonly timeout?: Duration } = {}): Promise<void> {
    checkKnown(options, STOP_OPTIONS);
    const timeoutMs = toMs("timeout", options.timeout ?? this.#parts.settings.shutdownMs);
    if (timeoutMs === 0) this.#hurry.abort();
    this.#stopped ??= this.#shutDown(timeoutMs);
    await this.#stopped;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #startLoops(): Loops {
    const { store, runtime, logger, settings } = this.#parts;
    const { upkeepMs, leaseMs, graceMs, crashesMax, keepMs } = settings;
    const upkeep = new Upkeep({
      store,
      runtime,
      // A lease that somebody takes after a look ends no sooner than one of ours would.
      settings: { everyMs: upkeepMs, idleMs: leaseMs, graceMs, crashesMax, keepMs },
      onReclaimed: (job) => this.#reporter.recovered(job),
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
      watch: loop("watch", () => this.#watch()),
      cancels: loop("cancels", () => this.#lookForCancels()),
    };
  }

  async #shutDown(timeoutMs: number): Promise<void> {
    this.#state = "stopping";
    this.#reporter.worker("stopping", { running: this.#turns.running });
    this.#turns.stopClaiming();
    await this.#turns.idleWithin(timeoutMs, this.#hurry.signal);
    this.#turns.abortAll(new ShuttingDown());
    await this.#turns.idleWithin(LAST_WAIT_MS);
    const { turns, upkeep, watch, cancels } = this.#loops;
    await Promise.all(turns.map((turn) => turn.stop()));
    await this.#turns.settleTheRest();
    this.#unwatch();
    this.#news?.cancel();
    this.#stopping.abort();
    await Promise.all([upkeep.stop(), watch.stop(), cancels.stop()]);
    await this.#keeper.stop();
    this.#unguard();
    this.#state = "stopped";
    this.#reporter.worker("stopped", this.#reporter.counters);
  }

  async #watch(): Promise<number> {
    this.#turns.watch();
    return Math.min(TRUST_CHECK_MS_MAX, this.#parts.settings.leaseMs * (TRUST_MARGIN / 2));
  }

  async #lookForCancels(): Promise<number> {
    const { store, runtime, settings } = this.#parts;
    if (this.#turns.running > 0) this.#turns.cancel(await store.cancelRequests(this.id));
    await sleep(runtime, CANCEL_LOOK_MS, { signal: this.#stopping.signal });
    return settings.pollMs;
  }

  #hearHint(hint: Hint): void {
    const { cancels, upkeep } = this.#loops;
    if (hint.kind === "waiting") upkeep.wake();
    if (hint.kind === "cancel" || hint.kind === "unknown") cancels.wake();
    if (hint.kind === "unknown") this.#hearNews();
    const ours = hint.kind === "pending" && this.#parts.settings.queues.includes(hint.queue);
    if (ours || hint.kind === "unknown") this.#wakeTurns();
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
      },
      "background",
    );
  }
}
