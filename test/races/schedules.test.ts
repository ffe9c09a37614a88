/** Schedulers in processes of their own, which are killed at any moment: each tick still has exactly one job. */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { openStore } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import { seededRandom } from "../support/runtime.ts";
import { isLong, notItsTurn, reasonOf, runSeed, sized } from "../support/scale.ts";
import { allRuns, by, createOne, jobIds } from "../support/schedules.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { fastRuntime } from "./schedule-child.ts";
import { temporaryFolder } from "./store-crew.ts";

const PROGRAM = join(import.meta.dirname, "schedule-child.ts");
const PROCESSES = 4;
const KILLS = sized(6, 60);
const SECOND = 1_000;

describe("schedulers that are killed", { timeout: isLong ? 300_000 : 60_000 }, () => {
  const ours = ["sqlite", "postgres", "mysql"];

  test("sqlite: each tick has one job", { skip: notItsTurn("sqlite", ours) }, async (context) => {
    using folder = temporaryFolder();
    context.diagnostic(await race(`sqlite:${join(folder.path, "schedules.db")}`));
  });

  for (const server of ["postgres", "mysql"] as const) {
    const skip = reasonOf(missing(server), notItsTurn(server, ours));
    test(`${server}: each tick has one job`, { skip }, async (context) => {
      const database = await scratchDatabase(server);
      try {
        context.diagnostic(await race(database.url));
      } finally {
        await database.drop();
      }
    });
  }
});

async function race(url: string): Promise<string> {
  const startedAt = Date.now();
  const store = await openStore(url, { runtime: fastRuntime(startedAt) });
  await store.migrate();
  await createOne(store, { every: "1s", missed: { all: 1_000 } });
  const crew = new Crew(url, startedAt);
  try {
    await crew.killAtRandom();
    // It continues with an edit: from here on every two seconds.
    const { sinceAt } = await store.schedules.edit("nightly", { every: "2s" }, by());
    await crew.killAtRandom();
    const paused = await store.schedules.pause("nightly", by());
    const runs = await allRuns(store);
    const ticks = runs.map(({ tick }) => tick);
    const from = ticks[0] ?? 0;
    const expected: number[] = [];
    for (let tick = from; tick <= sinceAt; tick += SECOND) expected.push(tick);
    const even = (Math.floor(sinceAt / (2 * SECOND)) + 1) * 2 * SECOND;
    // The pause may come before a scheduler has handled a tick that was due. That tick is owed, and `nextAt` names it.
    const { nextAt, pausedAt } = paused;
    const handled = Math.min(pausedAt ?? 0, (nextAt ?? 0) - 1);
    for (let tick = even; tick <= handled; tick += 2 * SECOND) expected.push(tick);
    assert.deepEqual(ticks, expected);
    const jobs = await jobIds(store);
    assert.deepEqual(jobs.toSorted(), runs.map(({ job }) => job ?? "").toSorted());
    const [doubled] = await store.db.engine.all(sql`
      select job_id from holdfast.schedule_run group by job_id having count(*) > 1`);
    assert.equal(doubled, undefined);
    return `${ticks.length} ticks, ${crew.kills} kills`;
  } finally {
    await crew.end();
    await store.close();
  }
}

class Crew {
  readonly #url: string;
  readonly #startedAt: number;
  readonly #random = seededRandom(runSeed);
  readonly #ready = new Map<ChildProcess, Promise<unknown>>();
  readonly #members: ChildProcess[];
  kills = 0;

  constructor(url: string, startedAt: number) {
    this.#url = url;
    this.#startedAt = startedAt;
    this.#members = Array.from({ length: PROCESSES }, () => this.#start());
  }

  #start(): ChildProcess {
    const member = fork(PROGRAM, [this.#url, String(this.#startedAt)], { execArgv: [] });
    this.#ready.set(member, once(member, "message"));
    return member;
  }

  /** Kills one after the other in the middle of its work, and starts another in its place. */
  async killAtRandom(): Promise<void> {
    for (const member of this.#members) await this.#ready.get(member);
    for (let kill = 0; kill < KILLS / 2; kill += 1) {
      await pause(50 + this.#random() * 200);
      const at = Math.floor(this.#random() * PROCESSES);
      const member = this.#members[at] as ChildProcess;
      member.kill("SIGKILL");
      this.kills += 1;
      this.#members[at] = this.#start();
    }
    for (const member of this.#members) await this.#ready.get(member);
  }

  async end(): Promise<void> {
    for (const member of this.#members) member.kill("SIGKILL");
    await until("all have ended", () =>
      this.#members.every(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null),
    );
  }
}
