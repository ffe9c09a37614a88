/** A hundred connections in four processes register the same singleton at once, again and again. */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, describe, test, type TestContext } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { sized } from "../support/scale.ts";
import { sampledEngines, type EngineUnderTest, type Place } from "./places.ts";
import type { Outcome } from "./racer.ts";

const PROCESSES = 4;
const CONNECTIONS = 25;
const ROUNDS = sized(40, 200);
/** So few are enough to see who forbids a second winner. */
const ROUNDS_FEW = 5;
const RACER = join(import.meta.dirname, "racer.ts");

interface Tally {
  /** Rounds with one winner. */
  single: number;
  several: number;
  refused: number;
  readonly errors: string[];
}

/** As a worker registers, or straight into the table. */
type Manner = "careful" | "careless";

/** A database and those who race on it, for one race after the other: to start a hundred takes longer than a race. */
class Track implements AsyncDisposable {
  readonly #place: Place;
  readonly #store: Store;
  readonly #racers: readonly ChildProcess[];

  private constructor(parts: { place: Place; store: Store; racers: readonly ChildProcess[] }) {
    this.#place = parts.place;
    this.#store = parts.store;
    this.#racers = parts.racers;
  }

  static async open({ place: open }: EngineUnderTest): Promise<Track> {
    const place = await open();
    const store = await openStore(place.url);
    await store.migrate();
    await store.db.engine.transaction((tx) =>
      tx.insert("worker_type", [{ name: "racer", slots: 1 }]),
    );
    const start = (): Promise<ChildProcess> => startRacer(place.url);
    const racers = await Promise.all(Array.from({ length: PROCESSES }, start));
    return new Track({ place, store, racers });
  }

  async race(rounds: number, manner: Manner): Promise<Tally> {
    const tally: Tally = { single: 0, several: 0, refused: 0, errors: [] };
    for (let round = 0; round < rounds; round += 1) {
      const outcomes = await Promise.all(this.#racers.map((racer) => run(racer, manner)));
      const winners = outcomes.flatMap((outcome) => outcome.winners);
      tally.refused += outcomes.reduce((sum, { refused }) => sum + refused, 0);
      tally.errors.push(...outcomes.flatMap(({ errors }) => errors));
      if (winners.length === 1) tally.single += 1;
      if (winners.length > 1) tally.several += 1;
      for (const id of winners) {
        await this.#store.workers.move(id, { state: "stopped", reason: "asked" });
      }
    }
    return tally;
  }

  async change(script: string): Promise<void> {
    await this.#store.db.engine.transaction((tx) => tx.script(script));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#racers.map(end));
    await this.#store.close();
    await this.#place[Symbol.asyncDispose]();
  }
}

async function startRacer(url: string): Promise<ChildProcess> {
  const racer = fork(RACER, [url, String(CONNECTIONS)], { execArgv: [] });
  await once(racer, "message");
  return racer;
}

async function run(racer: ChildProcess, manner: Manner): Promise<Outcome> {
  const said = once(racer, "message");
  racer.send(manner);
  return (await said)[0] as Outcome;
}

async function end(racer: ChildProcess): Promise<void> {
  const exited = once(racer, "exit");
  racer.disconnect();
  await exited;
}

/** What the databases enforce, and how it is taken away. */
const UNIQUE: Readonly<Record<string, string>> = {
  SQLite: "drop index holdfast_worker_slot",
  PostgreSQL: "drop index holdfast.worker_slot",
  MariaDB: "alter table holdfast_worker drop index by_slot",
};

// Two databases side by side: with three, a start on MariaDB waits for longer than it may.
describe("many starts at once", { concurrency: 2 }, () => {
  for (const engine of sampledEngines) {
    const { name, skip } = engine;
    const limits = { skip, timeout: 600_000, concurrency: 1 };
    describe(`${PROCESSES * CONNECTIONS} starts at once on ${name}`, limits, () => {
      const oneEach = (rounds: number): Tally => ({
        single: rounds,
        several: 0,
        refused: rounds * (PROCESSES * CONNECTIONS - 1),
        errors: [],
      });

      let track: Track;
      before(async () => void (track = await Track.open(engine)));
      after(() => track[Symbol.asyncDispose]());

      test("have one winner, and the others are refused", async (t: TestContext) => {
        const startedAt = performance.now();
        const tally = await track.race(ROUNDS, "careful");
        const seconds = (performance.now() - startedAt) / 1_000;
        t.diagnostic(`${ROUNDS} rounds in ${seconds.toFixed(1)} s: ${tally.refused} refused`);
        assert.deepEqual(tally, oneEach(ROUNDS));
      });

      test("have one winner even if none checks the registry first", async () => {
        assert.deepEqual(await track.race(ROUNDS_FEW, "careless"), oneEach(ROUNDS_FEW));
      });

      test("have several without the unique index, and this test notices", async () => {
        await track.change(UNIQUE[name] ?? "");
        const tally = await track.race(ROUNDS_FEW, "careless");
        assert.equal(tally.several, ROUNDS_FEW);
      });
    });
  }
});

after(assertNothingRuns);
