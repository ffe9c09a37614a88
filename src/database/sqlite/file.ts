/** The file of a database: its path, and whether it can be used. */
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
        "a SQLite URL names a file (sqlite:shop.db, sqlite:/var/lib/shop.db) or sqlite::memory:.",
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

/** Jobs are stored as plain text, so only the owner may read them. */
const FILE_MODE = 0o600;

/**
 * Creates an empty file for a new database, because SQLite would create one that all users can read. SQLite gives the files
 * beside it the same mode. False: the file exists. It is not even opened, because closing it would release this process's
 * locks on it.
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

/** The minimum time between two looks before reads or writes; a look takes a few microseconds. */
const LOOK_EVERY_MS = 5;

/** The log alone is rarely deleted. */
const LOG_EVERY_MS = 100;

/** File systems whose inodes may change by themselves: FUSE (also as the share of a virtual machine), 9P. */
const FICKLE_FILE_SYSTEMS = new Set([0x65735546, 0x01021997]);

interface Identity {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly birthtimeMs: bigint;
}

/**
 * Checks that the open file is still the one at its path.
 *
 * If a file in use is deleted or replaced, SQLite continues with the open file, which no other process can find and which
 * is lost when this process exits. So the guard compares device and inode of the path with those at opening. It does the
 * same for the write-ahead log, which has the last commits.
 */
export class FileGuard {
  readonly path: string;
  readonly #file: Identity;
  #log: Identity | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #logLookedAt = Number.NEGATIVE_INFINITY;
  /** One error object per loss, so that it can be logged once. */
  #gone: StoreGoneError | null = null;

  /** For a file that was just opened. Null: it cannot be guarded (there is no file, or its inodes are unreliable). */
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

  /** The same for all processes that had the file open, because one copy is enough. The file system reuses inodes. */
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

  /** Before an operation: checks, unless it did a moment ago. */
  look(now: number): void {
    if (this.#gone === null && now - this.#lookedAt < LOOK_EVERY_MS) return;
    this.check(now);
  }

  /** After a write, before it is reported as done. */
  check(now: number): void {
    const what = this.#missing(now);
    this.#lookedAt = now;
    if (what === null) {
      this.#gone = null; // moved away and back
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
    // It exists from the first read on, as long as a process has the file open.
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

/** Null: it does not exist. "unknown": the disk failed. */
function identityOf(path: string): Identity | "unknown" | null {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false }) ?? null;
  } catch {
    return "unknown";
  }
}
