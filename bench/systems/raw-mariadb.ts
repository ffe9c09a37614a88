/**
 * The raw loop on MariaDB, on two connections side by side: one packet locks the leases to settle and the jobs to claim,
 * another moves them all and commits.
 */
import { systemRuntime } from "../../src/core/runtime.ts";
import {
  fill,
  jsonList,
  list,
  loadDriver,
  RawSql,
  Session,
} from "../../src/database/mysql/session.ts";
import { mysqlAddress } from "../../src/database/mysql/address.ts";
import { statements } from "../../src/jobs/mysql-statements.ts";
import type { Place } from "../places.ts";
import { BATCH, LEASE_MS, QUEUE, sumOf, TASK, type RawClaim, type RawLoop } from "./raw-batch.ts";

const WORKERS = ["raw-1", "raw-2"];
const CLAIM = 1;

export async function openMariadbLoop(place: Place): Promise<RawLoop> {
  const address = mysqlAddress(place.url);
  const parts = { driver: await loadDriver(), address, probe: null, runtime: systemRuntime };
  const sessions = await Promise.all(WORKERS.map(() => Session.open(parts)));
  return {
    run: () => sumOf(sessions.map((session, lane) => drainLane(session, WORKERS[lane] ?? ""))),
    async [Symbol.asyncDispose]() {
      for (const session of sessions) await session.end();
    },
  };
}

async function drainLane(session: Session, worker: string): Promise<number> {
  let held: string[] = [];
  let drained = 0;
  do {
    const claimed = await turn(session, held, { worker, task: TASK, limit: BATCH });
    drained += held.length;
    held = claimed;
  } while (held.length > 0);
  return drained;
}

/** One turn: settles what is held, and claims. */
export async function turn(
  session: Session,
  held: readonly string[],
  wanted: RawClaim,
): Promise<string[]> {
  const answers = await session.send(locking(held, wanted), { rows: "arrays" });
  const ready = (answers.at(-1) as [id: string][]).map(([id]) => id).toSorted();
  await session.send(moving(held, ready, wanted), { rows: "arrays" });
  return ready;
}

function locking(held: readonly string[], { task, limit }: RawClaim): string[] {
  const leases = held.length === 0 ? [] : [fill(statements.lockLeases, jsonList(held))];
  const tasks = new RawSql(`and task in (${list([task]).text})`);
  return ["start transaction", ...leases, fill(statements.lockReady, QUEUE, tasks, limit)];
}

function moving(held: readonly string[], ready: readonly string[], { worker }: RawClaim): string[] {
  const now = Date.now();
  const settled = jsonList(held);
  const claimed = jsonList(ready);
  const settling = [
    fill(statements.copyToFinished, now, settled),
    fill(statements.deleteLeases, settled),
  ];
  const claiming = [
    fill(statements.copyToLease, worker, now + LEASE_MS, now, now, CLAIM, claimed),
    fill(statements.deleteReady, claimed),
    fill(statements.readJobs, claimed),
  ];
  return [
    ...(held.length === 0 ? [] : settling),
    ...(ready.length === 0 ? [] : claiming),
    "commit",
  ];
}
