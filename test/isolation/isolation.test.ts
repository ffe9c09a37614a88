/**
 * What the statements promise, in every order in which their pieces can follow one another.
 *
 * PostgreSQL's own isolationtester plays the orders. Nothing of the SQL is written here: the product is asked what it
 * would say, and gates are put into it, so that a statement stops between its snapshot and its locks. The bugs that
 * earlier versions of the statements had are planted at the end, and must be seen.
 */
import assert from "node:assert/strict";
import { after, before, describe, test as testAlways, type TestContext } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notDrawn } from "../support/scale.ts";
import { missing } from "../support/servers.ts";
import { outcomeOf, problemsOf, type Performance } from "./judge.ts";
import * as plants from "./plants.ts";
import * as races from "./races.ts";
import { countOf } from "./tester.ts";
import { Theatre, type Race } from "./theatre.ts";

const SAMPLE_EVERY = 8;
const lacking = [missing("postgres"), missing("isolationtester")];
const limits = {
  timeout: 180_000,
  skip: lacking.find((reason) => reason !== false) ?? false,
  concurrency: true, // a tester mostly waits
};

/** The orders are the same every time, so a sample is enough. */
function test(title: string, body: (t: TestContext) => Promise<void>): void {
  void testAlways(title, { skip: notDrawn(SAMPLE_EVERY, title) }, body);
}

let theatre: Theatre;
before(async () => {
  if (limits.skip === false) theatre = await Theatre.open();
});
after(async () => {
  await theatre?.[Symbol.asyncDispose]();
  await assertNothingRuns();
});

describe("PostgreSQL's isolationtester", limits, () => {
  describe("in every order", { concurrency: true }, promises);
  describe("a planted bug is seen", { concurrency: true }, planted);
});

function promises(): void {
  test("two claims never take the same job", (t) => holds(t, races.claimClaim));

  test("two claims of several queues never take the same job", (t) =>
    holds(t, races.claimsOfSeveralQueues));

  test("of three claims two get the two jobs", (t) => holds(t, races.threeClaims));

  test("a job that is claimed while it is cancelled is either cancelled or marked", (t) =>
    holds(t, races.claimCancel));

  test("a cancel finds a job that comes back behind its back", (t) =>
    holds(t, races.cancelBehindItsBack));

  test("a cancel finds a job that becomes pending under its hands", (t) =>
    holds(t, races.promoteCancel));

  test("a job that is done while it is cancelled is what the cancel said", (t) =>
    holds(t, races.settleCancel));

  test("an attempt is either settled or reclaimed", (t) => holds(t, races.settleReclaim));

  test("an attempt that failed is either retried or reclaimed", (t) =>
    holds(t, races.retryReclaim));

  test("a poll cycle claims the next job even when the lease of the last was reclaimed", (t) =>
    holds(t, races.turnReclaim));

  test("an extended lease is not reclaimed", (t) => holds(t, races.extendReclaim));

  test("an extension never keeps its owner from settling", (t) => holds(t, races.extendSettle));

  test("extending and settling many leases never waits in a circle", (t) =>
    holds(t, races.extendSettleMany));

  test("an extension never misses a lease because its job is being cancelled", (t) =>
    holds(t, races.extendCancel));

  for (const [whom, worker] of Object.entries({ itself: "w1", another: "w2" })) {
    test(`a worker that lost its lease to ${whom} settles nothing`, (t) =>
      holds(t, races.zombieSettles(worker)));

    test(`a worker that lost its lease to ${whom} extends nothing`, (t) =>
      holds(t, races.zombieExtends(worker)));
  }

  test("of two jobs with one key, one is added", (t) => holds(t, races.enqueueEnqueue));

  test("a key goes from a job that ends to the next, or stays", (t) =>
    holds(t, races.enqueueSettle));

  test("of two ends that a job waits for, the last starts it", (t) => holds(t, races.endEnd));

  test("of two failures that a job waits for, one ends it", (t) => holds(t, races.failureFailure));

  test("an end and a failure end the job that waits for both", (t) => holds(t, races.endFailure));

  test("a job that is added while the one it waits for ends is not missed", (t) =>
    holds(t, races.endAdd));

  test("a job that is added while the one it waits for fails ends", (t) =>
    holds(t, races.failureAdd));

  test("two workers that run maintenance count an end once", (t) => holds(t, races.sweepSweep));

  test("a waiting job that is cancelled does not start", (t) => holds(t, races.endCancel));

  test("two claims under one limit keep it", (t) => holds(t, races.gateGate));

  test("two claims that make the gate of a lane keep its limit", (t) => holds(t, races.newGate));

  test("the concurrency slot of a job whose lease expired is free when the lease is reclaimed", (t) =>
    holds(t, races.gateReclaim));

  test("the place of a worker that is late with its heartbeat is not given away", (t) =>
    holds(t, races.gateExtend));

  test("a lower limit binds every claim that begins after it", (t) => holds(t, races.gateRule));

  test("a claim that begins after a pause takes nothing", (t) => holds(t, races.gatePause));

  test("claims that visit lanes in different orders never wait in a circle", (t) =>
    holds(t, races.ringRing));
}

function planted(): void {
  test("the fence checked after the DELETE loses a job", (t) =>
    breaks(t, races.zombieSettles("w1"), {
      bug: plants.fenceAfterDelete(),
      seen: /stands in no table/,
    }));

  test("an expiry that is not checked again takes away an extended lease", (t) =>
    breaks(t, races.extendReclaim, {
      bug: plants.expiryNotAskedAgain(),
      // Alone, the statement never gives a lease with this end: it took one that it had not looked at.
      seen: new RegExp(`never rehearsed: .*,w1,${races.EXTENDED_UNTIL},`),
    }));

  test("a lease that is settled by its place is missed after an extension", (t) =>
    breaks(t, races.extendSettle, {
      bug: plants.settledByPlace(),
      seen: /extend extended; settle nothing: with w1/,
    }));

  test("a cancel of one statement misses a job that moves", (t) =>
    breaks(t, races.claimCancelAtOnce, {
      bug: null,
      seen: /claim claimed at 1; cancel nothing: with w1/,
    }));

  test("a waiting job that is not locked is left waiting by both ends", (t) =>
    breaks(t, races.endEnd, {
      bug: plants.waitingNotLocked(),
      seen: /waits for 0 jobs and has 0 rows/,
    }));

  test("an end that does not lock its job first misses one that is added", (t) =>
    breaks(t, races.endAdd, {
      bug: plants.memberNotLocked(),
      seen: /waits for one that has ended/,
    }));

  test("an end that is counted by what was to be deleted is counted twice", (t) =>
    breaks(t, races.sweepSweep, {
      bug: plants.countedTwice(),
      seen: /waits for 0 jobs and has 1 rows|does not wait|may not come of it/,
    }));

  test("a count in the statement that locks exceeds the limit", (t) =>
    breaks(t, races.gateGateAtOnce, {
      bug: plants.countedWhileLocking(),
      seen: /2 jobs run at once, allowed 1/,
    }));

  test("a gate that is skipped because another holds it exceeds the limit", (t) =>
    breaks(t, races.gateGate, {
      bug: plants.gateSkipped(),
      seen: /2 jobs run at once, allowed 1/,
    }));

  test("a lease that has ended and is not counted exceeds the limit", (t) =>
    breaks(t, races.gateExtend, {
      bug: plants.expiredNotCounted(races.EXPIRED_AT),
      seen: /2 jobs run at once, allowed 1/,
    }));

  test("a claim that waits for a second lane waits in a circle", (t) =>
    breaks(t, races.ringRing, {
      bug: plants.laneGateAwaited(),
      seen: /deadlock detected/,
    }));

  test("extending many leases without locking them first waits in a circle", (t) =>
    breaks(t, races.extendSettleMany, {
      bug: plants.extendedWithoutLocks(),
      seen: /deadlock detected/,
    }));
}

async function holds(t: TestContext, race: Race): Promise<void> {
  const played = await theatre.play(race);
  assertPlayedInFull(race, played);
  const outcomes = Map.groupBy(played, ({ facts }) => outcomeOf(race, facts));
  t.diagnostic(`${played.length} permutations`);
  for (const [outcome, some] of outcomes) t.diagnostic(`${some.length} × ${outcome}`);
  assert.deepEqual(brokenOf(race, played).slice(0, 3), []);
  assert.deepEqual([...outcomes.keys()].toSorted(), race.outcomes.toSorted());
}

async function breaks(
  t: TestContext,
  race: Race,
  { bug, seen }: { bug: Pick<plants.Bug, "plant" | "planted"> | null; seen: RegExp },
): Promise<void> {
  const played = await theatre.play(race, bug?.plant);
  assert.notEqual(bug?.planted, 0, "the product does not say any more what the bug is planted in");
  assertPlayedInFull(race, played);
  const broken = brokenOf(race, played).filter(({ problems }) =>
    problems.some((problem) => seen.test(problem)),
  );
  t.diagnostic(`broken in ${broken.length} of ${played.length} permutations`);
  assert.ok(broken.length > 0, "nothing broke");
}

/** Every order once, and every gate was met: nothing ran through where it should have been stopped. */
function assertPlayedInFull(race: Race, played: readonly Performance[]): void {
  const pieces = Object.fromEntries(
    Object.entries(race.actors).map(([name, actor]) => [name, actor.pieces]),
  );
  assert.equal(new Set(played.map(({ permutation }) => permutation)).size, countOf(pieces));
  assert.equal(played.length, countOf(pieces));
  for (const [name, count] of Object.entries(pieces)) {
    const passed = Math.max(...played.map(({ facts }) => facts.gates[name] ?? 0));
    assert.ok(passed >= count - 1, `${name} passed ${passed} gates, so it ran in fewer pieces`);
  }
}

function brokenOf(
  race: Race,
  played: readonly Performance[],
): { permutation: string; problems: string[] }[] {
  return played.flatMap((performance) => {
    const problems = problemsOf(race, performance);
    const outcome = outcomeOf(race, performance.facts);
    if (!race.outcomes.includes(outcome)) problems.push(`this may not come of it: ${outcome}`);
    return problems.length === 0 ? [] : [{ permutation: performance.permutation, problems }];
  });
}
