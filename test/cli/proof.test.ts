import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { proofOf } from "../../verify/demo-command.ts";
import { demoPreset, makePlan } from "../../verify/plan.ts";
import type { Report } from "../../verify/verify.ts";

const spans = { count: 0, p50: 0, p99: 0 };
const sound: Report = {
  violations: [],
  jobs: 100,
  accepted: { ok: 100, unknown: 0 },
  attempts: 116,
  crashed: 16,
  effects: { charged: 100, cents: 495_000, booked: 100, doubled: 0, asked: 4 },
  byStatus: { done: 100 },
  edges: {},
  witnessed: 1_000,
  refused: 4,
  recovery: { afterKill: spans, afterRestart: spans },
  governed: { starts: 0, most: 0, mostOfLane: 0, fullAfterMs: null },
  flows: 0,
  ticks: 0,
  bound: 0.03,
  database: "SQLite",
  seed: 1,
  ms: 10_000,
  faults: { kill: 3, freeze: 1 },
  planned: { kill: 3, freeze: 1 },
  drainedMs: 1_000,
  notes: [],
};

/** What the checker itself finds is in test/unit/verify-checker.test.ts. */
suite("the demo's proof", () => {
  test("holds when everything is as promised", () => {
    const { problems, lost, doubled, attemptsRepeated } = proofOf(sound);
    assert.deepEqual([problems, lost, doubled, attemptsRepeated], [[], 0, 0, 16]);
  });

  for (const [name, broken] of Object.entries({
    "an order is lost": { byStatus: { done: 99 } },
    "an order is done that was never placed": { byStatus: { done: 101 } },
    "a payment is missing": { effects: { ...sound.effects, charged: 99 } },
    "an order is paid twice": { effects: { ...sound.effects, charged: 101 } },
    "an order is booked twice": { effects: { ...sound.effects, booked: 101 } },
    "a promise is broken": { violations: [{ invariant: "I9", sentence: "tells of nothing" }] },
    "no worker was killed": { faults: {} },
  } satisfies Record<string, Partial<Report>>)) {
    test(`fails when ${name}`, () => {
      assert.equal(proofOf({ ...sound, ...broken }).problems.length, 1);
    });
  }
});

suite("the demo's plan", () => {
  const planOf = (orders: number, seed: number) =>
    makePlan(seed, demoPreset({ orders, workers: 4 }), ["kill", "freeze", "block", "storm"]);

  test("is the same for the same seed, and another for another", () => {
    assert.deepEqual(planOf(1_000, 7), planOf(1_000, 7));
    assert.notDeepEqual(planOf(1_000, 7), planOf(1_000, 8));
  });

  test("kills and freezes in every run, and nothing else, while orders arrive", () => {
    for (const orders of [20, 60, 1_000, 100_000]) {
      for (let seed = 0; seed < 20; seed += 1) {
        const { faults, ms, jobs } = planOf(orders, seed);
        const kinds = new Set(faults.map(({ kind }) => kind));
        assert.deepEqual(kinds, new Set(["freeze", "kill"]));
        assert.equal(jobs, orders);
        assert.ok(faults.every(({ atMs }) => atMs > 0 && atMs < ms));
        assert.ok(faults.every(({ whom }) => whom >= 0 && whom < 1));
      }
    }
  });
});
