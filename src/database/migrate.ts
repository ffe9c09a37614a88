/**
 * Migrates a database to this version of the library.
 *
 * Migrations are numbered, go forward only and first add, then (a release later) remove, so that the previous version
 * keeps working beside this one. A migration that the previous version could not work with is marked breaking, and an
 * older library refuses a database with a breaking migration that it does not know.
 */
import { SchemaTooNewError, SchemaTooOldError } from "../core/errors.ts";
import type { Engine, Migrated, Migration, MigrationPlan, Transaction } from "./engine.ts";
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
