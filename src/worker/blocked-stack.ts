/**
 * Where a task blocks the event loop: the lease renewer's thread asks the inspector for the stack of the main thread, and
 * writes it to the worker's row, because nothing on the main thread could.
 *
 * The inspector stops the main thread for about a millisecond. It cannot stop code outside of JavaScript, such as a
 * synchronous read: then there is no stack.
 */
import { writeSync } from "node:fs";
import { type Debugger, Session } from "node:inspector";
import type { Runtime } from "../core/runtime.ts";
import type { Engine } from "../database/engine.ts";
import { noteBlocked } from "../registry/heartbeat.ts";

/** A shorter block is not worth a look; the main thread reports four times a second that it is alive. */
const BLOCKED_MS = 1_500;

const LOOK_MS = 500;

/** A check that comes later than this many intervals shows that the whole process was frozen, not its main thread. */
const LATE_LOOKS = 3;

/** While it stays blocked, the stack is taken again. */
const AGAIN_MS = 5_000;

const TAKE_MS_MAX = 2_000;

const FRAMES_MAX = 20;

const STACK_LENGTH_MAX = 4_000;

interface Watched {
  readonly progress: number;
  readonly isDebugged: boolean;
}

interface BlockedParts {
  readonly engine: Engine;
  readonly runtime: Runtime;
  readonly worker: string;
  readonly watched: Watched;
}

/** Looks until the thread ends. */
export function watchForBlocks(parts: BlockedParts): void {
  const { runtime } = parts;
  const watch = new BlockWatch(parts);
  const lookLater = (): void =>
    void runtime.timer(LOOK_MS, () => void watch.look().then(lookLater), "background");
  lookLater();
}

class BlockWatch {
  readonly #parts: BlockedParts;
  #seen = -1;
  #since: number;
  #lookedAt: number;
  #takenAt = Number.NEGATIVE_INFINITY;
  #isNoted = false;

  constructor(parts: BlockedParts) {
    this.#parts = parts;
    this.#since = parts.runtime.monotonic();
    this.#lookedAt = this.#since;
  }

  /** Never rejects: the heartbeats tell if the database does not answer. */
  async look(): Promise<void> {
    const { runtime, watched } = this.#parts;
    const now = runtime.monotonic();
    const isLate = now - this.#lookedAt > LATE_LOOKS * LOOK_MS;
    this.#lookedAt = now;
    const { progress, isDebugged } = watched;
    if (progress !== this.#seen || isDebugged || isLate) {
      this.#seen = progress;
      this.#since = now;
      await this.#forget().catch(() => {});
      return;
    }
    if (now - this.#since < BLOCKED_MS || now - this.#takenAt < AGAIN_MS) return;
    this.#takenAt = now;
    await this.#note().catch(() => {});
  }

  async #note(): Promise<void> {
    const { engine, runtime, worker, watched } = this.#parts;
    const stack = await takeStack(runtime);
    if (stack === null || watched.progress !== this.#seen) return;
    this.#isNoted = true;
    const ms = Math.round(runtime.monotonic() - this.#since);
    await noteBlocked(engine, worker, { ms, stack });
  }

  async #forget(): Promise<void> {
    if (!this.#isNoted) return;
    await noteBlocked(this.#parts.engine, this.#parts.worker, null);
    this.#isNoted = false;
    this.#takenAt = Number.NEGATIVE_INFINITY;
  }
}

/** The stack of the main thread. Null: it could not be stopped in time. */
async function takeStack(runtime: Runtime): Promise<string | null> {
  const session = new Session();
  const taken = Promise.withResolvers<string | null>();
  const timer = runtime.timer(TAKE_MS_MAX, () => taken.resolve(null));
  const files = new Map<string, string>();
  session.on("Debugger.scriptParsed", ({ params }) => files.set(params.scriptId, params.url));
  session.on("Debugger.paused", ({ params }) => {
    taken.resolve(textOf(params.callFrames, files));
    session.post("Debugger.resume");
  });
  try {
    session.connectToMainThread();
    session.post("Debugger.enable");
    session.post("Debugger.pause");
    return await taken.promise;
  } finally {
    timer.cancel();
    session.disconnect(); // a main thread that was stopped goes on
  }
}

function textOf(frames: readonly Debugger.CallFrame[], files: ReadonlyMap<string, string>): string {
  const lines = frames.slice(0, FRAMES_MAX).map(({ functionName, location }) => {
    const file = (files.get(location.scriptId) ?? "").replace(/^file:\/\//, "");
    const place = `${file}:${location.lineNumber + 1}:${(location.columnNumber ?? 0) + 1}`;
    return functionName === "" ? `at ${place}` : `at ${functionName} (${place})`;
  });
  return lines.join("\n").slice(0, STACK_LENGTH_MAX);
}

// Ends a process whose event loop a task has blocked for longer than `maxBlock`.
//
// No code on the main thread of such a process can end it: a signal handler would need the event loop too. The lease
// renewer's thread can. A supervisor restarts the process; other workers have its jobs.

/** How often the watchdog looks, unless a quarter of the limit is less. */
const LOOK_MS_MAX = 1_000;

/** A check that comes later than this many intervals shows that the whole process was frozen, not its main thread. */
const PASSED_LOOKS_MAX = 2;

/** How many jobs the last message names. */
const NAMED_JOBS_MAX = 5;

const STDERR = 2;

interface WatchedProcess {
  /** A number that changes while the main thread is alive. */
  progress(): number;
  /** A debugger may stop the main thread for as long as it likes. */
  isDebugged(): boolean;
}

export class Watchdog {
  readonly lookMs: number;
  readonly #limitMs: number;
  readonly #watched: WatchedProcess;
  #seen = -1;
  #lookedAt: number;
  /** How long the main thread made no progress while this thread ran. */
  #blockedMs = 0;

  constructor(parts: { limitMs: number; watched: WatchedProcess; now: number }) {
    this.#limitMs = parts.limitMs;
    this.#watched = parts.watched;
    this.#lookedAt = parts.now;
    this.lookMs = Math.min(LOOK_MS_MAX, parts.limitMs / 4);
  }

  /** Whether the main thread has been blocked for too long. */
  look(now: number): boolean {
    const passedMs = Math.min(now - this.#lookedAt, PASSED_LOOKS_MAX * this.lookMs);
    this.#lookedAt = now;
    const progress = this.#watched.progress();
    const isAlive = progress !== this.#seen || this.#watched.isDebugged();
    this.#seen = progress;
    this.#blockedMs = isAlive ? 0 : this.#blockedMs + passedMs;
    return this.#blockedMs > this.#limitMs;
  }
}

/** Writes the reason to stderr, which needs no event loop, and ends the process with a signal that it cannot catch. */
export function endBlockedProcess(worker: string, limitMs: number, jobs: readonly string[]): void {
  const named = jobs.slice(0, NAMED_JOBS_MAX).join(", ");
  const more = jobs.length > NAMED_JOBS_MAX ? ` and ${jobs.length - NAMED_JOBS_MAX} more` : "";
  const text =
    `holdfast: a task of worker ${worker} blocked the event loop for longer than maxBlock (${limitMs} ms). ` +
    `The watchdog ends process ${process.pid} with SIGKILL. Jobs it held: ${named || "none"}${more}.\n`;
  try {
    writeSync(STDERR, text);
  } finally {
    process.kill(process.pid, "SIGKILL");
  }
}
