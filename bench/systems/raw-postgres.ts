/** The raw loop on PostgreSQL: one statement settles a batch and claims the next, on two connections side by side. */
import { loadDriver, postgresAddress, type PgClient } from "../../src/database/postgres/address.ts";
import { openPool } from "../../src/database/postgres/session.ts";
import { FIELD, ROW, statements } from "../../src/jobs/postgres-statements.ts";
import type { Place } from "../places.ts";
import { BATCH, LEASE_MS, QUEUE, sumOf, TASK, type RawClaim, type RawLoop } from "./raw-batch.ts";

const WORKERS = ["raw-1", "raw-2"];
const CLAIM = 1;

/** Nothing is made of what comes back but the text that goes out again. */
const types = { getTypeParser: () => (text: string) => text };

type Answer = [settled: string | null, claimed: string | null, lockedUntil: string];

export async function openPostgresLoop(place: Place): Promise<RawLoop> {
  const address = postgresAddress(place.url);
  const options = { max: WORKERS.length, store: "raw", use: "hot" } as const;
  const opened = await openPool(await loadDriver(), address, options);
  const clients = await Promise.all(WORKERS.map(() => opened.pool.connect()));
  return {
    run: () => sumOf(clients.map((client, lane) => drainLane(client, WORKERS[lane] ?? ""))),
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.release();
      await opened.end();
    },
  };
}

async function drainLane(client: PgClient, worker: string): Promise<number> {
  let held: string[] = [];
  let drained = 0;
  do {
    const { settled, claimed } = await turn(client, held, { worker, task: TASK, limit: BATCH });
    drained += settled;
    held = claimed;
  } while (held.length > 0);
  return drained;
}

/** One turn: settles what is held, and claims. A job is a row of the answer, which begins with its id. */
export async function turn(
  client: PgClient,
  held: readonly string[],
  wanted: RawClaim,
): Promise<{ settled: number; claimed: string[] }> {
  const { rows } = await client.query({
    name: "raw",
    text: statements.claimFromOne,
    values: turnValues(held, wanted),
    rowMode: "array",
    types,
  });
  const [settled, claimed] = rows[0] as Answer;
  return {
    settled: settled === "" ? held.length : (settled?.split(ROW).length ?? 0),
    claimed: claimed?.split(ROW) ?? [],
  };
}

export function idOf(row: string): string {
  return row.slice(0, row.indexOf(FIELD));
}

/** What is held is settled as done, without a result; by the server's clock. */
function turnValues(held: readonly string[], { worker, task, limit }: RawClaim): unknown[] {
  const fences = held.map((row) => row.split(FIELD, 2));
  const ids = fences.map(([id]) => id).join(",");
  const epochs = fences.map(([, epoch]) => epoch).join(",");
  return [
    `{${ids}}`,
    worker,
    `{${epochs}}`,
    [],
    null,
    [QUEUE],
    [task],
    limit,
    LEASE_MS,
    CLAIM,
    true,
  ];
}
