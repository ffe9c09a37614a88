/** The worker's side of its lease renewer, which runs in a thread or in a loop on this thread. */
import { once } from "node:events";
import { url as debuggerUrl } from "node:inspector";
import {
  MessageChannel,
  type MessagePort,
  receiveMessageOnPort,
  Worker as Thread,
} from "node:worker_threads";
import { isForCode, programFile } from "../core/version.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { type Runtime, systemRuntime, type Timer } from "../core/runtime.ts";
import type { Database } from "../database/database.ts";
import type { StoreAddress } from "../database/engine.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { WorkersStore } from "../registry/store.ts";
import type { HeartbeatWrite, WorkerVitals } from "../registry/worker-record.ts";
import type { FromRenewer, LeaseRenewerThreadData, ToRenewer } from "./lease-renewer-thread.ts";
import {
  isNotBefore,
  type LeaseList,
  LeaseRenewer,
  type LeaseRenewerSettings,
  pack,
  type Report,
  SharedWithRenewer,
} from "./lease-renewer.ts";

export interface LeaseRenewerHost {
  hold(leases: LeaseList, sentAt: number): void;
  limit(id: string, stopAt: number): void;
  drop(leases: LeaseList): void;
  /** Drops leases that are about to end. Resolves when no renewal of them is in progress. */
  stopRenewing(leases: LeaseList): Promise<void>;
  /** Reports that the main thread is alive. */
  progress(): void;
  /** Sets the vitals that the next heartbeats report. */
  vitals(vitals: WorkerVitals): void;
  /** Sends a heartbeat at once, to read the desired state. */
  heartbeatNow(): void;
  /** Handles reports that were not delivered because the event loop was blocked. */
  catchUp(): void;
  /** Since when the database has not answered a renewal, on the monotonic clock; null: it has. */
  unansweredSince(): number | null;
  stop(): Promise<void>;
}

interface HostParts {
  readonly store: {
    readonly db: Database;
    readonly jobs: JobsStore;
    readonly workers: WorkersStore;
  };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: LeaseRenewerSettings;
  readonly report: (report: Report) => void;
  /** Receives the answer to every heartbeat. */
  readonly heartbeat: (written: HeartbeatWrite | null) => void;
  /** The current leases, for the loop that takes over from a dead thread. */
  readonly held: () => LeaseList;
  /** A thread without leases for so long ends. */
  readonly restMs?: number;
}

const REST_MS = 20_000;

function startLoop(
  { store, runtime, logger, settings, report, heartbeat }: HostParts,
  name = "lease renewer",
): LeaseRenewerHost {
  let progress = 0;
  let unansweredSince: number | null = null;
  const renewer = new LeaseRenewer({
    store: {
      extend: (fences, leaseMs) => store.jobs.extend(fences, leaseMs),
      heartbeat: (id, vitals, queues) => store.workers.heartbeat(id, vitals, queues),
    },
    runtime,
    settings,
    report,
    heartbeat,
    progress: () => progress,
    unanswered: (since) => void (unansweredSince = since),
  });
  const loop = new Loop({ name, runtime, logger, once: () => renewer.once() });
  return {
    hold: (leases, sentAt) => renewer.hold(leases, sentAt),
    limit: (id, stopAt) => renewer.limit(id, stopAt),
    drop: (leases) => renewer.drop(leases),
    stopRenewing: (leases) => renewer.stopRenewing(leases),
    progress: () => void (progress += 1),
    vitals: (vitals) => renewer.setVitals(vitals),
    heartbeatNow() {
      renewer.heartbeatNow();
      loop.wake();
    },
    catchUp: () => {},
    unansweredSince: () => unansweredSince,
    stop: () => loop.stop(),
  };
}

/** The lease renewer creates little garbage; without a limit, a thread's young generation grows as large as the process's. */
const YOUNG_MB_MAX = 2;

/** How often the main thread reports progress, since an idle worker does nothing else. */
const ALIVE_EVERY_MS = 250;

function openThread(
  { settings, runtime }: HostParts,
  address: StoreAddress,
): { thread: Thread; port: MessagePort; shared: SharedWithRenewer } {
  const { port1: port, port2 } = new MessageChannel();
  const shared = new SharedWithRenewer();
  const workerData: LeaseRenewerThreadData = {
    address,
    settings,
    shared: shared.buffer,
    port: port2,
    startedAt: runtime.monotonic(),
  };
  const thread = new Thread(programFile("worker/lease-renewer-thread"), {
    workerData,
    ...threadArguments(process.execArgv),
    transferList: [port2],
    name: "holdfast-lease-renewer",
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB_MAX },
  });
  return { thread, port, shared };
}

function reportAlive(runtime: Runtime, shared: SharedWithRenewer): Timer {
  let timer: Timer | null = null;
  const report = (): void => {
    shared.isDebugged = debuggerUrl() !== undefined;
    shared.addProgress();
    timer = runtime.timer(ALIVE_EVERY_MS, report, "background");
  };
  report();
  return { cancel: () => timer?.cancel() };
}

interface ThreadEvents {
  readonly onReady: () => void;
  readonly onEnd: (end: { readonly clocksDiffer: boolean }) => void;
}

/** The thread handles earlier messages once it is ready, even if the main thread is blocked by then. */
function startThread(
  parts: HostParts,
  address: StoreAddress,
  { onReady, onEnd }: ThreadEvents,
): LeaseRenewerHost {
  const { runtime, logger, report, heartbeat } = parts;
  const { thread, port, shared } = openThread(parts, address);
  let isReady = false;
  let clocksDiffer = false;
  let stopping = false;
  const requests = new PendingRequests();
  thread.on("error", (error: unknown) =>
    logger.error({ err: error }, "the lease renewer's thread failed"),
  );
  thread.on("exit", () => {
    alive.cancel();
    requests.answerAll(); // an ended thread renews nothing
    if (!stopping) onEnd({ clocksDiffer });
  });
  const send = (message: ToRenewer): void => port.postMessage(message);
  const onMessage = (message: FromRenewer): void => {
    if (message.kind === "ready") {
      clocksDiffer = !isNotBefore(runtime.monotonic(), message.at);
      isReady = !clocksDiffer;
      if (isReady) onReady();
      else void thread.terminate();
    }
    if (message.kind === "clocksDiffer") clocksDiffer = true; // it ends
    if (message.kind === "report") report(message.report);
    if (message.kind === "heartbeat") heartbeat(message.heartbeat);
    if (message.kind === "stoppedRenewing") requests.answer(message.ask);
    if (message.kind === "log") logger[message.level]({ thread: "lease renewer" }, message.message);
  };
  const catchUp = (): void => {
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
      onMessage(next.message as FromRenewer);
    }
  };
  const alive = reportAlive(runtime, shared);
  port.on("message", onMessage);
  port.unref(); // The worker's own loops keep the process alive, not its lease renewer.
  thread.unref();
  return {
    hold: (leases, sentAt) => send({ kind: "hold", leases: pack(leases), sentAt }),
    limit: (id, stopAt) => send({ kind: "limit", id, stopAt }),
    drop: (leases) => send({ kind: "drop", leases: pack(leases) }),
    async stopRenewing(leases) {
      // Before it is ready it renews nothing, and an unavailable database may delay that for long.
      if (!isReady) catchUp();
      if (isReady)
        await requests.wait((ask) => send({ kind: "stopRenewing", leases: pack(leases), ask }));
      else send({ kind: "drop", leases: pack(leases) });
    },
    progress: () => shared.addProgress(),
    vitals: (vitals) => send({ kind: "vitals", vitals }),
    heartbeatNow: () => send({ kind: "heartbeat" }),
    catchUp,
    unansweredSince: () => shared.unansweredSince,
    async stop() {
      stopping = true;
      thread.ref();
      const exited = once(thread, "exit");
      if (isReady) send({ kind: "stop" });
      else await thread.terminate();
      await exited;
      port.close();
    },
  };
}

/** Requests that the thread has not answered yet. */
class PendingRequests {
  readonly #waiting = new Map<number, () => void>();
  #asked = 0;

  wait(send: (ask: number) => void): Promise<void> {
    this.#asked += 1;
    const ask = this.#asked;
    return new Promise((resolve) => {
      this.#waiting.set(ask, resolve);
      send(ask);
    });
  }

  answer(ask: number): void {
    this.#waiting.get(ask)?.();
    this.#waiting.delete(ask);
  }

  answerAll(): void {
    for (const ask of this.#waiting.keys()) this.answer(ask);
  }
}

/**
 * A thread runs a file, so arguments that pass code on the command line would prevent its start. Without such arguments,
 * the thread inherits those of the process: some of them must not be given twice.
 */
function threadArguments(given: readonly string[]): { execArgv?: string[] } {
  if (!given.some(isForCode)) return {};
  return { execArgv: given.filter((argument, index) => !isForCode(argument, index, given)) };
}

/**
 * A thread where the store allows one, otherwise a loop on this thread.
 *
 * A worker without a lease sends its heartbeats from here, because the thread costs a fifth of its memory. The thread starts
 * before the first job, which may block the main thread, and ends when there were no jobs for a while.
 */
export function startLeaseRenewer(parts: HostParts): LeaseRenewerHost {
  const { store, runtime, logger } = parts;
  if (store.db.address !== null && runtime === systemRuntime) {
    return new LateThread(parts, store.db.address);
  }
  logger.info(
    { store: store.db.name },
    "leases are renewed on the main thread: a task that blocks the event loop for longer than a lease loses its job",
  );
  return startLoop(parts);
}

const THREAD_ENDED =
  "the lease renewer's thread ended; leases are renewed on the main thread from now on";

const CLOCKS_DIFFER =
  "this runtime's threads have different monotonic clocks, so leases are renewed on the main thread: " +
  "a task that blocks the event loop for longer than a lease loses its job";

/** Until the thread is ready, both renew: renewing a lease twice is harmless. */
class LateThread implements LeaseRenewerHost {
  readonly #parts: HostParts;
  readonly #address: StoreAddress;
  #loop: LeaseRenewerHost | null;
  #thread: LeaseRenewerHost | null = null;
  #vitals: WorkerVitals | null = null;
  /** A thread that died is not started again: it would most likely die again. */
  #isStarted = false;
  /** Since the last look at whether the thread may rest. */
  #isUsed = false;
  #restTimer: Timer | null = null;
  #isStopped = false;
  /** The thread that ends because there is nothing to do. */
  #resting: Promise<void> | null = null;
  /** The thread is ready, and the loop is stopping. */
  #isAlone = false;

  constructor(parts: HostParts, address: StoreAddress) {
    this.#parts = parts;
    this.#address = address;
    this.#loop = startLoop(parts, "idle lease renewer");
  }

  hold(leases: LeaseList, sentAt: number): void {
    this.#isUsed = true;
    if (!this.#isStarted) this.#startThread();
    for (const renewer of this.#both()) renewer.hold(leases, sentAt);
  }

  limit(id: string, stopAt: number): void {
    for (const renewer of this.#both()) renewer.limit(id, stopAt);
  }

  drop(leases: LeaseList): void {
    for (const renewer of this.#both()) renewer.drop(leases);
  }

  async stopRenewing(leases: LeaseList): Promise<void> {
    await Promise.all(this.#both().map((renewer) => renewer.stopRenewing(leases)));
  }

  progress(): void {
    this.#loop?.progress();
    this.#thread?.progress();
  }

  vitals(vitals: WorkerVitals): void {
    this.#vitals = vitals;
    for (const renewer of this.#both()) renewer.vitals(vitals);
  }

  heartbeatNow(): void {
    (this.#loop ?? this.#thread)?.heartbeatNow();
  }

  catchUp(): void {
    this.#thread?.catchUp();
  }

  /** While there are two, both renew: the earlier time counts. */
  unansweredSince(): number | null {
    const since = this.#both().flatMap((renewer) => renewer.unansweredSince() ?? []);
    return since.length === 0 ? null : Math.min(...since);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#restTimer?.cancel();
    await Promise.all([this.#resting, ...this.#both().map((renewer) => renewer.stop())]);
  }

  #both(): LeaseRenewerHost[] {
    return [this.#loop, this.#thread].filter((renewer) => renewer !== null);
  }

  #startThread(): void {
    this.#isStarted = true;
    const onReady = (): void => {
      this.#thread?.heartbeatNow(); // it does not know when the loop sent the last one
      void this.#endLoop();
    };
    const onEnd: ThreadEvents["onEnd"] = (end) => this.#goOnWithout(end);
    this.#thread = startThread(this.#parts, this.#address, { onReady, onEnd });
    if (this.#vitals !== null) this.#thread.vitals(this.#vitals);
  }

  /** The loop counts until it has stopped: `stopRenewing` must wait for its renewals too. */
  async #endLoop(): Promise<void> {
    const loop = this.#loop;
    this.#isAlone = true;
    this.#parts.logger.debug({}, "the lease renewer's thread is ready");
    await loop?.stop();
    if (this.#loop === loop) this.#loop = null;
    this.#restLater();
  }

  #restLater(): void {
    if (this.#isStopped) return;
    const { runtime, restMs = REST_MS } = this.#parts;
    this.#restTimer?.cancel();
    this.#restTimer = runtime.timer(restMs, () => this.#restIfIdle(), "background");
  }

  #restIfIdle(): void {
    const mayRest = !this.#isUsed && this.#parts.held().ids.length === 0;
    this.#isUsed = false;
    if (this.#thread === null) return;
    if (mayRest) this.#rest(this.#thread);
    else this.#restLater();
  }

  /** A loop takes over at once, as before the first job. The thread has no leases, so no report is lost. */
  #rest(thread: LeaseRenewerHost): void {
    this.#thread = null;
    this.#isStarted = false;
    this.#isAlone = false;
    this.#loop = startLoop(this.#parts, "idle lease renewer");
    if (this.#vitals !== null) this.#loop.vitals(this.#vitals);
    this.#loop.heartbeatNow(); // it does not know when the thread sent the last one
    this.#parts.logger.debug({}, "the lease renewer's thread ends: there is nothing to renew");
    this.#resting = thread.stop().catch(() => {}); // its error is in the log
  }

  #goOnWithout({ clocksDiffer }: { readonly clocksDiffer: boolean }): void {
    const { logger, held } = this.#parts;
    logger.warn({}, clocksDiffer ? CLOCKS_DIFFER : THREAD_ENDED);
    this.#thread = null;
    if (!this.#isAlone) return; // the loop has all leases
    this.#loop = startLoop(this.#parts);
    this.#loop.hold(held(), 0); // due at once
    if (this.#vitals !== null) this.#loop.vitals(this.#vitals);
  }
}
