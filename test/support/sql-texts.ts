/**
 * Which SQL texts of the store were sent to a database, and which were not.
 *
 * The drivers themselves are listened to, so that nothing counts that did not reach them. What there is to be sent is read
 * from the sources: every piece written with the `sql` template, and every text of an engine's `statements`.
 */
import { globSync, readFileSync } from "node:fs";
import { StatementSync } from "node:sqlite";
import mysql from "mysql2";
import { Client } from "pg";

const SOURCES = new URL("../../src/", import.meta.url);

export interface Listening {
  /** The texts of the sources that no driver was given. */
  missing(engine: EngineTexts): string[];
  count(engine: EngineTexts): number;
}

export interface EngineTexts {
  /** The engine's folder. */
  readonly folder: "sqlite" | "postgres" | "mysql";
  /** What the engine makes of `holdfast.` in a text. */
  readonly prefix: string;
  readonly statements: Readonly<Record<string, unknown>>;
  /** Texts that only other engines send. */
  readonly except?: RegExp;
}

/** From now on every text that is sent is remembered. */
export function listenToDrivers(): Listening {
  const sent = new Set<string>();
  const hear = (text: unknown): void => {
    if (typeof text === "string") sent.add(shortened(text));
  };
  listenToSqlite(hear);
  listenToQueries(Client.prototype, hear);
  listenToQueries(mysql.Connection.prototype, hear);
  return {
    count: (engine) => wantedOf(engine).length,
    missing: (engine) => {
      const texts = [...sent].map((text) => text.toLowerCase());
      return wantedOf(engine).filter((wanted) => {
        const pieces = piecesOf(wanted, engine.prefix);
        return !texts.some((text) => holds(text, pieces));
      });
    },
  };
}

/** Returns what ends it. */
function listenToSqlite(hear: (text: unknown) => void): () => void {
  const originals: Record<string, unknown> = {};
  for (const name of ["run", "get", "all", "iterate"] as const) {
    const original = StatementSync.prototype[name] as (...args: unknown[]) => unknown;
    const wrapped = function (this: StatementSync, ...args: unknown[]): unknown {
      hear(this.sourceSQL);
      return original.apply(this, args);
    };
    originals[name] = original;
    Object.assign(StatementSync.prototype, { [name]: wrapped });
  }
  return () => void Object.assign(StatementSync.prototype, originals);
}

export interface Sent {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What is sent from now on, with its values, until it is stopped. */
export function listenToTexts(prototype: { query: unknown }): { stop(): Sent[] } {
  const sent: Sent[] = [];
  const original = prototype.query as (...args: unknown[]) => unknown;
  prototype.query = function (this: unknown, ...args: unknown[]): unknown {
    const [config] = args as [{ text?: string; sql?: string; values?: unknown[] }];
    sent.push({ text: config.text ?? config.sql ?? "", values: config.values ?? [] });
    return original.apply(this, args);
  };
  return {
    stop: () => {
      prototype.query = original;
      return sent;
    },
  };
}

/** The same for SQLite, texts only. */
export function listenToSqliteTexts(): { stop(): string[] } {
  const sent = new Set<string>();
  const restore = listenToSqlite((text) => sent.add(String(text)));
  return {
    stop: () => {
      restore();
      return [...sent];
    },
  };
}

interface Queries {
  query: (...args: never[]) => unknown;
  execute?: (...args: never[]) => unknown;
}

function listenToQueries(prototype: object, hear: (text: unknown) => void): void {
  for (const name of ["query", "execute"] as const) {
    const original = (prototype as Queries)[name] as ((...args: unknown[]) => unknown) | undefined;
    if (original === undefined) continue;
    const wrapped = function (this: unknown, ...args: unknown[]): unknown {
      const [first] = args;
      const config = first as { text?: unknown; sql?: unknown } | null;
      hear(typeof first === "string" ? first : (config?.text ?? config?.sql));
      return original.apply(this, args);
    };
    Object.assign(prototype, { [name]: wrapped });
  }
}

/** Texts with `${}` where something is put in. */
function wantedOf({ folder, statements, except = /^$/ }: EngineTexts): string[] {
  const files = globSync("**/*.ts", { cwd: SOURCES }).filter((file) => isSentTo(folder, file));
  const pieces = files.flatMap((file) => templatesOf(readFileSync(new URL(file, SOURCES), "utf8")));
  const whole = Object.values(statements).filter((text) => typeof text === "string");
  return [...new Set([...pieces, ...whole].map(plain))].filter(
    (text) => /[a-z]{3}/.test(text) && !except.test(text),
  );
}

/**
 * Files named after an engine, or in its folder, are for that engine alone. The torture kit and user transactions have
 * connections of their own.
 */
function isSentTo(folder: EngineTexts["folder"], file: string): boolean {
  if (/^(?:verify|copy|database\/user-tx)\//.test(file)) return false;
  const [engine] = /sqlite|postgres|mysql/.exec(file) ?? [folder];
  return engine === folder;
}

/** What stands between the holes of a text, in its order. */
function piecesOf(wanted: string, prefix: string): string[] {
  // A placeholder is `?` in the sources of MySQL and a value by the time it is sent. What is put in may be nothing: then a
  // blank before it is gone, too.
  return wanted
    .replaceAll("holdfast.", prefix)
    .toLowerCase()
    .split(/ ?\$\{\}|\?/)
    .filter((piece) => piece !== "");
}

/** One after the other: a pattern with as many gaps would try every way to fill them. */
function holds(text: string, pieces: readonly string[]): boolean {
  let at = 0;
  for (const piece of pieces) {
    const found = text.indexOf(piece, at);
    if (found === -1) return false;
    at = found + piece.length;
  }
  return true;
}

/** Without what differs from one sending to the next: the names of tests' schemas, and values that stand in the text. */
function shortened(text: string): string {
  return plain(text)
    .replaceAll(/"test_[0-9_]+"\./g, '"holdfast".')
    .replaceAll(/'(?:[^'\\]|\\.)*'/g, (literal) => (literal.length > LITERAL_MAX ? "''" : literal))
    .replaceAll(ID_OR_HASH, "''")
    .replaceAll(INSTANT, "0")
    .replaceAll(/\bvalues (?:\([^()]*\),)+(?=\()/g, "values ");
}

/** Words that belong to a statement are shorter. */
const LITERAL_MAX = 64;
/** These differ in every one of a thousand statements. */
const ID_OR_HASH = /'[0-9a-f-]{36,}'/g;
const INSTANT = /\b\d{10,}\b/g;

function plain(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

const HOLE = ["$", "{}"].join("");

/** Every sql`…` of a source, also those inside others. */
export function templatesOf(source: string): string[] {
  const found: string[] = [];
  for (const { index } of source.matchAll(/\bsql`/g)) {
    found.push(readTemplate(source, index + "sql`".length).text);
  }
  return found;
}

function readTemplate(source: string, start: number): { text: string; end: number } {
  let text = "";
  let at = start;
  while (source[at] !== "`") {
    if (source.startsWith("${", at)) {
      at = endOfHole(source, at + 2);
      text += HOLE;
    } else {
      text += source[at] ?? "";
      at += 1;
    }
  }
  return { text, end: at + 1 };
}

/** The place after the brace that closes a `${`. */
function endOfHole(source: string, start: number): number {
  let depth = 1;
  let at = start;
  while (depth > 0) {
    if (source[at] === "`") at = readTemplate(source, at + 1).end;
    else {
      if (source[at] === "{") depth += 1;
      if (source[at] === "}") depth -= 1;
      at += 1;
    }
  }
  return at;
}
