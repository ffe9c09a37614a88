/** Bulk actions that no process carries out. */
import { subjects } from "../audit/entry.ts";
import { asking, type Check } from "../database/check.ts";
import { sql } from "../database/sql.ts";

/** Workers and servers look for actions every half minute, and take over one that stands still after ten seconds. */
const STALLED_MS = 5 * 60_000;

export const bulkChecks: readonly Check[] = [
  {
    name: "bulk-stalled",
    severity: "warning",
    problem: "Bulk actions make no progress: no process carries them out.",
    remedy: "Start a worker or a server, or run them here: holdfast bulk resume <id>.",
    cost: "quick",
    find: asking<{ id: string; action: string; at: number }>(
      (engine, { limit }) => sql`
        select id, action, changed_at as at
          from holdfast.bulk_action
         where ended_at is null
           and changed_at < ${engine.now()} - ${STALLED_MS}
         order by id
         limit ${limit}`,
      ({ id, action, at }) => ({
        subject: subjects.bulk(id),
        detail: `(${action}) has not made progress`,
        sinceAt: at,
      }),
    ),
  },
];
