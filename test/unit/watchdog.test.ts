import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Watchdog } from "../../src/worker/blocked-stack.ts";

const LIMIT_MS = 10_000;

/** A main thread as its watchdog sees it, and a clock. */
function watched() {
  const main = { progress: 0, debugged: false };
  let now = 0;
  const watchdog = new Watchdog({
    limitMs: LIMIT_MS,
    watched: { progress: () => main.progress, isDebugged: () => main.debugged },
    now,
  });
  const look = (laterMs = watchdog.lookMs): boolean => watchdog.look((now += laterMs));
  const lookFor = (ms: number): boolean[] =>
    Array.from({ length: Math.ceil(ms / watchdog.lookMs) }, () => look());
  look();
  return { main, look, lookFor };
}

suite("the watchdog", () => {
  test("ends a process that made no progress for longer than the limit, and not before", () => {
    const { look, lookFor } = watched();
    assert.ok(!lookFor(LIMIT_MS).includes(true));
    assert.equal(look(), true);
  });

  test("counts from the last sign of progress", () => {
    const { main, lookFor } = watched();
    lookFor(LIMIT_MS - 1_000);
    main.progress += 1;
    assert.ok(!lookFor(LIMIT_MS).includes(true));
  });

  test("does not count the time in which the whole process was frozen", () => {
    const { main, look, lookFor } = watched();
    assert.equal(look(24 * 3_600_000), false);
    main.progress += 1;
    assert.ok(!lookFor(LIMIT_MS).includes(true));
  });

  test("leaves a process alone that a debugger has stopped", () => {
    const { main, lookFor } = watched();
    main.debugged = true;
    assert.ok(!lookFor(10 * LIMIT_MS).includes(true));
  });
});
