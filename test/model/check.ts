import { ok } from "node:assert/strict";
import { relative } from "node:path";
import { test } from "node:test";
import { isLong, runSeed, sized } from "../support/scale.ts";
import type { ModelEngine } from "./open.ts";
import { runModel, type Plan, type Tally } from "./run.ts";

const { HOLDFAST_PATH } = process.env;

const size = { runs: sized(20, 500), commandsMax: 100 };
/** A server answers in the time of a hundred calls inside the process. */
const serverSize = { runs: sized(20, 100), commandsMax: 100 };
const plan: Plan = {
  ...size,
  seed: runSeed,
  path: HOLDFAST_PATH ?? null,
  command: `${isLong ? `LONG=${process.env["LONG"]} ` : ""}node --test ${relative(process.cwd(), process.argv[1] ?? "")}`,
};

/** What a run that proves something has met. */
const MUST_MEET = [
  "a key held by a live job",
  "a key kept by a job that ended",
  "a job replaced",
  "an enqueue: KEY_TAKEN",
  "an id that exists enqueued again",
  "a settlement refused",
  "an extension refused",
  "a lease extended after its end",
  "a settlement: done became done",
  "a settlement: retry became retry",
  "a settlement: retry became failed",
  "a settlement: failed became failed",
  "a settlement: suspended became waiting",
  "a settlement: released became pending",
  "a settlement: cancelled became cancelled",
  "an outcome overruled by a cancel",
  "a lease taken back: retry",
  "a lease taken back: failed",
  "a lease taken back: poison",
  "a lease taken back: cancelled",
  "a job promoted",
  "a cancel that met: no such job",
  "a cancel that met: pending",
  "a cancel that met: scheduled",
  "a cancel that met: retry",
  "a cancel that met: waiting",
  "a cancel that met: processing",
  "a reopening: accepted",
  "a reopening: ILLEGAL_MOVE",
  "a reopening: JOB_NOT_FOUND",
  "a reopening: KEY_TAKEN",
  "a job pruned",
  "a job claimed under rules",
  "a claim from a paused queue",
  "a claim under a full limit",
];

/** The same seed on every engine: where all do what the model says, all do the same. */
export function checkEngine({ name, skip, start }: ModelEngine): void {
  test(`${name} does what the model says, whatever the order of calls`, { skip }, async (t) => {
    await using opener = await start();
    const tally = await runModel(
      opener.open,
      name === "SQLite" ? plan : { ...plan, ...serverSize },
    );
    const [runs, calls] = [tally.get("a run") ?? 0, tally.get("a call") ?? 0];
    t.diagnostic(`${runs} runs, ${calls} calls, seed ${plan.seed}`);
    // Servers make the first of the same runs, and a sample is too small: what they happen to meet is proved by SQLite's long run.
    if (isLong && plan.path === null && name === "SQLite")
      assertMet(tally, (line) => t.diagnostic(line));
  });
}

function assertMet(tally: Tally, tell: (line: string) => void): void {
  const lines = [...tally].map(([what, times]) => `${what}: ${times}`);
  for (const line of lines.toSorted((a, b) => (a < b ? -1 : 1))) tell(line);
  for (const what of MUST_MEET) {
    ok((tally.get(what) ?? 0) > 0, `No run has met: ${what}. They prove less than they should.`);
  }
}
