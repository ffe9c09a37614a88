/** A hundred connections in four processes register the same singleton at once, again and again. */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, describe, test, type TestContext } from "node:test";
import { openStore } from "../../src/store/open.ts";
import type { SqlStore } from "../../src/store/sql-store.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { engines, type EngineUnderTest } from "./places.ts";
import type { Outcome } from "./racer.ts";

const PROCESSES = 4;
const CONNECTIONS = 25;
const ROUNDS = process.env["LONG"] === "1" ? 1_000 : 200;
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

interface Race {
  readonly rounds: number;
  /** As a worker registers, or straight into the table. */
  readonly manner: "careful" | "careless";
  /** Run before the race. */
  readonly script?: string | undefined;
}

async function race(
  { place: open }: EngineUnderTest,
  { rounds, manner, script }: Race,
): Promise<Tally> {
  await using place = await open();
  const store = (await openStore(place.url)) as SqlStore;
  await store.migrate();
  await declare(store, script);
  const start = (): Promise<ChildProcess> => startRacer(place.url, manner);
  const racers = await Promise.all(Array.from({ length: PROCESSES }, start));
  const tally: Tally = { single: 0, several: 0, refused: 0, errors: [] };
  try {
    for (let round = 0; round < rounds; round += 1) {
      const outcomes = await Promise.all(racers.map(run));
      const winners = outcomes.flatMap((outcome) => outcome.winners);
      tally.refused += outcomes.reduce((sum, { refused }) => sum + refused, 0);
      tally.errors.push(...outcomes.flatMap(({ errors }) => errors));
      if (winners.length === 1) tally.single += 1;
      if (winners.length > 1) tally.several += 1;
      for (const id of winners) await store.moveWorker(id, { state: "stopped", reason: "asked" });
    }
  } finally {
    await Promise.all(racers.map(end));
    await store.close();
  }
  return tally;
}

async function declare({ engine }: SqlStore, script = ""): Promise<void> {
  await engine.transaction(async (tx) => {
    await tx.insert("worker_type", [{ name: "racer", slots: 1 }]);
    if (script !== "") await tx.script(script);
  });
}

async function startRacer(url: string, manner: Race["manner"]): Promise<ChildProcess> {
  const racer = fork(RACER, [url, String(CONNECTIONS), manner], { execArgv: [] });
  await once(racer, "message");
  return racer;
}

async function run(racer: ChildProcess): Promise<Outcome> {
  const said = once(racer, "message");
  racer.send("go");
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

// The databases side by side: what they do hardly overlaps.
describe("many starts at once", { concurrency: true }, () => {
  for (const engine of engines) {
    const { name, skip } = engine;
    const limits = { skip, timeout: 600_000, concurrency: 1 };
    describe(`${PROCESSES * CONNECTIONS} starts at once on ${name}`, limits, () => {
      const oneEach = (rounds: number): Tally => ({
        single: rounds,
        several: 0,
        refused: rounds * (PROCESSES * CONNECTIONS - 1),
        errors: [],
      });

      test("have one winner, and the others are refused", async (t: TestContext) => {
        const startedAt = performance.now();
        const tally = await race(engine, { rounds: ROUNDS, manner: "careful" });
        const seconds = (performance.now() - startedAt) / 1_000;
        t.diagnostic(`${ROUNDS} rounds in ${seconds.toFixed(1)} s: ${tally.refused} refused`);
        assert.deepEqual(tally, oneEach(ROUNDS));
      });

      test("have one winner also where nobody looks before", async () => {
        const tally = await race(engine, { rounds: ROUNDS_FEW, manner: "careless" });
        assert.deepEqual(tally, oneEach(ROUNDS_FEW));
      });

      test("have several without the unique index, and this test notices", async () => {
        const script = UNIQUE[name];
        const tally = await race(engine, { rounds: ROUNDS_FEW, manner: "careless", script });
        assert.equal(tally.several, ROUNDS_FEW);
      });
    });
  }
});

after(assertNothingRuns);
