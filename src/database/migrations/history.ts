/**
 * The migrations of an engine: the SQL files of its folder, in the order of their numbers, such as 0011-schedules.sql.
 *
 * The files are frozen. A name that ends in `.breaking` marks a migration that an older version of the library cannot work with.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageCode } from "../../core/files.ts";
import type { Migration, MigrationDialect } from "../engine.ts";

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
