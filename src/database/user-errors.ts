/**
 * A user's function inside of a transaction of ours.
 *
 * What it throws is its own: an engine must not take it for an error of its connection and try again, nor translate it. And
 * when the function has ended, the transaction is not its any more.
 */
import { HoldfastError, StoreRefusedError } from "../core/errors.ts";
import type { UserTransaction } from "../core/task.ts";

/** Carries what a user's function threw past those who judge errors. */
class Theirs extends Error {
  readonly thrown: unknown;

  constructor(thrown: unknown) {
    super("a function of the user's threw");
    this.thrown = thrown;
  }
}

export async function asTheyAre<T>(
  body: (user: UserTransaction) => Promise<T>,
  run: (body: (user: UserTransaction) => Promise<T>) => Promise<T>,
): Promise<T> {
  try {
    return await run((user) => carried(body, user));
  } catch (error) {
    throw theirsIn(error);
  }
}

async function carried<T>(
  body: (user: UserTransaction) => Promise<T>,
  user: UserTransaction,
): Promise<T> {
  let open = true;
  const refuseLate = (): void => {
    if (!open)
      throw new StoreRefusedError({ problem: "the transaction is over: nothing was done." });
  };
  const guarded: UserTransaction = {
    get client() {
      refuseLate();
      return user.client;
    },
    async query<Row>(text: string, values?: readonly unknown[]) {
      refuseLate();
      return user.query<Row>(text, values);
    },
  };
  try {
    return await body(guarded);
  } catch (error) {
    throw new Theirs(error);
  } finally {
    open = false;
  }
}

/** What a user's function threw that is no error of a database, for those who judge errors. */
export function carriedPast(error: unknown): unknown {
  const isOurs = error instanceof HoldfastError && !(error instanceof StoreRefusedError);
  return isOurs ? error : new Theirs(error);
}

/** An engine may have put it into an error of ours. */
export function theirsIn(error: unknown): unknown {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (inner instanceof Theirs) return inner.thrown;
  }
  return error;
}
