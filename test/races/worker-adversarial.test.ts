/** Errors at the worst moments. Whether the process lives on can only be seen from another one. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

async function play(role: string): Promise<WorkerProcess> {
  using folder = tempFolder();
  const url = `sqlite:${folder.file(".db")}`;
  const worker = { shutdown: 0 };
  await using child = new WorkerProcess("worker-adversarial-child.ts", { url, role, worker });
  await child.ended;
  return child;
}

suite("a worker's process", () => {
  const roles = {
    "an abort listener that throws": ["listener throws", "cancelled"],
    "an abort listener that rejects a forgotten promise": ["listener rejects", "cancelled"],
    "an async abort listener that rejects": ["async listener rejects", "cancelled"],
    "a forgotten timer that hears the signal": ["forgotten timer", "cancelled"],
    "something thrown in a timer that cannot be looked at": ["untouchable from a timer", "failed"],
  } as const;
  for (const [what, [role, status]] of Object.entries(roles)) {
    test(`survives ${what}; it ends its own job and nothing else`, async () => {
      const child = await play(role);
      assert.deepEqual(await child.ended, { code: 0, signal: null }, child.errors);
      assert.deepEqual(child.of("bad"), [{ status }]);
      assert.deepEqual(child.of("good"), [{ result: "undisturbed" }]);
      assert.equal(child.of("end").length, 1);
    });
  }

  test("ends for a bug in the application's own listener: no job is blamed for it", async () => {
    const child = await play("bug in a listener");
    assert.deepEqual(await child.ended, { code: 1, signal: null });
    assert.match(child.errors, /a bug of the application/);
    assert.equal(child.of("end").length, 0);
  });
});
