import assert from "node:assert/strict";
import { test } from "node:test";
import { runNode } from "../../scripts/child.ts";

const HANGS = `console.log(process.pid); setInterval(() => {}, 1_000);`;

test("a group of tests that hangs is ended at its limit, and has failed", async () => {
  const { code, output } = await runNode(["--eval", HANGS], { output: "keep", limitMs: 1_500 });
  assert.equal(code, 1);
  assert.match(output, /Stopped after its limit of 1\.5 s\./);
  const pid = Number(/^\d+/m.exec(output)?.[0]);
  assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
});

test("a group that ends in time is not affected by its limit", async () => {
  const ended = await runNode(["--eval", "console.log(7)"], { output: "keep", limitMs: 60_000 });
  assert.deepEqual([ended.code, ended.output], [0, "7\n"]);
});
