import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { planFaults } from "../../src/cli/demo/plan.ts";
import { randomFrom } from "../../src/core/seeded.ts";
import { problemsIn, type Evidence } from "../../src/cli/demo/proof.ts";

const sound: Evidence = {
  accepted: 100,
  booked: 100,
  lost: 0,
  bookedTwice: 0,
  unasked: 0,
  unfinished: 0,
  notDoneOnce: 0,
  centsAsked: 5_000,
  centsBooked: 5_000,
  kills: 3,
  freezes: 1,
  takenOver: 4,
  leasesRecovered: 16,
  staleWritesRefused: 4,
  attemptsRepeated: 16,
  bookingsRepeated: 4,
};

suite("the demo's proof", () => {
  test("holds when everything is as promised", () => {
    assert.deepEqual(problemsIn(sound), []);
  });

  for (const [name, broken] of Object.entries({
    "an order is lost": { lost: 1 },
    "an order is booked twice": { bookedTwice: 1 },
    "an order was booked that nobody placed": { unasked: 1 },
    "a booking is missing": { booked: 99 },
    "a job has not finished": { unfinished: 1 },
    "a job was done twice, or never": { notDoneOnce: 1 },
    "money went into the till twice": { centsBooked: 5_050 },
    "nobody was killed": { kills: 0 },
    "a worker that lost its orders was not stopped from finishing them": { staleWritesRefused: 0 },
  } satisfies Record<string, Partial<Evidence>>)) {
    test(`fails when ${name}`, () => {
      assert.equal(problemsIn({ ...sound, ...broken }).length, 1);
    });
  }
});

suite("the demo's plan", () => {
  test("is the same for the same seed, and another for another", () => {
    const planOf = (seed: number) => planFaults(1_000, randomFrom(seed));
    assert.deepEqual(planOf(7), planOf(7));
    assert.notDeepEqual(planOf(7), planOf(8));
  });

  test("kills and freezes in every run, while there are orders left", () => {
    for (const orders of [20, 60, 1_000, 100_000]) {
      for (let seed = 0; seed < 20; seed += 1) {
        const faults = planFaults(orders, randomFrom(seed));
        const kinds = new Set(faults.map(({ kind }) => kind));
        assert.deepEqual(kinds, new Set(["freeze", "kill"]));
        assert.ok(faults.every(({ afterOrders }) => afterOrders < orders));
        assert.ok(faults.every(({ victim }) => victim >= 0 && victim < 1));
      }
    }
  });
});
