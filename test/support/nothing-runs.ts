/** The last word of a test file: nothing that it started is still there. */
import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";

export async function assertNothingRuns(): Promise<void> {
  // The handle of a process that ended is closed in the turn after.
  await nextTurn();
  await nextTurn();
  const processes = process
    .getActiveResourcesInfo()
    .filter((resource) => resource === "ProcessWrap");
  assert.deepEqual(processes, [], "a child process is still running");
}
