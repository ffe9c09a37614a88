/** The worker's side of its keeper: one in a thread, or one in a loop on this thread. */
import { once } from "node:events";
import { url as debuggerUrl } from "node:inspector";
import {
  MessageChannel,
  receiveMessageOnPort,
  Worker as Thread,
  type MessagePort,
} from "node:worker_threads";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Beat, WorkerVitals } from "../store/registry.ts";
import type { Store, StoreAddress } from "../store/store.ts";
import { Keeper, pack, type KeeperSettings, type LeaseList, type Report } from "./keeper.ts";
import { SharedWithKeeper } from "./keeper-shared.ts";
import type { FromKeeper, KeeperThreadData, ToKeeper } from "./keeper-thread.ts";

export interface KeeperHost {
  hold(leases: LeaseList, sentAt: number): void;
  limit(id: string, stopAt: number): void;
  drop(leases: LeaseList): void;
  /** Drops leases that somebody is about to end. Resolves when no renewal of them is under way. */
  rest(leases: LeaseList): Promise<void>;
  /** Says that the main thread is alive. */
  progress(): void;
  /** What the next signs of life tell about the worker. */
  vitals(vitals: WorkerVitals): void;
  /** Gives a sign of life at once, to hear what is wanted of the worker. */
  beatNow(): void;
  /** Handles reports that have arrived but were not delivered because the event loop was blocked. */
  catchUp(): void;
  /** Since when the database has not answered a renewal, on the monotonic clock; null: it has. */
  unansweredSince(): number | null;
  stop(): Promise<void>;
}

export interface HostParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: KeeperSettings;
  readonly report: (report: Report) => void;
  /** What came back with a sign of life. */
  readonly beat: (beat: Beat | null) => void;
  /** The leases that are held now, for a keeper that takes over from one that died. */
  readonly held: () => LeaseList;
}

export function startLoop(
  { store, runtime, logger, settings, report, beat }: HostParts,
  name = "keeper",
): KeeperHost {
  let progress = 0;
  let unansweredSince: number | null = null;
  const keeper = new Keeper({
    store,
    runtime,
    settings,
    report,
    beat,
    progress: () => progress,
    unanswered: (since) => void (unansweredSince = since),
  });
  const loop = new Loop({ name, runtime, logger, once: () => keeper.once() });
  return {
    hold: (leases, sentAt) => keeper.hold(leases, sentAt),
    limit: (id, stopAt) => keeper.limit(id, stopAt),
    drop: (leases) => keeper.drop(leases),
    rest: (leases) => keeper.rest(leases),
    progress: () => void (progress += 1),
    vitals: (vitals) => keeper.tell(vitals),
    beatNow() {
      keeper.beatNow();
      loop.wake();
    },
    catchUp: () => {},
    unansweredSince: () => unansweredSince,
    stop: () => loop.stop(),
  };
}

interface KeeperThread {
  readonly thread: Thread;
  readonly port: MessagePort;
  readonly shared: SharedWithKeeper;
}

/** What the keeper throws away is little; without a limit a thread's share grows to what the whole process gets. */
const YOUNG_MB_MAX = 2;

/** An idle worker has nothing to do for longer than it may be blocked. */
const ALIVE_EVERY_MS = 250;

function openThread(settings: KeeperSettings, address: StoreAddress): KeeperThread {
  const { port1: port, port2 } = new MessageChannel();
  const shared = new SharedWithKeeper();
  const workerData: KeeperThreadData = { address, settings, shared: shared.buffer, port: port2 };
  const thread = new Thread(threadFile(), {
    workerData,
    ...threadArguments(process.execArgv),
    transferList: [port2],
    name: "holdfast-keeper",
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB_MAX },
  });
  return { thread, port, shared };
}

/** What it is told before it is ready, it hears when it is, in a process that may be blocked by then. */
export function startThread(
  { runtime, settings, logger, report, beat }: HostParts,
  address: StoreAddress,
  { onReady, onEnd }: { readonly onReady: () => void; readonly onEnd: () => void },
): KeeperHost {
  const { thread, port, shared } = openThread(settings, address);
  let isReady = false;
  let stopping = false;
  const asks = new Asks();
  thread.on("error", (error: unknown) =>
    logger.error({ err: error }, "the keeper's thread failed"),
  );
  thread.on("exit", () => {
    timer?.cancel();
    asks.answerAll(); // whatever it was renewing, it is not any more
    if (!stopping) onEnd();
  });
  const send = (message: ToKeeper): void => port.postMessage(message);
  const hear = (message: FromKeeper): void => {
    if (message.kind === "ready") {
      isReady = true;
      onReady();
    }
    if (message.kind === "report") report(message.report);
    if (message.kind === "beat") beat(message.beat);
    if (message.kind === "rested") asks.answer(message.ask);
    if (message.kind === "log") logger[message.level]({ thread: "keeper" }, message.message);
  };
  const catchUp = (): void => {
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
      hear(next.message as FromKeeper);
    }
  };
  let timer: Timer | null = null;
  const sayAlive = (): void => {
    shared.isDebugged = debuggerUrl() !== undefined;
    shared.addProgress();
    timer = runtime.timer(ALIVE_EVERY_MS, sayAlive, "background");
  };
  sayAlive();
  port.on("message", hear);
  port.unref(); // The worker's own loops keep the process alive, not its keeper.
  thread.unref();
  return {
    hold: (leases, sentAt) => send({ kind: "hold", leases: pack(leases), sentAt }),
    limit: (id, stopAt) => send({ kind: "limit", id, stopAt }),
    drop: (leases) => send({ kind: "drop", leases: pack(leases) }),
    async rest(leases) {
      // Before it is ready it renews nothing, and the database may keep it from getting ready for long.
      if (!isReady) catchUp();
      if (isReady) await asks.wait((ask) => send({ kind: "rest", leases: pack(leases), ask }));
      else send({ kind: "drop", leases: pack(leases) });
    },
    progress: () => shared.addProgress(),
    vitals: (vitals) => send({ kind: "vitals", vitals }),
    beatNow: () => send({ kind: "beat" }),
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

/** Questions to the thread that it has not answered yet. */
class Asks {
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

const CODE_ON_THE_COMMAND_LINE = new Set(["-e", "--eval", "-p", "--print", "-pe"]);

/**
 * A thread is a file: what says how to read code from the command line would keep it from starting. Otherwise it
 * inherits what the process was given, some of which could not be said again.
 */
function threadArguments(given: readonly string[]): { execArgv?: string[] } {
  const isForCode = (argument: string, index: number): boolean =>
    argument.startsWith("--input-type") ||
    CODE_ON_THE_COMMAND_LINE.has(argument) ||
    CODE_ON_THE_COMMAND_LINE.has(given[index - 1] ?? "");
  if (!given.some(isForCode)) return {};
  return { execArgv: given.filter((argument, index) => !isForCode(argument, index)) };
}

/** Sources run as they are in development; the published package has JavaScript only. */
function threadFile(): URL {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  return new URL(`./keeper-thread.${extension}`, import.meta.url);
}
