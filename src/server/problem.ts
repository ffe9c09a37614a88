/**
 * What is wrong, as RFC 9457 has it: `application/problem+json`.
 *
 * A problem tells what the caller did and can do. What went wrong here, in the database or in the code, stands in the log, under
 * the id of the request; neither a stack nor a statement leaves the house.
 */
import { HoldfastError } from "../core/errors.ts";

export interface ProblemFacts {
  readonly status: number;
  /** In capitals, as the codes of errors are. */
  readonly code: string;
  readonly detail: string;
  /** What of the request it is about. */
  readonly field?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What is sent; the server adds the id of the request. */
export interface ProblemBody {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly field?: string;
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

  /** Something is wrong here, and not with the request. */
  get isOurs(): boolean {
    return this.status >= 500;
  }

  /** It says nothing about the request: the same may come to something else in a moment. */
  get isPassing(): boolean {
    return this.isOurs || PASSING.has(this.code);
  }

  toBody(): ProblemBody {
    const { status, code, message: detail, field } = this;
    const slug = code.toLowerCase().replaceAll("_", "-");
    const title = TITLES[status] ?? "Refused";
    const type = `urn:holdfast:problem:${slug}`;
    return { type, title, status, detail, code, ...(field === undefined ? {} : { field }) };
  }
}

const TITLES: Readonly<Record<number, string>> = {
  400: "The request cannot be read",
  401: "A token is needed",
  403: "Not allowed",
  404: "Not found",
  405: "Not with this method",
  406: "Not in this form",
  408: "Too slow",
  409: "It does not fit how things stand",
  413: "Too large",
  415: "Not in this form",
  421: "Not this host",
  422: "Something in the request is wrong",
  429: "Too many requests",
  431: "Too large",
  500: "Something unforeseen happened",
  503: "Not now",
};

const STATUSES: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 422,
  NOT_SERIALIZABLE: 422,
  INPUT_REJECTED: 422,
  UNKNOWN_TASK: 422,
  TOO_LARGE: 413,
  JOB_NOT_FOUND: 404,
  ITEM_NOT_FOUND: 404,
  WORKER_TYPE_NOT_FOUND: 404,
  DOUBT_NOT_FOUND: 404,
  ILLEGAL_MOVE: 409,
  CALLED_FAILED: 409,
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
  STORE_UNAVAILABLE: 503,
  STORE_GONE: 503,
  STORE_BUSY: 503,
  STORE_FULL: 503,
  OUTCOME_UNKNOWN: 503,
  SCHEMA_TOO_OLD: 503,
  SCHEMA_TOO_NEW: 503,
  CLOSED: 503,
};

/** Somebody else is at the same thing at this moment, or was when they died. */
const PASSING: ReadonlySet<string> = new Set(["LOCK_NOT_ACQUIRED"]);

const RETRY_AFTER_S = "5";

const AWAY =
  "The database does not answer at the moment. Try again; with an Idempotency-Key nothing is done twice.";
const GONE =
  "The database's file was deleted or replaced: nothing is accepted. The server's log has more.";
const UNFORESEEN =
  "Something unforeseen happened. The server's log has more, under the id of this request.";

/** Whatever was thrown, as something that may be told. */
export function problemOf(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown;
  if (!(thrown instanceof HoldfastError)) return unforeseen(thrown);
  const { code } = thrown;
  const status = STATUSES[code];
  if (status === undefined) return unforeseen(thrown);
  if (status === 503) {
    const detail = code === "STORE_GONE" ? GONE : AWAY;
    return new Problem({ status, code, detail, headers: retryAfter(RETRY_AFTER_S) }, thrown);
  }
  const field = "field" in thrown && typeof thrown.field === "string" ? thrown.field : undefined;
  // The database's own words come behind ours, as the cause.
  const detail =
    code === "INTEGRITY_VIOLATION" ? "A rule of the database would be broken." : thrown.message;
  const headers = PASSING.has(code) ? retryAfter(RETRY_AFTER_S) : {};
  return new Problem({ status, code, detail: printable(detail), field, headers }, thrown);
}

function unforeseen(thrown: unknown): Problem {
  return new Problem({ status: 500, code: "UNFORESEEN", detail: UNFORESEEN }, thrown);
}

export function retryAfter(seconds: string): Record<string, string> {
  return { "Retry-After": seconds };
}

/** What somebody sent may stand in the sentence. */
function printable(text: string): string {
  return text.toWellFormed();
}

export function notFound(what: string): Problem {
  return new Problem({ status: 404, code: "NOT_FOUND", detail: `There is no ${what}.` });
}
