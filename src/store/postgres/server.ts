/** Whether a server can be used. */
import { StoreUnavailable } from "../../core/errors.ts";
import type { Engine } from "../engine.ts";
import { sql } from "../sql.ts";
import { readOnly } from "./errors.ts";

const OLDEST = 140_000;

interface Server {
  readonly number: number;
  readonly version: string;
  readonly replica: boolean;
  readonly readOnly: string;
}

export async function checkServer(engine: Engine): Promise<void> {
  const [server] = await engine.all<Server>(sql`
    select current_setting('server_version_num')::int as number,
           current_setting('server_version') as version,
           pg_is_in_recovery() as replica,
           current_setting('transaction_read_only') as "readOnly"`);
  if (server === undefined) return;
  if (server.number < OLDEST) throw tooOld(engine.name, server.version);
  if (server.replica || server.readOnly === "on") {
    const [problem, remedy] = readOnly(engine.name);
    throw new StoreUnavailable({ problem, remedy });
  }
}

function tooOld(store: string, version: string): StoreUnavailable {
  return new StoreUnavailable({
    problem: `${store} runs PostgreSQL ${version}.`,
    remedy: "Holdfast needs PostgreSQL 14 or later.",
  });
}
