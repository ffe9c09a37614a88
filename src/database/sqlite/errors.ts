/** Translates SQLite's errors. */
import {
  HoldfastError,
  StoreFullError,
  StoreRefusedError,
  StoreUnavailableError,
} from "../../core/errors.ts";

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
