/** The torture kit on a machine that cannot do what was planned: it ends in about its time, and says what it left out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { torturePreset } from "../../verify/plan.ts";
import { verify } from "../../verify/verify.ts";
import { notDrawn, runSeed } from "../support/scale.ts";

/** The faults take half of it. */
const MS = 24_000;
/** With the start of the processes and the wait for the remaining jobs. All planned jobs would take four minutes. */
const MS_MAX = 150_000;

const skip = notDrawn(4, "a slow machine");

test(
  "a run ends in about its time, though its jobs are too many",
  { skip, timeout: 300_000 },
  async (t) => {
    const preset = { ...torturePreset({ ms: MS, jobsPerSecond: 300 }), workMs: 4_000 };
    const { ms, notes, violations, accepted } = await verify({ seed: runSeed, preset });
    t.diagnostic(`${ms} ms, ${accepted.ok} jobs; ${notes.join("; ")}`);
    assert.deepEqual(violations, []);
    assert.match(notes.join(), /of 3600 planned jobs were enqueued/);
    assert.ok(ms < MS_MAX, `it took ${ms} ms`);
  },
);
