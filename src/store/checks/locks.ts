/** Locks in rows of the database. */
import { subjects } from "../../core/audit.ts";
import { sql } from "../sql.ts";
import { asking, type Check } from "./check.ts";

/** Whoever wants such a lock takes it; after an hour its row is deleted. */
const LEFT_MS = 10 * 60_000;

export const lockChecks: readonly Check[] = [
  {
    name: "lock-left-behind",
    severity: "info",
    problem: "Locks ran out and were never given back: whoever had them died, or was too slow.",
    remedy:
      "Nobody is kept waiting. See whether their owners live, and whether they lock for long enough.",
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
        detail: `was not given back by ${owner}`,
        sinceAt: at,
      }),
    ),
  },
];
