/** Whether the schema is what the migrations create. */
import { asking, type Check } from "../database/check.ts";
import { partsOf } from "../database/dialect.ts";
import { sql } from "../database/sql.ts";

export const schemaChecks: readonly Check[] = [
  {
    name: "schema-missing",
    severity: "critical",
    problem:
      "Parts of the schema are missing or disabled, so the database no longer prevents what they forbid.",
    remedy:
      "Create them again as the migrations do (database/migrations/<engine> in the package), or restore the schema from a backup.",
    cost: "full",
    find: async (engine, { limit }) => {
      const there = new Set(await engine.dialect.catalogue(engine));
      return partsOf(engine.migrations)
        .filter((part) => !there.has(part))
        .slice(0, limit)
        .map((part) => ({ subject: part, detail: "is missing", sinceAt: null }));
    },
  },
  {
    name: "schema-newer",
    severity: "info",
    problem: "The database has migrations that this version of the library does not know.",
    remedy: "Normal during a rollout. Afterwards, upgrade this program too.",
    cost: "quick",
    find: asking<{ version: number; name: string; at: number }>(
      ({ migrations }, { limit }) => {
        const newest = Math.max(0, ...migrations.map(({ version }) => version));
        return sql`
          select version, name, applied_at as at
            from holdfast.migration
           where version > ${newest}
           order by version
           limit ${limit}`;
      },
      ({ version, name, at }) => ({
        subject: `migration ${version}`,
        detail: `'${name}' is unknown to this version`,
        sinceAt: at,
      }),
    ),
  },
];

// Whether notifications between processes work, on databases with push or with Redis.

export const pushDown: Check = {
  name: "push-down",
  severity: "warning",
  problem:
    "Push does not work: workers notice new jobs only when they poll, up to 10 seconds later.",
  remedy:
    "PostgreSQL: connect without a pooler that shares connections (PgBouncer in transaction mode), or accept polling. Redis: check whether it answers at HOLDFAST_REDIS_URL.",
  cost: "full",
  find: async (_engine, { pushWorks }) =>
    (await pushWorks()) === false
      ? [{ subject: "push", detail: "a test notification did not arrive", sinceAt: null }]
      : [],
};
