/** An application that has its own way to the database, with one library. */

export type Body<T> = (tx: any) => Promise<T>;

export interface App extends AsyncDisposable {
  /** One transaction of the library's: committed when the function has ended, rolled back when it throws. */
  transaction<T>(body: Body<T>, options?: { readonly serializable: boolean }): Promise<T>;
  /** A row of the application's own, said with the library. */
  order(tx: any, id: number): Promise<void>;
  /** Commits what the first says, and rolls back what the second says inside of it. */
  nested?(outer: Body<void>, inner: Body<void>): Promise<void>;
  /** What a transaction that is over is refused with. */
  readonly over: RegExp;
  /** What looks like a transaction of the library's and is none, and what the refusal has to name. */
  readonly notTx: readonly (readonly [tx: unknown, remedy: RegExp])[];
}

export interface Kind {
  readonly name: string;
  /** As the databases of test/registry/places.ts are called. */
  readonly database: "SQLite" | "PostgreSQL" | "MariaDB";
  readonly open: (url: string) => Promise<App>;
}

/** Thrown to have a transaction rolled back. */
export class Rollback extends Error {}

export const fileOf = (url: string): string => url.slice("sqlite:".length);

/** Rolls back what the function does, in the way of the library's. */
export async function rolledBack(run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof Rollback)) throw error;
  }
}

/** A transaction said in SQL. */
export async function said<T>(
  say: (text: string) => unknown,
  body: () => Promise<T>,
  begin: string,
): Promise<T> {
  await say(begin);
  try {
    const value = await body();
    await say("commit");
    return value;
  } catch (error) {
    await say("rollback");
    throw error;
  }
}

export async function saidNested(
  say: (text: string) => unknown,
  outer: () => Promise<void>,
  inner: () => Promise<void>,
): Promise<void> {
  await outer();
  await say("savepoint inner_one");
  await inner();
  await say("rollback to savepoint inner_one");
}
