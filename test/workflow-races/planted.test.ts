/**
 * What each layer is worth: with one taken away the next one holds, or this test sees the damage.
 *
 * Without its lock an item is written only if it is as it was seen. Without that comparison too, a trigger refuses a
 * revision that does not go up by one. Without the trigger as well, updates are lost, and the checker says so.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Holdfast } from "../../src/index.ts";
import { drawnEngines, type EngineUnderTest, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { seededRandom } from "../support/runtime.ts";
import { checkTree, isClean, type Verdict } from "./check.ts";
import { Crew, startTree } from "./crew.ts";
import { openIn, type Mode } from "./open.ts";
import { planRound } from "./plan.ts";

const PROCESSES = 3;
const CLIENTS = 4;
const CHILDREN = 10;
/** So many rounds at most until the bug is met; one is nearly always enough. */
const ROUNDS_MAX = 10;
/** So many in which it is not. */
const ROUNDS_CLEAN = 2;
const LIMIT_MS = 300_000;

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

interface Race {
  readonly mode: Mode;
  readonly rounds: number;
  /** No more rounds are wanted. */
  readonly until?: (verdict: Verdict) => boolean;
}

/** One database, and processes that have one bug after the other. */
class Field implements AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly #place: Place;
  readonly #random = seededRandom(1);
  #crew: Crew | null = null;
  #plant = "";

  private constructor(place: Place, holdfast: Holdfast) {
    this.#place = place;
    this.holdfast = holdfast;
  }

  static async open({ place: open }: EngineUnderTest): Promise<Field> {
    const place = await open();
    return new Field(place, await openIn({ url: place.url, redis: null }, "off"));
  }

  async race(plant: string, { mode, rounds, until = () => false }: Race): Promise<Verdict> {
    const crew = await this.#crewWith(plant);
    const verdicts: Verdict[] = [];
    while (verdicts.length < rounds && !verdicts.some(until)) {
      const tree = await startTree(this.holdfast, CHILDREN);
      const results = await crew.race(mode, tree, planRound(CHILDREN, this.#random));
      verdicts.push(await checkTree(this.holdfast, tree, results));
    }
    return summed(verdicts);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#crew?.[Symbol.asyncDispose]();
    await this.holdfast.close();
    await this.#place[Symbol.asyncDispose]();
  }

  async #crewWith(plant: string): Promise<Crew> {
    if (this.#crew !== null && this.#plant === plant) return this.#crew;
    await this.#crew?.[Symbol.asyncDispose]();
    const config = { url: this.#place.url, redis: null, modes: ["off", "sql"] as const };
    this.#plant = plant;
    this.#crew = await Crew.start({ ...config, clients: CLIENTS, processes: PROCESSES, plant });
    return this.#crew;
  }
}

async function runScript({ store }: Holdfast, script: string): Promise<void> {
  await store.db.engine.transaction((tx) => tx.script(script));
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
  assert.ok(unexpected.length > 0, "no two changes met");
  for (const error of unexpected) assert.match(error, by);
}

function testLayers(engine: EngineUnderTest, { lock, lockAndComparison, noTriggers }: Layers) {
  let field: Field | null = null;
  const race = (plant: string, how: Race): Promise<Verdict> => {
    if (field === null) throw new Error("There is no database yet.");
    return field.race(plant, how);
  };
  const untilMet = { mode: "off", rounds: ROUNDS_MAX } as const;
  before(async () => void (field = await Field.open(engine)));
  after(() => field?.[Symbol.asyncDispose]());

  test("without the lock of its row, an item that has changed is not written", async () => {
    const verdict = await race(lock, { ...untilMet, until: isRefused });
    // All is sent at once: of those above it that were not written, the database may speak before we look.
    assertRefused(verdict, /INTEGRITY_VIOLATION .*(at the same time|never behind its children)/);
  });

  test("without the lock of its row, the distributed lock alone keeps changes apart", async () => {
    const verdict = await race(lock, { mode: "sql", rounds: ROUNDS_CLEAN });
    assert.ok(isClean(verdict), JSON.stringify(verdict, null, 2));
  });

  test("without the comparison too, the database refuses to write it", async () => {
    const verdict = await race(lockAndComparison, { ...untilMet, until: isRefused });
    assertRefused(verdict, /INTEGRITY_VIOLATION .*(revision goes up by one|line in its audit)/);
  });

  test("without its triggers as well, updates are lost, and the checker sees it", async (t) => {
    if (field !== null) await runScript(field.holdfast, noTriggers);
    const verdict = await race(lockAndComparison, { ...untilMet, until: isLost });
    const { accepted, lost } = verdict;
    t.diagnostic(`${accepted} accepted; ${lost.length} missing, such as ${lost[0]}`);
    assert.ok(isLost(verdict), "nothing was lost");
  });
}

// The databases side by side: what they do hardly overlaps.
describe("layers of a change", { concurrency: true, timeout: LIMIT_MS }, () => {
  for (const engine of drawnEngines("layers")) {
    const { name, skip } = engine;
    const layers = LAYERS[name];
    if (layers === undefined) throw new Error(`The layers of ${name} are unknown.`);
    describe(name, { skip, concurrency: 1 }, () => testLayers(engine, layers));
  }
});

after(assertNothingRuns);
