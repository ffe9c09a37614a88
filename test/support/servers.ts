/**
 * The servers for tests: those that all tests share, found by their variables, and those that a test
 * starts for itself, to stop and kill them. `npm test` brings the programs and names the shared ones.
 */
import { randomBytes } from "node:crypto";
import { inCi, named } from "../../scripts/services/choice.ts";
import { ServerOwner, type GuardedServer } from "../../scripts/services/owner.ts";
import {
  KNOWN,
  OWNED_VARIABLE,
  SCRATCH_VARIABLE,
  type Need,
  type ServerName,
} from "../../scripts/services/names.ts";
import { findPrograms } from "../../scripts/services/programs.ts";
import {
  copyInPostgres,
  createDatabase,
  dropDatabase,
  withDatabase,
  type Sql,
} from "../../scripts/services/scratch.ts";

export type { GuardedServer };

const NAME_BYTES = 6;

/** Where the shared one is. Ask `missing` first. */
export function urlOf(need: Need): string {
  const url = named(process.env, need);
  if (url === null) throw new Error(reasonFor(need));
  return url;
}

/**
 * For the `skip` of a test: why the shared one is not there, or false when it is. On a build machine
 * nothing is skipped: there, a missing one fails the file.
 */
export function missing(need: Need): string | false {
  return named(process.env, need) === null ? skipped(reasonFor(need)) : false;
}

/** For the `skip` of a test: why it cannot start one of its own, or false when it can. */
export function missingPrograms(name: ServerName): string | false {
  const found = findPrograms(name);
  if ("programs" in found) return false;
  return skipped(`${KNOWN[name].label} cannot be started: ${found.absent} is not installed`);
}

function reasonFor(need: Need): string {
  const { label, variable, missingVariable } = KNOWN[need];
  const reason =
    process.env[missingVariable] ??
    `${variable} is not set: run the tests with 'npm test', or set it as 'npm run services' says`;
  return `${label} is missing: ${reason}`;
}

function skipped(reason: string): string {
  if (inCi(process.env)) throw new Error(`With CI=true nothing may be left untested. ${reason}`);
  return reason;
}

/** Whether the shared one was started for the tests: then no other user is disturbed. */
export function isOwned(name: ServerName): boolean {
  return (process.env[OWNED_VARIABLE] ?? "").split(",").includes(name);
}

export interface ScratchDatabase extends AsyncDisposable {
  readonly url: string;
  /** The same database through the shared PgBouncer; null when there is none. */
  readonly pooledUrl: string | null;
  /** Drops it, also while clients are connected. */
  drop(): Promise<void>;
}

/** A fresh database on the shared server. */
export async function scratchDatabase(kind: Sql): Promise<ScratchDatabase> {
  const name = scratchName();
  await createDatabase(kind, urlOf(kind), name);
  return scratchOf(kind, name);
}

/** A copy of one on the shared PostgreSQL, to which no client is connected. */
export async function copyOf(original: ScratchDatabase): Promise<ScratchDatabase> {
  const name = scratchName();
  await copyInPostgres(urlOf("postgres"), name, new URL(original.url).pathname.slice(1));
  return scratchOf("postgres", name);
}

function scratchName(): string {
  const prefix = process.env[SCRATCH_VARIABLE] ?? "holdfast_test_";
  return prefix + randomBytes(NAME_BYTES).toString("hex");
}

function scratchOf(kind: Sql, name: string): ScratchDatabase {
  const server = urlOf(kind);
  const pool = kind === "postgres" ? named(process.env, "pgbouncer") : null;
  const drop = async (): Promise<void> => dropDatabase(kind, server, name);
  return {
    url: withDatabase(server, name),
    pooledUrl: pool === null ? null : withDatabase(pool, name),
    drop,
    [Symbol.asyncDispose]: drop,
  };
}

export interface OwnOptions {
  /** Settings of the server by its own names, in place of the usual ones. */
  readonly settings?: Readonly<Record<string, string>>;
}

let guard: ServerOwner | null = null;

/** All of them end with this process, however it ends. */
async function start(
  name: ServerName,
  options: OwnOptions & { behind?: string },
): Promise<GuardedServer> {
  guard ??= new ServerOwner();
  return guard.start(name, options);
}

/** A PostgreSQL of the test's own. Its URL is the administrator's. */
export async function startPostgres(options: OwnOptions = {}): Promise<GuardedServer> {
  return start("postgres", options);
}

/** A standby of the PostgreSQL of this URL: it has everything that the primary had when it was made. */
export async function startStandby(
  options: OwnOptions & { behind: string },
): Promise<GuardedServer> {
  return start("postgres", options);
}

/** A MariaDB of the test's own. Its URL is the administrator's, on an empty database. */
export async function startMariadb(options: OwnOptions = {}): Promise<GuardedServer> {
  return start("mysql", options);
}

/** A Redis of the test's own. */
export async function startRedis(options: OwnOptions = {}): Promise<GuardedServer> {
  return start("redis", options);
}

/** A PgBouncer of the test's own before the PostgreSQL of this URL. */
export async function startPgbouncer(
  options: OwnOptions & { behind: string },
): Promise<GuardedServer> {
  return start("pgbouncer", options);
}
