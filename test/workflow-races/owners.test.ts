/**
 * A lock that two processes believe they have: the first was frozen for longer than it lasts. What the first writes when it
 * wakes up comes after what the second wrote, or is refused; nothing is lost. And a lock that its holder keeps.
 */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Holdfast } from "../../src/index.ts";
import { drawnEngines, type EngineUnderTest } from "../registry/places.ts";
import { missing } from "../support/servers.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { act, hostMs } from "./act.ts";
import { checkTree, isClean, type Tree } from "./check.ts";
import { startTree } from "./crew.ts";
import type { HolderConfig, Word } from "./holder.ts";
import { impatient, TTL_MS, WAIT_MS } from "./impatient.ts";
import { openIn, sharedRedis, type Mode } from "./open.ts";
import type { Result } from "./plan.ts";
import { order } from "./workflows.ts";

const PROGRAM = join(import.meta.dirname, "holder.ts");
const CHILDREN = 2;
/** Longer than a lock lasts without an extension. */
const PATIENCE_MS = 20_000;
const SLACK_MS = 3_000;
const LIMIT_MS = 180_000;

type Done = Extract<Word, { word: "done" }>;

interface Scene {
  readonly url: string;
  readonly redis: string | null;
  readonly mode: Mode;
  readonly holdfast: Holdfast;
  readonly tree: Tree;
}

/** The first owner. */
class Holder implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #words: Word[] = [];

  constructor({ url, redis, mode, tree }: Scene, how: Pick<HolderConfig, "at" | "careful">) {
    const config: HolderConfig = { url, redis, mode, tree, ...how };
    this.#child = fork(PROGRAM, [JSON.stringify(config)], { execArgv: [] });
    this.#child.on("message", (word) => this.#words.push(word as Word));
    this.#ended = once(this.#child, "exit");
  }

  /** Frozen while it has the lock; returns the lock's token. */
  async freeze(): Promise<number> {
    const token = await until("it has the lock", () => {
      const [word] = this.#words;
      return word?.word === "holding" && word.token;
    });
    this.#child.kill("SIGSTOP");
    await until("it is frozen", () => isStopped(this.#child.pid ?? 0));
    return token;
  }

  async wake(): Promise<Done> {
    this.#child.kill("SIGCONT");
    this.#child.send("go on");
    return until("it is done", () => {
      const word = this.#words.at(-1);
      return word?.word === "done" && word;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#words.at(-1)?.word !== "done") this.#child.kill("SIGKILL");
    await this.#ended;
  }
}

/** The third field of a process's line is its state; the second, its name, may contain anything. */
function isStopped(pid: number): boolean {
  const line = readFileSync(`/proc/${pid}/stat`, "utf8");
  return line.slice(line.lastIndexOf(")") + 2).startsWith("T");
}

/** One database for all stories; each has an order of its own. */
function stageFor({ place: open }: EngineUnderTest, mode: Mode): () => Promise<Scene> {
  const stack = new AsyncDisposableStack();
  let props: Omit<Scene, "tree"> | null = null;
  before(async () => {
    const { url } = stack.use(await open());
    const at = { url, redis: sharedRedis() };
    props = { ...at, mode, holdfast: stack.use(await openIn(at, mode)) };
  });
  after(() => stack.disposeAsync());
  return async () => {
    if (props === null) throw new Error("The stage is not ready.");
    return { ...props, tree: await startTree(props.holdfast, CHILDREN) };
  };
}

/** The second owner changes the same child as soon as it has the lock. */
function second({ holdfast, tree }: Scene): {
  readonly locked: Promise<number>;
  readonly result: Promise<Result>;
} {
  const locked = Promise.withResolvers<number>();
  const workflows = impatient(holdfast, {
    waitMs: PATIENCE_MS,
    onLocked: async ({ token }) => locked.resolve(token),
  });
  const result = act({ workflows, process: 1 }, tree, { kind: "patch", child: 0, key: "second" });
  return { locked: locked.promise, result };
}

const TOLERATED = new Set(["ITEM_CHANGED", "LOCK_NOT_ACQUIRED"]);

async function assertNothingLost(
  { holdfast, tree }: Pick<Scene, "holdfast" | "tree">,
  results: readonly Result[],
): Promise<void> {
  const expected = { tolerated: TOLERATED, completed: false };
  const verdict = await checkTree(holdfast, tree, results, expected);
  assert.ok(isClean(verdict), JSON.stringify(verdict, null, 2));
}

/** The holder is frozen with the lock in its hands, and has written nothing; the second has come and gone when it wakes. */
async function overtaken(scene: Scene, careful: boolean): Promise<Done> {
  await using holder = new Holder(scene, { at: "lock", careful });
  const first = await holder.freeze();
  const other = second(scene);
  assert.ok((await other.locked) > first, "no other process got the lock");
  const result = await other.result;
  assert.equal(result.outcome, "accepted", result.message);
  const done = await holder.wake();
  assert.equal(done.held, false, "the holder knows that it has been overtaken");
  await assertNothingLost(scene, [done.result, result]);
  return done;
}

function storiesOf(engine: EngineUnderTest, mode: Mode): void {
  const scene = stageFor(engine, mode);

  test("an overtaken process writes after the one that overtook it, and both changes are there", async () => {
    const { result } = await overtaken(await scene(), false);
    assert.equal(result.outcome, "accepted", result.message);
  });

  test("an overtaken process that passes the revision it has seen is refused", async () => {
    const { result } = await overtaken(await scene(), true);
    assert.equal(result.outcome, "ITEM_CHANGED", result.message);
  });

  // A transaction on SQLite has the whole file, with all locks in it: no other process gets one meanwhile.
  if (engine.name !== "SQLite" || mode !== "sql") {
    test("a process that overtakes another in a transaction waits for its end", async () => {
      await overtakenInTransaction(await scene());
    });
  }

  test("a held lock is not waited for longer than the wait limit", async () => {
    await keptWaiting(await scene());
  });
}

async function overtakenInTransaction(scene: Scene): Promise<void> {
  await using holder = new Holder(scene, { at: "transaction", careful: false });
  const first = await holder.freeze();
  const other = second(scene);
  assert.ok((await other.locked) > first, "no other process got the lock");
  const { result } = await holder.wake();
  const results = [result, await other.result];
  const outcomes = results.map(({ outcome }) => outcome);
  assert.deepEqual(outcomes, ["accepted", "accepted"]);
  await assertNothingLost(scene, results);
}

async function keptWaiting({ holdfast, tree }: Scene): Promise<void> {
  const kept = await holdfast.locks.acquire(`${order.name}:${tree.parent}`, { ttl: "1m" });
  const actor = { workflows: impatient(holdfast), process: 1 };
  const change = { kind: "both", child: 0, key: "late" } as const;
  const startedAt = hostMs();
  const late = await act(actor, tree, change);
  const tookMs = hostMs() - startedAt;
  assert.equal(late.outcome, "LOCK_NOT_ACQUIRED", late.message);
  assert.ok(tookMs >= WAIT_MS && tookMs <= WAIT_MS + SLACK_MS, `it took ${tookMs} ms`);
  await kept.release();
  const again = await act(actor, tree, { ...change, key: "again" });
  assert.equal(again.outcome, "accepted", again.message);
  await assertNothingLost({ holdfast, tree }, [late, again]);
}

// The databases side by side: what they do hardly overlaps.
describe(`locks of ${TTL_MS} ms`, { concurrency: true, timeout: LIMIT_MS }, () => {
  for (const engine of drawnEngines("owners")) {
    for (const mode of ["sql", "redis"] as const) {
      const absent = mode === "redis" ? missing("redis") : false;
      const skip = engine.skip === false ? absent : engine.skip;
      describe(`${mode} locks on ${engine.name}`, { skip, concurrency: 1 }, () => {
        storiesOf(engine, mode);
      });
    }
  }
});

after(assertNothingRuns);
