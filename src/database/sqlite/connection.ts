/**
 * One connection to an SQLite file, made safe to share.
 *
 * The driver is synchronous, so a transaction whose body is synchronous cannot be interleaved with anything. One
 * whose body awaits holds the gate, and everybody else in this process waits for it.
 *
 * Waiting for other processes never blocks the event loop: the driver's own busy timeout is off (it would put the
 * whole thread to sleep), and a locked database is tried again after a random pause that grows.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { closeSync, fsyncSync, openSync, rmSync } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { ClosedError, StoreBusyError, StoreRefusedError } from "../../core/errors.ts";
import { type Runtime, sleep } from "../../core/runtime.ts";
import { newTally } from "../pool-stats.ts";
import { isBusy, translate } from "./errors.ts";
import { createFile, type FileGuard } from "./file.ts";

/** How long a write waits for other processes before it gives up with StoreBusyError. */
const BUSY_MS_MAX = 30_000;

const BUSY_PAUSE_MS_FIRST = 1;

const BUSY_PAUSE_MS_MAX = 32;

/** A test's hook: told before and after every statement, so that a process can be killed at each of them. */
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
  /** Whoever calls from inside of a transaction must not wait for its end. */
  readonly #inside = new AsyncLocalStorage<Promise<void>>();
  readonly #runtime: Runtime;
  readonly #probe: Probe | null;
  readonly #guard: FileGuard | null;
  readonly #rescues: boolean;
  readonly #statements = new Map<string, StatementSync>();
  #gate: Promise<void> | null = null;
  /** How the last transaction was begun. */
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

  /** For whoever takes part in a transaction here. */
  get database(): DatabaseSync {
    return this.#db;
  }

  /** Prepares a text once. Hot statements keep what they get; the others ask again by text. */
  prepare(text: string): StatementSync {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.#db.prepare(keepingItsPlan(text));
      if (this.#probe !== null) statement = probed(statement, text, this.#probe);
      this.#statements.set(text, statement);
    }
    return statement;
  }

  /** Runs `body` once no transaction of this process is open. It may only read. */
  read<T>(body: () => T): Promise<T> {
    return this.#whenFree(body);
  }

  /** Runs `body` in a transaction. The body is synchronous and may run again if the database was locked. */
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

  /** Runs `body` in a transaction that may await. Everybody else in this process waits at the gate. */
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

  /** For whoever writes to the file by another connection: throws if it is not the one at its path any more. */
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
    // A warning takes a turn of the event loop, and the process may end with this.
    if (isLost) await new Promise<void>((resolve) => this.#runtime.afterIo(resolve));
  }

  /** Runs the body when no transaction of this process is open, and again while others lock the database. */
  async #whenFree<T>(body: () => T | Promise<T>, busyMsMax = BUSY_MS_MAX): Promise<T> {
    const startedAt = this.#runtime.monotonic();
    if (this.#gate !== null && this.#inside.getStore() === this.#gate) {
      throw new StoreRefusedError({
        problem:
          "this would wait for the transaction that it is called from. Use what that transaction was given.",
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

  /** Nobody is told that something was accepted which went into a file that nobody finds. */
  #checkFile(): void {
    this.#guard?.check(this.#runtime.monotonic());
  }

  /**
   * Whether a commit waits for the disk is said before a transaction, by whoever begins one, so that nobody depends on
   * what the one before has said. One that does not wait leaves its pages in the log as any other: a commit that waits
   * brings them to the disk too, and after a crash of the machine the log ends before them or behind them.
   */
  #begin(durable = true): void {
    try {
      if (this.#durable !== durable) {
        this.#db.exec(`pragma synchronous = ${durable ? "full" : "normal"}`);
        this.#durable = durable;
      }
      this.exec("begin immediate");
    } catch (error) {
      // A rollback that failed would leave this connection in its transaction, and useless, for good.
      this.#rollback();
      throw error;
    }
  }

  #rollback(): void {
    // SQLite rolls back by itself after some errors (a full disk, for one); then there is nothing to undo.
    if (!this.#db.isTransaction) return;
    this.tally.rolledBack += 1;
    this.#db.exec("rollback");
  }
}

/** A bare value as the limit is made part of the plan, and so the statement would be parsed anew whenever it is bound. */
function keepingItsPlan(text: string): string {
  return text.replaceAll(/\blimit \?/g, "limit cast(? as integer)");
}

/** The same statement, with the probe told around every use of it. */
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

// What is left of a database whose file was deleted is in this process alone, and gone when it is closed: so it is written to a file
// beside it first. So it is with one that was only moved: its last commits are in a log that did not go along, and SQLite does not
// bring them into a file that is not at its path.

/** There is no log down here, and nobody may have the last words but the process: a warning reaches whoever runs it. */
function warn(message: string): void {
  process.emitWarning(message, { type: "HoldfastWarning", code: "STORE_GONE" });
}

function rescue(db: DatabaseSync, guard: FileGuard): void {
  const { path, rescuePath } = guard;
  try {
    // Else another connection, of this process or of another, was faster.
    if (!createFile(rescuePath)) return;
    fill(db, rescuePath);
    bringToDisk(rescuePath);
    warn(
      `${path} was deleted, moved or replaced while it was in use. What was in it is in ${rescuePath}.`,
    );
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    warn(
      `${path} was deleted, moved or replaced while it was in use, and what was in it could not be saved: ${words}`,
    );
  }
}

/** A file that stayed empty would keep the next one from trying. */
function fill(db: DatabaseSync, path: string): void {
  try {
    db.prepare("vacuum into ?").run(path);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  }
}

/** SQLite leaves that to the operating system. */
function bringToDisk(path: string): void {
  const file = openSync(path, "r+");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
