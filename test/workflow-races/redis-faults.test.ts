/**
 * Redis is killed, started again, and stands still for longer than a lock lasts, while processes change items under its
 * locks. No caller waits for longer than its timeout, nothing is lost, and every process recovers by itself.
 */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, describe, test, type TestContext } from "node:test";
import { drawnEngines, type EngineUnderTest } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missingPrograms, startRedis } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { hostMs } from "./act.ts";
import { checkTree, type Tree } from "./check.ts";
import { startTree } from "./crew.ts";
import { ANSWER_MS, TTL_MS, WAIT_MS } from "./impatient.ts";
import { openIn } from "./open.ts";
import { overlapping } from "./overlap.ts";
import type { Result } from "./plan.ts";
import type { SteadyConfig, Told } from "./steady.ts";

const PROGRAM = join(import.meta.dirname, "steady.ts");
const PROCESSES = 3;
const CLIENTS = 2;
const TREES = 3;
const CHILDREN = 5;
/** Of each process, before the next thing happens. */
const ACCEPTED = 10;
const REFUSED = 2;
/** What anybody waits for a lock, and what reading the item, and being told, take besides … */
const REFUSED_MS = Math.max(WAIT_MS, ANSWER_MS) + 250;
/** … or, on a machine that has a lot to do, take at most. */
const REFUSED_MS_MAX = REFUSED_MS + 3_000;
const LIMIT_MS = 180_000;
const PHASE_MS = 30_000;
const REFUSAL = "LOCK_NOT_ACQUIRED";

class Crew implements AsyncDisposable {
  readonly told: Told[] = [];
  readonly #members: readonly ChildProcess[];
  readonly #ended: Promise<unknown[]>;

  constructor(configs: readonly SteadyConfig[]) {
    this.#members = configs.map((config) =>
      fork(PROGRAM, [JSON.stringify(config)], { execArgv: [], serialization: "advanced" }),
    );
    for (const member of this.#members) {
      member.on("message", (told) => this.told.push(told as Told));
    }
    this.#ended = Promise.all(this.#members.map((member) => once(member, "exit")));
  }

  /** Waits until each process has had so many changes end this way that began after an instant. */
  async each(outcome: string, count: number, since: number): Promise<void> {
    const has = (process: number): boolean =>
      this.told.filter(
        ({ result }) =>
          result.process === process && result.outcome === outcome && result.from >= since,
      ).length >= count;
    const all = (): boolean => this.#members.every((_, process) => has(process));
    await until(`each process has ${count} ${outcome}`, all, PHASE_MS);
  }

  async stop(): Promise<void> {
    for (const member of this.#members) member.send("stop");
    await this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of this.#members) {
      if (member.exitCode === null && member.signalCode === null) member.kill("SIGKILL");
    }
    await this.#ended;
  }
}

/** What Redis does in the course of one run: how many changes were refused for it each time is counted by the caller. */
async function makeTrouble(crew: Crew, redis: Awaited<ReturnType<typeof startRedis>>) {
  await crew.each("accepted", ACCEPTED, 0);

  await redis.kill();
  await crew.each(REFUSAL, REFUSED, hostMs());
  await redis.restart();
  await crew.each("accepted", ACCEPTED, hostMs());

  const frozenAt = hostMs();
  process.kill(redis.pid, "SIGSTOP");
  try {
    await crew.each(REFUSAL, REFUSED, frozenAt);
    await until("no lock can have lasted so long", () => hostMs() - frozenAt > 1.5 * TTL_MS);
  } finally {
    process.kill(redis.pid, "SIGCONT");
  }
  await crew.each("accepted", ACCEPTED, hostMs());

  await redis.restart(); // in order, at once, and empty again
  await crew.each("accepted", ACCEPTED, hostMs());
}

async function run({ place: open }: EngineUnderTest): Promise<Map<Tree, Result[]>> {
  await using redis = await startRedis();
  await using place = await open();
  const { url } = place;
  await using holdfast = await openIn({ url, redis: null }, "off");
  const trees: Tree[] = [];
  for (let made = 0; made < TREES; made += 1) trees.push(await startTree(holdfast, CHILDREN));
  const config = { url, redis: redis.url, clients: CLIENTS, trees };
  const numbers = Array.from({ length: PROCESSES }, (_, process) => process);
  await using crew = new Crew(numbers.map((process) => ({ ...config, process })));
  await makeTrouble(crew, redis);
  await crew.stop();

  const results = new Map(trees.map((tree) => [tree, [] as Result[]]));
  for (const { tree, result } of crew.told) results.get(trees[tree] as Tree)?.push(result);
  const expected = { tolerated: new Set([REFUSAL]), completed: false };
  for (const [tree, some] of results) {
    const { lost, wrong, unexpected } = await checkTree(holdfast, tree, some, expected);
    assert.deepEqual({ lost, wrong, unexpected }, { lost: [], wrong: [], unexpected: [] });
    assert.ok(overlapping(some) > 0, "no two changes met");
  }
  return results;
}

/** How long they took, the shortest first. */
function spans(results: readonly Result[]): number[] {
  return results.map(({ from, to }) => Math.round(to - from)).toSorted((a, b) => a - b);
}

// The databases side by side: what they do hardly overlaps.
describe("changes while Redis is in trouble", { concurrency: true, timeout: LIMIT_MS }, () => {
  const absent = missingPrograms("redis");
  for (const engine of drawnEngines("redis in trouble")) {
    const skip = engine.skip === false ? absent : engine.skip;
    test(`are not lost on ${engine.name}, and end in time`, { skip }, async (t: TestContext) => {
      const results = [...(await run(engine)).values()].flat();
      const accepted = spans(results.filter(({ outcome }) => outcome === "accepted"));
      const refused = spans(results.filter(({ outcome }) => outcome === REFUSAL));
      const median = refused[Math.floor(refused.length / 2)] ?? Number.NaN;
      const most = refused.at(-1) ?? Number.NaN;
      t.diagnostic(
        `${accepted.length} accepted (at most ${accepted.at(-1)} ms), ` +
          `${refused.length} refused (median ${median} ms, at most ${most} ms)`,
      );
      assert.ok(median <= REFUSED_MS, `refused after ${median} ms`);
      assert.ok(most <= REFUSED_MS_MAX, `one was refused after ${most} ms`);
    });
  }
});

after(assertNothingRuns);
