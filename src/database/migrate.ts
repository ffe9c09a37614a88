/**
 * Migrates a database to this version of the library.
 *
 * Migrations are numbered, go forward only and first add, then (a release later) remove, so that the previous version
 * keeps working beside this one. A migration that the previous version could not work with is marked breaking, and an
 * older library refuses a database with a breaking migration that it does not know.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SchemaTooNewError, SchemaTooOldError, StoreUnavailableError } from "../core/errors.ts";
import { BundledError, codeFile } from "../core/version.ts";
import type {
  Engine,
  EngineKind,
  Migrated,
  Migration,
  MigrationDialect,
  MigrationPlan,
  NewIndex,
  Transaction,
} from "./engine.ts";
import { sql } from "./sql.ts";

interface Applied {
  version: number;
  name: string;
  breaking: number;
  applied_at: number;
}

export async function migrate(engine: Engine): Promise<Migrated> {
  if (engine.image !== undefined && (await engine.image.copy())) return allOf(engine);
  const migrated = await migrateTables(engine).catch((error: unknown) => upToDate(engine, error));
  if (migrated.from === 0) await engine.image?.keep();
  return migrated;
}

/** As the drivers call it when the user may not create tables. */
const NOT_GRANTED: ReadonlySet<unknown> = new Set([
  "42501",
  "ER_TABLEACCESS_DENIED_ERROR",
  "ER_DBACCESS_DENIED_ERROR",
]);

/** A user who may not create tables can use those of this version. */
async function upToDate(engine: Engine, error: unknown): Promise<Migrated> {
  if (!(error instanceof StoreUnavailableError)) throw error;
  const { code } = (error.cause ?? {}) as { code?: unknown };
  if (!NOT_GRANTED.has(code)) throw error;
  const from = checkedVersion(engine, await appliedOrNone(engine));
  if (from < newest(engine)) throw error;
  return { from, to: from, applied: [] };
}

/** What an empty database reports. */
function allOf(engine: Engine): Migrated {
  return { from: 0, to: newest(engine), applied: engine.migrations.map(({ name }) => name) };
}

async function migrateTables(engine: Engine): Promise<Migrated> {
  const names: string[] = [];
  for (let first: number | null = null; ;) {
    const { from, run, left } = await engine.migrationLock((tx) => migrateNext(engine, tx));
    first ??= from;
    names.push(...run.map(({ name }) => name));
    if (left === 0) return { from: first, to: Math.max(from, newest(engine)), applied: names };
  }
}

interface Round {
  readonly from: number;
  readonly run: readonly Migration[];
  readonly left: number;
}

/** Runs the next migrations: all up to one that builds indexes online, or that one, which needs a transaction without locks. */
async function migrateNext(engine: Engine, tx: Transaction): Promise<Round> {
  const from = checkedVersion(engine, await applied(tx));
  const missing = engine.migrations.filter((migration) => migration.version > from);
  const online = from === 0 ? -1 : missing.findIndex((migration) => migration.online === true);
  const run = online === -1 ? missing : missing.slice(0, Math.max(1, online));
  for (const migration of run) {
    if (migration.online !== true) await tx.script(migration.script);
    else {
      for (const index of indexesIn(migration)) await engine.buildIndex(tx, index, from === 0);
    }
    await tx.run(sql`
      insert into holdfast.migration (version, name, breaking, applied_at)
      values (${migration.version}, ${migration.name}, ${migration.breaking ? 1 : 0}, ${engine.now()})`);
  }
  return { from, run, left: missing.length - run.length };
}

const COMMENT = /^\s*--.*$/gm;
const INDEX =
  /^create (unique )?index (?:if not exists )?(\w+)\s+on (?:\S+\.|holdfast_)(\w+)\s+(\S.*)$/s;

/** Only indexes can be built online: anything else in the script is a mistake of its author. */
function indexesIn({ name: migration, script }: Migration): NewIndex[] {
  const statements = script.replaceAll(COMMENT, "").split(";");
  return statements.flatMap((statement) => {
    const text = statement.trim();
    if (text === "") return [];
    const [, unique, name = "", table = "", rest = ""] = INDEX.exec(text) ?? [];
    if (name === "") throw new Error(`The online migration '${migration}' has: ${text}`);
    return { name, table, isUnique: unique !== undefined, rest };
  });
}

/** The statement that creates an index, and blocks writers meanwhile. */
export function createIndex({ name, table, isUnique, rest }: NewIndex): string {
  return `create ${isUnique ? "unique " : ""}index if not exists ${name} on holdfast.${table} ${rest}`;
}

/** The same as SQL text: each script, followed by its row in `migration`. */
export async function planMigration(engine: Engine): Promise<MigrationPlan> {
  const from = checkedVersion(engine, await appliedOrNone(engine));
  const to = Math.max(from, newest(engine));
  const missing = engine.migrations.filter((migration) => migration.version > from);
  if (missing.length === 0) return { from, to, migrations: [], sql: "", shellSql: "" };
  const { head, named, forShell } = engine.migrationDialect;
  const parts = missing.map((migration) => named(scriptOf(engine, migration)));
  const text = [head, ...parts].map((part) => part.trim()).join("\n\n");
  return {
    from,
    to,
    migrations: missing.map(({ version, name }) => ({ version, name })),
    sql: `${text}\n`,
    shellSql: `${forShell(text)}\n`,
  };
}

/** As text, an index blocks writers: PostgreSQL refuses to build it online inside a transaction. */
const BLOCKS =
  "-- These indexes block writers while they are built; 'holdfast migrate' builds them online.\n";

function scriptOf(engine: Engine, migration: Migration): string {
  const { version, name, breaking, online = false, script } = migration;
  const { now } = engine.migrationDialect;
  return `-- Migration ${version}: ${name}
${online ? BLOCKS : ""}${script.trim()}

insert into holdfast.migration (version, name, breaking, applied_at)
values (${version}, '${name}', ${breaking ? 1 : 0}, ${now});`;
}

export async function checkSchema(engine: Engine): Promise<void> {
  const found = checkedVersion(engine, await appliedOrNone(engine));
  if (found < newest(engine)) throw new SchemaTooOldError({ found, needed: newest(engine) });
}

/** The version of the database; throws if this library must not touch it. */
function checkedVersion(engine: Engine, rows: readonly Applied[]): number {
  const supported = newest(engine);
  const found = rows.reduce((version, row) => Math.max(version, row.version), 0);
  const [first] = engine.migrations;
  const isOurs = rows.some(
    ({ version, name }) => version === first?.version && name === first.name,
  );
  if (rows.length > 0 && !isOurs) {
    throw new SchemaTooOldError({ found, needed: supported, isUnreleased: true });
  }
  const breaks = rows.some((row) => row.version > supported && row.breaking === 1);
  if (breaks) throw new SchemaTooNewError({ found, supported });
  return found;
}

function newest(engine: Engine): number {
  return engine.migrations.reduce((version, migration) => Math.max(version, migration.version), 0);
}

export function applied(tx: Pick<Transaction, "all">): Promise<Applied[]> {
  return tx.all<Applied>(
    sql`select version, name, breaking, applied_at from holdfast.migration order by version`,
  );
}

async function appliedOrNone(engine: Engine): Promise<Applied[]> {
  return (await engine.hasTable("migration")) ? applied(engine) : [];
}

// The migrations of an engine: the SQL files of its folder, in the order of their numbers, such as 0002-labels.sql.
//
// The files are frozen. A name that ends in `.breaking` marks a migration that an older version of the library cannot work with.
// One that ends in `.online` only creates indexes, which a database with jobs builds without blocking writers.

const FILE = /^(\d{4})-([a-z0-9-]+?)(\.breaking|\.online)?\.sql$/;

/** A script is read when it is used: most processes find a database that is up to date. */
export function migrationsIn(
  folder: string,
  written = (script: string): string => script,
): readonly Migration[] {
  return filesIn(folder)
    .toSorted()
    .flatMap((file) => {
      const [, version, name, kind] = FILE.exec(file) ?? [];
      if (version === undefined || name === undefined) return [];
      return {
        version: Number(version),
        name: name.replaceAll("-", " "),
        breaking: kind === ".breaking",
        online: kind === ".online",
        get script() {
          return written(readFileSync(join(folder, file), "utf8"));
        },
      };
    });
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    throw new BundledError(error); // The package always contains them.
  }
}

/** The folders are read when a database is opened: a program that only imports the library may be a bundle. */
export function migrationsFolder(engine: EngineKind): string {
  return codeFile(join("database/migrations", engine));
}

const read = new Map<EngineKind, readonly Migration[]>();

function migrationsOf(engine: EngineKind): readonly Migration[] {
  const known = read.get(engine) ?? migrationsIn(migrationsFolder(engine));
  read.set(engine, known);
  return known;
}

export function sqliteMigrations(): readonly Migration[] {
  return migrationsOf("sqlite");
}

export function postgresMigrations(): readonly Migration[] {
  return migrationsOf("postgres");
}

/** MariaDB has the collation of the files under another name. */
export function mysqlMigrations({
  collation,
}: {
  readonly collation: string;
}): readonly Migration[] {
  return migrationsIn(migrationsFolder("mysql"), (script) =>
    script.replaceAll("utf8mb4_0900_bin", collation),
  );
}

const prefixed = (script: string): string => script.replaceAll("holdfast.", "holdfast_");

export const sqliteDialect: MigrationDialect = {
  head: `
create table if not exists holdfast_migration (
  version     integer primary key,
  name        text    not null,
  breaking    integer not null check (breaking in (0, 1)),
  applied_at  integer not null
);
`,
  now: "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
  named: prefixed,
  forShell: (script) => script,
};

export const POSTGRES_TABLE = `
create table if not exists holdfast.migration (
  version     integer primary key,
  name        text    not null,
  breaking    integer not null check (breaking in (0, 1)),
  applied_at  bigint  not null
);
`;

export function postgresDialect(schema: string): MigrationDialect {
  const named = (script: string): string => script.replaceAll("holdfast.", `"${schema}".`);
  return {
    head: `create schema if not exists "${schema}";\n${named(POSTGRES_TABLE)}`,
    now: "(extract(epoch from clock_timestamp()) * 1000)::bigint",
    named,
    forShell: (script) => script,
  };
}

/** As the library's own sessions are: names in double quotes, texts that compare as bytes. */
const MYSQL_SESSION = `
set names utf8mb4 collate utf8mb4_bin;
set session sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'`;

export const MYSQL_TABLE = `
create table if not exists holdfast_migration (
  version     int not null primary key,
  name        varchar(255) not null,
  breaking    int not null,
  applied_at  bigint not null,
  check (breaking in (0, 1))
) engine = InnoDB default character set utf8mb4`;

/** A shell ends a statement at the first semicolon, so triggers are written between other delimiters there. */
const TRIGGER = /^create trigger [^]*?\nend;$/gm;

export const mysqlDialect: MigrationDialect = {
  head: `${MYSQL_SESSION};\n${MYSQL_TABLE};\n`,
  now: "cast(floor(unix_timestamp(now(3)) * 1000) as signed)",
  named: prefixed,
  forShell: (script) =>
    script.replaceAll(TRIGGER, (text) => `delimiter //\n${text.slice(0, -1)} //\ndelimiter ;`),
};
