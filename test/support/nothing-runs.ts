/** The last word of a test file: nothing that it started is still there. */
import assert from "node:assert/strict";

export function assertNothingRuns(): void {
  const running = process.getActiveResourcesInfo();
  const processes = running.filter((resource) => resource === "ProcessWrap");
  assert.deepEqual(processes, [], "a child process is still running");
}
