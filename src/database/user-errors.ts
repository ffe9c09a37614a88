/**
 * A user's function inside a transaction of ours.
 *
 * An engine must neither translate the function's errors nor take them for errors of its connection and retry. After the
 * function has ended, it cannot use the transaction any more.
 */
import { HoldfastError, StoreRefusedError } from "../core/errors.ts";
import type { UserTransaction } from "../core/task.ts";

/** Hides an error of a user's function from the code that translates errors. */
class UserError extends Error {
  readonly thrown: unknown;

  constructor(thrown: unknown) {
    super("a user's function threw");
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
    if (open) return;
    throw new StoreRefusedError({ problem: "the transaction has ended: nothing was done." });
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
    throw new UserError(error);
  } finally {
    open = false;
  }
}

/** Hides an error of a user's function unless it is an error of ours. */
export function carriedPast(error: unknown): unknown {
  const isOurs = error instanceof HoldfastError && !(error instanceof StoreRefusedError);
  return isOurs ? error : new UserError(error);
}

/** The error of the user's function; an engine may have wrapped it in an error of ours. */
export function theirsIn(error: unknown): unknown {
  for (let inner = error; inner instanceof Error; inner = inner.cause) {
    if (inner instanceof UserError) return inner.thrown;
  }
  return error;
}
