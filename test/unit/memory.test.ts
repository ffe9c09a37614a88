import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { test } from "node:test";
import { memoryFolder } from "../../scripts/memory.ts";

const NO_MEMORY = "/dev/shm is no memory here, or too small";

test("a folder that is not in memory, or does not exist, is not used", () => {
  assert.equal(memoryFolder("/proc"), null);
  assert.equal(memoryFolder(join(tmpdir(), "holdfast-missing")), null);
});

test("a folder in memory is shared, and leftovers of dead processes are removed", (t) => {
  const dead = spawnSync(process.execPath, ["--version"]).pid;
  const parent = existsSync("/dev/shm") ? mkdtempSync("/dev/shm/holdfast-unit-") : tmpdir();
  const [old, other] = [join(parent, `holdfast-tests-${dead}`), join(parent, "not-ours")];
  for (const folder of [old, other]) mkdirSync(folder, { recursive: true });
  const folder = memoryFolder(parent);
  try {
    if (folder === null) return t.skip(NO_MEMORY);
    assert.equal(basename(folder), `holdfast-tests-${process.pid}`);
    assert.equal(statSync(folder).mode & 0o7777, 0o1777);
    assert.deepEqual([existsSync(old), existsSync(other)], [false, true]);
  } finally {
    for (const made of [old, other, parent === tmpdir() ? null : parent])
      if (made !== null) rmSync(made, { recursive: true, force: true });
  }
});
