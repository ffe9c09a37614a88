/** Locks in rows of the database. */
import { subjects } from "../audit/entry.ts";
import { asking, type Check } from "../database/check.ts";
import { sql } from "../database/sql.ts";

/** Any caller can take an expired lock; after an hour its row is deleted. */
const LEFT_MS = 10 * 60_000;

export const lockChecks: readonly Check[] = [
  {
    name: "lock-left-behind",
    severity: "info",
    problem: "Locks expired without being released: the owner died or was too slow.",
    remedy:
      "No process is blocked. Check whether the owners are alive, and whether the ttl of their locks is long enough.",
    cost: "quick",
    find: asking<{ key: string; owner: string; at: number }>(
      (engine, { limit }) => sql`
        select name as "key", owner, expires_at as at
          from holdfast.lock
         where holder is not null
           and expires_at < ${engine.now()} - ${LEFT_MS}
         order by expires_at
         limit ${limit}`,
      ({ key, owner, at }) => ({
        subject: subjects.lock(key),
        detail: `was not released by ${owner}`,
        sinceAt: at,
      }),
    ),
  },
];
