/** Translates the errors of PostgreSQL and its driver. */
import {
  HoldfastError,
  StoreBusyError,
  StoreFullError,
  StoreRefusedError,
  StoreUnavailableError,
} from "../../core/errors.ts";

/** The transaction should be repeated: a deadlock, a conflict, a lock timeout. */
const AGAIN = new Set(["40P01", "40001", "55P03"]);

/** The session is over, so it could not report whether it had committed. */
const SESSION_ENDED = /^(08|57P0[1-5]|25P0[34])/;

/** The client was silent in a transaction for too long; or the transaction as a whole took too long. */
const TRANSACTION_ENDED = /^25P0[34]$/;

/** The driver knew that the connection was lost, and sent nothing. */
const NEVER_SENT = /not queryable/i;

/** Messages of the driver, which has no codes for these. */
const LOST =
  /connection terminated|connection ended|read timeout|not queryable|closed the connection/i;

const NO_PLACE = /timeout exceeded when trying to connect/i;

const SYSTEM_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
]);

export function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null || !("code" in error)) return "";
  return typeof error.code === "string" ? error.code : "";
}

function wordsOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return wordsOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}

export function asksAgain(error: unknown): boolean {
  if (AGAIN.has(codeOf(error))) return true;
  // Another job took the key between our look and our write; the next look finds it.
  return isDuplicate(error) && (error as { table?: unknown }).table === "job_key";
}

/** The connection cannot be used any more. */
export function isLost(error: unknown): boolean {
  const code = codeOf(error);
  if (SYSTEM_CODES.has(code) || SESSION_ENDED.test(code)) return true;
  return code === "" && LOST.test(wordsOf(error));
}

/** A commit that failed like this changed nothing: the server had ended the transaction, or never saw the commit. */
export function isEndedBefore(error: unknown): boolean {
  return TRANSACTION_ENDED.test(codeOf(error)) || NEVER_SENT.test(wordsOf(error));
}

/** PgBouncer refuses our start options. */
export function refusesStartup(error: unknown): boolean {
  return codeOf(error) === "08P01" && /unsupported startup parameter/i.test(wordsOf(error));
}

/** The server is too old for our settings; its version is checked later. */
export function isUnknownSetting(error: unknown): boolean {
  return codeOf(error) === "42704";
}

export function isDuplicate(error: unknown): boolean {
  return codeOf(error) === "23505";
}

export function translate(error: unknown, store: string): unknown {
  if (error instanceof HoldfastError) return error;
  const code = codeOf(error);
  const words = wordsOf(error);
  if (isLost(error)) return unavailable(...whereItIs(code, words, store), error);
  if (NO_PLACE.test(words)) return noPlace(store, error);
  if (code === "") return error;
  if (AGAIN.has(code) || code === "57014") return new StoreBusyError({ store, waitedMs: 0 }, error);
  if (code === "53100") return new StoreFullError({ store }, error);
  if (code === "P0001" || code.startsWith("23") || code.startsWith("22")) {
    return new StoreRefusedError({ problem: words }, error);
  }
  return unavailable(...remedyOf(code, words, store), error);
}

function noPlace(store: string, cause: unknown): StoreUnavailableError {
  return unavailable(
    `${store}: no connection became free in time.`,
    "All connections of the pool are in use, or the server does not answer. Look for transactions that stay open.",
    cause,
  );
}

function whereItIs(code: string, words: string, store: string): [problem: string, remedy: string] {
  if (code === "ECONNREFUSED") {
    return [`No server is listening at ${store}.`, "Start the server, or check host and port."];
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return [`The host of ${store} cannot be resolved.`, "Check its name and the network."];
  }
  if (code === "57P03") {
    return [`${store} is starting up or shutting down.`, "Holdfast tries again."];
  }
  return [`The connection to ${store} was lost (${words}).`, "Holdfast reconnects."];
}

/** Advice for an error that no retry will change. */
function remedyOf(code: string, words: string, store: string): [problem: string, remedy: string] {
  switch (code) {
    case "28P01":
    case "28000":
      return [
        `${store} refused the user or the password.`,
        "Check both in the URL; special characters in a password must be percent-encoded.",
      ];
    case "3D000":
      return [
        `The database of ${store} does not exist.`,
        "Create it (createdb, or CREATE DATABASE), or check the name in the URL.",
      ];
    case "42501":
      return [
        `The user does not have the required privilege at ${store} (${words}).`,
        "Grant CREATE on the database for the first migration, and usage of the schema's tables.",
      ];
    case "25006":
      return readOnly(store);
    case "53300":
      return [`${store} has no free connection left.`, "Raise max_connections, or use PgBouncer."];
    case "3F000":
    case "42P01":
      return [`${store} has no holdfast tables (${words}).`, "Run 'holdfast migrate'."];
    default:
      return [`PostgreSQL refused: ${words} (${code}).`, `The database is ${store}.`];
  }
}

export function readOnly(store: string): [problem: string, remedy: string] {
  return [
    `${store} is read-only: a replica, or a database set to read-only.`,
    "Name the primary in the URL.",
  ];
}

function unavailable(problem: string, remedy: string, cause: unknown): StoreUnavailableError {
  return new StoreUnavailableError({ problem, remedy }, cause);
}
