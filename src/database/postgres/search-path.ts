/**
 * Whether the application's tables can be mistaken for ours.
 *
 * PostgreSQL looks for unqualified tables first in a schema with the name of the user, if there is one. A user called
 * `holdfast` therefore creates its own tables in our schema, and no longer sees those that it has in `public`. Our statements
 * name their schema, so they work either way.
 */
import type { Engine } from "../engine.ts";
import { tablesOf } from "../dialect.ts";
import { sql, type Sql } from "../sql.ts";

/** Our tables, found by one that always exists: the engine replaces its quoted name for each schema. */
export const OURS = sql`(
             select m.relnamespace from pg_catalog.pg_class m where m.oid = to_regclass('holdfast.migration'))`;

interface FirstSchema {
  readonly user: string;
  readonly schema: string;
}

/** A row if our schema comes before `public`, or before every other, in the effective search_path. */
export const schemaFirst = sql`
        select current_user as "user", n.nspname as schema
          from pg_catalog.pg_namespace n
         cross join (select current_schemas(false) as path) s
         where n.oid = ${OURS}
           and (n.nspname = s.path[1]
                or array_position(s.path, n.nspname) < array_position(s.path, 'public'))`;

/** The tables of our schema that no migration creates. None are reported if a newer version may have created them. */
export function foreignTables(engine: Engine, limit: number): Sql {
  const newest = Math.max(0, ...engine.migrations.map(({ version }) => version));
  return sql`
        select n.nspname as schema, c.relname as name
          from pg_catalog.pg_class c
          join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where n.oid = ${OURS}
           and c.relkind in ('r', 'p', 'm', 'f')
           and not c.relispartition
           and not c.relname = any(${["migration", ...tablesOf(engine.migrations)]})
           and not exists (select from holdfast.migration where version > ${newest})
         order by c.relname
         limit ${limit}`;
}

export interface ForeignTable {
  readonly schema: string;
  readonly name: string;
}

export const REMEDY =
  "Run: alter role <user> set search_path = public. Then move the application's tables: alter table <schema>.<table> set schema public.";

const NAMED_MAX = 5;

/** Sentences for the log of a process that opens the database. */
export async function hazards(engine: Engine): Promise<string[]> {
  const [first] = await engine.all<FirstSchema>(schemaFirst);
  const foreign = await engine.all<ForeignTable>(foreignTables(engine, NAMED_MAX));
  const found = [
    ...(first === undefined ? [] : [sentenceOf(first)]),
    ...(foreign.length === 0
      ? []
      : [`The schema of Holdfast contains tables of others: ${foreign.map(nameOf).join(", ")}.`]),
  ];
  if (found.length === 0) return [];
  const remedy = first === undefined ? REMEDY : remedyFor(first);
  return [[...found, remedy, GUIDE].join(" ")];
}

function remedyFor({ user, schema }: FirstSchema): string {
  return REMEDY.replace("<user>", `"${user}"`).replace("<schema>", `"${schema}"`);
}

const GUIDE = "See docs/guide/databases.md, 'A user with the name of the schema'.";

function sentenceOf({ user, schema }: FirstSchema): string {
  return `The schema '${schema}' of Holdfast comes first in the search_path of user '${user}': tables that the application creates without a schema end up there, and hide those in 'public'.`;
}

export function nameOf({ schema, name }: ForeignTable): string {
  return `${schema}.${name}`;
}
