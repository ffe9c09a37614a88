/** Who follows a singleton that died, how soon, and what the one that was replaced can still do. */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { after, describe, test } from "node:test";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { sql } from "../../src/database/sql.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { sized } from "../support/scale.ts";
import { until } from "../worker/observe.ts";
import type { Said } from "./leader.ts";
import { drawnEngines } from "./places.ts";

const LEADER = join(import.meta.dirname, "leader.ts");
const TAKEOVERS = sized(1, 10);
const GRACEFUL = 2;
const GRACEFUL_MS_MAX = 1_000;

/** Signs of life are a thirtieth of the defaults. */
const STALE_MS = 1_000;
const UPKEEP_MS = 1_000;
const OPTIONS = {
  heartbeat: 300,
  heartbeatTimeout: STALE_MS,
  maintenanceInterval: UPKEEP_MS,
  lease: 1_000,
  grace: 50,
};
/** Long enough for a worker to do what it should not. */
const MISCHIEF_MS = 1_000;

class Leader {
  readonly child: ChildProcess;
  readonly heard: Said[] = [];

  constructor(url: string, options: object = {}) {
    this.child = fork(LEADER, [url, JSON.stringify({ ...OPTIONS, ...options })], { execArgv: [] });
    this.child.on("message", (message) => this.heard.push(message as Said));
  }

  says<S extends Said["said"]>(what: S): Promise<Extract<Said, { said: S }>> {
    return until(`it says that it is ${what}`, () =>
      this.heard.find((message): message is Extract<Said, { said: S }> => message.said === what),
    );
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const exited = once(this.child, "exit");
    this.child.kill(signal);
    await exited;
  }
}

class Site implements AsyncDisposable {
  readonly url: string;
  readonly holdfast: Holdfast;
  readonly folder = mkdtempSync(join(tmpdir(), "holdfast-takeover-"));
  readonly #leaders: Leader[] = [];
  readonly #place: AsyncDisposable;

  constructor(place: AsyncDisposable & { url: string }, holdfast: Holdfast) {
    this.#place = place;
    this.url = place.url;
    this.holdfast = holdfast;
  }

  leader(options: object = {}): Leader {
    const leader = new Leader(this.url, options);
    this.#leaders.push(leader);
    return leader;
  }

  /** Its process cannot be seen, as if it ran on another host. */
  async moveElsewhere(): Promise<void> {
    const { engine } = this.holdfast.store.db;
    await engine.transaction((tx) =>
      tx.run(sql`update holdfast.worker set host_boot = 'elsewhere'`),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.#leaders) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    }
    await this.holdfast.close();
    await this.#place[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

// The databases side by side: what they do hardly overlaps.
describe("the successor", { concurrency: true }, () => {
  for (const { name, skip, place: open } of drawnEngines("takeover")) {
    describe(
      `a singleton on ${name}`,
      { skip, timeout: TAKEOVERS * 5_000 + 60_000, concurrency: 1 },
      () => {
        const site = async (): Promise<Site> => {
          const place = await open();
          return new Site(place, await openHoldfast(place.url));
        };

        /** How long it took the standby each time. */
        async function takeOvers(rounds: number, signal: NodeJS.Signals): Promise<number[]> {
          await using here = await site();
          const took: number[] = [];
          let active = here.leader();
          let { instance } = await active.says("active");
          for (let round = 0; round < rounds; round += 1) {
            const standby = here.leader();
            await standby.says("standing by");
            await here.moveElsewhere();
            const endedAt = Date.now();
            await active.end(signal);
            const next = await standby.says("active");
            took.push(next.at - endedAt);
            assert.ok(next.instance > instance, "every takeover has a higher number");
            ({ instance } = next);
            active = standby;
          }
          return took.toSorted((a, b) => a - b);
        }

        test("that was killed is replaced by its standby as soon as it is stale", async (t) => {
          const took = await takeOvers(TAKEOVERS, "SIGKILL");
          t.diagnostic(`${TAKEOVERS} takeovers took ${took[0]} to ${took.at(-1)} ms`);
          assert.ok((took.at(-1) ?? 0) <= STALE_MS + UPKEEP_MS, `${took.join(" ")} ms`);
          assert.ok((took[0] ?? 0) > STALE_MS / 2, "a worker that may be alive is not replaced");
        });

        test("that was stopped is followed by its standby within a second", async (t) => {
          const took = await takeOvers(GRACEFUL, "SIGTERM");
          t.diagnostic(`${GRACEFUL} takeovers took ${took[0]} to ${took.at(-1)} ms`);
          assert.ok((took.at(-1) ?? 0) <= GRACEFUL_MS_MAX, `${took.join(" ")} ms`);
        });

        test("that was replaced while it was frozen has no write accepted when it wakes", async () => {
          await using here = await site();
          const go = join(here.folder, "go");
          const busy = join(here.folder, "busy");
          const old = here.leader();
          const { id: oldId } = await old.says("active");
          const job = await here.holdfast.enqueue("wait", go);
          await until(
            "it runs the job",
            async () => (await here.holdfast.jobs.get(job.id))?.lockedBy === oldId,
          );
          const young = here.leader({ concurrency: 1 });
          await young.says("standing by");
          await here.moveElsewhere();
          old.child.kill("SIGSTOP");
          const { id: youngId } = await young.says("active");
          writeFileSync(go, "");
          assert.equal(await job.result({ timeout: "20s" }), young.child.pid);
          // The new one is busy, so the next jobs stay pending: the old one would take them.
          const blocker = await here.holdfast.enqueue("wait", busy);
          await until(
            "the new one is busy",
            async () => (await here.holdfast.jobs.get(blocker.id))?.lockedBy === youngId,
          );
          const bait = await here.holdfast.enqueue("wait", go);
          old.child.kill("SIGCONT");
          assert.deepEqual(await old.says("evicted"), { said: "evicted", id: oldId });
          await pause(MISCHIEF_MS);
          assert.equal((await here.holdfast.jobs.get(bait.id))?.status, "pending");
          const attempts = await here.holdfast.jobs.attempts(job.id);
          assert.equal(attempts.at(-1)?.worker, youngId);
          const row = await here.holdfast.workers.find(oldId);
          assert.deepEqual([row?.status, row?.reason], ["stopped", "stale"]);
          writeFileSync(busy, "");
          assert.equal(await bait.result({ timeout: "20s" }), young.child.pid);
        });
      },
    );
  }
});

after(assertNothingRuns);
