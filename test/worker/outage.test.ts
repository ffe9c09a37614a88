import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { testClock, type TestClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, keepLog, until, withCode, type KeptLog } from "./observe.ts";
import { withOutage, type Outage } from "./wrapped-store.ts";

after(assertNothingRuns);

interface Site extends AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly clock: TestClock;
  readonly outage: Outage;
  readonly log: KeptLog;
}

/** A Holdfast on a clock of its own, whose database can be taken away. */
async function site(): Promise<Site> {
  const clock = testClock();
  const log = keepLog();
  const outage = withOutage(await openStore("sqlite::memory:", { runtime: clock }));
  const holdfast = await openHoldfast(outage.store, { runtime: clock, logger: log.logger });
  return {
    holdfast,
    clock,
    outage,
    log,
    async [Symbol.asyncDispose]() {
      outage.down = false;
      const closed = holdfast.close();
      await clock.advance("1m");
      await closed;
    },
  };
}

suite("while the database is away", () => {
  test("outcomes are kept and settled when it is back; no task runs twice for it", async () => {
    await using place = await site();
    const { holdfast, clock, outage } = place;
    let runs = 0;
    const end = Promise.withResolvers<string>();
    const task = defineTask({
      name: "work",
      run() {
        runs += 1;
        return end.promise;
      },
    });
    const worker = await holdfast.startWorker({ tasks: [task], lease: "10m" });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("1s");
    assert.equal(runs, 1);

    outage.down = true;
    end.resolve("worked while the database was away");
    await clock.advance("1m");
    assert.ok(outage.refused > 1, "the outcome was offered more than once");
    assert.equal(worker.status().done, 0);

    outage.down = false;
    await clock.advance("10s");
    assert.equal(worker.status().done, 1);
    assert.equal(await job.result(), "worked while the database was away");
    assert.equal(runs, 1);
    const { attempts, crashes } = await job.get();
    assert.deepEqual({ attempts, crashes }, { attempts: 1, crashes: 0 });
  });

  test("the outage is logged once, and so is its end; each activity says it for debugging", async () => {
    await using place = await site();
    const { holdfast, clock, outage, log } = place;
    const task = defineTask({ name: "idle", run: () => null });
    await holdfast.startWorker({ tasks: [task], poll: "1s" });
    await clock.advance("5s");
    assert.deepEqual(
      log.lines.filter(({ level }) => level === "error"),
      [],
    );

    outage.down = true;
    await clock.advance("2m");
    outage.down = false;
    await clock.advance("30s");
    assert.ok(outage.refused > 10, "it was tried again and again");
    const loud = log.lines.filter(({ facts, level }) => level === "error" || "awayMs" in facts);
    assert.deepEqual(
      loud.map(({ level, facts }) => [level, facts["event"]]),
      [
        ["error", "database:away"],
        ["info", "database:back"],
      ],
    );
    const [away, back] = loud;
    assert.match(
      away?.message ?? "",
      /^the database is unavailable \(.+\); running jobs continue, no job is claimed$/,
    );
    assert.equal(codeOf(away?.facts["err"]), "STORE_UNAVAILABLE");
    assert.match(back?.message ?? "", /^the database is back after (?:1m 5\ds|2m.*)$/);
    const loopsOf = (event: string) =>
      log.lines
        .filter(({ level, facts }) => level === "debug" && facts["event"] === event)
        .map(({ facts }) => String(facts["loop"]))
        .toSorted();
    const failed = loopsOf("loop:failed");
    assert.ok(failed.includes("poll cycle") && failed.includes("maintenance"));
    assert.deepEqual(failed, [...new Set(failed)], "one line each");
    assert.deepEqual(loopsOf("loop:recovered"), failed, "everyone who failed works again");
  });

  test("an outage in which all activities ended is over: the next one is logged again", async () => {
    await using place = await site();
    const { holdfast, clock, outage, log } = place;
    const task = defineTask({ name: "idle", run: () => null });
    for (const outages of [1, 2]) {
      const worker = await holdfast.startWorker({ tasks: [task], poll: "1s" });
      await clock.advance("5s");
      outage.down = true;
      await clock.advance("20s");
      const away = log.lines.filter(({ facts }) => facts["event"] === "database:away");
      assert.equal(away.length, outages);
      const stopped = worker.stop();
      await clock.advance("1m");
      await stopped;
      outage.down = false;
    }
  });

  test("a standby keeps waiting, and takes over when the database is back", async () => {
    await using place = await site();
    const { holdfast, clock, outage, log } = place;
    const task = defineTask({ name: "idle", run: () => null });
    const options = { tasks: [task], name: "leader", slots: 1, onConflict: "standby" } as const;
    const active = await holdfast.startWorker(options);
    const starting = holdfast.startWorker(options);
    await clock.advance("5s");
    outage.down = true;
    await clock.advance("10s");
    outage.down = false;
    await clock.advance("10s");
    assert.equal(log.of("worker is standing by").length, 1);
    const stopped = active.stop();
    await clock.advance("10s");
    await stopped;
    const next = await starting;
    assert.equal(next.status().instance, 2);
  });

  test("a worker that was replaced meanwhile keeps trying, and logs it once", async () => {
    await using place = await site();
    const { holdfast, clock, log } = place;
    const task = defineTask({ name: "idle", run: () => null });
    const worker = await holdfast.startWorker({ tasks: [task], name: "leader", slots: 1 });
    const { id } = worker;
    await holdfast.store.workers.move(id, { state: "stopped", reason: "stale" });
    const other = await holdfast.startWorker({ tasks: [task], name: "leader", slots: 1 });
    await clock.advance("1m");
    const said = log.lines.filter(({ message }) => message.startsWith("could not register again"));
    assert.equal(said.length, 1);
    const stopped = other.stop();
    await clock.advance("10s");
    await stopped;
    await clock.advance("10s");
    assert.notEqual(worker.id, id);
    assert.equal(worker.status().instance, 3);
  });

  test("a task that runs is not disturbed, if the outage is shorter than its lease", async () => {
    await using place = await site();
    const { holdfast, clock, outage, log } = place;
    let signal: AbortSignal | null = null;
    const end = Promise.withResolvers<string>();
    const task = defineTask({
      name: "work",
      run(_input: null, ctx) {
        ({ signal } = ctx);
        return end.promise;
      },
    });
    const worker = await holdfast.startWorker({ tasks: [task], lease: "30s" });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("1s");
    outage.down = true;
    await clock.advance("10s");
    outage.down = false;
    await clock.advance("1m");
    assert.equal((signal as AbortSignal | null)?.aborted, false);
    end.resolve("undisturbed");
    await clock.advance("1s");
    assert.equal(await job.result(), "undisturbed");
    assert.equal(worker.status().leasesLost, 0);
    assert.deepEqual(log.of("job ownership lost"), []);
  });

  test("a task is stopped with LEASE_LOST before its lease ends, and not after", async () => {
    await using place = await site();
    const { holdfast, clock, outage, log } = place;
    const lost: { at: number; code: string }[] = [];
    let runs = 0;
    const task = defineTask({
      name: "work",
      run(_input: null, { signal }) {
        runs += 1;
        if (runs > 1) return "the second time";
        return new Promise<string>((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            lost.push({ at: clock.now(), code: codeOf(signal.reason) });
            reject(new Error("stopped"));
          });
        });
      },
    });
    const worker = await holdfast.startWorker({ tasks: [task], lease: "30s" });
    const job = await holdfast.enqueue(task, null);
    await clock.advance("1m");
    const [lease] = await holdfast.leases.list();
    outage.down = true;
    await clock.advance("1m");
    assert.equal(lost.length, 1);
    assert.equal(lost[0]?.code, "LEASE_LOST");
    assert.ok(lost[0].at < lease!.lockedUntil, "it went on after its lease had ended");
    assert.ok(lost[0].at > lease!.lockedUntil - 10_000, "it was stopped long before it had to be");
    assert.equal(log.of("job ownership lost").length, 1);

    // Handed back, or taken back as a crash, whichever loop came first: it is done at the second try.
    outage.down = false;
    await clock.advance("1m");
    assert.equal(await job.result(), "the second time");
    assert.equal(worker.status().leasesLost, 1);
  });

  test("nothing is accepted, and the caller gets an error", async () => {
    await using place = await site();
    const { holdfast, outage } = place;
    const task = defineTask({ name: "work", run: () => null });
    outage.down = true;
    await assert.rejects(holdfast.enqueue(task, null), withCode("STORE_UNAVAILABLE"));
    outage.down = false;
    assert.deepEqual(await holdfast.jobs.list(), []);
  });
});

suite("after the database was away", () => {
  test("jobs that were waiting are run", async () => {
    await using place = await site();
    const { holdfast, clock, outage } = place;
    const task = defineTask({ name: "work", run: (n: number) => n + 1 });
    await holdfast.startWorker({ tasks: [task] });
    const scheduled = await holdfast.enqueue(task, 1, { delay: "30s" });
    outage.down = true;
    await clock.advance("5m");
    outage.down = false;
    const pending = await holdfast.enqueue(task, 2);
    await clock.advance("20s");
    assert.equal(await scheduled.result(), 2);
    assert.equal(await pending.result(), 3);
  });

  test("a caller that waits for a result gets it", async () => {
    await using place = await site();
    const { holdfast, clock, outage } = place;
    const task = defineTask({ name: "work", run: () => "at last" });
    const job = await holdfast.enqueue(task, null);
    const result = job.result();
    await clock.settle();
    outage.down = true;
    await clock.advance("1m");
    outage.down = false;
    await holdfast.startWorker({ tasks: [task] });
    await clock.advance("20s");
    assert.equal(await until("the result is there", () => result), "at last");
  });
});
