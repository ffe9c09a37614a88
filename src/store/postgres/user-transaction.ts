/** A transaction on PostgreSQL in which a user's function takes part. It runs once. */
import type { UserTransaction } from "../../core/step.ts";
import { asTheyAre } from "../user-errors.ts";
import type { PgClient } from "./options.ts";
import type { Send, Sessions } from "./session.ts";

type Body<T> = (user: UserTransaction) => Promise<T>;

/** What we add to it, behind what the user's function did. */
type Last<T> = (send: Send, value: T) => Promise<void>;

export function userTransaction<T>(sessions: Sessions, body: Body<T>, last: Last<T>): Promise<T> {
  const run = (theirs: Body<T>): Promise<T> =>
    sessions.transaction(
      async (send, client) => {
        const user: UserTransaction = {
          client,
          query: async <R>(text: string, values: readonly unknown[] = []) =>
            (await send({ text, values: [...values] })).rows as R[],
        };
        const value = await oneAtATime(client, () => theirs(user));
        await last(send, value);
        return value;
      },
      { once: true },
    );
  return asTheyAre(body, run);
}

/** Cursors and streams of the driver do not work on a connection that takes several statements at once. */
async function oneAtATime<T>(client: PgClient, body: () => Promise<T>): Promise<T> {
  const { pipeline } = client;
  if (pipeline === true) client.pipeline = false;
  try {
    return await body();
  } finally {
    if (pipeline === true) client.pipeline = true;
  }
}
