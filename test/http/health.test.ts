/** Well, alive, ready: each says what it is asked, and a process is never ended for what a new start would not mend. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { defineTask, type Holdfast, openHoldfast, type Worker } from "../../src/index.ts";
import { Health, type HealthParts, type ProbeAnswer } from "../../src/monitoring/health.ts";
import { sql } from "../../src/database/sql.ts";
import { testClock, type TestClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";
import { withOutage, wrapStore, type Outage } from "../worker/wrapped-store.ts";

after(assertNothingRuns);

const WEDGED_MS = 60_000;
/** For a worker that can stop at all, this is much. */
const CLOSE_MS = 200;
/** For an answer that waits for nothing, by the clock of the machine, this is much. */
const REAL_MS = 5_000;
const echo = defineTask({ name: "echo", run: (value: number) => value });

interface Ward extends AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly health: Health;
  readonly clock: TestClock;
}

/** On a clock of its own, over whatever the test makes of a store in memory. */
async function openWard(
  over: (store: Store) => Store = (store) => store,
  parts: Partial<HealthParts> = {},
): Promise<Ward> {
  const clock = testClock();
  const store = over(await openStore("sqlite::memory:", { runtime: clock }));
  const holdfast = await openHoldfast(store, { runtime: clock, version: "abc1234", locks: "sql" });
  const health = new Health({ holdfast, wedgedAfter: WEDGED_MS, ...parts });
  return {
    holdfast,
    health,
    clock,
    async [Symbol.asyncDispose]() {
      const closing = holdfast.close();
      for (let step = 0; step < 100; step += 1) await clock.advance("1s");
      // What hangs in a test keeps its worker from ever stopping.
      await within(CLOSE_MS, closing);
    },
  };
}

/** On a database that is down when it is told to be. */
async function openWithOutage(): Promise<Ward & { readonly database: Outage }> {
  const outages: Outage[] = [];
  const ward = await openWard((store) => {
    const outage = withOutage(store);
    outages.push(outage);
    return outage.store;
  });
  const [database] = outages as [Outage];
  return { ...ward, database };
}

async function startIn({ holdfast, health, clock }: Ward): Promise<Worker> {
  const starting = holdfast.startWorker({ tasks: [echo] });
  await clock.advance("1s");
  const worker = await starting;
  health.watch(worker);
  return worker;
}

/** Answers may take a moment of the test's clock: they have limits of time. */
async function asked<T>(clock: TestClock, asking: Promise<T>): Promise<T> {
  await clock.advance("3s");
  return asking;
}

/** Probes come again and again: one knows what the database has said to those before it. */
async function probedLive({ health, clock }: Ward): Promise<ProbeAnswer> {
  await health.live();
  await clock.advance("1s");
  return health.live();
}

suite("a healthy process", () => {
  test("reports it, with its uptime, the time and its build", async () => {
    await using ward = await openWard();
    const { health, clock } = ward;
    const worker = await startIn(ward);
    await clock.advance("90s");
    const told = await health.health();
    assert.equal(told.status, "ok");
    assert.ok(told.uptime >= 90 && told.uptime <= 92, String(told.uptime));
    assert.equal(told.timestamp, new Date(clock.now()).toISOString());
    assert.equal(told.version, "abc1234");
    assert.deepEqual(
      told.checks.map(({ name, status }) => [name, status]),
      [
        ["database", "ok"],
        ["schema", "ok"],
        [`worker ${worker.id}`, "ok"],
      ],
    );
    assert.deepEqual(await health.live(), { status: "ok", reasons: [] });
    assert.deepEqual(await health.ready(), { status: "ok", reasons: [] });
  });

  test("stays alive while its worker is idle for hours", async () => {
    await using ward = await openWard();
    await startIn(ward);
    for (let hour = 0; hour < 3; hour += 1) {
      await ward.clock.advance("1h");
      assert.deepEqual(await ward.health.live(), { status: "ok", reasons: [] });
    }
  });

  test("queries the database at most once a second, however many probes there are", async () => {
    let looks = 0;
    await using ward = await openWard((store) =>
      wrapStore(store, (real) => ({
        checkSchema: () => {
          looks += 1;
          return real.checkSchema();
        },
      })),
    );
    looks = 0;
    const { health, clock } = ward;
    for (let probe = 0; probe < 20; probe += 1) {
      await Promise.all([health.health(), health.live(), health.ready()]);
    }
    assert.equal(looks, 1);
    await clock.advance("1s");
    await health.ready();
    assert.equal(looks, 2);
  });
});

suite("a worker that an operator controls", () => {
  test("is alive and ready while it is paused", async () => {
    await using ward = await openWard();
    const { holdfast, health, clock } = ward;
    const worker = await startIn(ward);
    await holdfast.workers.pause({ id: worker.id });
    await clock.advance("5m");
    assert.equal(worker.status().desiredState, "pause");
    assert.equal((await health.live()).status, "ok");
    assert.equal((await health.ready()).status, "ok");
    assert.match(JSON.stringify((await health.health()).checks), /paused, 0 jobs/);
  });

  test("is alive and not ready while it drains, however long that takes", async () => {
    await using ward = await openWard();
    const { holdfast, health, clock } = ward;
    const end = Promise.withResolvers<null>();
    const slow = defineTask({ name: "slow", run: () => end.promise });
    const starting = holdfast.startWorker({ tasks: [slow] });
    await clock.advance("1s");
    const worker = await starting;
    health.watch(worker);
    await holdfast.enqueue(slow, null);
    await clock.advance("1s");
    await holdfast.workers.drain({ id: worker.id });
    await clock.advance("10m");
    assert.deepEqual(await health.live(), { status: "ok", reasons: [] });
    const told = await health.ready();
    assert.deepEqual(told, { status: "down", reasons: [`worker ${worker.id} is stopping`] });
    assert.equal((await health.health()).status, "degraded");
    end.resolve(null);
    await clock.advance("10s");
    assert.deepEqual((await health.ready()).reasons, [`worker ${worker.id} is stopped`]);
  });

  test("is alive and not ready while it is a standby", async () => {
    await using ward = await openWard(undefined, { awaitsWorker: true });
    const { health } = ward;
    assert.equal((await health.live()).status, "ok");
    assert.deepEqual(await health.ready(), {
      status: "down",
      reasons: ["no worker is registered yet"],
    });
    assert.equal((await health.health()).status, "degraded");
    await startIn(ward);
    assert.equal((await health.ready()).status, "ok");
  });
});

suite("a worker that is stuck", () => {
  /** A store of which one verb never answers, from a moment on. */
  function hanging(
    part: "jobs" | "workers",
    verb: string,
  ): {
    over: (store: Store) => Store;
    readonly hang: () => void;
  } {
    let hangs = false;
    return {
      hang: () => void (hangs = true),
      over: (store) =>
        wrapStore(store, (real) => ({
          [part]: {
            [verb]: (...args: unknown[]) =>
              hangs
                ? new Promise(() => {})
                : Reflect.apply(Reflect.get(real[part], verb), real[part], args),
          },
        })),
    };
  }

  test("in a claim that never comes back is not alive", async () => {
    const { over, hang } = hanging("jobs", "settleAndClaim");
    await using ward = await openWard(over);
    const { holdfast, health, clock } = ward;
    const worker = await startIn(ward);
    hang();
    await holdfast.enqueue(echo, 1);
    await clock.advance(WEDGED_MS - 10_000);
    assert.equal((await health.live()).status, "ok");
    await clock.advance(30_000);
    const { status, reasons } = await probedLive(ward);
    assert.equal(status, "down");
    assert.match(String(reasons[0]), /the loop 'poll cycle' has been stuck for \d+ s/);
    assert.ok(String(reasons[0]).includes(worker.id));
    assert.equal((await health.health()).status, "down");
  });

  test("whose lease renewer sends no heartbeat is not alive", async () => {
    const { over, hang } = hanging("workers", "heartbeat");
    await using ward = await openWard(over);
    const { health, clock } = ward;
    await startIn(ward);
    await clock.advance("30s");
    hang();
    await clock.advance("45s");
    assert.equal((await health.live()).status, "ok");
    assert.equal((await health.health()).status, "degraded");
    await clock.advance("60s");
    const { status, reasons } = await probedLive(ward);
    assert.equal(status, "down");
    assert.match(String(reasons[0]), /the lease renewer has sent no heartbeat/);
  });

  test("because the database does not answer is alive until it has answered for as long", async () => {
    const { over, hang } = hanging("jobs", "settleAndClaim");
    let away = false;
    await using ward = await openWard((store) =>
      wrapStore(over(store), (real) => ({
        checkSchema: () => (away ? new Promise(() => {}) : real.checkSchema()),
      })),
    );
    const { holdfast, health, clock } = ward;
    await startIn(ward);
    hang();
    away = true;
    await holdfast.enqueue(echo, 1);
    for (let minute = 0; minute < 5; minute += 1) {
      await clock.advance("57s");
      assert.equal((await asked(clock, health.live())).status, "ok");
      assert.deepEqual((await asked(clock, health.ready())).reasons, [
        "the database does not answer",
      ]);
    }
    away = false;
    await clock.advance("61s"); // the question that was lost is given up
    assert.equal((await asked(clock, health.ready())).status, "ok");
    await clock.advance(WEDGED_MS - 10_000);
    assert.equal((await health.live()).status, "ok");
    await clock.advance("1m");
    assert.equal((await probedLive(ward)).status, "down");
  });
});

suite("a process without its database", () => {
  test("that hangs does not delay /live, and delays only the first of the other probes", async () => {
    let hangs = false;
    await using ward = await openWard((store) =>
      wrapStore(store, (real) => ({
        checkSchema: () => (hangs ? new Promise(() => {}) : real.checkSchema()),
      })),
    );
    const { health, clock } = ward;
    await startIn(ward);
    assert.equal((await health.ready()).status, "ok");
    await clock.advance("10s");
    hangs = true;
    // Its clock stands still: a wait with a time limit never ends.
    assert.equal((await within(REAL_MS, health.live()))?.status, "ok");
    assert.equal((await asked(clock, health.ready())).status, "down");
    assert.equal((await within(REAL_MS, health.ready()))?.status, "down");
    assert.equal((await within(REAL_MS, health.health()))?.status, "down");
  });

  test("that is rarely probed is not reported dead for the time between probes", async () => {
    await using ward = await openWithOutage();
    const { health, clock, database } = ward;
    await startIn(ward);
    assert.equal((await health.live()).status, "ok");
    await clock.advance("1s");
    database.down = true;
    await clock.advance("10m");
    assert.equal((await health.live()).status, "ok");
  });

  test("is alive, not ready, and says that it is down; and all is well when it is back", async () => {
    await using ward = await openWithOutage();
    const { health, clock, database } = ward;
    await startIn(ward);
    database.down = true;
    await clock.advance("10m");
    assert.equal((await health.live()).status, "ok");
    assert.deepEqual((await health.ready()).reasons, ["the database does not answer"]);
    const told = await health.health();
    assert.equal(told.status, "down");
    assert.deepEqual(told.checks[0], {
      name: "database",
      status: "down",
      detail: "the database does not answer",
    });
    database.down = false;
    await clock.advance("30s");
    assert.equal((await health.live()).status, "ok");
    assert.equal((await health.ready()).status, "ok");
  });

  test("is not ready with tables of another version, and says what to do", async () => {
    let store: Store | null = null;
    await using ward = await openWard((opened) => {
      store = opened;
      return opened;
    });
    const { engine } = (store as unknown as Store).db;
    await engine.run(sql`delete from holdfast.migration`);
    const { status, reasons } = await ward.health.ready();
    assert.equal(status, "down");
    assert.match(String(reasons[0]), /migrate/);
    assert.equal((await ward.health.live()).status, "ok");
  });
});
