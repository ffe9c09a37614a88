/**
 * What a run leaves behind, as the checker reads it: what processes said, what the witness saw, what the tables, the bank
 * and the ledger hold. Nothing in this folder knows the product's code; floors.ts sees to it.
 */

/** What a process says it did. An enqueue that began and is not heard of again may or may not have happened. */
export type Said =
  | { readonly f: "hello"; readonly process: string; readonly worker: string; readonly pid: number }
  | {
      readonly f: "enqueue";
      readonly type: "invoke" | "fail" | "info";
      readonly n: number;
      readonly task: string;
      readonly error?: string;
    }
  | { readonly f: "enqueue"; readonly type: "ok"; readonly n: number; readonly id: string }
  /** Said before with null, and then with the answer. */
  | { readonly f: "cancel"; readonly id: string; readonly became: string | null }
  | { readonly f: "emit"; readonly n: number }
  /** An attempt began. */
  | {
      readonly f: "run";
      readonly job: string;
      readonly epoch: number;
      readonly worker: string;
    }
  /** The function of a step began. */
  | { readonly f: "body"; readonly job: string; readonly epoch: number; readonly step: string }
  /** Whoever was about to act again asked whether it had happened. */
  | {
      readonly f: "asked";
      readonly job: string;
      readonly epoch: number;
      readonly step: string;
      readonly found: boolean;
    }
  /** A person said whether it had happened. */
  | { readonly f: "resolved"; readonly job: string; readonly step: string; readonly found: boolean }
  /** Its owner was told that the job is done. */
  | { readonly f: "done"; readonly job: string; readonly epoch: number; readonly worker: string }
  /** Somebody who does without a watchdog wrote too late, and was told so. */
  | { readonly f: "refused"; readonly job: string; readonly epoch: number }
  /** How many outcomes of a worker the database refused. */
  | { readonly f: "stale"; readonly count: number }
  /** A worker process ended by itself: no fault asked for it. */
  | { readonly f: "ended"; readonly worker: string; readonly how: string }
  /** What the nemesis did, said before it killed a process. */
  | { readonly f: "fault"; readonly kind: string; readonly worker?: string };

export type Dated<T> = T & { readonly at: number };

export type Table = "ready" | "waiting" | "lease" | "finished" | "step" | "report" | "ledger";

/** A row before and after, as a trigger saw it; columns by their names in the database. */
export interface Witnessed {
  readonly seq: number;
  /** By the database's clock, in milliseconds. */
  readonly at: number;
  /** Whose transaction it was: as much as the database tells. */
  readonly tx: string;
  readonly table: Table;
  readonly before: Columns | null;
  readonly after: Columns | null;
}

export type Columns = Readonly<Record<string, string | number | null>>;

/** The rows when all is over. */
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
  /** Rows of jobs that have not finished. */
  readonly unfinished: readonly { readonly id: string; readonly table: string }[];
}

/** What the bank was asked to do, by the key it was given. */
export interface Charges {
  readonly key: string;
  readonly cents: number;
  readonly calls: number;
}

/** In milliseconds. */
export interface Limits {
  /** All that was accepted is done so long after the last fault. */
  readonly drain: number;
  /** So long after a kill its jobs are free again. */
  readonly recover: number;
  /** So long after the database is back a job is claimed. */
  readonly reconnect: number;
}

export interface History {
  readonly said: readonly Dated<Said>[];
  readonly witnessed: AsyncIterable<Witnessed>;
  readonly rows: Rows;
  readonly charges: readonly Charges[];
  readonly limits: Limits;
  /** From the last fault until nothing was left to do; null: it never was. */
  readonly drainedMs: number | null;
}

export interface Violation {
  /** Its name in docs/guide/verify.md: I1 … I15. */
  readonly invariant: string;
  readonly sentence: string;
  readonly job?: string;
}
