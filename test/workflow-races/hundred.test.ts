/**
 * A hundred users change one order and its parts at once, in every way that takes several rows: no deadlock reaches a caller,
 * and no change that was accepted is lost. A long run makes twenty times as many changes.
 */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { sampledEngines } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { seededRandom } from "../support/runtime.ts";
import { runSeed, sized } from "../support/scale.ts";
import { checkTree } from "./check.ts";
import { Crew, startTree } from "./crew.ts";
import { modesWith, openIn, sharedRedis } from "./open.ts";
import { overlapping } from "./overlap.ts";
import type { Op } from "./plan.ts";

const PROCESSES = 4;
const USERS = 100;
const CHANGES_EACH = sized(1, 20);
const CHILDREN = 10;
/** Of a hundred at once, at least so many have met another. */
const MET_LEAST = USERS / 2;
const LIMIT_MS = sized(5, 30) * 60_000;

/** A user whose turn does not come in time is told so; that is no deadlock. All else that is refused fails the test. */
const tolerated = new Set(["LOCK_NOT_ACQUIRED"]);

/** Bulks name their children in any order: locking them in that order would deadlock. */
function changes(random: () => number): Op[] {
  const child = (): number => Math.floor(random() * CHILDREN);
  const kinds: ((key: string) => Op)[] = [
    (key) => ({ kind: "patch", key, child: child() }),
    (key) => ({ kind: "both", key, child: child() }),
    (key) => ({ kind: "parent", key }),
    (key) => {
      const first = child();
      const others = [1, 4, 7].map((step) => (first + step) % CHILDREN);
      const children = random() < 0.5 ? [first, ...others] : [...others.toReversed(), first];
      return { kind: "bulk", key, children };
    },
  ];
  return Array.from({ length: USERS * CHANGES_EACH }, (_, index) => {
    const kind = kinds[Math.floor(random() * kinds.length)];
    assert.ok(kind !== undefined);
    return kind(`u${index}`);
  });
}

describe("a hundred users on one order", { timeout: LIMIT_MS }, () => {
  for (const { name, skip, place: open } of sampledEngines) {
    test(`meet no deadlock and lose no update on ${name}`, { skip }, async (t) => {
      await using place = await open();
      const { url } = place;
      const redis = sharedRedis();
      const modes = modesWith(redis);
      const clients = USERS / PROCESSES;
      await using crew = await Crew.start({ url, redis, modes, clients, processes: PROCESSES });
      await using holdfast = await openIn({ url, redis: null }, "off");
      const random = seededRandom(runSeed);
      for (const mode of modes) {
        const tree = await startTree(holdfast, CHILDREN);
        const results = await crew.race(mode, tree, changes(random));
        assert.equal(results.length, USERS * CHANGES_EACH);
        assert.ok(overlapping(results) >= MET_LEAST, "no two changes met: this was no race");
        const verdict = await checkTree(holdfast, tree, results, { tolerated, completed: false });
        const { lost, wrong, unexpected, accepted, refused } = verdict;
        t.diagnostic(`locks ${mode}: ${accepted} accepted, ${refused} waited in vain`);
        assert.deepEqual({ lost, wrong, unexpected }, { lost: [], wrong: [], unexpected: [] });
        assert.ok(accepted > 0);
      }
    });
  }
});

after(assertNothingRuns);
