/** The bare loop on PostgreSQL: a step is one prepared statement that commits by itself. */
import { loadDriver, postgresAddress } from "../../src/database/postgres/address.ts";
import { openPool } from "../../src/database/postgres/session.ts";
import { idOf, turn } from "../systems/raw-postgres.ts";
import { LaneLoop, type Bare, type BareParts } from "./loop.ts";
import { ID_MARK } from "./statement.ts";

export async function openBarePostgres(parts: BareParts): Promise<Bare> {
  const { place, worker, task, lanes, steps } = parts;
  const driver = await loadDriver();
  const address = postgresAddress(place.url);
  const hot = await openPool(driver, address, { max: 1, store: "raw", use: "hot" });
  const cold = await openPool(driver, address, { max: lanes, store: "raw", use: "cold" });
  const turner = await hot.pool.connect();
  const clients = await Promise.all(Array.from({ length: lanes }, () => cold.pool.connect()));
  const wires = {
    turn: async (settled: readonly string[], limit: number) =>
      (await turn(turner, settled, { worker, task, limit })).claimed,
    async steps(lane: number, job: string) {
      const id = idOf(job);
      for (const { text, values } of steps) {
        const own = values.map((value) => (value === ID_MARK ? id : value));
        await clients[lane]?.query({ name: "step", text, values: own });
      }
    },
  };
  return {
    run: (batch) => new LaneLoop(wires, { lanes, batch }).run(),
    async [Symbol.asyncDispose]() {
      for (const client of [turner, ...clients]) client.release();
      await Promise.all([hot.end(), cold.end()]);
    },
  };
}
