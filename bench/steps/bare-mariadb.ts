/** The bare loop on MariaDB: a step is one packet that begins, writes and commits. */
import { systemRuntime } from "../../src/core/runtime.ts";
import { filled, loadDriver, Session } from "../../src/database/mysql/session.ts";
import { mysqlAddress } from "../../src/database/mysql/address.ts";
import { turn } from "../systems/raw-mariadb.ts";
import { LaneLoop, type Bare, type BareParts } from "./loop.ts";
import { ID_MARK } from "./statement.ts";

export async function openBareMariadb(parts: BareParts): Promise<Bare> {
  const { place, worker, task, lanes, steps } = parts;
  const address = mysqlAddress(place.url);
  const opening = { driver: await loadDriver(), address, probe: null, runtime: systemRuntime };
  const turner = await Session.open(opening);
  const sessions = await Promise.all(Array.from({ length: lanes }, () => Session.open(opening)));
  const texts = steps.map((step) => filled(step));
  const wires = {
    turn: (settled: readonly string[], limit: number) =>
      turn(turner, settled, { worker, task, limit }),
    async steps(lane: number, id: string) {
      for (const text of texts) {
        const packet = ["start transaction", text.replace(ID_MARK, id), "commit"];
        await sessions[lane]?.send(packet, { rows: "arrays" });
      }
    },
  };
  return {
    run: (batch) => new LaneLoop(wires, { lanes, batch }).run(),
    async [Symbol.asyncDispose]() {
      for (const session of [turner, ...sessions]) await session.end();
    },
  };
}
