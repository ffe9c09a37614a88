/** What a conformance test is given: a fresh database, and the strings to pull on it. */
import type { Sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import type { TestClock } from "./runtime.ts";

export interface Bundle {
  readonly store: Store;
  /** The database's clock. It stands still until a test moves it. */
  readonly clock: TestClock;
  /** Why this database has one opener and no more; null: it can have several. */
  readonly alone: string | null;
  /** Opens the same database once more, as another process would. */
  readonly another: () => Promise<Store>;
  /** Runs hand-typed SQL, without any verb. Returns how many rows it concerned. */
  readonly byHand: (query: Sql) => Promise<number>;
  /** Notes a migration as applied that this version of the library does not know. */
  readonly pretendMigration: (version: number, options: { breaking: boolean }) => Promise<void>;
}

/** Opens a fresh database; it is closed after the test. With `migrate: false` it has no tables yet. */
export type Open = (options?: { migrate?: boolean }) => Promise<Bundle>;

/** The tests of one group of promises, written against the contract alone. */
export type Group = (open: Open) => void;
