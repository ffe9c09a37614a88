/** Whether a server can be used, and what it calls the database. */
import { StoreUnavailable } from "../../core/errors.ts";
import type { Engine } from "../engine.ts";
import { sql } from "../sql.ts";
import { readOnly } from "./errors.ts";

const OLDEST = 140_000;

interface Server {
  readonly database: string;
  readonly number: number;
  readonly version: string;
  readonly replica: boolean;
  readonly readOnly: string;
}

export async function checkServer(engine: Engine): Promise<string> {
  const [row] = await engine.all<Server>(sql`
    select current_database() as database,
           current_setting('server_version_num')::int as number,
           current_setting('server_version') as version,
           pg_is_in_recovery() as replica,
           current_setting('transaction_read_only') as "readOnly"`);
  const server = row as Server;
  if (server.number < OLDEST) throw tooOld(engine.name, server.version);
  if (server.replica || server.readOnly === "on") {
    const [problem, remedy] = readOnly(engine.name);
    throw new StoreUnavailable({ problem, remedy });
  }
  return server.database;
}

function tooOld(store: string, version: string): StoreUnavailable {
  return new StoreUnavailable({
    problem: `${store} runs PostgreSQL ${version}.`,
    remedy: "Holdfast needs PostgreSQL 14 or later.",
  });
}
