/**
 * Problem documents (RFC 9457, `application/problem+json`).
 *
 * A problem says what the caller did wrong and can do about it. Failures of the server itself go to the log under the request
 * id; stacks and SQL statements never leave the process.
 */
import { HoldfastError } from "../core/errors.ts";

interface ProblemFacts {
  readonly status: number;
  /** In capitals, like the codes of errors. */
  readonly code: string;
  readonly detail: string;
  /** The part of the request that is wrong. */
  readonly field?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly field: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor({ status, code, detail, field, headers = {} }: ProblemFacts, cause?: unknown) {
    super(detail, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.field = field;
    this.headers = headers;
  }

  /** The server failed; the request is not at fault. */
  get isOurs(): boolean {
    return this.status >= 500;
  }

  /** A temporary condition: the same request may succeed in a moment. */
  get isPassing(): boolean {
    return this.isOurs || PASSING.has(this.code);
  }

  /** The response body; the server adds the request id. */
  toBody() {
    const { status, code, message: detail, field } = this;
    const slug = code.toLowerCase().replaceAll("_", "-");
    const type = `urn:holdfast:problem:${slug}`;
    return {
      type,
      title: titleOf(status),
      status,
      detail,
      code,
      ...(field === undefined ? {} : { field }),
    };
  }
}

/** Node has the older names of two. */
const NEWER_TITLES: Readonly<Record<number, string | undefined>> = {
  413: "Content Too Large",
  422: "Unprocessable Content",
};

/** Loads `http` when a problem is sent: a worker without a server does not need it. */
function titleOf(status: number): string {
  const { STATUS_CODES } = process.getBuiltinModule("node:http");
  return NEWER_TITLES[status] ?? STATUS_CODES[status] ?? "Request refused";
}

const STATUSES: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 422,
  NOT_SERIALIZABLE: 422,
  INPUT_REJECTED: 422,
  UNKNOWN_TASK: 422,
  DEPENDENCY_NOT_FOUND: 422,
  CIRCLE: 422,
  TOO_LARGE: 413,
  ILLEGAL_MOVE: 409,
  JOB_IN_USE: 409,
  CALLED_FAILED: 409,
  DEPENDENCY_UNMET: 409,
  ALREADY_STARTED: 409,
  BULK_ENDED: 409,
  PREVIEW_UNUSABLE: 409,
  RERUN_UNCONFIRMED: 409,
  KEY_TAKEN: 409,
  LEASE_LOST: 409,
  JOB_CANCELLED: 409,
  INVALID_MOVE: 409,
  MOVE_REFUSED: 409,
  ITEM_CHANGED: 409,
  INTEGRITY_VIOLATION: 409,
  WORKFLOW_CONFLICT: 409,
  ITEMS_STRANDED: 409,
  LOCK_NOT_ACQUIRED: 409,
  WORKER_LIMIT_IN_USE: 409,
  SCHEDULE_EXISTS: 409,
  SCHEDULE_CHANGED: 409,
  SCHEDULE_DECLARED: 409,
  STORE_UNAVAILABLE: 503,
  STORE_GONE: 503,
  STORE_BUSY: 503,
  STORE_FULL: 503,
  OUTCOME_UNKNOWN: 503,
  SCHEMA_TOO_OLD: 503,
  SCHEMA_TOO_NEW: 503,
  TOOK_TOO_LONG: 503,
  CLOSED: 503,
};

/** Another caller holds the lock, or died while holding it. */
const PASSING: ReadonlySet<string> = new Set(["LOCK_NOT_ACQUIRED"]);

const RETRY_AFTER_S = "5";

const AWAY =
  "The database is not responding. Retry later; send an Idempotency-Key to make the retry safe.";

const GONE =
  "The database file was deleted or replaced, so requests are refused. See the server log.";

const UNFORESEEN = "Internal error. See the server log under this request's id.";

/** Turns anything thrown into a problem that is safe to send. */
export function problemOf(thrown: unknown, method?: string): Problem {
  if (thrown instanceof Problem) return thrown;
  if (!(thrown instanceof HoldfastError)) return unforeseen(thrown);
  const { code } = thrown;
  // A GET has no body that could be unprocessable: its address is malformed.
  const isAddress = code === "INVALID_ARGUMENT" && method === "GET";
  const status = isAddress
    ? 400
    : (STATUSES[code] ?? (code.endsWith("_NOT_FOUND") ? 404 : undefined));
  if (status === undefined) return unforeseen(thrown);
  if (status === 503) {
    const detail = code === "STORE_GONE" ? GONE : code === "TOOK_TOO_LONG" ? thrown.message : AWAY;
    return new Problem({ status, code, detail, headers: retryAfter(RETRY_AFTER_S) }, thrown);
  }
  const field = "field" in thrown && typeof thrown.field === "string" ? thrown.field : undefined;
  // The database's own message may contain data, so it is only logged, as the cause.
  const detail =
    code === "INTEGRITY_VIOLATION" ? "The change violates a database constraint." : thrown.message;
  const headers = PASSING.has(code) ? retryAfter(RETRY_AFTER_S) : {};
  // The message may quote input that is not well-formed Unicode.
  return new Problem({ status, code, detail: detail.toWellFormed(), field, headers }, thrown);
}

function unforeseen(thrown: unknown): Problem {
  return new Problem({ status: 500, code: "UNFORESEEN", detail: UNFORESEEN }, thrown);
}

export function retryAfter(seconds: string): Record<string, string> {
  return { "Retry-After": seconds };
}

export function notFound(what: string): Problem {
  return new Problem({ status: 404, code: "NOT_FOUND", detail: `There is no ${what}.` });
}
