/** What can be wrong with a SQLite file. */
import { statSync } from "node:fs";
import { asking, type Check, type Offender } from "../database/check.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

const MEBIBYTE = 2 ** 20;

/** A checkpoint cuts the log to a quarter of this (journal_size_limit). */
const WAL_BYTES_MAX = 256 * MEBIBYTE;

export const checks: readonly Check[] = [
  walFile({ bytesMax: WAL_BYTES_MAX }),
  permissions(),
  integrity(),
];

export function walFile({ bytesMax }: { readonly bytesMax: number }): Check {
  return {
    name: "wal-file",
    severity: "warning",
    problem:
      "The write-ahead log is far too large: a long read transaction prevents its truncation.",
    remedy: "End the process that keeps a transaction open. The next checkpoint truncates the log.",
    cost: "quick",
    find: async (engine) => {
      const path = pathOf(engine);
      if (path === null) return [];
      const bytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
      if (bytes <= bytesMax) return [];
      const detail = `has ${Math.ceil(bytes / MEBIBYTE)} MiB; at most ${Math.ceil(bytesMax / MEBIBYTE)} are normal`;
      return [{ subject: `file ${path}-wal`, detail, sinceAt: null }];
    },
  };
}

/** The permissions of users other than the owner. */
const OTHERS = 0o077;

function permissions(): Check {
  return {
    name: "file-permissions",
    severity: "warning",
    problem: "Other users of this machine can read or change the database files.",
    remedy:
      "Run 'chmod 600' on each. If several users share the file, put it in a directory that only they can enter.",
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
    problem: "The file is damaged, or contains rows that violate its own constraints.",
    remedy:
      "Stop all processes, keep a copy, and restore the file from a backup (or use `.recover` in the sqlite3 shell).",
    cost: "deep",
    find: async (engine, look) => {
      const results = await asking<{ result: string }>(
        () => sql`select quick_check as result from pragma_quick_check`,
        ({ result }) => ({ subject: "file", detail: result, sinceAt: null }),
      )(engine, look);
      return results.filter(({ detail }) => detail !== "ok").slice(0, look.limit);
    },
  };
}
