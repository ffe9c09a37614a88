/**
 * Processes change the children of one parent, and the parent, at once: nothing that was accepted is lost, with the
 * distributed lock in Redis, in the database, or off. A long run takes ten times as many rounds.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, describe, test, type TestContext } from "node:test";
import type { Holdfast } from "../../src/index.ts";
import { sampledEngines, type EngineUnderTest } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { seededRandom } from "../support/runtime.ts";
import { runSeed, sized } from "../support/scale.ts";
import { checkTree } from "./check.ts";
import { Crew, startTree } from "./crew.ts";
import { modesWith, openIn, sharedRedis, type Mode } from "./open.ts";
import { overlapping } from "./overlap.ts";
import { planRound } from "./plan.ts";

/** By the number of children: a round with a hundred takes ten times as long. */
const ROUNDS: Readonly<Record<number, number>> = { 10: sized(5, 50), 100: sized(2, 50) };
const CHILDREN = [10, 100];
const PROCESSES = 4;
const CLIENTS = 4;
/** In every round; usually it is nearly all of them. */
const OVERLAPPING_LEAST = 2;
/** No promise: a machine that does ten other things takes ten times as long. */
const LIMIT_MS = sized(10, 30) * 60_000;

interface Tally {
  rounds: number;
  accepted: number;
  refused: number;
  overlapping: number;
  /** Lines of the audit that tell of a wait for the distributed lock. */
  waited: number;
  ms: number;
  readonly lost: string[];
  readonly wrong: string[];
}

function nothingYet(): Tally {
  const counts = { rounds: 0, accepted: 0, refused: 0, overlapping: 0, waited: 0, ms: 0 };
  return { ...counts, lost: [], wrong: [] };
}

/** As many with Redis as without; those without take turns with a lock in the database and none. */
function roundsIn(modes: readonly Mode[], children: number): Mode[] {
  const without = modes.filter((mode) => mode !== "redis");
  return Array.from({ length: ROUNDS[children] ?? 1 }, (_, round): Mode[] => {
    const other = without[round % without.length] ?? "off";
    return modes.includes("redis") ? [other, "redis"] : [other];
  }).flat();
}

interface Arena {
  readonly crew: Crew;
  readonly holdfast: Holdfast;
}

/** A database, and processes that have it open in every mode: starting them takes longer than many rounds. */
function arenaOn({ place: open }: EngineUnderTest, modes: readonly Mode[]): () => Arena {
  const stack = new AsyncDisposableStack();
  let arena: Arena | null = null;
  before(async () => {
    const { url } = stack.use(await open());
    const holdfast = stack.use(await openIn({ url, redis: null }, "off"));
    const config = { url, redis: sharedRedis(), modes, clients: CLIENTS, processes: PROCESSES };
    arena = { holdfast, crew: stack.use(await Crew.start(config)) };
  });
  after(() => stack.disposeAsync());
  return () => {
    if (arena === null) throw new Error("No process is ready yet.");
    return arena;
  };
}

interface Round {
  readonly mode: Mode;
  readonly children: number;
  readonly random: () => number;
}

async function raceOnce({ crew, holdfast }: Arena, round: Round, tally: Tally): Promise<void> {
  const { mode, children, random } = round;
  const tree = await startTree(holdfast, children);
  const ops = planRound(children, random);
  const startedAt = performance.now();
  const results = await crew.race(mode, tree, ops);
  tally.ms += performance.now() - startedAt;
  assert.equal(results.length, ops.length);
  const met = overlapping(results);
  assert.ok(met >= OVERLAPPING_LEAST, "no two changes met: this was no race");
  const verdict = await checkTree(holdfast, tree, results);
  tally.rounds += 1;
  tally.overlapping += met;
  tally.accepted += verdict.accepted;
  tally.refused += verdict.refused;
  tally.waited += verdict.waited;
  tally.lost.push(...verdict.lost);
  tally.wrong.push(...verdict.wrong, ...verdict.unexpected);
}

async function race(
  arena: Arena,
  children: number,
  modes: readonly Mode[],
): Promise<Map<Mode, Tally>> {
  const tallies = new Map(modes.map((mode) => [mode, nothingYet()]));
  const random = seededRandom(runSeed);
  for (const mode of roundsIn(modes, children)) {
    await raceOnce(arena, { mode, children, random }, tallies.get(mode) ?? nothingYet());
  }
  return tallies;
}

const HEAD =
  "| database | lock | parts | rounds | accepted | refused | met others | lost | a change, of 16 at once |";

/** A row of docs/evidence/workflows.md. */
function rowOf(engine: string, children: number, mode: Mode, tally: Tally): string {
  const { rounds, accepted, refused, overlapping: met, ms, lost } = tally;
  const cells = [engine, mode, children, rounds, accepted, refused, met, lost.length];
  return `| ${[...cells, `${(ms / (accepted + refused)).toFixed(1)} ms`].join(" | ")} |`;
}

function commit(): string {
  return execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
}

// The databases side by side: what they do hardly overlaps.
describe("changes at once", { concurrency: true, timeout: LIMIT_MS }, () => {
  for (const engine of sampledEngines) {
    const { name, skip } = engine;
    const title = `${PROCESSES * CLIENTS} clients in ${PROCESSES} processes on ${name}`;
    describe(title, { skip, concurrency: 1 }, () => {
      const modes = modesWith(sharedRedis());
      const arena = arenaOn(engine, modes);

      for (const children of CHILDREN) {
        test(`lose no update of one order with ${children} parts`, async (t: TestContext) => {
          const tallies = await race(arena(), children, modes);
          t.diagnostic(`seed ${runSeed}, commit ${commit()}`);
          t.diagnostic(HEAD);
          for (const [mode, tally] of tallies) t.diagnostic(rowOf(name, children, mode, tally));
          for (const [mode, { lost, wrong, waited }] of tallies) {
            assert.deepEqual({ mode, lost, wrong }, { mode, lost: [], wrong: [] });
            assert.equal(waited > 0, mode !== "off", `${waited} waited, locks ${mode}`);
          }
        });
      }
    });
  }
});

after(assertNothingRuns);
