/** Whether the tables are those that the migrations make. */
import { sql } from "../sql.ts";
import { partsOf } from "../schema-parts.ts";
import { asking, type Check } from "./check.ts";

export const schemaChecks: readonly Check[] = [
  {
    name: "schema-missing",
    severity: "critical",
    problem:
      "Parts of the schema are missing or switched off: what they guard against is possible now.",
    remedy:
      "Make them again as the migrations do (src/store/<engine>), or bring the schema back from a backup.",
    cost: "full",
    find: async (engine, { limit }) => {
      const there = new Set(await engine.anatomy.catalogue(engine));
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
    remedy:
      "While a deployment rolls out that is as it should be. Afterwards, bring this program up to date, too.",
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
        detail: `'${name}' is not known here`,
        sinceAt: at,
      }),
    ),
  },
];
