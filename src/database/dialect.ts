/** The parts that a schema should have, read from its migrations, and queries whose fastest form depends on the database. */
import type { LaneQuery, Migration, SparseIndexes } from "./engine.ts";
import { Sql, sql, type SqlValue } from "./sql.ts";

/** The server decides whether to look up each id or to join in the order of the ids. */
export function absentByJoin(from: Sql, others: readonly Sql[], limit: number): Sql {
  const none = others.map(
    (other): Sql => sql`not exists (select 1 from ${other} o where o.id = a.id)`,
  );
  return sql`
      select a.id from ${from} a where ${none.reduce((all, one) => sql`${all} and ${one}`)} limit ${limit}`;
}

/** One comparison of whole rows. */
export function afterByRow(columns: readonly string[], values: readonly SqlValue[]): Sql {
  const names = new Sql([columns.map((column) => `"${column}"`).join(", ")], []);
  const marks = new Sql(["", ...values.slice(1).map(() => ", "), ""], values);
  return sql`(${names}) > (${marks})`;
}

/** Column by column, for optimizers that do not use an index to compare rows. */
export function afterByColumn(columns: readonly string[], values: readonly SqlValue[]): Sql {
  const steps = columns.map((_, depth) => {
    const same = columns.slice(0, depth).map((column, at) => compare(column, "=", values[at]));
    const next = compare(columns[depth] ?? "", ">", values[depth]);
    return [...same, next].reduce((all, one) => sql`${all} and ${one}`);
  });
  return sql`(${steps.reduce((all, one) => sql`${all} or ${one}`)})`;
}

function compare(column: string, how: "=" | ">", value: SqlValue | undefined): Sql {
  return sql`${new Sql([`"${column}" ${how} `], [])}${value ?? null}`;
}

/** One look into the index for each lane, where the server would otherwise read all jobs of each. */
export function lanesByRecursion(queue: string, after: string | null, limit: number): LaneQuery {
  const first = after === null ? sql`r.lane >= ''` : sql`r.lane > ${after}`;
  const next = (where: Sql): Sql => sql`(
          select r.lane
            from holdfast.ready r
           where r.queue = ${queue}
             and ${where}
           order by r.lane
           limit 1)`;
  const rows = sql`
      with recursive ring (lane, n) as (
        select ${next(first)}, 1
         union all
        select ${next(sql`r.lane > ring.lane`)}, ring.n + 1
          from ring
         where ring.lane is not null
           and ring.n < ${limit}
      )
      select lane from ring where lane is not null`;
  return { steps: [], rows };
}

/** The index has no entry for a row without a value, so there is nothing to keep. */
export const partialIndexes: SparseIndexes = {
  leases: { from: sql`holdfast.lease l`, queue: sql`l.queue`, lane: sql`l.lane` },
  deadlines: sql`holdfast.ready`,
  late: (now) => sql`start_by <= ${now}`,
  enterLeases: async () => {},
  forgetDeadlines: async () => {},
  forgetLeases: async () => 0,
};

// The parts that migrations create: tables and their columns, keys, indexes, triggers, views and functions.
//
// This understands only the style of our own scripts. A test compares the result with the catalogue of a fresh database, so
// it notices a script in another style.

const PREFIX = /^"?holdfast"?[._]/;

/** Such as `table job`, `column job.queue`, `primary key of lease`, `unique job_key.job_id`, `index ready_id`, `trigger step_stays`. */
export function partsOf(migrations: readonly Pick<Migration, "script">[]): string[] {
  const script = migrations.map((migration) => migration.script.replaceAll(/--.*$/gm, "")).join("");
  const parts = [
    ...tablesIn(script),
    ...columnsAddedIn(script),
    ...namesAfter(script, /create (?:unique )?index (\S+)/g, "index"),
    ...namesAfter(script, /create trigger (\S+)/g, "trigger"),
    ...namesAfter(script, /create (?:or replace )?(?:sql security invoker )?view (\S+)/g, "view"),
    ...namesAfter(script, /create (?:or replace )?function ([\w.]+)/g, "function"),
    ...namesAfter(script, /create table (\S+) partition of/g, "table"),
  ];
  return [...new Set(parts)].toSorted();
}

/** The names of their tables alone, which takes a tenth of the time. */
export function tablesOf(migrations: readonly Pick<Migration, "script">[]): string[] {
  const heads = /create table (?:if not exists )?(\S+)/g;
  return migrations.flatMap(({ script }) =>
    [...script.matchAll(heads)].map(([, name = ""]) => bare(name)),
  );
}

/** A name without the prefix or schema of the database. */
export function bare(name: string): string {
  return name.replace(PREFIX, "").replaceAll('"', "");
}

function namesAfter(script: string, pattern: RegExp, kind: string): string[] {
  return [...script.matchAll(pattern)].map(([, name = ""]) => `${kind} ${bare(name)}`);
}

function tablesIn(script: string): string[] {
  const heads = script.matchAll(/create table (?:if not exists )?(\S+) \(/g);
  return [...heads].flatMap((head) => {
    const table = bare(head[1] ?? "");
    const entries = entriesFrom(script, head.index + head[0].length);
    return [`table ${table}`, ...entries.flatMap((entry) => entryOf(table, entry))];
  });
}

/** The entries between the commas, up to the closing parenthesis of the table. */
function entriesFrom(script: string, start: number): string[] {
  const entries: string[] = [];
  let depth = 0;
  let from = start;
  for (let at = start; at < script.length; at += 1) {
    const character = script[at];
    if (character === "(") depth += 1;
    if (depth === 0 && (character === "," || character === ")")) {
      entries.push(script.slice(from, at).trim());
      from = at + 1;
      if (character === ")") break;
    }
    if (character === ")") depth -= 1;
  }
  return entries;
}

function entryOf(table: string, entry: string): string[] {
  const index = /^(?:unique(?: key)?|key) (\w+) \(/.exec(entry)?.[1];
  if (index !== undefined) return [`index ${table}.${bare(index)}`];
  if (entry.startsWith("primary key")) return [`primary key of ${table}`];
  if (/^(?:check|foreign key) /.test(entry)) return [];
  const column = bare(/^\S+/.exec(entry)?.[0] ?? "");
  return [
    `column ${table}.${column}`,
    ...(/\bprimary key\b/.test(entry) ? [`primary key of ${table}`] : []),
    ...(/\bunique\b/.test(entry) ? [`unique ${table}.${column}`] : []),
  ];
}

function columnsAddedIn(script: string): string[] {
  const changes = script.matchAll(/alter table (\S+)([^;]*);/g);
  return [...changes].flatMap(([, name = "", body = ""]) => {
    const table = bare(name);
    return [
      ...[...body.matchAll(/add column (\w+)/g)].map(([, column]) => `column ${table}.${column}`),
      ...[...body.matchAll(/add (?:unique )?key (\w+)/g)].map(
        ([, index]) => `index ${table}.${index}`,
      ),
    ];
  });
}
