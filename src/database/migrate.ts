/**
 * Migrates a database to this version of the library.
 *
 * Migrations are numbered, go forward only and first add, then (a release later) remove, so that the previous version
 * keeps working beside this one. A migration that the previous version could not work with is marked breaking, and an
 * older library refuses a database with a breaking migration that it does not know.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SchemaTooNewError, SchemaTooOldError } from "../core/errors.ts";
import { packageCode } from "../core/version.ts";
import type {
  Engine,
  Migrated,
  Migration,
  MigrationDialect,
  MigrationPlan,
  Transaction,
} from "./engine.ts";
import { sql } from "./sql.ts";

interface Applied {
  version: number;
  breaking: number;
  applied_at: number;
}

export async function migrate(engine: Engine): Promise<Migrated> {
  if (engine.image !== undefined && (await engine.image.copy())) return allOf(engine);
  const migrated = await migrateTables(engine);
  if (migrated.from === 0) await engine.image?.keep();
  return migrated;
}

/** What an empty database reports. */
function allOf(engine: Engine): Migrated {
  return { from: 0, to: newest(engine), applied: engine.migrations.map(({ name }) => name) };
}

function migrateTables(engine: Engine): Promise<Migrated> {
  return engine.migrationLock(async (tx) => {
    const from = checkNotTooNew(engine, await applied(tx));
    const missing = engine.migrations.filter((migration) => migration.version > from);
    for (const migration of missing) {
      await tx.script(migration.script);
      await tx.run(sql`
        insert into holdfast.migration (version, name, breaking, applied_at)
        values (${migration.version}, ${migration.name}, ${migration.breaking ? 1 : 0}, ${engine.now()})`);
    }
    return {
      from,
      to: Math.max(from, newest(engine)),
      applied: missing.map((migration) => migration.name),
    };
  });
}

/** The same as SQL text: each script, followed by its row in `migration`. */
export async function planMigration(engine: Engine): Promise<MigrationPlan> {
  const from = checkNotTooNew(engine, await appliedOrNone(engine));
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

function scriptOf(engine: Engine, { version, name, breaking, script }: Migration): string {
  const { now } = engine.migrationDialect;
  return `-- Migration ${version}: ${name}
${script.trim()}

insert into holdfast.migration (version, name, breaking, applied_at)
values (${version}, '${name}', ${breaking ? 1 : 0}, ${now});`;
}

export async function checkSchema(engine: Engine): Promise<void> {
  const found = checkNotTooNew(engine, await appliedOrNone(engine));
  if (found < newest(engine)) throw new SchemaTooOldError({ found, needed: newest(engine) });
}

/** The version of the database; throws if this library must not touch it. */
function checkNotTooNew(engine: Engine, rows: readonly Applied[]): number {
  const supported = newest(engine);
  const found = rows.reduce((version, row) => Math.max(version, row.version), 0);
  const breaks = rows.some((row) => row.version > supported && row.breaking === 1);
  if (breaks) throw new SchemaTooNewError({ found, supported });
  return found;
}

function newest(engine: Engine): number {
  return engine.migrations.reduce((version, migration) => Math.max(version, migration.version), 0);
}

export function applied(tx: Pick<Transaction, "all">): Promise<Applied[]> {
  return tx.all<Applied>(
    sql`select version, breaking, applied_at from holdfast.migration order by version`,
  );
}

async function appliedOrNone(engine: Engine): Promise<Applied[]> {
  return (await engine.hasTable("migration")) ? applied(engine) : [];
}

// The migrations of an engine: the SQL files of its folder, in the order of their numbers, such as 0011-schedules.sql.
//
// The files are frozen. A name that ends in `.breaking` marks a migration that an older version of the library cannot work with.

export const MIGRATIONS = join(packageCode, "database/migrations");

const FILE = /^(\d{4})-([a-z0-9-]+?)(\.breaking)?\.sql$/;

/** A script is read when it is used: most processes find a database that is up to date. */
export function migrationsIn(
  folder: string,
  written = (script: string): string => script,
): readonly Migration[] {
  return readdirSync(folder)
    .toSorted()
    .flatMap((file) => {
      const [, version, name, breaking] = FILE.exec(file) ?? [];
      if (version === undefined || name === undefined) return [];
      return {
        version: Number(version),
        name: name.replaceAll("-", " "),
        breaking: breaking !== undefined,
        get script() {
          return written(readFileSync(join(folder, file), "utf8"));
        },
      };
    });
}

export const sqliteMigrations = migrationsIn(join(MIGRATIONS, "sqlite"));

export const postgresMigrations = migrationsIn(join(MIGRATIONS, "postgres"));

/** MariaDB has the collation of the files under another name. */
export function mysqlMigrations({
  collation,
}: {
  readonly collation: string;
}): readonly Migration[] {
  return migrationsIn(join(MIGRATIONS, "mysql"), (script) =>
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
