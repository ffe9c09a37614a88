/**
 * Whether the file that is open is still the one at its path.
 *
 * Somebody may delete a file that is in use, or put another in its place: SQLite goes on with the one that it has open, which nobody
 * else finds any more and which is gone with the process. So device and inode of the path are held against those that it had when it
 * was opened. The same goes for the write-ahead log, in which the last commits are.
 */
import { statfsSync, statSync } from "node:fs";
import { StoreGone } from "../../core/errors.ts";

/** Before a read or a write it is looked at so often at most; a look costs a few microseconds. */
const LOOK_EVERY_MS = 5;
/** A log alone is deleted seldom. */
const LOG_EVERY_MS = 100;

/** File systems whose inodes may change by themselves: FUSE (and what hosts share with their guests by it), 9P. */
const FICKLE_FILE_SYSTEMS = new Set([0x65735546, 0x01021997]);

interface Identity {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly birthtimeMs: bigint;
}

export class FileGuard {
  readonly path: string;
  readonly #file: Identity;
  #log: Identity | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #logLookedAt = Number.NEGATIVE_INFINITY;
  /** One error for one loss, so that whoever logs it can tell that it has been said. */
  #gone: StoreGone | null = null;

  /** Of a file that was just opened. Null: nothing can be told of it (there is no file, or its inodes say nothing). */
  static of(path: string): FileGuard | null {
    if (path === ":memory:") return null;
    const file = identityOf(path);
    if (file === null || file === "unknown" || file.ino === 0n) return null;
    return FICKLE_FILE_SYSTEMS.has(statfsSync(path).type) ? null : new FileGuard(path, file);
  }

  private constructor(path: string, file: Identity) {
    this.path = path;
    this.#file = file;
  }

  /** Where what is left is written at the end. The same for all who had the file open: one copy is enough. Inodes are used again. */
  get rescuePath(): string {
    const { ino, birthtimeMs } = this.#file;
    return `${this.path}.rescued-${ino}-${birthtimeMs}`;
  }

  isGone(now: number): boolean {
    try {
      this.check(now);
      return false;
    } catch {
      return true;
    }
  }

  /** For what is about to begin: unless it was looked at a moment ago. */
  look(now: number): void {
    if (this.#gone === null && now - this.#lookedAt < LOOK_EVERY_MS) return;
    this.check(now);
  }

  /** For what was just written and is about to be answered. */
  check(now: number): void {
    const what = this.#missing(now);
    this.#lookedAt = now;
    if (what === null) {
      this.#gone = null; // moved away, and back
      return;
    }
    this.#gone ??= new StoreGone({ path: this.path, what, rescuePath: this.rescuePath });
    throw this.#gone;
  }

  #missing(now: number): string | null {
    const file = missing(this.path, this.#file);
    if (file !== null) return file;
    const log = `${this.path}-wal`;
    if (this.#log !== null) {
      if (this.#gone === null && now - this.#logLookedAt < LOG_EVERY_MS) return null;
      this.#logLookedAt = now;
      return missing(log, this.#log);
    }
    // It is there from the first read on, as long as anybody has the file open.
    const found = identityOf(log);
    if (found !== "unknown") this.#log = found;
    return null;
  }
}

function missing(path: string, { dev, ino }: Identity): string | null {
  const now = identityOf(path);
  if (now === "unknown") return null;
  if (now === null) return `${path} was deleted or moved`;
  return now.dev === dev && now.ino === ino ? null : `${path} was replaced by another file`;
}

/** Null: there is none. A disk that fails says nothing about that. */
function identityOf(path: string): Identity | "unknown" | null {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false }) ?? null;
  } catch {
    return "unknown";
  }
}
