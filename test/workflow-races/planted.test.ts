/**
 * What each layer is worth: with one taken away the next one holds, or this test sees the damage.
 *
 * Without its lock an item is written only if it is as it was seen. Without that comparison too, a trigger refuses a
 * revision that does not go up by one. Without the trigger as well, updates are lost, and the checker says so.
 */
import assert from "node:assert/strict";
import { after, describe, test, type TestContext } from "node:test";
import type { Holdfast } from "../../src/index.ts";
import type { SqlStore } from "../../src/store/sql-store.ts";
import { engines, type EngineUnderTest } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { seededRandom } from "../support/runtime.ts";
import { checkTree, isClean, type Verdict } from "./check.ts";
import { Crew, startTree } from "./crew.ts";
import { openIn, sharedRedis, type Mode } from "./open.ts";
import { planRound } from "./plan.ts";

const PROCESSES = 3;
const CLIENTS = 4;
const CHILDREN = 10;
/** So many rounds at most until the bug is met; one is nearly always enough. */
const ROUNDS_MAX = 10;
/** So many in which it is not. */
const ROUNDS_CLEAN = 3;
const LIMIT_MS = 120_000;

interface Layers {
  readonly lock: string;
  readonly lockAndComparison: string;
  /** What takes the triggers away that compare an item with what it was. */
  readonly noTriggers: string;
}

const server = {
  lock: "rows are not locked",
  lockAndComparison: "rows are not locked, nor compared",
};

const LAYERS: Readonly<Record<string, Layers>> = {
  SQLite: {
    lock: "rows are read before the transaction",
    lockAndComparison: "rows are read before the transaction, and not compared",
    noTriggers: "drop trigger holdfast_item_counts; drop trigger holdfast_item_is_audited",
  },
  PostgreSQL: {
    ...server,
    noTriggers:
      "drop trigger item_counts on holdfast.item; drop trigger item_is_audited on holdfast.item",
  },
  MariaDB: { ...server, noTriggers: "drop trigger holdfast_item_stays" },
};

interface Planting {
  readonly plant: string;
  readonly mode: Mode;
  /** Run before the race. */
  readonly script?: string;
  readonly rounds: number;
  /** No more rounds are wanted. */
  readonly until?: (verdict: Verdict) => boolean;
}

async function race({ place: open }: EngineUnderTest, planting: Planting): Promise<Verdict> {
  const { plant, mode, script, rounds, until = () => false } = planting;
  await using place = await open();
  await using holdfast = await openIn({ url: place.url, redis: null }, "off");
  if (script !== undefined) await run(holdfast, script);
  await using crew = await Crew.start({
    url: place.url,
    redis: sharedRedis(),
    modes: [mode],
    clients: CLIENTS,
    processes: PROCESSES,
    plant,
  });
  const random = seededRandom(1);
  const verdicts: Verdict[] = [];
  while (verdicts.length < rounds && !verdicts.some(until)) {
    const tree = await startTree(holdfast, CHILDREN);
    const results = await crew.race(mode, tree, planRound(CHILDREN, random));
    verdicts.push(await checkTree(holdfast, tree, results));
  }
  return summed(verdicts);
}

async function run({ store }: Holdfast, script: string): Promise<void> {
  await (store as SqlStore).engine.transaction((tx) => tx.script(script));
}

function summed(verdicts: readonly Verdict[]): Verdict {
  const sum = (of: (verdict: Verdict) => number): number =>
    verdicts.reduce((all, verdict) => all + of(verdict), 0);
  return {
    accepted: sum(({ accepted }) => accepted),
    refused: sum(({ refused }) => refused),
    waited: sum(({ waited }) => waited),
    lost: verdicts.flatMap(({ lost }) => lost),
    wrong: verdicts.flatMap(({ wrong }) => wrong),
    unexpected: verdicts.flatMap(({ unexpected }) => unexpected),
  };
}

const isRefused = ({ unexpected }: Verdict): boolean => unexpected.length > 0;
const isLost = ({ lost }: Verdict): boolean => lost.length > 0;

/** The race was not clean, and all that went wrong is that the database refused. */
function assertRefused({ lost, unexpected }: Verdict, by: RegExp): void {
  assert.deepEqual(lost, []);
  assert.ok(unexpected.length > 0, "nobody met anybody");
  for (const error of unexpected) assert.match(error, by);
}

// The databases side by side: what they do hardly overlaps.
describe("layers of a change", { concurrency: true, timeout: LIMIT_MS }, () => {
  for (const engine of engines) {
    const { name, skip } = engine;
    const layers = LAYERS[name];
    if (layers === undefined) throw new Error(`Nobody knows the layers of ${name}.`);
    const { lock, lockAndComparison, noTriggers } = layers;

    describe(name, { skip, concurrency: 1 }, () => {
      test("without the lock of its row, an item that has changed is not written", async () => {
        const planting = {
          plant: lock,
          mode: "off",
          rounds: ROUNDS_MAX,
          until: isRefused,
        } as const;
        assertRefused(
          await race(engine, planting),
          /INTEGRITY_VIOLATION .*somebody else meanwhile/,
        );
      });

      test("without the lock of its row, the distributed lock alone keeps changes apart", async () => {
        const verdict = await race(engine, { plant: lock, mode: "sql", rounds: ROUNDS_CLEAN });
        assert.ok(isClean(verdict), JSON.stringify(verdict, null, 2));
      });

      test("without the comparison too, the database refuses to write it", async () => {
        const planting = { plant: lockAndComparison, mode: "off", until: isRefused } as const;
        const verdict = await race(engine, { ...planting, rounds: ROUNDS_MAX });
        assertRefused(
          verdict,
          /INTEGRITY_VIOLATION .*(a revision goes up by one|one line in its audit)/,
        );
      });

      test("without its trigger as well, updates are lost, and the checker sees it", async (t: TestContext) => {
        const planting = { plant: lockAndComparison, mode: "off", until: isLost } as const;
        const verdict = await race(engine, { ...planting, script: noTriggers, rounds: ROUNDS_MAX });
        const { accepted, lost } = verdict;
        t.diagnostic(`${accepted} accepted; ${lost.length} missing, such as ${lost[0]}`);
        assert.ok(isLost(verdict), "nothing was lost");
      });
    });
  }
});

after(assertNothingRuns);
