/**
 * One connection to an SQLite file that concurrent callers can share.
 *
 * The driver is synchronous, so a transaction with a synchronous body cannot be interleaved with others. A transaction
 * whose body awaits holds the gate, and all other callers in this process wait for it.
 *
 * Waiting for other processes never blocks the event loop: the driver's busy timeout is off (it would block the whole
 * thread), and a locked database is tried again after a growing random pause.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { closeSync, type FSWatcher, fsyncSync, openSync, rmSync, watch } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import {
  ClosedError,
  HoldfastError,
  StoreBusyError,
  StoreFullError,
  StoreRefusedError,
  StoreUnavailableError,
} from "../../core/errors.ts";
import { type Runtime, sleep, type Timer } from "../../core/runtime.ts";
import { type Hint, newTally } from "../engine.ts";
import { createFile, type FileGuard } from "./file.ts";

/** How long a write waits for other processes before it gives up with StoreBusyError. */
const BUSY_MS_MAX = 30_000;

const BUSY_PAUSE_MS_FIRST = 1;

const BUSY_PAUSE_MS_MAX = 32;

/** A hook for tests, called before and after every statement, so that a process can be killed at each of them. */
export type Probe = (point: string) => void;

interface ConnectionOptions {
  readonly path: string;
  readonly runtime: Runtime;
  readonly probe: Probe | null;
  readonly guard: FileGuard | null;
  readonly rescues: boolean;
}

export class Connection {
  readonly path: string;
  readonly tally = newTally();
  readonly #db: DatabaseSync;
  /** The transaction of the caller: waiting for its end inside it would never return. */
  readonly #inside = new AsyncLocalStorage<Promise<void>>();
  readonly #runtime: Runtime;
  readonly #probe: Probe | null;
  readonly #guard: FileGuard | null;
  readonly #rescues: boolean;
  readonly #statements = new Map<string, StatementSync>();
  #gate: Promise<void> | null = null;
  /** The `durable` of the last transaction. */
  #durable: boolean | null = null;
  #closed = false;

  constructor(db: DatabaseSync, options: ConnectionOptions) {
    this.#db = db;
    this.#guard = options.guard;
    this.#rescues = options.rescues;
    this.path = options.path;
    this.#runtime = options.runtime;
    this.#probe = options.probe;
  }

  /** For the user's function in a transaction of ours. */
  get database(): DatabaseSync {
    return this.#db;
  }

  /** Prepares a text once. */
  prepare(text: string): StatementSync {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.#db.prepare(keepingItsPlan(text));
      if (this.#probe !== null) statement = probed(statement, text, this.#probe);
      this.#statements.set(text, statement);
    }
    return statement;
  }

  /** Runs `body`, which may only read, when no transaction of this process is open. */
  read<T>(body: () => T): Promise<T> {
    return this.#whenFree(body);
  }

  /** Runs the synchronous `body` in a transaction. It may run again if the database was locked. */
  write<T>(body: () => T, { durable = true }: { durable?: boolean } = {}): Promise<T> {
    return this.#whenFree(() => {
      this.#begin(durable);
      try {
        const value = body();
        this.exec("commit");
        if (durable) this.#checkFile();
        return value;
      } catch (error) {
        this.#rollback();
        throw error;
      }
    });
  }

  /** Runs the asynchronous `body` in a transaction. All other callers in this process wait at the gate. */
  transaction<T>(body: () => Promise<T>, busyMsMax = BUSY_MS_MAX): Promise<T> {
    return this.#whenFree(async () => {
      this.#begin();
      const gate = Promise.withResolvers<void>();
      this.#gate = gate.promise;
      try {
        const value = await this.#inside.run(gate.promise, body);
        this.exec("commit");
        this.#checkFile();
        return value;
      } catch (error) {
        this.#rollback();
        throw error;
      } finally {
        this.#gate = null;
        gate.resolve();
      }
    }, busyMsMax);
  }

  exec(text: string): void {
    this.#probe?.(`before ${text}`);
    this.#db.exec(text);
    this.#probe?.(`after ${text}`);
  }

  /** Replaces the contents of a database in memory. The driver finalizes all statements. */
  replace(contents: Uint8Array): void {
    this.#statements.clear();
    this.#db.deserialize(contents);
  }

  /** Throws if the open file is not the one at its path any more. */
  lookAtFile(): void {
    this.#guard?.look(this.#runtime.monotonic());
  }

  async close(): Promise<void> {
    while (this.#gate !== null) await this.#gate;
    if (this.#closed) return;
    this.#closed = true;
    this.#statements.clear();
    const isLost = this.#guard?.isGone(this.#runtime.monotonic()) === true;
    if (isLost && this.#guard !== null && this.#rescues) rescue(this.#db, this.#guard);
    this.#db.close();
    // A warning is emitted in the next turn of the event loop, and the process may exit before.
    if (isLost) await new Promise<void>((resolve) => this.#runtime.afterIo(resolve));
  }

  /** Runs the body when no transaction of this process is open, and again while other processes lock the database. */
  async #whenFree<T>(body: () => T | Promise<T>, busyMsMax = BUSY_MS_MAX): Promise<T> {
    const startedAt = this.#runtime.monotonic();
    if (this.#gate !== null && this.#inside.getStore() === this.#gate) {
      throw new StoreRefusedError({
        problem:
          "this call would wait for the transaction that it is called from. Use the functions of that transaction instead.",
      });
    }
    for (let tries = 0; ; tries += 1) {
      while (this.#gate !== null) await this.#gate;
      if (this.#closed) throw new ClosedError({ what: `The store ${this.path}` });
      try {
        this.lookAtFile();
        return await body();
      } catch (error) {
        if (!isBusy(error)) throw translate(error, this.path);
        const waitedMs = this.#runtime.monotonic() - startedAt;
        if (waitedMs > busyMsMax) throw new StoreBusyError({ store: this.path, waitedMs }, error);
      }
      this.tally.repeated += 1;
      const most = Math.min(BUSY_PAUSE_MS_MAX, BUSY_PAUSE_MS_FIRST * 2 ** tries);
      await sleep(this.#runtime, this.#runtime.random() * most);
    }
  }

  /** A write into a file that no process can find must not be reported as done. */
  #checkFile(): void {
    this.#guard?.check(this.#runtime.monotonic());
  }

  /**
   * Every transaction sets whether its commit waits for the disk. A commit that does not wait leaves its pages in the log
   * like any other: the next commit that waits brings them to the disk too, and after a crash of the machine the log ends
   * before or after them.
   */
  #begin(durable = true): void {
    try {
      if (this.#durable !== durable) {
        this.#db.exec(`pragma synchronous = ${durable ? "full" : "normal"}`);
        this.#durable = durable;
      }
      this.exec("begin immediate");
    } catch (error) {
      // A failed rollback would leave this connection in its transaction, and useless, for ever.
      this.#rollback();
      throw error;
    }
  }

  #rollback(): void {
    // SQLite rolls back by itself after some errors, such as a full disk.
    if (!this.#db.isTransaction) return;
    this.tally.rolledBack += 1;
    this.#db.exec("rollback");
  }
}

/** A bare placeholder as the limit is part of the plan, so SQLite would parse the statement again for every value. */
function keepingItsPlan(text: string): string {
  return text.replaceAll(/\blimit \?/g, "limit cast(? as integer)");
}

/** Calls the probe around every use of the statement. */
function probed(statement: StatementSync, text: string, probe: Probe): StatementSync {
  const label = text.trim().replaceAll(/\s+/g, " ").slice(0, 60);
  return new Proxy(statement, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        const counted = name === "run" || name === "get" || name === "all";
        if (counted) probe(`before ${label}`);
        const value: unknown = member.apply(target, args);
        if (counted) probe(`after ${label}`);
        return value;
      };
    },
  });
}

/** There is no logger at this level, so the process emits a warning. */
function warn(message: string): void {
  process.emitWarning(message, { type: "HoldfastWarning", code: "STORE_GONE" });
}

/**
 * Writes a database whose file was deleted to a file beside it, because it is lost when this process closes it. A moved
 * file too: its last commits are in a log that was not moved, and SQLite does not checkpoint into a file that is not at its
 * path.
 */
function rescue(db: DatabaseSync, guard: FileGuard): void {
  const { path, rescuePath } = guard;
  try {
    if (!createFile(rescuePath)) return; // another connection was faster
    fill(db, rescuePath);
    bringToDisk(rescuePath);
    warn(
      `${path} was deleted, moved or replaced while it was in use. Its contents were saved to ${rescuePath}.`,
    );
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    warn(
      `${path} was deleted, moved or replaced while it was in use, and its contents could not be saved: ${words}`,
    );
  }
}

/** An empty file would keep the next connection from trying. */
function fill(db: DatabaseSync, path: string): void {
  try {
    db.prepare("vacuum into ?").run(path);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
}

/** `vacuum into` does not sync the file. */
function bringToDisk(path: string): void {
  const file = openSync(path, "r+");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

// Translates SQLite's errors.

const BUSY = 5;

const LOCKED = 6;

const READONLY = 8;

const IOERR = 10;

const CORRUPT = 11;

const FULL = 13;

const CANTOPEN = 14;

const CONSTRAINT = 19;

const NOTADB = 26;

/** The low byte is the primary code; the rest has details that we do not need. */
function primaryCode(error: unknown): number | null {
  if (typeof error !== "object" || error === null || !("errcode" in error)) return null;
  return typeof error.errcode === "number" ? error.errcode & 0xff : null;
}

export function isBusy(error: unknown): boolean {
  const code = primaryCode(error);
  return code === BUSY || code === LOCKED;
}

export function translate(error: unknown, path: string): unknown {
  if (error instanceof HoldfastError) return error;
  const code = primaryCode(error);
  if (code === null) return error;
  const words = error instanceof Error ? error.message : String(error);
  switch (code) {
    case FULL:
      return new StoreFullError({ store: path }, error);
    case CONSTRAINT:
      return new StoreRefusedError({ problem: words }, error);
    case NOTADB:
      return unavailable(`${path} is not a SQLite database.`, "Name another file.", error);
    case CORRUPT:
      return unavailable(
        `${path} is damaged (${words}).`,
        "Stop every process that uses it and restore a backup, or recover it with sqlite3's '.recover'.",
        error,
      );
    case CANTOPEN:
      return unavailable(
        `${path} cannot be opened.`,
        "Check that its folder exists and that this user may write there.",
        error,
      );
    case READONLY:
      return unavailable(
        `${path} cannot be written to (${words}).`,
        "Give this user write access to the file and its folder.",
        error,
      );
    case IOERR:
      return unavailable(
        `The disk under ${path} failed (${words}).`,
        "Check the disk and its free space, then start again.",
        error,
      );
    default:
      return unavailable(`SQLite refused: ${words}.`, `The database is ${path}.`, error);
  }
}

function unavailable(problem: string, remedy: string, cause: unknown): StoreUnavailableError {
  return new StoreUnavailableError({ problem, remedy }, cause);
}

// Notices that another connection has written to the file: then, and only then, its `data_version` changes.
//
// The operating system reports writes to the write-ahead log. After a report the version is read repeatedly for a moment, at
// growing intervals, because a commit becomes visible a little after its last byte is written. Otherwise it is read once a
// second, so that an idle process costs next to nothing.

/** The first interval after a write, its growth, and how long it lasts. */
const BUSY_LOOK_MS = 2;

const BUSY_GROWTH = 1.5;

const BUSY_MS = 100;

/** In case a report of the operating system was missed. */
const IDLE_LOOK_MS = 1_000;

/** If the operating system reports nothing. */
const DEAF_LOOK_MS = 25;

export class FileWatch {
  readonly #connection: Connection;
  readonly #runtime: Runtime;
  readonly #onHint: (hint: Hint) => void;
  readonly #version: StatementSync;
  #watcher: FSWatcher | null = null;
  #busyUntil = 0;
  #busyLookMs = BUSY_LOOK_MS;
  #dueAt = 0;
  #seen: unknown = null;
  #timer: Timer | null = null;
  #looking = false;
  #stopped = false;

  constructor(parts: { connection: Connection; runtime: Runtime; onHint: (hint: Hint) => void }) {
    this.#connection = parts.connection;
    this.#runtime = parts.runtime;
    this.#onHint = parts.onHint;
    this.#version = parts.connection.prepare("pragma data_version");
    void this.#look().then(() => this.#watch());
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#watcher?.close();
  }

  /** The log exists from the first read on, as long as a connection is open. */
  #watch(): void {
    if (this.#stopped) return;
    try {
      const log = `${this.#connection.path}-wal`;
      this.#watcher = watch(log, { persistent: false }, () => this.#pollSoon());
      this.#watcher.on("error", () => this.#goDeaf());
    } catch {
      this.#goDeaf();
    }
  }

  #goDeaf(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  #pollSoon(): void {
    const now = this.#runtime.monotonic();
    const quiet = now >= this.#busyUntil;
    this.#busyUntil = now + BUSY_MS;
    this.#busyLookMs = BUSY_LOOK_MS;
    if (this.#looking) return;
    if (!quiet && this.#dueAt <= now + BUSY_LOOK_MS) return;
    this.#timer?.cancel();
    if (quiet) void this.#look();
    else this.#lookIn(BUSY_LOOK_MS);
  }

  async #look(): Promise<void> {
    this.#looking = true;
    try {
      const version = await this.#connection.read(() => this.#version.get()?.["data_version"]);
      if (this.#stopped) return;
      if (this.#seen !== null && version !== this.#seen) this.#onHint({ kind: "unknown" });
      this.#seen = version;
    } catch {
      // A missed hint is no loss: callers that wait for one also poll.
    } finally {
      this.#looking = false;
    }
    if (this.#stopped) return;
    this.#lookIn(this.#waitMs());
  }

  #lookIn(ms: number): void {
    this.#dueAt = this.#runtime.monotonic() + ms;
    this.#timer = this.#runtime.timer(ms, () => void this.#look(), "background");
  }

  #waitMs(): number {
    if (this.#watcher === null) return DEAF_LOOK_MS;
    if (this.#runtime.monotonic() >= this.#busyUntil) return IDLE_LOOK_MS;
    const waitMs = this.#busyLookMs;
    this.#busyLookMs *= BUSY_GROWTH;
    return waitMs;
  }
}
