/**
 * What a user's function throws inside of a transaction of ours. An engine translates the errors of its driver; those of a
 * user's own statements are not about our tables, and come out as they are.
 */
import type { UserTransaction } from "../core/step.ts";

export async function asTheyAre<T>(
  body: (user: UserTransaction) => Promise<T>,
  run: (body: (user: UserTransaction) => Promise<T>) => Promise<T>,
): Promise<T> {
  let theirs: { readonly error: unknown } | null = null;
  try {
    return await run(async (user) => {
      try {
        return await body(user);
      } catch (error) {
        theirs = { error };
        throw error;
      }
    });
  } catch (error) {
    throw theirs === null ? error : (theirs as { readonly error: unknown }).error;
  }
}
