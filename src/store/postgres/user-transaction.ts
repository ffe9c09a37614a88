/** A transaction on PostgreSQL in which a user's function takes part. It runs once. */
import type { UserTransaction } from "../../core/step.ts";
import { asTheyAre } from "../user-errors.ts";
import type { PgResult } from "./options.ts";
import type { Sending, Sessions } from "./session.ts";

type Body<T> = (user: UserTransaction) => Promise<T>;

/** What we add to it, behind what the user's function did. */
type Last<T> = (send: (sending: Sending) => Promise<PgResult>, value: T) => Promise<void>;

export function userTransaction<T>(sessions: Sessions, body: Body<T>, last: Last<T>): Promise<T> {
  const run = (theirs: Body<T>): Promise<T> =>
    sessions.transaction(
      async (send, client) => {
        const user: UserTransaction = {
          client,
          query: async <R>(text: string, values: readonly unknown[] = []) =>
            (await send({ text, values: [...values] })).rows as R[],
        };
        const value = await theirs(user);
        await last(send, value);
        return value;
      },
      { once: true },
    );
  return asTheyAre(body, run);
}
