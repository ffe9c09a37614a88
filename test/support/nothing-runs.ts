/** The last word of a test file: nothing that it started is still there. */
import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";

export async function assertNothingRuns(): Promise<void> {
  await nextTurn(); // The handle of a process is closed one turn after its exit.
  const processes = process
    .getActiveResourcesInfo()
    .filter((resource) => resource === "ProcessWrap");
  assert.deepEqual(processes, [], "a child process is still running");
}
