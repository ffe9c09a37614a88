/** The servers that these tests are about: how each is started, looked at and mistreated. */
import { randomBytes } from "node:crypto";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { Client } from "pg";
import { createDatabase, withDatabase, type Sql } from "../../scripts/services/scratch.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import {
  missing,
  missingPrograms,
  startMariadb,
  startPostgres,
  type GuardedServer,
  type OwnOptions,
} from "../support/servers.ts";

export interface EngineUnderTest {
  readonly kind: Sql;
  readonly label: string;
  /** Why there is no shared one; false: there is. */
  readonly missing: string | false;
  /** Why none can be started; false: it can. */
  readonly missingPrograms: string | false;
  readonly start: (options?: OwnOptions) => Promise<GuardedServer>;
  /** The message that commits a transaction. */
  readonly commit: RegExp;
  /** The messages that each write and commit by themselves, where there are such. */
  readonly alone: {
    readonly insert: RegExp;
    readonly claim: RegExp;
    readonly settle: RegExp;
    readonly extend: RegExp;
  };
}

/** As it ends a packet: `read committed` is not it. */
const COMMIT = /commit\0?$/;

export const engines: readonly EngineUnderTest[] = [
  {
    kind: "postgres",
    label: "PostgreSQL",
    missing: reasonOf(missing("postgres"), notItsTurn("postgres")),
    missingPrograms: reasonOf(missingPrograms("postgres"), notItsTurn("postgres")),
    start: startPostgres,
    commit: COMMIT,
    alone: {
      insert: /holdfast_insert(?:Alike)?\0/,
      claim: /holdfast_claimFrom\w+\0/,
      settle: /holdfast_settle\0/,
      extend: /holdfast_extend\0/,
    },
  },
  {
    kind: "mysql",
    label: "MariaDB",
    missing: reasonOf(missing("mysql"), notItsTurn("mysql")),
    missingPrograms: reasonOf(missingPrograms("mysql"), notItsTurn("mysql")),
    start: startMariadb,
    commit: COMMIT,
    alone: { insert: COMMIT, claim: COMMIT, settle: COMMIT, extend: COMMIT },
  },
];

const NAME_BYTES = 6;

export interface OwnDatabase {
  /** As a user who may do everything in this database, and nothing elsewhere. */
  readonly url: string;
  /** As the administrator. */
  readonly adminUrl: string;
}

/** An empty database on a server of the test's own, gone with it. */
export async function newDatabase(
  { kind }: Pick<EngineUnderTest, "kind">,
  server: GuardedServer,
  password = SECRET,
  may: "all" | "reads" = "all",
): Promise<OwnDatabase> {
  const name = `test_${randomBytes(NAME_BYTES).toString("hex")}`;
  await createDatabase(kind, server.url, name);
  await using admin = await adminOf(server.url);
  for (const text of grants[kind](name, password, may)) await admin.rows(text);
  const url = new URL(withDatabase(server.url, name));
  url.username = name;
  url.password = password;
  return { url: url.href, adminUrl: withDatabase(server.url, name) };
}

/** The password of such a user, and a word of nothing else: it must not be shown. */
export const SECRET = "known-to-tests-only";

const grants = {
  postgres: (name: string, password: string, may: "all" | "reads") => [
    `create role ${name} login password '${password}'`,
    `grant ${may === "all" ? "all" : "connect"} on database ${name} to ${name}`,
  ],
  mysql: (name: string, password: string, may: "all" | "reads") => [
    `create user '${name}'@'%' identified by '${password}'`,
    `grant ${may === "all" ? "all" : "select"} on ${name}.* to '${name}'@'%'`,
  ],
};

/** A connection beside Holdfast's own. */
export interface Admin extends AsyncDisposable {
  rows<T>(text: string): Promise<T[]>;
  /** Ends every session that Holdfast has in this database, and says how many there were. */
  killSessions(): Promise<number>;
  /** Whether anybody but an administrator may write, on the whole server. */
  letWrite(may: boolean): Promise<void>;
}

export async function adminOf(url: string): Promise<Admin> {
  return url.startsWith("postgres") ? postgresAdmin(url) : mysqlAdmin(url);
}

async function postgresAdmin(url: string): Promise<Admin> {
  const client = new Client({ connectionString: url, application_name: "test" });
  client.on("error", () => {}); // its server may be killed
  await client.connect();
  const rows = async <T>(text: string): Promise<T[]> => (await client.query(text)).rows as T[];
  return {
    rows,
    async killSessions() {
      const killed = await rows(`
        select pg_terminate_backend(pid)
          from pg_stat_activity
         where application_name like 'holdfast%'
           and datname = current_database()`);
      return killed.length;
    },
    async letWrite(may) {
      await rows(`alter system set default_transaction_read_only = ${may ? "off" : "on"}`);
      await rows("select pg_reload_conf()");
    },
    [Symbol.asyncDispose]: () => client.end(),
  };
}

async function mysqlAdmin(url: string): Promise<Admin> {
  const connection = await createConnection(url);
  connection.on("error", () => {}); // its server may be killed
  const rows = async <T>(text: string): Promise<T[]> => {
    const [answer] = await connection.query<RowDataPacket[]>(text);
    return answer as T[];
  };
  return {
    rows,
    killSessions: () => killInMysql(connection),
    letWrite: async (may) => void (await rows(`set global read_only = ${may ? 0 : 1}`)),
    [Symbol.asyncDispose]: () => connection.end(),
  };
}

async function killInMysql(connection: Connection): Promise<number> {
  const [sessions] = await connection.query<(RowDataPacket & { id: number })[]>(
    "select id as id from information_schema.processlist where db = database() and id <> connection_id()",
  );
  // One that has left meanwhile was not killed.
  const kills = sessions.map(({ id }) =>
    connection.query(`kill ${id}`).then(
      () => 1,
      () => 0,
    ),
  );
  const killed: number[] = await Promise.all(kills);
  return killed.reduce((sum, one) => sum + one, 0);
}
