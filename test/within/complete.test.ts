/** Tasks that end their jobs inside of transactions of their own, with the drivers themselves. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, beforeEach, describe, test } from "node:test";
import {
  type AnyTask,
  type Context,
  defineTask,
  type Holdfast,
  openHoldfast,
  type Worker,
} from "../../src/index.ts";
import { drain } from "../../src/testing/drain.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import {
  codeOf,
  hear,
  keepLog,
  storyOf,
  until,
  withCode,
  type KeptLog,
} from "../worker/observe.ts";
import { connections, type Connection } from "./connections.ts";

const SLOW = { retry: { maxAttempts: 3, backoff: { initial: 10, max: 10 } } } as const;
const LEASE_MS = 1_500;
/** What a task says is written after this long, if nothing comes in between (src/reports/buffer.ts). */
const WRITTEN_AFTER_MS = 200;
const RESULT = { number: 7 };

for (const { name, skip, place: open } of sampledEngines) {
  describe(`completing a job on ${name}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    let shop: Connection;
    let log: KeptLog;
    before(async () => {
      place = await open();
      log = keepLog();
      holdfast = await openHoldfast(place.url, { version: "build-0", logger: log.logger });
      shop = (await connections[name]?.(place.url)) as Connection;
      await shop.run("create table orders (id integer)");
    });
    after(async () => {
      await shop[Symbol.asyncDispose]();
      await holdfast.close();
      await place[Symbol.asyncDispose]();
    });

    /** Every test has a task of its own: one that failed leaves jobs behind. */
    let tests = 0;
    beforeEach(() => void (tests += 1));
    const taskName = (): string => `ship ${tests}`;

    /** A worker for a task whose function has the shop's connection to itself. */
    async function work(
      run: (ctx: Context) => Promise<unknown>,
      options: { timeout?: number; others?: readonly AnyTask[]; lease?: number } = {},
    ): Promise<Worker> {
      const { timeout, others = [], lease = 30_000 } = options;
      const task = defineTask({
        name: taskName(),
        ...SLOW,
        ...(timeout === undefined ? {} : { timeout }),
        run: (_input: unknown, ctx) => run(ctx),
      });
      return holdfast.startWorker({
        tasks: [task, ...others],
        concurrency: 4,
        lease,
        grace: 0,
        maintenanceInterval: 20,
        poll: "100ms",
      });
    }

    async function book(ctx: Context, result: unknown = RESULT): Promise<void> {
      await shop.run("begin");
      await shop.run("insert into orders values (1)");
      await ctx.complete(shop.tx, result);
    }

    test("it is done with the commit, with the result that was given", async () => {
      const countBefore = await shop.count();
      await using worker = await work(async (ctx) => {
        await book(ctx);
        await shop.run("commit");
        return "something else";
      });
      const heard = hear(worker);
      const job = await holdfast.enqueue(taskName(), null);
      assert.deepEqual(await job.result({ timeout: "20s" }), RESULT);
      await until("it is told", () => storyOf(heard, job.id).includes("job:done"));
      assert.deepEqual(storyOf(heard, job.id), ["job:started", "job:done"]);
      assert.equal(await shop.count(), countBefore + 1);
      const { done, staleWritesRefused, leasesLost } = worker.status();
      assert.deepEqual([done, staleWritesRefused, leasesLost], [1, 0, 0]);
      assert.equal((await holdfast.jobs.attempts(job.id)).length, 1);
    });

    test("earlier reports of the task are written with it, and later ones are discarded", async () => {
      await using worker = await work(async (ctx) => {
        ctx.log("packed");
        ctx.progress(1);
        await book(ctx);
        ctx.log("too late");
        await shop.run("commit");
      });
      const job = await holdfast.enqueue(taskName(), null);
      await job.result({ timeout: "20s" });
      await until("it is told", () => worker.status().done === 1);
      const said = await holdfast.jobs.reports(job.id);
      assert.deepEqual(
        said.map(({ seq, kind }) => [seq, kind]),
        [
          [1, "log"],
          [2, "progress"],
        ],
      );
    });

    test("a refused completion can be tried again, and reports in between are kept", async () => {
      let waitedMs = 0;
      await using worker = await work(async (ctx) => {
        const saidAt = performance.now();
        ctx.log("gone with what was rolled back");
        await shop.run("begin");
        await holdfast.within(shop.tx).cancel(ctx.id);
        await assert.rejects(ctx.complete(shop.tx, RESULT), withCode("JOB_CANCELLED"));
        waitedMs = performance.now() - saidAt;
        await shop.run("rollback");
        ctx.log("once more");
        await book(ctx);
        await shop.run("commit");
      });
      const job = await holdfast.enqueue(taskName(), null);
      assert.deepEqual(await job.result({ timeout: "20s" }), RESULT);
      await until("it is told", () => worker.status().done === 1);
      const said = (await holdfast.jobs.reports(job.id)).map(
        (one) => one.kind === "log" && one.text,
      );
      assert.equal(said.at(-1), "once more");
      // What waited for so long was written by itself, and that is not rolled back.
      if (waitedMs < WRITTEN_AFTER_MS) assert.equal(said.length, 1);
    });

    test("a transaction that is rolled back completes nothing: the job is tried again", async () => {
      const countBefore = await shop.count();
      await using worker = await work(async (ctx) => {
        await book(ctx, ctx.attempt);
        if (ctx.attempt < 3) {
          await shop.run("rollback");
          if (ctx.attempt === 1) throw new Error("no stock");
          return "it was not committed";
        }
        await shop.run("commit");
        return null;
      });
      const heard = hear(worker);
      const job = await holdfast.enqueue(taskName(), null);
      assert.equal(await job.result({ timeout: "20s" }), 3);
      assert.equal(await shop.count(), countBefore + 1);
      const attempts = await holdfast.jobs.attempts(job.id);
      assert.deepEqual(
        attempts.map(({ outcome, error }) => [outcome, error?.code ?? error?.message ?? null]),
        [
          ["retry", "no stock"],
          ["retry", "NOT_COMMITTED"],
          ["done", null],
        ],
      );
      await until("it is told", () => storyOf(heard, job.id).includes("job:done"));
      assert.equal(worker.status().staleWritesRefused, 0);
    });

    test("a transaction may stay open for longer than the lease: no other worker takes the job", async (t) => {
      const begun = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      t.after(() => goOn.resolve());
      let starts = 0;
      await using worker = await work(
        async (ctx) => {
          starts += 1;
          await book(ctx, "long");
          begun.resolve();
          await goOn.promise;
          await shop.run("commit");
        },
        { lease: LEASE_MS },
      );
      const job = await holdfast.enqueue(taskName(), null);
      await begun.promise;
      await until("its lease is over", async () =>
        (await holdfast.leases.list({ state: "expired" })).some(({ id }) => id === job.id),
      );
      // SQLite has one writer at a time.
      const taken = name === "SQLite" ? [] : await holdfast.leases.resetExpired({ grace: 0 });
      assert.deepEqual(taken, []);
      goOn.resolve();
      assert.equal(await job.result({ timeout: "20s" }), "long");
      assert.equal(starts, 1);
      assert.equal(worker.status().leasesLost, 0);
    });

    test("leases of others are renewed while a transaction is open", async (t) => {
      if (name === "SQLite") return t.skip("one transaction at a time writes there");
      const goOn = Promise.withResolvers<void>();
      t.after(() => goOn.resolve());
      const renewed = Promise.withResolvers<void>();
      const other = defineTask({ name: "other", queue: "others", run: () => renewed.promise });
      await using worker = await work(
        async (ctx) => {
          await book(ctx);
          await goOn.promise;
          await shop.run("commit");
        },
        { others: [other], lease: LEASE_MS },
      );
      const beside = await holdfast.enqueue(other, null);
      const job = await holdfast.enqueue(taskName(), null);
      await until("both run", () => worker.status().running === 2);
      const heldUntil = async () => Number((await beside.get()).lockedUntil);
      const at = await heldUntil();
      await until(
        "it is renewed again and again",
        async () => (await heldUntil()) > at + 3 * LEASE_MS,
      );
      assert.equal((await beside.get()).epoch, 1);
      goOn.resolve();
      renewed.resolve();
      await job.result({ timeout: "20s" });
      await beside.result({ timeout: "20s" });
      assert.equal(worker.status().leasesLost, 0);
    });

    test("a function that hangs with its transaction open does not hold up the others", async (t) => {
      if (name === "SQLite") return t.skip("one transaction at a time writes there");
      const ended = Promise.withResolvers<void>();
      t.after(() => ended.resolve());
      let tries = 0;
      const quick = defineTask({ name: "quick", run: (n: number) => n });
      await using worker = await work(
        async (ctx) => {
          tries += 1;
          await book(ctx, tries);
          if (tries === 1) {
            await once(ctx.signal, "abort");
            await ended.promise;
            await shop.run("rollback");
            return;
          }
          await shop.run("commit");
        },
        { others: [quick], timeout: 1_500, lease: LEASE_MS },
      );
      const heard = hear(worker);
      const job = await holdfast.enqueue(taskName(), null);
      await until("it is left alone", () => storyOf(heard, job.id).includes("lease:lost"));
      for (const n of [1, 2, 3]) {
        assert.equal(await (await holdfast.enqueue(quick, n)).result({ timeout: "10s" }), n);
      }
      assert.equal((await job.get()).status, "processing");
      ended.resolve();
      assert.equal(await job.result({ timeout: "20s" }), 2);
    });

    test("an error after the commit changes nothing, and is logged", async () => {
      await using worker = await work(async (ctx) => {
        await book(ctx);
        await shop.run("commit");
        throw new Error("too late");
      });
      const job = await holdfast.enqueue(taskName(), null);
      assert.deepEqual(await job.result({ timeout: "20s" }), RESULT);
      const lines = await until("it is said", () => {
        const said = log.of("a task threw after its attempt ended");
        return said.length > 0 ? said : null;
      });
      assert.equal(lines[0]?.facts["job"], job.id);
      assert.equal(worker.status().retried, 0);
    });

    test("a job with a cancel request is not completed", async () => {
      const countBefore = await shop.count();
      const told: unknown[] = [];
      await using worker = await work(async (ctx) => {
        await holdfast.jobs.cancel(ctx.id);
        try {
          await book(ctx);
        } catch (error) {
          told.push(codeOf(error));
          throw error;
        } finally {
          await shop.run("rollback");
        }
      });
      const job = await holdfast.enqueue(taskName(), null);
      await assert.rejects(job.result({ timeout: "20s" }), withCode("JOB_CANCELLED"));
      assert.deepEqual(told, ["JOB_CANCELLED"]);
      await until("it is told", () => worker.status().cancelled === 1);
      assert.equal(await shop.count(), countBefore);
    });

    test("a worker that lost the job completes nothing", async () => {
      await using worker = await work(async (ctx) => {
        if (ctx.attempt > 1) return "the second";
        await holdfast.leases.release(ctx.fence, { as: "failed", error: "taken", retryIn: 0 });
        await shop.run("begin");
        try {
          await ctx.complete(shop.tx, "the first");
        } finally {
          await shop.run("rollback");
        }
        return null;
      });
      const job = await holdfast.enqueue(taskName(), null);
      assert.equal(await job.result({ timeout: "20s" }), "the second");
      const isTold = until("the first is told", () => worker.status().leasesLost > 0);
      await isTold.catch((error: unknown) => {
        throw new Error(JSON.stringify(log.lines.slice(-20)), { cause: error });
      });
      assert.equal(worker.status().leasesLost, 1);
    });

    test("complete() is allowed once, after all steps and outside them, and needs a transaction", async () => {
      const told: string[] = [];
      const refused = async (call: () => Promise<unknown>): Promise<void> => {
        await assert.rejects(call(), (error: Error) => {
          told.push(`${codeOf(error)}: ${error.message}`);
          return true;
        });
      };
      await using worker = await work(async (ctx) => {
        await refused(() => ctx.complete(null, 1));
        await refused(() => ctx.complete({ query: 7 }, 1));
        await refused(() => ctx.complete(shop.tx, new Date(0)));
        await refused(() => ctx.step("inside", () => ctx.complete(shop.tx, 1)));
        const end = Promise.withResolvers<void>();
        const step = ctx.step("beside", () => end.promise);
        await refused(() => ctx.complete(shop.tx, 1));
        end.resolve();
        await step;
        await book(ctx, 1);
        await refused(() => ctx.complete(shop.tx, 2));
        await refused(() => ctx.step("after", () => 1));
        await refused(() => ctx.sleep("after", 1));
        await shop.run("commit");
      });
      const job = await holdfast.enqueue(taskName(), null);
      assert.equal(await job.result({ timeout: "20s" }), 1);
      const expected = [
        /^INVALID_ARGUMENT: tx/,
        /^INVALID_ARGUMENT: tx/,
        /^NOT_SERIALIZABLE/,
        /^INVALID_ARGUMENT: complete: it was called inside a step/,
        /^INVALID_ARGUMENT: complete: steps are in progress/,
        /^INVALID_ARGUMENT: complete: the job is already completed/,
        /^INVALID_ARGUMENT: name: 'after' began after/,
        /^INVALID_ARGUMENT: name: 'after' began after/,
      ];
      for (const [at, pattern] of expected.entries()) assert.match(told[at] ?? "", pattern);
      assert.equal(told.length, expected.length);
      assert.equal(worker.status().retried, 0);
    });

    test("a lease is renewed again after a complete that was refused", async () => {
      await using worker = await work(
        async (ctx) => {
          await assert.rejects(ctx.complete(null, 1), withCode("INVALID_ARGUMENT", "tx"));
          const heldUntil = async () => (await holdfast.jobs.get(ctx.id))?.lockedUntil ?? 0;
          const at = await heldUntil();
          await until("it is renewed", async () => (await heldUntil()) > at);
          return "as ever";
        },
        { lease: LEASE_MS },
      );
      const job = await holdfast.enqueue(taskName(), null);
      assert.equal(await job.result({ timeout: "20s" }), "as ever");
      assert.equal((await holdfast.jobs.attempts(job.id)).length, 1);
      assert.equal(worker.status().leasesLost, 0);
    });

    test("drain() distinguishes committed and uncommitted completions", async () => {
      const task = defineTask({
        name: taskName(),
        retry: { backoff: { initial: "1h" } },
        async run(end: string, ctx) {
          await book(ctx, end);
          await shop.run(end);
        },
      });
      const jobs = await holdfast.enqueueMany(task, ["commit", "rollback"]);
      await drain(holdfast, [task]);
      const views = await Promise.all(jobs.map((job) => job.get()));
      assert.deepEqual(
        views.map(({ status, result, lastError }) => [status, result, lastError?.code]),
        [
          ["done", "commit", undefined],
          ["retry", undefined, "NOT_COMMITTED"],
        ],
      );
    });
  });
}

after(assertNothingRuns);
