/** A network that goes silent: connections stay open, and nothing comes through. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { LeaseLostError, StoreUnavailableError } from "../../src/index.ts";
import { mustFind } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Proxy } from "../support/proxy.ts";
import { scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { isLong } from "../support/scale.ts";
import { within } from "../support/waiting.ts";
import { until } from "../worker/observe.ts";
import { Crew } from "./crew.ts";
import { engines } from "./engines.ts";
import { hurried } from "./hurried.ts";

/** Statements are given up after half a minute, which is no time for a test that everybody runs. */
const long = { skip: isLong ? false : "takes minutes: LONG=1" };
const LONG_MS_MAX = 120_000;
/** One that was on its way during the silence may be given up, and its locks with it. */
const STATEMENT_MS_MAX = 60_000;
/** A statement that is given up, and a last one. */
const STOP_MS_MAX = 60_000;
/** How much faster our own limits pass. */
const HURRY = 20;

for (const engine of engines) {
  describe(engine.label, { skip: engine.missing, timeout: 300_000 }, () => {
    let database: ScratchDatabase;
    before(async () => void (database = await scratchDatabase(engine.kind)));
    after(() => database.drop());

    test("a silence shorter than the lease disturbs no task, and everything continues after it", async () => {
      await using proxy = await Proxy.before(database.url);
      await using crew = await Crew.start(proxy.url, { lease: "4s" });
      await using direct = await watching(database.url);
      const job = await crew.held();
      proxy.hang();
      const { lockedUntil } = await mustFind(direct.store, job.id);
      const enqueued = crew.quick();
      await until("half of the lease is over", () => Date.now() > Number(lockedUntil) - 2_000);
      proxy.flow();
      await until("it is renewed", async () => {
        const now = await mustFind(direct.store, job.id);
        return Number(now.lockedUntil) > Number(lockedUntil);
      });
      assert.equal(crew.aborts(job.id), undefined);
      crew.end(job.id);
      await crew.checkDoneOnce([job, await enqueued]);
      await crew.checkLog({ timesMax: 1 });
    });

    test("trust in a lease ends before the lease does, and the job runs again after the silence", async () => {
      await using proxy = await Proxy.before(database.url);
      await using crew = await Crew.start(proxy.url, {
        lease: "2s",
        grace: "100ms",
        maintenanceInterval: "100ms",
      });
      await using direct = await watching(database.url);
      const job = await crew.held();
      proxy.hang();
      const enqueued = crew.quick();
      const aborted = await until("its signal aborts", () => crew.aborts(job.id));
      const abortedAt = Date.now();
      const { lockedUntil, status, epoch } = await mustFind(direct.store, job.id);
      assert.ok(aborted.reason instanceof LeaseLostError, String(aborted.reason));
      assert.ok(abortedAt < Number(lockedUntil), "it went on after its lease had ended");
      assert.deepEqual({ status, epoch }, { status: "processing", epoch: 1 });
      assert.equal(crew.log.of("job ownership lost").length, 1);
      proxy.flow();
      await until("it runs again", () => crew.runs(job.id) === 2, STATEMENT_MS_MAX);
      crew.end(job.id);
      await crew.checkDone([job, await enqueued, await crew.quick()]);
      assert.equal(crew.runs(job.id), 2);
    });

    test("a network that is cut and refuses for a while costs time and no job", async () => {
      await using proxy = await Proxy.before(database.url);
      await using crew = await Crew.start(proxy.url, { lease: "10s" });
      const job = await crew.held();
      const stream = crew.stream();
      await stream.more(5);
      proxy.refuse();
      proxy.cut();
      crew.end(job.id);
      await until("an activity fails", () => crew.complaints().size > 0);
      assert.ok(proxy.counters.resets > 0);
      await proxy.accept();
      await stream.more(5);
      await stream.stop();
      await crew.checkDoneOnce([job, ...stream.accepted]);
      await crew.checkLog({ timesMax: 1 });
    });

    test(
      "connections that stay silent are given up, and new ones take their place",
      long,
      async () => {
        await using proxy = await Proxy.before(database.url);
        await using crew = await Crew.start(proxy.url, { lease: "10s" });
        const job = await crew.held();
        assert.ok(proxy.forget() > 0);
        const jobs = [job, await crew.quick(), await crew.quick()] as const;
        crew.end(job.id);
        for (const each of jobs) {
          const isDone = async (): Promise<boolean> => (await each.get()).status === "done";
          await until("it is done", isDone, LONG_MS_MAX);
        }
      },
    );

    // PostgreSQL's driver counts this limit itself, by the real clock.
    const counted = engine.kind === "postgres" ? long : {};
    test(
      "a statement that is never answered is given up, and the next one gets through",
      counted,
      async () => {
        await using proxy = await Proxy.before(database.url);
        const store = await openStore(proxy.url, { runtime: hurried(HURRY) });
        try {
          await store.migrate();
          assert.ok(proxy.forget() > 0);
          await store.jobs
            .stats()
            .catch((error: unknown) => assert.ok(error instanceof StoreUnavailableError));
          await store.jobs.stats();
        } finally {
          await store.close();
        }
      },
    );

    test("a worker can be stopped during a silence", long, async () => {
      await using proxy = await Proxy.before(database.url);
      await using crew = await Crew.start(proxy.url, { lease: "5s" });
      await crew.held();
      proxy.hang();
      try {
        const stopped = crew.worker.stop({ timeout: 0 }).then(() => "stopped");
        assert.equal(await within(STOP_MS_MAX, stopped), "stopped");
      } finally {
        proxy.flow();
      }
    });
  });
}

/** A store that no proxy disturbs. */
async function watching(url: string) {
  const store = await openStore(url);
  return { store, [Symbol.asyncDispose]: () => store.close() };
}

after(assertNothingRuns);
