/** While a task blocks the event loop, the worker's row says where: its lease renewer's thread asks the inspector. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "./observe.ts";

after(assertNothingRuns);

const BLOCK_MS_MAX = 10_000;

test("the stack of a blocked worker is in its row while it is blocked, and gone when it goes on", async () => {
  using folder = tempFolder();
  const file = folder.file(".db");
  await using holdfast = await openHoldfast(`sqlite:${file}`);
  let seen: { ms: number; stack: string | null } = { ms: 0, stack: null };
  /** Reads the row without the event loop, until the stack is there. */
  function countTheWholeWarehouse(): void {
    using database = new DatabaseSync(file, { readOnly: true });
    const read = database.prepare(
      "select blocked_ms as ms, blocked_stack as stack from holdfast_worker",
    );
    for (const end = Date.now() + BLOCK_MS_MAX; Date.now() < end && seen.stack === null;) {
      seen = read.get() as typeof seen;
    }
  }
  const blocking = defineTask({
    name: "blocking",
    run: (_input: null) => countTheWholeWarehouse(),
  });
  const worker = await holdfast.startWorker({ tasks: [blocking] });
  const job = await holdfast.enqueue(blocking, null);
  await job.result({ timeout: "30s" });
  assert.match(seen.stack ?? "", /at countTheWholeWarehouse \(.*blocked-stack\.test\.ts:\d+:\d+\)/);
  assert.ok(seen.ms >= 1_500, `${seen.ms} ms`);
  await until("it is forgotten", async () => {
    const [row] = await holdfast.workers.list({});
    return row?.blockedStack === null && row.blockedMs === 0;
  });
  assert.equal((await job.get()).attempts, 1);
  await worker.stop();
});
