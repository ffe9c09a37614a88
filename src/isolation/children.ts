/**
 * The threads and processes of a worker in which isolated tasks run.
 *
 * Each runs one job at a time. After a job it is kept for the next of the same module for a while: few are kept, and each is
 * replaced after so many jobs. All end with the worker, also if that is killed.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type ChildProcess, fork } from "node:child_process";
import { Worker as Thread } from "node:worker_threads";
import { describeError } from "../core/error-record.ts";
import { isForCode, programFile } from "../core/version.ts";
import type { Logger } from "../core/log.ts";
import { type Runtime, sleep, type Timer } from "../core/runtime.ts";
import type { Isolation } from "../core/task.ts";
import { type FromChild, HEARTBEAT_FD, type ToChild } from "./messages.ts";

/** How many idle ones are kept, and for how long. */
const IDLE_MAX = 8;
const IDLE_MS_MAX = 60_000;

/** How long to wait for one that was killed. The kernel may take a moment to free a large memory. */
const KILL_MS_MAX = 5_000;

/** How much of the end of its error output is kept for the message about its end. */
const STDERR_TAIL_MAX = 4_096;

/**
 * A process without a heartbeat for so many looks in a row is frozen: SIGSTOP, a debugger. The looks are counted, not the
 * time, because a worker that was frozen itself looks once when it resumes.
 */
export const FROZEN_LOOKS_MAX = 10;
export const LOOK_MS = 1_000;

const PROGRAM = "isolation/child";

/** A thread or a process. */
interface Transport {
  readonly name: string;
  send(message: ToChild): void;
  kill(): void;
}

interface Listeners {
  message(message: FromChild): void;
  /** `why`: a sentence. */
  exit(why: string): void;
}

interface Opening {
  readonly isolation: Isolation;
  readonly listeners: Listeners;
  readonly runtime: Runtime;
}

export class Child {
  readonly isolation: Isolation;
  readonly exited: Promise<void>;
  /** Counts its jobs. */
  jobs = 0;
  /** Nothing may run in it any more. */
  isOver = false;
  /** Of the job that it runs. */
  listener: Listeners | null = null;
  idle: Timer | null = null;
  readonly #runtime: Runtime;
  readonly #transport: Transport;

  constructor(isolation: Isolation, runtime: Runtime) {
    this.isolation = isolation;
    this.#runtime = runtime;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.exited = promise;
    const open = isolation.in === "thread" ? openThread : openProcess;
    const listeners: Listeners = {
      message: (message) => this.listener?.message(message),
      exit: (why) => {
        this.isOver = true;
        resolve();
        this.listener?.exit(why);
      },
    };
    this.#transport = open({ isolation, listeners, runtime });
  }

  get name(): string {
    return this.#transport.name;
  }

  send(message: ToChild): void {
    if (!this.isOver) this.#transport.send(message);
  }

  /** Ends it with force. Resolves when it has ended, after a few seconds at the latest. */
  async kill(): Promise<void> {
    this.idle?.cancel();
    if (!this.isOver) this.#transport.kill();
    this.isOver = true;
    const ended = new AbortController();
    // This timer keeps the program alive until then: the child itself does not, and a close would never be over.
    const late = sleep(this.#runtime, KILL_MS_MAX, { signal: ended.signal });
    await Promise.race([this.exited, late]);
    ended.abort();
  }
}

export class Children {
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly #all = new Set<Child>();
  /** The one that was used last is at the end. */
  #idle: Child[] = [];
  #isClosed = false;
  /** A child outlives the job that it was started for, and must not belong to its async context. */
  readonly #outside = AsyncLocalStorage.snapshot();

  constructor(parts: { readonly runtime: Runtime; readonly logger: Logger }) {
    this.runtime = parts.runtime;
    this.logger = parts.logger;
  }

  /** An idle child for the same module and limits, or a new one. */
  take(isolation: Isolation): Child {
    const fits = (child: Child): boolean =>
      child.isolation.in === isolation.in &&
      child.isolation.module === isolation.module &&
      child.isolation.memoryMb === isolation.memoryMb;
    const kept = this.#idle.findLast((child) => fits(child) && !child.isOver);
    if (kept !== undefined) {
      this.#idle = this.#idle.filter((child) => child !== kept);
      kept.idle?.cancel();
      return kept;
    }
    const child = this.#outside(() => new Child(isolation, this.runtime));
    this.#all.add(child);
    void child.exited.then(() => {
      this.#all.delete(child);
      this.#idle = this.#idle.filter((other) => other !== child);
    });
    return child;
  }

  /** Keeps it for the next job, unless it has run its share. */
  giveBack(child: Child): void {
    child.listener = null;
    if (child.isOver) return;
    if (this.#isClosed || child.jobs >= child.isolation.maxJobs) return void child.kill();
    this.#idle.push(child);
    const end = (): void => void child.kill();
    child.idle = this.#outside(() => this.runtime.timer(IDLE_MS_MAX, end, "background"));
    if (this.#idle.length > IDLE_MAX) void this.#idle.shift()?.kill();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#all].map((child) => child.kill()));
  }
}

function openThread({ isolation, listeners }: Opening): Transport {
  const { memoryMb } = isolation;
  const thread = new Thread(programFile(PROGRAM), {
    name: "holdfast-isolated-task",
    ...(process.execArgv.some(isForCode) ? { execArgv: argumentsFor(isolation) } : {}),
    resourceLimits: memoryMb === null ? {} : { maxOldGenerationSizeMb: memoryMb },
  });
  let failure: unknown = null;
  thread.on("message", (message: FromChild) => listeners.message(message));
  thread.on("error", (error: unknown) => (failure = error));
  thread.on("exit", (code) => listeners.exit(threadEnd(code, failure, memoryMb)));
  thread.unref(); // The worker's own loops keep the process alive.
  return {
    name: `thread ${thread.threadId}`,
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    send: (message) => thread.postMessage(message),
    kill: () => void thread.terminate(),
  };
}

function threadEnd(code: number, failure: unknown, memoryMb: number | null): string {
  if ((failure as { code?: unknown } | null)?.code === "ERR_WORKER_OUT_OF_MEMORY")
    return `The thread that ran this job ran out of memory${limitText(memoryMb)}.`;
  if (failure !== null)
    return `The thread that ran this job ended: ${describeError(failure).message}`;
  return `The thread that ran this job ended with exit code ${code}: its code called process.exit().`;
}

function openProcess({ isolation, listeners, runtime }: Opening): Transport {
  const { memoryMb } = isolation;
  const child = fork(programFile(PROGRAM), [String(process.pid)], {
    execArgv: argumentsFor(isolation),
    serialization: "advanced",
    stdio: ["ignore", "inherit", "pipe", "ipc", "pipe"], // The last is HEARTBEAT_FD.
  });
  let tail = "";
  let isEnded = false;
  let isFrozen = false;
  watchHeartbeat(child, runtime, () => {
    isFrozen = true;
    child.kill("SIGKILL");
  });
  const end = (why: string): void => {
    if (!isEnded) listeners.exit(why);
    isEnded = true;
  };
  child.stderr?.on("data", (text: Buffer) => {
    tail = (tail + text.toString("utf8")).slice(-STDERR_TAIL_MAX);
    process.stderr.write(text);
  });
  child.on("message", (message) => listeners.message(message as FromChild));
  child.on("error", (error) => {
    if (child.pid === undefined) end(`The process of this job did not start: ${error.message}`);
  });
  // Its error output is complete when it is closed, a moment after its end.
  child.on("close", (code, signal) => end(processEnd({ code, signal, tail, memoryMb, isFrozen })));
  unref(child);
  return {
    name: `process ${child.pid}`,
    send: (message) => void child.send(message, () => {}),
    kill: () => void child.kill("SIGKILL"),
  };
}

/** The worker's own loops keep the process alive. */
function unref(child: ChildProcess): void {
  child.unref();
  child.channel?.unref();
  for (const stream of child.stdio) (stream as { unref?(): void } | null)?.unref?.();
}

/** Begins with the first heartbeat; until then, the limit of the start applies. */
function watchHeartbeat(child: ChildProcess, runtime: Runtime, onFrozen: () => void): void {
  let misses = 0;
  let next: Timer | null = null;
  const look = (): void => {
    misses += 1;
    if (misses > FROZEN_LOOKS_MAX) onFrozen();
    else next = runtime.timer(LOOK_MS, look, "background");
  };
  child.stdio[HEARTBEAT_FD]?.on("data", () => {
    misses = 0;
    if (next === null) look();
  });
  child.once("exit", () => next?.cancel());
}

interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly tail: string;
  readonly memoryMb: number | null;
  readonly isFrozen: boolean;
}

function processEnd({ code, signal, tail, memoryMb, isFrozen }: ProcessEnd): string {
  const what = "The process that ran this job";
  if (isFrozen)
    return `${what} was frozen: it sent no heartbeat for ${FROZEN_LOOKS_MAX} s, so the worker killed it.`;
  if (tail.includes("heap out of memory") || tail.includes("invalid table size"))
    return `${what} ran out of memory${limitText(memoryMb)}.`;
  if (signal === "SIGKILL")
    return `${what} was killed with SIGKILL, by an operator or by the system for lack of memory.`;
  if (signal !== null) return `${what} crashed with ${signal}.`;
  return `${what} ended with exit code ${code}: its code called process.exit().`;
}

function limitText(memoryMb: number | null): string {
  return memoryMb === null ? "" : `; isolation.memory allows a heap of ${memoryMb} MB`;
}

/** Those of this process, except code on the command line and the port of the debugger. */
function argumentsFor({ in: place, memoryMb }: Isolation): string[] {
  const given = process.execArgv;
  const inherited = given.filter(
    (argument, index) => !isForCode(argument, index, given) && !argument.startsWith("--inspect"),
  );
  const isLimited = place === "process" && memoryMb !== null;
  return isLimited ? [...inherited, `--max-old-space-size=${memoryMb}`] : inherited;
}
