/** Locks between real processes: they never overlap, no caller waits for ever, and a frozen holder learns that it lost the lock. */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test, type TestContext } from "node:test";
import type { Locks } from "../../src/locks/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import type { Errand, Told } from "./contender.ts";
import { places, leavePlaces, type LockSite } from "./places.ts";

const PROGRAM = join(import.meta.dirname, "contender.ts");
const PROCESSES = 3;
const TIMES = 40;
/** A process that is passed over again and again would see hundreds. */
const TURNS_MAX = 100;
/** On a busy machine processes may run one after the other; then nothing is lost for once. */
const TRIES_MAX = 10;
const TTL_MS = 600;
const KEY = "order:42";

const folder = tempFolder();

class Contender implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly #told: Told[] = [];

  constructor({ url, options }: LockSite) {
    this.process = fork(PROGRAM, [url, JSON.stringify(options)], { execArgv: [] });
    this.process.on("message", (told) => this.#told.push(told as Told));
  }

  go(does: Errand["does"], file: string): void {
    const errand: Errand = { does, file, key: KEY, times: TIMES, ttl: TTL_MS };
    this.process.send(errand);
  }

  /** Waits until it has said so. */
  async hear<S extends Told["said"]>(said: S): Promise<Extract<Told, { said: S }>> {
    const told = await until(`it says ${said}`, () =>
      this.#told.find((each) => each.said === said),
    );
    this.#told.splice(this.#told.indexOf(told), 1);
    return told as Extract<Told, { said: S }>;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.process, "exit");
    this.process.disconnect();
    await exited;
  }
}

function counter(): string {
  const file = folder.file(".count");
  writeFileSync(file, "0");
  return file;
}

function read(file: string): number {
  return Number(readFileSync(file, "utf8"));
}

describe("locks between processes", { concurrency: true }, () => {
  for (const { name, skip, site: openSite } of places) {
    describe(`in ${name}`, { skip, timeout: 60_000, concurrency: 1 }, () => {
      let site: LockSite;
      let locks: Locks;
      let contenders: readonly Contender[];
      before(async () => {
        site = await openSite();
        ({ locks } = await site.open());
        contenders = Array.from({ length: PROCESSES }, () => new Contender(site));
        await Promise.all(contenders.map((each) => each.hear("ready")));
      });
      after(async () => {
        await Promise.all((contenders ?? []).map((each) => each[Symbol.asyncDispose]()));
        await site[Symbol.asyncDispose]();
      });

      /** How far all of them come who count in one file. */
      async function count(does: "count" | "count without"): Promise<number> {
        const file = counter();
        for (const each of contenders) each.go(does, file);
        await Promise.all(contenders.map((each) => each.hear("done")));
        return read(file);
      }

      test("processes never overlap with the lock, and do overlap without it", async (t: TestContext) => {
        const startedAt = performance.now();
        assert.equal(await count("count"), PROCESSES * TIMES);
        const eachMs = (performance.now() - startedAt) / (PROCESSES * TIMES);
        t.diagnostic(`${eachMs.toFixed(1)} ms for each turn`);
        let without = PROCESSES * TIMES;
        for (let tries = 0; tries < TRIES_MAX && without === PROCESSES * TIMES; tries += 1) {
          without = await count("count without");
        }
        assert.ok(without < PROCESSES * TIMES, "nothing was lost without the lock");
      });

      test("a waiting process gets it soon, even from one that reacquires it at once", async (t: TestContext) => {
        const file = counter();
        const [hog] = contenders;
        hog?.go("hog", file);
        for (let round = 0; round < 5; round += 1) {
          const begun = read(file);
          await until("the hog is at work", () => read(file) > begun + 2);
          const asked = read(file);
          await locks.with(KEY, {}, ({ waitedMs }) => {
            const turns = read(file) - asked;
            t.diagnostic(`${turns} turns of the hog, ${waitedMs.toFixed(1)} ms`);
            assert.ok(turns <= TURNS_MAX);
          });
        }
        hog?.go("let go", file);
        await hog?.hear("done");
        await hog?.hear("done");
      });

      test("a process that stalled for too long learns that it lost the lock, and has the smaller token", async () => {
        const sleeper = contenders[1] as Contender;
        sleeper.go("hold", counter());
        const { token } = await sleeper.hear("held");
        sleeper.process.kill("SIGSTOP");
        const next = await locks.acquire(KEY); // so its time is over
        sleeper.process.kill("SIGCONT");
        const { error, heldOnWaking } = await sleeper.hear("lost");
        assert.deepEqual([error, heldOnWaking], ["LockLostError", false]);
        assert.ok(next.token > token);
        assert.ok(next.held);
        await next.release();
      });
    });
  }
});

after(async () => {
  folder[Symbol.dispose]();
  await leavePlaces();
  await assertNothingRuns();
});
