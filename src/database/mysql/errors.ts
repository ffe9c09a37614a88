/** Translates the errors of MySQL, MariaDB and their driver. */
import {
  HoldfastError,
  StoreBusyError,
  StoreFullError,
  StoreRefusedError,
  StoreUnavailableError,
} from "../../core/errors.ts";

/** A deadlock; a row that changed since it was read. The server has rolled the transaction back. */
const CONFLICTS = new Set([1213, 1020]);

/** A lock timeout. Only the statement was rolled back, not the transaction. */
const LOCK_WAIT = 1205;

const DUPLICATE = new Set([1062, 1586]);

const NO_SUCH_THREAD = 1094;

/** At the time limit of a statement: MariaDB, MySQL. */
const STOPPED = new Set([1969, 3024]);

/** A syntax error by its number. */
const BROKEN_TABLE = /\btrigger\b.* has an error in its body/i;

/** The server ended or interrupted the session, so it could not report whether it had committed. */
const SESSION_ENDED = new Set([
  1053, 1077, 1078, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1317, 1835, 1927, 2006,
  2013, 3169, 4031,
]);

/** The system's and the driver's codes for a lost connection. */
const LOST = new Set([
  "PROTOCOL_CONNECTION_LOST",
  "NO_ANSWER",
  "PROTOCOL_UNEXPECTED_PACKET",
  "PROTOCOL_ERROR",
  "ECONNRESET",
  "ECONNREFUSED",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
  "EACCES",
]);

const READ_ONLY = new Set([1290, 1792, 1836]);

const FULL = new Set([1021, 1114]);

/** Duplicates, checks, our triggers, values that do not fit. */
const REFUSED = new Set([
  1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1451, 1452, 1586, 1644, 3819, 4025,
]);

const NOT_GRANTED = new Set([1044, 1142, 1143, 1227, 1370]);

interface Facts {
  /** The server's error number; 0: the error is not from the server. */
  readonly errno: number;
  /** The driver's or the system's code. */
  readonly code: string;
  readonly words: string;
  /** The driver reports that the connection is over. */
  readonly fatal: boolean;
}

function factsOf(error: unknown): Facts {
  const { errno, code, sqlState, fatal } = (error ?? {}) as Record<string, unknown>;
  return {
    // System errors have numbers too, but no SQL state.
    errno: typeof errno === "number" && sqlState !== undefined ? errno : 0,
    code: typeof code === "string" ? code : "",
    words: error instanceof Error ? error.message : String(error),
    fatal: fatal === true,
  };
}

export function asksAgain(error: unknown): boolean {
  return CONFLICTS.has(factsOf(error).errno);
}

export function isLockWait(error: unknown): boolean {
  return factsOf(error).errno === LOCK_WAIT;
}

/**
 * If a session is killed while it opens a table, MariaDB cannot read the triggers of the table any more. It refuses every
 * write until the table is opened again.
 */
export function isBrokenTable(error: unknown): boolean {
  return BROKEN_TABLE.test(factsOf(error).words);
}

/** The connection cannot be used any more. */
export function isLost(error: unknown): boolean {
  const { errno, code, fatal } = factsOf(error);
  return fatal || SESSION_ENDED.has(errno) || LOST.has(code);
}

/** We stopped waiting for an answer; the server may still be working. */
export class NoAnswer extends Error {
  readonly code = "NO_ANSWER";
}

/** The connection was lost between two packets: the next one was not sent. */
export class NotSent extends Error {
  readonly code = "PROTOCOL_CONNECTION_LOST";
}

/** The server may have become a replica: another connection may lead to the new primary. */
export function isReadOnly(error: unknown): boolean {
  return READ_ONLY.has(factsOf(error).errno);
}

export function isDuplicate(error: unknown): boolean {
  return DUPLICATE.has(factsOf(error instanceof StoreRefusedError ? error.cause : error).errno);
}

export function isNoSuchThread(error: unknown): boolean {
  return factsOf((error as Error).cause ?? error).errno === NO_SUCH_THREAD;
}

/** The server stopped a statement at its time limit. */
export function isStoppedStatement(error: unknown): boolean {
  return STOPPED.has(factsOf((error as Error).cause ?? error).errno);
}

/** The driver's errors contain the whole statement with all payloads, which must not be logged. */
export function withoutStatement(error: unknown): unknown {
  if (typeof error === "object" && error !== null && "sql" in error) delete error.sql;
  return error;
}

/** The database in which the server did not find one of our tables; null: it is another error. */
export function missingTable(error: unknown): string | null {
  const words = error instanceof Error ? error.message : "";
  return /Table '(.+)\.holdfast_\w+' doesn't exist/.exec(words)?.[1] ?? null;
}

export function translate(error: unknown, store: string): unknown {
  if (error instanceof HoldfastError || !(error instanceof Error)) return error;
  const { errno, code, words } = factsOf(error);
  if (errno === 0 && code === "") return error;
  if (CONFLICTS.has(errno) || errno === LOCK_WAIT) {
    return new StoreBusyError({ store, waitedMs: 0 }, error);
  }
  if (FULL.has(errno) || /\berror:? 28\b/.test(words)) return new StoreFullError({ store }, error);
  if (REFUSED.has(errno)) return new StoreRefusedError({ problem: words }, error);
  const [problem, remedy] =
    errno === 0 ? whereItIs(code, words, store) : remedyOf(errno, words, store);
  return new StoreUnavailableError({ problem, remedy }, error);
}

type Advice = [problem: string, remedy: string];

function whereItIs(code: string, words: string, store: string): Advice {
  switch (code) {
    case "ECONNREFUSED":
    case "ENOENT":
      return [`No server is listening at ${store}.`, "Start the server, or check host and port."];
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return [`The host of ${store} cannot be resolved.`, "Check its name and the network."];
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return [`${store} cannot be reached.`, "Check host, port, network and firewall."];
    case "NO_ANSWER":
      return [
        `${store} did not answer in time.`,
        "Look for long-running statements there (SHOW PROCESSLIST), and what they are waiting for.",
      ];
    case "HANDSHAKE_NO_SSL_SUPPORT":
      return [
        `${store} does not encrypt connections.`,
        "Set it up for TLS, or use ssl-mode=disabled.",
      ];
    case "HANDSHAKE_SSL_ERROR":
      return [
        `The certificate of ${store} was not accepted (${words}).`,
        "Name its authority with ssl-ca=<file>, or use ssl-mode=required, which does not check it.",
      ];
    case "AUTH_SWITCH_PLUGIN_ERROR":
      return [
        `${store} uses an authentication method that the driver does not support (${words}).`,
        "Change the user's authentication to mysql_native_password or caching_sha2_password.",
      ];
    default:
      return [`The connection to ${store} was lost (${words}).`, "Holdfast reconnects."];
  }
}

/** Advice for an error that no retry will change. */
function remedyOf(errno: number, words: string, store: string): Advice {
  if (READ_ONLY.has(errno)) {
    return [
      `${store} is read-only: a replica, or a server set to read-only (${words}).`,
      "Name the primary in the URL.",
    ];
  }
  if (NOT_GRANTED.has(errno)) {
    return [
      `The user does not have the required privilege at ${store} (${words}).`,
      "Grant it all privileges on this database; the first migration needs CREATE, TRIGGER and CREATE VIEW.",
    ];
  }
  if (BROKEN_TABLE.test(words)) {
    return [
      `${store} can no longer read the triggers of a table (${words}).`,
      "Run FLUSH TABLES there as an administrator: a session was killed while it opened the table.",
    ];
  }
  switch (errno) {
    case 1045:
    case 1698:
      return [
        `${store} refused the user or the password.`,
        "Check both in the URL; special characters in a password must be percent-encoded.",
      ];
    case 1049:
      return [
        `The database of ${store} does not exist.`,
        "Create it (CREATE DATABASE), or check the name in the URL.",
      ];
    case 1040:
    case 1203:
    case 1226:
      return [
        `${store} has no free connection left (${words}).`,
        "Raise max_connections or the user's limit, or run fewer processes.",
      ];
    case 1129:
    case 1130:
      return [
        `${store} does not accept connections from this host (${words}).`,
        "Create the user for this host ('user'@'%', say), or run FLUSH HOSTS.",
      ];
    case 3159:
      return [`${store} requires encrypted connections.`, "Add ?ssl-mode=required to the URL."];
    case 1146:
    case 1054:
      return [
        `${store} has no holdfast tables, or old ones (${words}).`,
        "Run 'holdfast migrate'.",
      ];
    case 1419:
      return [
        `${store} does not allow this user to create triggers (${words}).`,
        "Set log_bin_trust_function_creators = 1 on the server, or run 'holdfast migrate' once as an administrator.",
      ];
    case 1665:
      return [
        `${store} writes its binary log by statement, which READ COMMITTED does not allow.`,
        "Set binlog_format to ROW or MIXED.",
      ];
    default:
      return [`The server refused: ${words} (${errno}).`, `The database is ${store}.`];
  }
}
