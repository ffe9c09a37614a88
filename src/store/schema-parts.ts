/**
 * What the migrations make, read off their scripts: tables and their columns, keys, indexes, triggers, views and functions.
 *
 * Only what our own scripts are written like is understood. A test compares it with what the catalogue of a fresh database
 * says, both ways, so whatever is written in another way is noticed at once.
 */
import type { Migration } from "./engine.ts";

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

/** A name as it is everywhere, whatever a database puts before it. */
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

/** What stands between the commas, up to the parenthesis that closes the table. */
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
  const changes = script.matchAll(/alter table (\S+)([^;]*?)(?:;|' end)/g);
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
