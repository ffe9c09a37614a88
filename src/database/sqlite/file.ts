/** The file that a database is in: which one a URL names, and whether it can be used. */
import { closeSync, existsSync, openSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { InvalidArgumentError, StoreGoneError, StoreUnavailableError } from "../../core/errors.ts";

export function sqlitePath(url: string): string {
  const path = url.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "");
  if (path === ":memory:") return path;
  if (path === "" || path.startsWith("//")) {
    throw new InvalidArgumentError({
      field: "url",
      problem:
        "an SQLite URL names a file (sqlite:shop.db, sqlite:/var/lib/shop.db) or sqlite::memory:.",
    });
  }
  return resolve(path);
}

const NETWORK_FILE_SYSTEMS = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
]);

export function checkFile(path: string, create: boolean): void {
  const folder = dirname(path);
  if (!existsSync(folder)) {
    throw new StoreUnavailableError({
      problem: `The folder ${folder} does not exist.`,
      remedy: "Create it, or name another file.",
    });
  }
  if (!create && !existsSync(path)) {
    throw new StoreUnavailableError({
      problem: `There is no database at ${path}.`,
      remedy: "Check the name, or create it with 'holdfast migrate'.",
    });
  }
  if (existsSync(path) && statSync(path).isDirectory()) {
    throw new StoreUnavailableError({
      problem: `${path} is a folder.`,
      remedy: `Name a file in it, such as ${path}/holdfast.db.`,
    });
  }
  const network = NETWORK_FILE_SYSTEMS.get(statfsSync(folder).type);
  if (network !== undefined) {
    throw new StoreUnavailableError({
      problem: `${path} is on a network file system (${network}), where SQLite's locks cannot be trusted.`,
      remedy: "Put the file on a local disk, or use PostgreSQL or MySQL.",
    });
  }
}

/** Jobs are in it as plain text, so it is its owner's alone. */
const FILE_MODE = 0o600;

/**
 * Makes an empty file for a database that is new, before SQLite would make one that all can read.
 * The files beside it get its mode from SQLite. False: there is one, and it stays as it is. It is not
 * even opened, because closing it would take this process's locks on it away.
 */
export function createFile(path: string): boolean {
  try {
    closeSync(openSync(path, "wx", FILE_MODE));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

// Whether the file that is open is still the one at its path.
//
// Somebody may delete a file that is in use, or put another in its place: SQLite goes on with the one that it has open, which nobody
// else finds any more and which is gone with the process. So device and inode of the path are held against those that it had when it
// was opened. The same goes for the write-ahead log, in which the last commits are.

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
  #gone: StoreGoneError | null = null;

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
    this.#gone ??= new StoreGoneError({ path: this.path, what, rescuePath: this.rescuePath });
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
