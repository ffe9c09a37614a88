/**
 * What a run leaves behind, as the checker reads it: the process logs, the changes that the witness recorded, and the
 * contents of the tables, the bank and the ledger. Nothing in this folder imports the product; floors.ts checks that.
 */

/** One entry of a process log. An enqueue without an answer may or may not have happened. */
export type Said =
  | { readonly f: "hello"; readonly process: string; readonly worker: string; readonly pid: number }
  | {
      readonly f: "enqueue";
      readonly type: "invoke" | "fail" | "info";
      readonly n: number;
      readonly task: string;
      readonly error?: string;
    }
  | {
      readonly f: "enqueue";
      readonly type: "ok";
      readonly n: number;
      readonly id: string;
      /** Of a flow: one of its jobs. */
      readonly part?: string;
    }
  /** Logged first with null, then with the answer. */
  | { readonly f: "cancel"; readonly id: string; readonly became: string | null }
  | { readonly f: "emit"; readonly n: number }
  /** An attempt began. */
  | { readonly f: "run"; readonly job: string; readonly epoch: number; readonly worker: string }
  /** The function of a step began. */
  | { readonly f: "body"; readonly job: string; readonly epoch: number; readonly step: string }
  /** A worker that was about to repeat an effect asked whether it had happened. */
  | {
      readonly f: "asked";
      readonly job: string;
      readonly epoch: number;
      readonly step: string;
      readonly found: boolean;
    }
  /** A person resolved an effect in doubt. */
  | { readonly f: "resolved"; readonly job: string; readonly step: string; readonly found: boolean }
  /** The job's owner learned that it is done. */
  | { readonly f: "done"; readonly job: string; readonly epoch: number; readonly worker: string }
  /** A late write of a lease client was refused. */
  | { readonly f: "refused"; readonly job: string; readonly epoch: number }
  /** How many outcomes of a worker the database refused. */
  | { readonly f: "stale"; readonly count: number }
  /** A worker process ended without a fault. */
  | { readonly f: "ended"; readonly worker: string; readonly how: string }
  /** A fault of the nemesis; a kill is logged before it happens. */
  | { readonly f: "fault"; readonly kind: string; readonly worker?: string };

export type Dated<T> = T & { readonly at: number };

export type Table = "ready" | "waiting" | "lease" | "finished" | "step" | "report" | "ledger";

/** A row before and after, as a trigger saw it; columns by their names in the database. */
export interface Witnessed {
  readonly seq: number;
  /** By the database's clock, in milliseconds. */
  readonly at: number;
  /** The transaction, as far as the database identifies it. */
  readonly tx: string;
  readonly table: Table;
  readonly before: Columns | null;
  readonly after: Columns | null;
}

export type Columns = Readonly<Record<string, string | number | null>>;

/** The rows at the end of the run. */
export interface Rows {
  readonly jobs: readonly {
    readonly id: string;
    readonly task: string;
    readonly payload: string;
  }[];
  readonly finished: readonly {
    readonly id: string;
    readonly status: string;
    readonly epoch: number;
    readonly attempts: number;
    readonly crashes: number;
    readonly maxAttempts: number;
    readonly worker: string | null;
    readonly result: string | null;
  }[];
  readonly attempts: readonly {
    readonly job: string;
    readonly epoch: number;
    readonly worker: string;
    readonly outcome: string;
    /** It was handed back because the database did not answer in time. */
    readonly isOutage: boolean;
  }[];
  readonly ledger: readonly { readonly job: string; readonly epoch: number }[];
  /** The runs of the schedule. */
  readonly ticks: readonly { readonly tick: number; readonly job: string | null }[];
  /** Rows of jobs that have not finished. */
  readonly unfinished: readonly { readonly id: string; readonly table: string }[];
}

/** The charges at the bank under one idempotency key. */
export interface Charges {
  readonly key: string;
  readonly cents: number;
  readonly calls: number;
}

/** The limits of a queue. */
export interface Rules {
  readonly queue: string;
  readonly concurrency: number;
  /** Of each lane. */
  readonly laneConcurrency: number;
  readonly rate: { readonly count: number; readonly periodMs: number; readonly burst: number };
}

/** A schedule, and the first and the last tick that must have a job. */
export interface Ticking {
  readonly task: string;
  readonly everyMs: number;
  readonly from: number;
  readonly until: number;
}

/** In milliseconds. */
export interface Limits {
  /** From the last fault until all accepted jobs are finished. */
  readonly drain: number;
  /** From a kill until its jobs are free again. */
  readonly recover: number;
  /** From the return of the database until a job is claimed. */
  readonly reconnect: number;
}

export interface History {
  readonly said: readonly Dated<Said>[];
  readonly witnessed: AsyncIterable<Witnessed>;
  readonly rows: Rows;
  readonly charges: readonly Charges[];
  readonly limits: Limits;
  /** Null: no queue has limits. */
  readonly rules: Rules | null;
  /** Null: there is no schedule. */
  readonly schedule: Ticking | null;
  /** From the last fault until all jobs were finished; null: they never were. */
  readonly drainedMs: number | null;
  /** The time was over while jobs were still ending. That the rest would end was not checked. */
  readonly isCutShort: boolean;
}

export interface Violation {
  /** Its name in docs/guide/verify.md: I1 … I15. */
  readonly invariant: string;
  readonly sentence: string;
  readonly job?: string;
}
