import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { Report } from "../../src/app/ops.ts";
import { openStore } from "../../src/app/store.ts";
import {
  type Context,
  defineTask,
  GiveUpError,
  type Holdfast,
  openHoldfast,
} from "../../src/index.ts";
import { REPORTS_PER_SECOND_MAX } from "../../src/reports/buffer.ts";
import { openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "./observe.ts";
import { mapParts, onPart, withOutage, wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const RETRY = { maxAttempts: 5, backoff: { initial: "1s", max: "1s" } } as const;

function saying(say: (ctx: Context) => unknown) {
  return defineTask({ name: "say", retry: RETRY, run: (_input: null, ctx) => say(ctx) });
}

/** What a report says, in a word. */
function word(report: Report): string {
  switch (report.kind) {
    case "progress":
      return `${report.share * 100} %`;
    case "log":
      return report.text;
    case "report":
      return `${report.name} ${JSON.stringify(report.data)}`;
    case "dropped":
      return `${report.count} dropped`;
  }
}

async function words(holdfast: Holdfast, id: string): Promise<string[]> {
  const reports = await holdfast.jobs.reports(id, { limit: 1_000 });
  assert.deepEqual(
    reports.map(({ seq }) => seq),
    reports.map((_, index) => index + 1),
    "numbered from 1, without gaps",
  );
  return reports.map(word);
}

suite("the reports of a task", () => {
  test("are stored in order, with their time", async () => {
    await using kit = await openTestHoldfast();
    const task = saying((ctx) => {
      ctx.log("began", { rows: 2 });
      ctx.report("row", [1]);
      ctx.progress({ done: 1, total: 2 }, "halfway");
      ctx.log("ended");
    });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task]);
    assert.deepEqual(await words(kit.holdfast, job.id), ["began", "row [1]", "50 %", "ended"]);
    const [first, , third] = await kit.holdfast.jobs.reports(job.id);
    const at = kit.clock.now();
    assert.deepEqual(first, {
      seq: 1,
      epoch: 1,
      at,
      kind: "log",
      level: "info",
      text: "began",
      data: { rows: 2 },
    });
    assert.deepEqual(third, {
      seq: 3,
      epoch: 1,
      at,
      kind: "progress",
      share: 0.5,
      done: 1,
      total: 2,
      text: "halfway",
    });
  });

  for (const [how, end] of Object.entries({
    returns: (): void => {},
    throws: (): void => assert.fail("broken"),
    "gives up": (): void => {
      throw new GiveUpError("hopeless");
    },
  })) {
    test(`are there when a task that ${how} has ended`, async () => {
      await using kit = await openTestHoldfast();
      const task = saying((ctx) => {
        ctx.log("last words");
        end();
      });
      const job = await kit.holdfast.enqueue(task, null, { maxAttempts: 1 });
      await kit.drain([task]);
      assert.notEqual((await job.get()).status, "processing");
      assert.deepEqual(await words(kit.holdfast, job.id), ["last words"]);
    });
  }

  test("continue their numbers after a failure, and after a suspension", async () => {
    await using kit = await openTestHoldfast();
    const task = saying(async (ctx) => {
      ctx.log(`try ${ctx.fence.epoch}`);
      if (ctx.fence.epoch === 1) throw new Error("again");
      await ctx.sleep("nap", "1h");
      ctx.log("slept");
    });
    const job = await kit.holdfast.enqueue(task, null);
    await kit.drain([task], { skipTime: true });
    assert.deepEqual(await words(kit.holdfast, job.id), ["try 1", "try 2", "try 3", "slept"]);
    const reports = await kit.holdfast.jobs.reports(job.id);
    assert.deepEqual(
      reports.map(({ epoch }) => epoch),
      [1, 2, 3, 3],
    );
  });

  test("are discarded after the attempt has ended", async () => {
    await using kit = await openTestHoldfast();
    const contexts: Context[] = [];
    const silent = defineTask({ name: "silent", run: (_: null, ctx) => void contexts.push(ctx) });
    const loud = saying((ctx) => {
      ctx.log("in time");
      contexts.push(ctx);
    });
    const jobs = [await kit.holdfast.enqueue(silent, null), await kit.holdfast.enqueue(loud, null)];
    await kit.drain([silent, loud]);
    for (const ctx of contexts) ctx.log("too late");
    await kit.clock.advance("1m");
    const said = await Promise.all(jobs.map(({ id }) => words(kit.holdfast, id)));
    assert.deepEqual(said, [[], ["in time"]]);
  });
});

interface Stage extends AsyncDisposable {
  readonly holdfast: Holdfast;
  /** How many batches were written. */
  readonly writes: number[];
  /** A job that runs until its task is let go, and its context. */
  start(): Promise<{ id: string; ctx: Context; end: () => Promise<void> }>;
  advance(duration: string): Promise<void>;
}

/** A worker on a clock that the test moves; every batch it writes is counted. */
async function openStage(): Promise<Stage> {
  const clock = testClock();
  const writes: number[] = [];
  const store = wrapStore(await openStore("sqlite::memory:", { runtime: clock }), (real) => ({
    reports: {
      put(fence, reports) {
        writes.push(reports.length);
        return real.reports.put(fence, reports);
      },
    },
  }));
  const holdfast = await openHoldfast(store, { runtime: clock, version: "test" });
  const begun: ((ctx: Context) => void)[] = [];
  const gate = Promise.withResolvers<null>();
  const task = saying((ctx) => {
    begun.shift()?.(ctx);
    return gate.promise;
  });
  await holdfast.startWorker({ tasks: [task], lease: "10m" });
  return {
    holdfast,
    writes,
    advance: (duration) => clock.advance(duration),
    async start() {
      const running = Promise.withResolvers<Context>();
      begun.push(running.resolve);
      const { id } = await holdfast.enqueue(task, null);
      await clock.advance("1s");
      const end = async (): Promise<void> => {
        gate.resolve(null);
        await clock.advance("1s");
        assert.equal((await holdfast.jobs.get(id))?.status, "done");
      };
      return { id, ctx: await running.promise, end };
    },
    async [Symbol.asyncDispose]() {
      gate.resolve(null);
      const closing = holdfast.close();
      await clock.advance("1m");
      await closing;
    },
  };
}

suite("reports are gathered", () => {
  test("and written together, a moment after they were made", async () => {
    await using stage = await openStage();
    const { id, ctx } = await stage.start();
    for (let n = 1; n <= 50; n += 1) ctx.log(`line ${n}`);
    assert.deepEqual(stage.writes, []);
    await stage.advance("1s");
    assert.deepEqual(stage.writes, [50]);
    assert.equal((await words(stage.holdfast, id)).at(-1), "line 50");
  });

  test("each with the time at which it was reported, not written", async () => {
    await using stage = await openStage();
    const { id, ctx } = await stage.start();
    ctx.log("first");
    await stage.advance("50ms");
    ctx.log("second");
    await stage.advance("1s");
    assert.deepEqual(stage.writes, [2]);
    const [first, second] = await stage.holdfast.jobs.reports(id);
    assert.equal((second?.at ?? 0) - (first?.at ?? 0), 50);
  });

  test("at once when there are many", async () => {
    await using stage = await openStage();
    const { ctx } = await stage.start();
    for (let n = 1; n <= 100; n += 1) ctx.log(`line ${n}`);
    await stage.advance(0 as never);
    assert.deepEqual(stage.writes, [100]);
  });

  test("and of progress the last of each second is kept, and the last of all", async () => {
    await using stage = await openStage();
    const { id, ctx, end } = await stage.start();
    for (let step = 1; step <= 40; step += 1) {
      ctx.progress({ done: step, total: 100 });
      await stage.advance("100ms");
    }
    const sofar = await words(stage.holdfast, id);
    assert.ok(sofar.length >= 3 && sofar.length <= 5, sofar.join());
    ctx.progress(0.5);
    ctx.progress(1);
    await end();
    const all = await words(stage.holdfast, id);
    assert.deepEqual(all.slice(-1), ["100 %"]);
    assert.ok(!all.includes("50 %"));
  });

  test("and reports beyond the rate limit are dropped, and the stream says so", async () => {
    await using stage = await openStage();
    const { id, ctx, end } = await stage.start();
    for (let n = 1; n <= REPORTS_PER_SECOND_MAX + 20; n += 1) ctx.log(`line ${n}`);
    ctx.progress(0.5); // is never too much
    await stage.advance("1s");
    ctx.report("later", 1);
    await stage.advance("1s");
    const all = await words(stage.holdfast, id);
    assert.deepEqual(all.slice(REPORTS_PER_SECOND_MAX - 1), [
      `line ${REPORTS_PER_SECOND_MAX}`,
      "50 %",
      "20 dropped",
      "later 1",
    ]);
    for (let n = 1; n <= REPORTS_PER_SECOND_MAX + 7; n += 1) ctx.report("again");
    await end();
    assert.equal((await words(stage.holdfast, id)).at(-1), "7 dropped");
  });

  test("and a task that reports nothing costs no call", async () => {
    const clock = testClock();
    const asked = new Set<string>();
    const real = await openStore("sqlite::memory:", { runtime: clock });
    const store = mapParts(real, (part, of) =>
      onPart(part, (verb) => void asked.add(`${of}.${verb}`)),
    );
    const holdfast = await openHoldfast(store, { runtime: clock, version: "test" });
    const task = saying((ctx) => ctx.attempt === 1 && assert.fail("once more"));
    const job = await holdfast.enqueue(task, null);
    await holdfast.startWorker({ tasks: [task] });
    await clock.advance("1m");
    assert.equal((await job.get()).status, "done");
    assert.ok(asked.has("jobs.settleAndClaim"));
    const ours = ["put", "last", "list", "standing"];
    assert.deepEqual(
      ours.filter((verb) => asked.has(`reports.${verb}`)),
      [],
    );
    const closing = holdfast.close();
    await clock.advance("1m");
    await closing;
  });
});

suite("a database that is away", () => {
  test("fails no task that reports, and gets all reports once when it is back", async () => {
    await using stage = await openOutage();
    const { holdfast, clock, outage, ctx, id } = stage;
    ctx().log("before");
    await clock.advance("1s");
    outage.down = true;
    ctx().log("meanwhile");
    await clock.advance("10s");
    ctx().progress(0.5);
    await clock.advance("10s");
    outage.down = false;
    ctx().log("after");
    await clock.advance("5s");
    assert.deepEqual(await words(holdfast, id), ["before", "meanwhile", "50 %", "after"]);
  });

  test("does not make a task fill the memory: what is too much is dropped and counted", async () => {
    await using stage = await openOutage({ only: "putReports" });
    const { holdfast, clock, outage, ctx, id } = stage;
    outage.down = true;
    for (let second = 1; second <= 20; second += 1) {
      for (let n = 1; n <= 50; n += 1) ctx().log(`${second}`);
      await clock.advance("1s");
    }
    assert.ok(outage.refused <= 21, `asked once a second, not ${outage.refused} times`);
    outage.down = false;
    await clock.advance("10s");
    const reports = await holdfast.jobs.reports(id, { limit: 1_000 });
    const kept = reports.filter(({ kind }) => kind === "log").length;
    const dropped = reports.reduce((sum, one) => sum + (one.kind === "dropped" ? one.count : 0), 0);
    assert.ok(kept < 500, `${kept} kept`);
    assert.equal(kept + dropped, 1_000);
  });

  test("keeps an attempt from its end no longer than a moment", async () => {
    await using stage = await openOutage({ only: "putReports" });
    const { holdfast, clock, outage, ctx, id } = stage;
    outage.down = true;
    ctx().log("never heard");
    stage.end();
    await clock.advance("10s");
    assert.equal((await holdfast.jobs.get(id))?.status, "done");
    assert.deepEqual(await words(holdfast, id), []);
  });
});

/** A job that runs on a database that can be taken away. */
async function openOutage({ only }: { only?: string } = {}) {
  const clock = testClock();
  const real = await openStore("sqlite::memory:", { runtime: clock });
  const outage = withOutage(real);
  const store =
    only === undefined
      ? outage.store
      : wrapStore(real, () => ({
          reports: { put: (...args) => outage.store.reports.put(...args) },
        }));
  const holdfast = await openHoldfast(store, { runtime: clock, version: "test" });
  const gate = Promise.withResolvers<null>();
  const begun: Context[] = [];
  const task = saying((ctx) => {
    begun.push(ctx);
    return gate.promise;
  });
  await holdfast.startWorker({ tasks: [task], lease: "10m" });
  const { id } = await holdfast.enqueue(task, null);
  await clock.advance("1s");
  return {
    holdfast,
    clock,
    outage,
    id,
    ctx: () => begun[0] as Context,
    end: () => gate.resolve(null),
    async [Symbol.asyncDispose]() {
      outage.down = false;
      gate.resolve(null);
      const closing = holdfast.close();
      await clock.advance("1m");
      await closing;
    },
  };
}

suite("a worker that lost its job", () => {
  test("can no longer write reports, while the current owner can", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const contexts: Context[] = [];
    const gate = Promise.withResolvers<null>();
    const task = defineTask({
      name: "say",
      retry: { maxAttempts: 5, backoff: { initial: 0 } },
      run(_input: null, ctx) {
        contexts.push(ctx);
        ctx.log(`claimed ${ctx.fence.epoch}`);
        return gate.promise;
      },
    });
    // The job runs again beside its own zombie.
    const options = { maintenanceInterval: 10, concurrency: 2, runSuspectsAlone: false };
    await holdfast.startWorker({ tasks: [task], ...options });
    const job = await holdfast.enqueue(task, null);
    const first = await until("it runs", () => contexts[0]);
    await until("it is heard", async () => (await words(holdfast, job.id)).length === 1);
    const { worker } = first.fence;
    await holdfast.store.jobs.reclaimFrom({ workers: [worker], maxCrashes: 9, limit: 9 });
    first.log("a zombie");
    first.progress(0.9);
    const second = await until("it runs again", () => contexts[1]);
    second.log("its owner");
    const isHeard = async (): Promise<boolean> =>
      (await words(holdfast, job.id)).includes("its owner");
    await until("the owner is heard", isHeard);
    gate.resolve(null);
    await job.result();
    assert.deepEqual(await words(holdfast, job.id), ["claimed 1", "claimed 2", "its owner"]);
  });
});
