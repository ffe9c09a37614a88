/** Errors that a task throws where no handler can catch them belong to its job, and to nothing else. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const runs = new Map<string, Promise<WorkerProcess>>();

/** Each role is played once; several tests may look at what came of it. */
function run(role: string): Promise<WorkerProcess> {
  const played = runs.get(role) ?? play(role);
  runs.set(role, played);
  return played;
}

async function play(role: string): Promise<WorkerProcess> {
  using folder = tempFolder();
  const url = `sqlite:${folder.file(".db")}`;
  const worker = { shutdown: 0 };
  await using child = new WorkerProcess("worker-uncaught-child.ts", { url, role, worker });
  await child.ended;
  return child;
}

suite("an uncaught error of a task", () => {
  test("fails that job and nothing else, wherever it comes from", async () => {
    const child = await run("calm");
    assert.deepEqual(await child.ended, { code: 0, signal: null }, child.errors);
    const strays = child.of("stray");
    assert.equal(strays.length, 9);
    for (const { where, status, message } of strays) {
      assert.deepEqual([where, status, message], [where, "failed", `from ${String(where)}`]);
    }
    assert.deepEqual(child.of("neighbour"), [{ result: "undisturbed" }]);
    assert.equal(child.of("end").length, 1);
  });

  test("changes nothing about a job that had ended before", async () => {
    const child = await run("calm");
    assert.deepEqual(child.of("afterwards"), [{ result: "done before", status: "done" }]);
  });
});

suite("an error that belongs to no job", () => {
  for (const role of ["foreign exception", "foreign rejection"]) {
    test(`ends the process with code 1 as if there was no worker: ${role}`, async () => {
      const child = await run(role);
      assert.deepEqual(await child.ended, { code: 1, signal: null });
      assert.match(child.errors, /Error: from the application/);
      // Node shows the line that made the error, not one of ours.
      assert.match(child.errors, /^file:.*worker-uncaught-child\.ts:\d+\n/m);
      assert.doesNotMatch(child.errors, /worker\/uncaught\./);
      assert.equal(child.of("end").length, 0);
    });
  }

  test("goes to the application's own listener, and jobs are still guarded afterwards", async () => {
    const child = await run("own listener");
    assert.deepEqual(await child.ended, { code: 0, signal: null }, child.errors);
    const heard = new Set(child.of("heard").map(({ message }) => message));
    assert.ok(heard.has("an exception"));
    assert.ok(heard.has("a rejection"));
    const strays = child.of("stray").map(({ where, status }) => [where, status]);
    assert.deepEqual(strays, [
      ["a timer", "failed"],
      ["the next tick", "failed"],
      ["a promise that is not awaited", "failed"],
    ]);
  });

  test("is no reason to end when it comes from an async listener of the worker", async () => {
    const child = await run("bad listener");
    assert.deepEqual(await child.ended, { code: 0, signal: null }, child.errors);
    assert.equal(child.of("end").length, 1);
  });
});
