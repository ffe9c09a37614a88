/** What an examination must know of SQLite. */
import { statSync } from "node:fs";
import type { Offender } from "../../core/finding.ts";
import { afterByRow, type Anatomy } from "../anatomy.ts";
import { asking, type Check } from "../checks/check.ts";
import type { Engine } from "../engine.ts";
import { bare } from "../schema-parts.ts";
import { sql, type Sql } from "../sql.ts";

const MEBIBYTE = 2 ** 20;
/** A checkpoint cuts the log to a quarter of this (journal_size_limit). */
const WAL_BYTES_MAX = 256 * MEBIBYTE;

export const anatomy: Anatomy = {
  /** Both sides in the order of their ids, side by side; looking each up would take three times as long. */
  absent(from, others, limit) {
    const first: Sql = sql`select id from ${from}`;
    const minus = others.reduce((all, other) => sql`${all} except select id from ${other}`, first);
    return sql`${minus} order by id limit ${limit}`;
  },
  after: afterByRow,
  catalogue,
  checks: [walFile({ bytesMax: WAL_BYTES_MAX }), permissions(), integrity()],
};

async function catalogue(engine: Engine): Promise<string[]> {
  const things = await engine.all<{ type: string; name: string }>(sql`
    select type, name from sqlite_schema where name like 'holdfast@_%' escape '@'`);
  const columns = await engine.all<{ owner: string; name: string; place: number }>(sql`
    select t.name as owner, c.name, c.pk as place
      from sqlite_schema t
      join pragma_table_xinfo(t.name) c
     where t.type = 'table'
       and t.name like 'holdfast@_%' escape '@'`);
  const unique = await engine.all<{ owner: string; name: string }>(sql`
    select t.name as owner, c.name
      from sqlite_schema t
      join pragma_index_list(t.name) i
      join pragma_index_info(i.name) c
     where t.type = 'table'
       and t.name like 'holdfast@_%' escape '@'
       and i.origin = 'u'`);
  return [
    ...things.map(({ type, name }) => `${type} ${bare(name)}`),
    ...columns.map(({ owner, name }) => `column ${bare(owner)}.${name}`),
    ...columns.filter(({ place }) => place > 0).map(({ owner }) => `primary key of ${bare(owner)}`),
    ...unique.map(({ owner, name }) => `unique ${bare(owner)}.${name}`),
  ];
}

export function walFile({ bytesMax }: { readonly bytesMax: number }): Check {
  return {
    name: "wal-file",
    severity: "warning",
    problem:
      "The write-ahead log is far larger than it should be: somebody reads for so long that it cannot be cut.",
    remedy:
      "End the process that keeps a transaction open; the log is cut with the next checkpoint.",
    cost: "quick",
    find: async (engine) => {
      const path = pathOf(engine);
      if (path === null) return [];
      const bytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
      if (bytes <= bytesMax) return [];
      const detail = `has ${Math.ceil(bytes / MEBIBYTE)} MiB; ${Math.ceil(bytesMax / MEBIBYTE)} are usual at most`;
      return [{ subject: `file ${path}-wal`, detail, sinceAt: null }];
    },
  };
}

/** What users who are not the owner of a file may do with it. */
const OTHERS = 0o077;

function permissions(): Check {
  return {
    name: "file-permissions",
    severity: "warning",
    problem: "Other users of this machine may read or change the database's files.",
    remedy:
      "Run 'chmod 600' on each. If several users share the file, keep it in a folder that only they can enter.",
    cost: "quick",
    find: async (engine, { limit }) => {
      const path = pathOf(engine);
      if (path === null || process.platform === "win32") return [];
      return ["", "-wal", "-shm"].flatMap((ending) => openToOthers(path + ending)).slice(0, limit);
    },
  };
}

function openToOthers(path: string): Offender[] {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  if ((mode & OTHERS) === 0) return [];
  const detail = `has mode ${(mode & 0o777).toString(8).padStart(4, "0")}`;
  return [{ subject: `file ${path}`, detail, sinceAt: null }];
}

/** Null: it is in memory. */
function pathOf({ address }: Engine): string | null {
  const { path } = (address?.options ?? {}) as { path?: string };
  return path ?? null;
}

function integrity(): Check {
  return {
    name: "file-integrity",
    severity: "critical",
    problem: "The file is damaged, or holds what its own rules refuse.",
    remedy:
      "Stop all processes, keep a copy, and bring the file back from a backup (or `.recover` of the sqlite3 shell).",
    cost: "deep",
    find: async (engine, look) => {
      const told = await asking<{ said: string }>(
        () => sql`select quick_check as said from pragma_quick_check`,
        ({ said }) => ({ subject: "file", detail: said, sinceAt: null }),
      )(engine, look);
      return told.filter(({ detail }) => detail !== "ok").slice(0, look.limit);
    },
  };
}
