/**
 * The errors of the library.
 *
 * Each has a code that never changes, its facts as fields, and a message that says what happened and what to do about it. Code
 * that catches errors compares codes or classes, never messages.
 */
import { shellWord } from "./text.ts";

/** The base of every error that the library throws. Compare `code`, which never changes, not the message. */
export class HoldfastError extends Error {
  /** Names the kind of error, such as `JOB_NOT_FOUND`; listed in docs/guide/api.md. */
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.name = new.target.name;
  }
}

// ── What the caller gave us ──────────────────────────────────────────────────────────────────────────────────

/** An invalid option, argument or setting. `field` is its name as the caller wrote it. */
export class InvalidArgumentError extends HoldfastError {
  /** The name of the option as the caller wrote it, such as `retry.maxAttempts`. */
  readonly field: string;

  constructor(facts: { field: string; problem: string }, cause?: unknown) {
    super("INVALID_ARGUMENT", `${facts.field}: ${facts.problem}`, cause);
    this.field = facts.field;
  }
}

export function invalid(field: string, problem: string): InvalidArgumentError {
  return new InvalidArgumentError({ field, problem });
}

/** An input that the schema of the task rejects. */
export class InputRejectedError extends HoldfastError {
  readonly task: string;
  readonly issues: readonly { path: string; message: string }[];

  constructor(facts: { task: string; issues: readonly { path: string; message: string }[] }) {
    const lines = facts.issues.map((issue) => `${issue.path}: ${issue.message}`).join("; ");
    super("INPUT_REJECTED", `The input of task '${facts.task}' is not valid. ${lines}`);
    this.task = facts.task;
    this.issues = facts.issues;
  }
}

export class UnknownTaskError extends HoldfastError {
  readonly task: string;
  readonly known: readonly string[];

  constructor(facts: { task: string; known: readonly string[] }) {
    const known = facts.known.length === 0 ? "none" : facts.known.join(", ");
    super("UNKNOWN_TASK", `No task is called '${facts.task}' here. Known tasks: ${known}.`);
    this.task = facts.task;
    this.known = facts.known;
  }
}

const ID_LENGTH = 36;

// ── What became of a job ─────────────────────────────────────────────────────────────────────────────────────

/** The job does not exist, does not exist yet, or no longer exists. */
export class JobNotFoundError extends HoldfastError {
  /** The id, or the beginning of one, that was looked for. */
  readonly id: string;

  constructor(facts: { id: string }) {
    const none =
      facts.id.length < ID_LENGTH
        ? `There is no job whose id begins with '${facts.id}'.`
        : `There is no job ${facts.id}.`;
    super(
      "JOB_NOT_FOUND",
      `${none} It was never accepted here, or its transaction is not committed yet, ` +
        `or it finished and was pruned.`,
    );
    this.id = facts.id;
  }
}

/** The job failed. `error` is the recorded error of its last attempt. */
export class JobFailedError extends HoldfastError {
  /** The id of the failed job. */
  readonly id: string;
  /** The name of its task. */
  readonly task: string;
  /** How many attempts it used. */
  readonly attempts: number;
  /** The error of its last attempt, as recorded: an object with name, message, code and stack. */
  readonly error: unknown;

  constructor(facts: { id: string; task: string; attempts: number; error: { message: string } }) {
    super(
      "JOB_FAILED",
      `Job ${facts.id} (${facts.task}) failed on attempt ${facts.attempts}: ${facts.error.message}`,
      facts.error,
    );
    this.id = facts.id;
    this.task = facts.task;
    this.attempts = facts.attempts;
    this.error = facts.error;
  }
}

/** The job was cancelled: thrown by `result()`, and the reason of an aborted `ctx.signal`. */
export class JobCancelledError extends HoldfastError {
  /** The id of the cancelled job. */
  readonly id: string;

  constructor(facts: { id: string }) {
    super("JOB_CANCELLED", `Job ${facts.id} was cancelled.`);
    this.id = facts.id;
  }
}

function waitsFor(effect: string): string {
  return `effect '${effect}' is in doubt, and an operator must record whether it happened`;
}

/** The job is done, but what its task returned could not be stored. */
export class ResultNotStoredError extends HoldfastError {
  readonly id: string;
  readonly task: string;

  constructor(facts: { id: string; task: string; problem: string }) {
    super("RESULT_NOT_STORED", facts.problem);
    this.id = facts.id;
    this.task = facts.task;
  }
}

/** The result did not arrive within the timeout. The job itself is not affected. */
export class ResultTimeoutError extends HoldfastError {
  /** The id of the job, which goes on. */
  readonly id: string;
  /** How long the caller waited, in milliseconds. */
  readonly waitedMs: number;

  constructor(facts: { id: string; waitedMs: number; status: string; inDoubt: string | null }) {
    const { id, status, inDoubt } = facts;
    const state =
      inDoubt === null
        ? `it is ${status}, and was not cancelled.`
        : `its ${waitsFor(inDoubt)}: holdfast effects resolve ${id} ${shellWord(inDoubt)} --done | --not-done`;
    super("RESULT_TIMEOUT", `Job ${id} had no result after ${facts.waitedMs} ms; ${state}`);
    this.id = facts.id;
    this.waitedMs = facts.waitedMs;
  }
}

/** A test waits for a result on a test clock, which only the test advances, and no worker runs the job. */
export class NoWorkerError extends HoldfastError {
  readonly id: string;

  constructor(facts: { id: string; task: string; status: string; inDoubt: string | null }) {
    const { status, inDoubt } = facts;
    const state =
      inDoubt === null
        ? `is ${status}, and nothing runs it: call drain([task]), with { skipTime: true } for delays ` +
          `and retries, or clock.advance("1h") where a worker runs. A test clock stands still, so no timeout passes.`
        : `is ${status}: its ${waitsFor(inDoubt)}. Call holdfast.jobs.resolve(), then drain again.`;
    super("NOTHING_RUNS", `Job ${facts.id} (${facts.task}) ${state}`);
    this.id = facts.id;
  }
}

/** An attempt exceeded the timeout of its task. */
export class JobTimeoutError extends HoldfastError {
  readonly id: string;
  readonly timeoutMs: number;

  constructor(facts: { id: string; timeoutMs: number }) {
    super("JOB_TIMEOUT", `Job ${facts.id} ran longer than its timeout of ${facts.timeoutMs} ms.`);
    this.id = facts.id;
    this.timeoutMs = facts.timeoutMs;
  }
}

/** The worker no longer owns the job. Its writes about the job are refused. */
export class LeaseLostError extends HoldfastError {
  /** The id of the job. */
  readonly id: string;
  /** The id of the worker that lost the lease. */
  readonly worker: string;
  /** The fencing token of the lost claim: a later claim has a larger one. */
  readonly epoch: number;

  constructor(facts: { id: string; worker: string; epoch: number }) {
    super(
      "LEASE_LOST",
      `Worker ${facts.worker} no longer owns job ${facts.id} (epoch ${facts.epoch}): the lease expired, or ` +
        `the job was already settled. Stop working on it: another worker may own it now.`,
    );
    this.id = facts.id;
    this.worker = facts.worker;
    this.epoch = facts.epoch;
  }
}

/** The shutdown timeout of the worker is over: the job is handed back, and another worker runs it. */
export class ShuttingDownError extends HoldfastError {
  constructor() {
    super(
      "SHUTTING_DOWN",
      "The worker is shutting down; the job is handed back without using up an attempt.",
    );
  }
}

/** For tasks to throw: the job fails without further retries. */
export class GiveUpError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("GIVE_UP", message, cause);
  }
}

/** The thread or process of an isolated task could not be started, or did not find the task. */
export class IsolationError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("ISOLATION", message, cause);
  }
}

/** The thread or process of an isolated task ended while the task ran. */
export class TaskCrashedError extends HoldfastError {
  constructor(message: string) {
    super("TASK_CRASHED", message);
  }
}

const MOVABLE = {
  retry: "Only failed, cancelled or expired jobs can be retried.",
  cancel: "Only jobs that have not ended can be cancelled.",
  rerun: "Only jobs that have ended can run again.",
  "run now":
    "Only pending and scheduled jobs, and jobs that wait for their next attempt, can be run now.",
  edit: "Only jobs that no worker holds can be changed. Retry or replay an ended job with another input.",
  delete: "Only jobs that have ended can be deleted. Cancel it first.",
  replay: "Only jobs that have ended can be replayed.",
};

/** The state of the job does not allow the move. */
export class IllegalMoveError extends HoldfastError {
  readonly id: string;
  readonly status: string;
  readonly move: string;

  constructor(facts: {
    id: string;
    status: string;
    move: keyof typeof MOVABLE;
    /** Replaces "is <status>" in the message. */
    detail?: string;
  }) {
    const { id, status, move, detail = `is ${status}` } = facts;
    super("ILLEGAL_MOVE", `Job ${id} ${detail}. ${MOVABLE[move]}`);
    this.id = facts.id;
    this.status = facts.status;
    this.move = facts.move;
    countRefusal(this.code);
  }
}

/** A job that has not ended may still read the result of this one. */
export class JobInUseError extends HoldfastError {
  constructor({ id }: { id: string }) {
    super(
      "JOB_IN_USE",
      `Job ${id} cannot be deleted: a job that waits for it has not ended and may read its result. Wait until that job has ended, or cancel it.`,
    );
  }
}

/** Another job holds the key: a live job, or an ended job that keeps its key for a while. */
export class KeyTakenError extends HoldfastError {
  /** The key that was asked for. */
  readonly key: string;
  /** The task in which the key is taken. */
  readonly task: string;
  /** The id of the job that holds it. */
  readonly holder: string;
  /** The status of the holder. An ended job keeps its key for the time of `keyFor`. */
  readonly status: string;

  constructor(facts: { key: string; task: string; holder: string; status: string }) {
    const { key, task, holder, status } = facts;
    const hasEnded = ["done", "failed", "cancelled"].includes(status);
    super(
      "KEY_TAKEN",
      `The key '${key}' of task '${task}' is held by job ${holder}, which is ${status}` +
        (hasEnded
          ? ` and keeps it for a while. Wait until that is over, or enqueue with onConflict: "replace".`
          : `. Wait for it to finish, or cancel it.`),
    );
    this.key = key;
    this.task = task;
    this.holder = holder;
    this.status = status;
  }
}

// ── The store ────────────────────────────────────────────────────────────────────────────────────────────────

/** The database could not be reached, opened, read or written. Nothing was partly written. */
export class StoreUnavailableError extends HoldfastError {
  constructor(
    facts: { problem: string; remedy: string },
    cause?: unknown,
    code = "STORE_UNAVAILABLE",
  ) {
    super(code, `${facts.problem} ${facts.remedy}`, cause);
  }
}

/** The file of the database was deleted, moved or replaced while in use. No job is accepted any more. */
export class StoreGoneError extends StoreUnavailableError {
  /** The file that receives the remaining data of this process when it closes. */
  readonly rescuePath: string;

  constructor(facts: { path: string; what: string; rescuePath: string }) {
    const problem = `${facts.what} while this process uses it. It accepts no more jobs, because they would be lost.`;
    const remedy =
      `Do not kill this process: it may have the last copy. Put the file back if it was moved; ` +
      `otherwise stop the process with SIGTERM, and it writes its data to ${facts.rescuePath}.`;
    super({ problem, remedy }, undefined, "STORE_GONE");
    this.rescuePath = facts.rescuePath;
  }
}

/** The connection was lost before a commit was confirmed, and the database cannot be asked. All was written, or nothing. */
export class OutcomeUnknownError extends HoldfastError {
  /** The id of the lost session in the database; null: it has none. */
  readonly session: number | null;

  constructor(facts: { store: string; session: number | null }, cause?: unknown) {
    super(
      "OUTCOME_UNKNOWN",
      `${facts.store} was lost before it confirmed the commit. ` +
        `Check the result before you repeat the call; enqueueing with a key can be repeated safely.`,
      cause,
    );
    this.session = facts.session;
  }
}

/** The disk of the database is full. Nothing was partly written. */
export class StoreFullError extends HoldfastError {
  constructor(facts: { store: string }, cause?: unknown) {
    super(
      "STORE_FULL",
      `The disk of ${facts.store} is full. Nothing was written. Free disk space, then try again.`,
      cause,
    );
  }
}

/** Other processes locked the database for longer than the time limit. */
export class StoreBusyError extends HoldfastError {
  readonly waitedMs: number;

  constructor(facts: { store: string; waitedMs: number }, cause?: unknown) {
    super(
      "STORE_BUSY",
      `${facts.store} was locked by other processes for ${Math.round(facts.waitedMs)} ms. Nothing was written. ` +
        `Look for a process that keeps a transaction open for a long time.`,
      cause,
    );
    this.waitedMs = facts.waitedMs;
  }
}

/** The database stopped a read at its time limit. */
export class ReadTooLongError extends HoldfastError {
  constructor(facts: { limitMs: number }, cause?: unknown) {
    super(
      "TOOK_TOO_LONG",
      `The database took longer than ${facts.limitMs / 1_000} s, so the request was stopped. ` +
        `Try again, or narrow it with a queue or a task.`,
      cause,
    );
  }
}

/** A constraint or trigger of the database refused a write. */
export class StoreRefusedError extends HoldfastError {
  constructor(facts: { problem: string }, cause?: unknown) {
    super("STORE_REFUSED", `The database refused the write: ${facts.problem}`, cause);
  }
}

/** The schema is newer than this version of the library, and incompatible with it. */
export class SchemaTooNewError extends HoldfastError {
  readonly found: number;
  readonly supported: number;

  constructor(facts: { found: number; supported: number }) {
    super(
      "SCHEMA_TOO_NEW",
      `The database has schema version ${facts.found}; this version of holdfast supports ${facts.supported}. ` +
        `Upgrade holdfast in this process.`,
    );
    this.found = facts.found;
    this.supported = facts.supported;
  }
}

/** The tables are missing or old, and this process does not migrate; or they are from a development version. */
export class SchemaTooOldError extends HoldfastError {
  readonly found: number;
  readonly needed: number;

  constructor(facts: { found: number; needed: number; isUnreleased?: boolean }) {
    const { found, needed, isUnreleased = false } = facts;
    const problem =
      found === 0
        ? "The database has no holdfast tables."
        : `The database has schema version ${found}; this version of holdfast needs ${needed}.`;
    super(
      "SCHEMA_TOO_OLD",
      isUnreleased
        ? `The database has tables of a development version of holdfast (schema version ${found}), ` +
            `which cannot be migrated. Use an empty database, or drop these tables and run 'holdfast migrate'.`
        : `${problem} Run 'holdfast migrate', or open with migrate: true.`,
    );
    this.found = found;
    this.needed = needed;
  }
}

// ── Workers ──────────────────────────────────────────────────────────────────────────────────────────────────

/** All slots of a worker's type are taken. */
export class WorkerRefusedError extends HoldfastError {
  /** The name that the workers share. */
  readonly type: string;
  /** The id of an active worker. */
  readonly active: string;

  constructor(facts: {
    type: string;
    slots: number;
    active: string;
    hostname: string;
    pid: number;
  }) {
    const limit = `At most ${facts.slots} of type '${facts.type}' can be active at once.`;
    super(
      "WORKER_REFUSED",
      `Cannot register: another worker already active: ${facts.active} (process ${facts.pid} on ${facts.hostname}). ` +
        `${limit} Stop it first, or start this one as a standby (onConflict: "standby", --standby), to take over when it ends.`,
    );
    this.type = facts.type;
    this.active = facts.active;
  }
}

/** Another process marked the worker as dead, or its row was deleted. */
export class WorkerEvictedError extends HoldfastError {
  readonly worker: string;

  constructor(facts: { worker: string }) {
    super(
      "WORKER_EVICTED",
      `Worker ${facts.worker} is no longer registered: it sent no heartbeat for too long, or its row was deleted.`,
    );
    this.worker = facts.worker;
  }
}

/** A closed object was used. */
export class ClosedError extends HoldfastError {
  constructor(facts: { what: string }) {
    super("CLOSED", `${facts.what} is closed. Open a new one.`);
  }
}

/** Refused moves of jobs and items in this process, by error code. The errors count themselves, so none is missed. */
const counts = new Map<string, number>();

export function countRefusal(code: string): void {
  counts.set(code, (counts.get(code) ?? 0) + 1);
}

export function refusals(): ReadonlyMap<string, number> {
  return counts;
}

/** A retry of this job alone would fail at once: a job that it called and waits for is failed or cancelled. */
export class CalledFailedError extends HoldfastError {
  readonly id: string;
  readonly called: readonly CalledJob[];

  constructor(facts: { id: string; called: readonly CalledJob[] }) {
    const called = facts.called.map(
      ({ id, task, status }) => `${id} (${task}), which is ${status}`,
    );
    super(
      "CALLED_FAILED",
      `Job ${facts.id} called ${called.join(", and ")}. Retry that first, or retry both with ` +
        `withCalled: true (--with-called).`,
    );
    this.id = facts.id;
    this.called = facts.called;
  }
}

export interface CalledJob {
  readonly id: string;
  readonly task: string;
  readonly status: string;
}

/** No effect of this name of the job is in doubt, so there is nothing to resolve. */
export class EffectNotFoundError extends HoldfastError {
  readonly id: string;
  readonly inDoubt: readonly string[];

  constructor(facts: { id: string; name: string; occurrence: number; inDoubt: readonly string[] }) {
    const { id, name, occurrence, inDoubt } = facts;
    const which = occurrence === 1 ? `'${name}'` : `'${name}' (occurrence ${occurrence})`;
    super(
      "EFFECT_NOT_FOUND",
      `Job ${id} has no effect ${which} in doubt. In doubt: ${inDoubt.join(", ") || "none"}.`,
    );
    this.id = id;
    this.inDoubt = inDoubt;
  }
}
