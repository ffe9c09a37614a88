/**
 * The five checks before a rollout, with real processes: two starts, several at once, kill -9, a stop that was killed, and
 * a new build.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import type { UnregisteredWorker, WorkerRecord } from "../../src/app/ops.ts";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { sql } from "../../src/database/sql.ts";
import { assertRefused, TestCli, until, type Started } from "../cli/command.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { drawnEngines, type Place } from "./places.ts";

/** Longer than a process takes to start on any machine: where one has to be stale, its last sign of life is made older. */
const STALE_MS = 10_000;
const HUNG_MS = 900;
const SILENCE = [
  "--heartbeat",
  "100ms",
  "--heartbeat-timeout",
  `${STALE_MS}ms`,
  "--stopping-timeout",
  `${HUNG_MS}ms`,
];
const REFUSED = 5;
const AT_ONCE = 5;

const TASKS = `
export const stay = defineTask({ name: "stay", run: () => new Promise(() => {}) });
export const twice = defineTask({
  name: "twice",
  run: (_: unknown, ctx) => (ctx.attempt === 1 ? new Promise(() => {}) : ctx.attempt),
});
export const add = defineTask({ name: "add", run: ([a, b]: number[]) => a + b });
`;

// The databases side by side: what they do hardly overlaps.
describe("before a rollout", { concurrency: true }, () => {
  for (const { name, skip, place: open } of drawnEngines("checks")) {
    describe(`a singleton on ${name}`, { skip, timeout: 120_000, concurrency: 1 }, () => {
      let cli: TestCli;
      let place: Place;
      let holdfast: Holdfast;
      before(async () => {
        place = await open();
        holdfast = await openHoldfast(place.url);
      });
      after(async () => {
        await holdfast.close();
        await place[Symbol.asyncDispose]();
      });
      afterEach(async () => {
        await cli[Symbol.asyncDispose]();
        await empty(holdfast);
      });

      function start(env: Record<string, string> = {}, more: readonly string[] = []): Started {
        const tasks = cli.tasks("tasks.ts", TASKS);
        const options = ["--tasks", tasks, "--name", "mailer", "--slots", "1", ...SILENCE, ...more];
        return cli.start(["work", "--url", place.url, ...options], { env });
      }

      async function active(): Promise<WorkerRecord[]> {
        const alive = await holdfast.workers.list({ type: "mailer" });
        return alive.filter(({ status }) => status !== "stopping");
      }

      test("cannot be started twice", async () => {
        cli = new TestCli();
        const first = start();
        await first.says("worker started");
        const second = await start().ended;
        assert.equal(second.code, REFUSED);
        assert.match(second.stderr, /Cannot register: another worker already active: mailer-/);
        assert.match(second.stderr, new RegExp(`process ${first.child.pid} `));
        // Nor by declaring that there may be two.
        const third = await start({}, ["--slots", "2"]).ended;
        assert.equal(third.code, REFUSED);
        assert.match(third.stderr, /is 1 slot in the database, and this worker declares 2 slots/);
        assert.equal((await active()).length, 1);
      });

      test(`of ${AT_ONCE} that start at once, one is active and the others are refused`, async () => {
        cli = new TestCli();
        const started = Array.from({ length: AT_ONCE }, () => start());
        await until("one runs and the others ended", () => {
          const ended = started.filter(({ child }) => child.exitCode !== null);
          return ended.length === AT_ONCE - 1;
        });
        const codes = started.map(({ child }) => child.exitCode).filter((code) => code !== null);
        assert.deepEqual(
          codes,
          Array.from({ length: AT_ONCE - 1 }, () => REFUSED),
        );
        assert.equal((await active()).length, 1);
      });

      // What a signal does does not depend on the database.
      if (name === "SQLite") {
        test("that is a standby is listed, and logs it when a signal ends it", async () => {
          cli = new TestCli();
          const first = start();
          await first.says("worker started");
          const standby = start({}, ["--standby"]);
          await standby.says("worker is standing by");
          let unregistered: UnregisteredWorker[] = [];
          await until("it is noted", async () => {
            ({ unregistered } = await cli.json(["workers", "--url", place.url]));
            return unregistered.length === 1;
          });
          const [{ id, kind, type, pid }] = unregistered as [UnregisteredWorker];
          assert.deepEqual([kind, type, pid], ["standby", "mailer", standby.child.pid]);
          const at = ["--url", place.url];
          const { stdout } = await cli.holdfast(["workers", ...at]);
          assert.match(stdout, new RegExp(`^${id} +standby `, "m"));
          assert.match(stdout, /^1 worker, 1 standby$/m);
          const shown = await cli.holdfast(["workers", "show", id, ...at]);
          assert.match(shown.stdout, /^ {2}status +standby, not registered$/m);
          const told = await cli.holdfast(["workers", "stop", id, ...at]);
          assertRefused(told, 4, new RegExp(`Stop its process \\(process ${pid} on `));
          standby.child.kill("SIGTERM");
          await standby.says("SIGTERM during start-up");
          assert.equal((await standby.ended).code, 0);
          assert.deepEqual((await cli.json(["workers", ...at])).unregistered, []);
        });
      }

      test("that was killed is followed by another, at once on its own host", async () => {
        cli = new TestCli();
        const first = start();
        await first.says("worker started");
        const [row] = await active();
        first.child.kill("SIGKILL");
        await first.ended;
        const second = start();
        await second.says("worker started");
        assert.equal((await holdfast.workers.find(row?.id ?? ""))?.reason, "gone");
      });

      // What a standby adds does not depend on the database.
      for (const follower of name === "SQLite"
        ? ["the next one", "its standby"]
        : ["the next one"]) {
        test(`that was killed leaves its job to ${follower}, long before its lease is over`, async () => {
          cli = new TestCli();
          const first = start({}, ["--lease", "10m"]);
          await first.says("worker started");
          const job = await holdfast.enqueue("twice", null);
          const runs = async () => (await holdfast.jobs.get(job.id))?.status === "processing";
          await until("the job runs", runs);
          const standby = follower === "its standby" ? start({}, ["--standby"]) : null;
          await standby?.says("worker is standing by");
          first.child.kill("SIGKILL");
          await first.ended;
          const second = standby ?? start();
          await second.says(/"ending":"gone".*"worker found dead"/);
          await second.says(/"why":"its worker is gone".*"job reclaimed"/);
          assert.equal(await job.result({ timeout: "30s" }), 2);
        });
      }

      test("that was killed on another host is followed by another when it is stale", async () => {
        cli = new TestCli();
        const first = start();
        await first.says("worker started");
        const [row] = await active();
        await moveElsewhere(holdfast);
        first.child.kill("SIGKILL");
        await first.ended;
        assert.equal((await start().ended).code, REFUSED);
        await makeOlder(holdfast, STALE_MS);
        const second = start();
        await second.says("worker started");
        assert.equal((await holdfast.workers.find(row?.id ?? ""))?.reason, "stale");
        assert.equal((await active()).length, 1);
      });

      test("that is killed while it stops has freed its slot, and is closed as hung", async () => {
        cli = new TestCli();
        const first = start();
        await first.says("worker started");
        await holdfast.enqueue("stay", null);
        await until("it runs a job", async () => (await active())[0]?.running === 1);
        const [row] = await active();
        await moveElsewhere(holdfast);
        first.child.kill("SIGTERM");
        const statusOf = async (): Promise<string> =>
          (await holdfast.workers.find(row?.id ?? ""))?.status ?? "";
        await until("it is stopping", async () => (await statusOf()) === "stopping");
        first.child.kill("SIGKILL");
        await first.ended;
        const second = start();
        await second.says("worker started");
        await until("it is closed", async () => (await statusOf()) === "stopped");
        assert.equal((await holdfast.workers.find(row?.id ?? ""))?.reason, "hung");
      });

      test("shows its version, and the new one after a new build", async () => {
        cli = new TestCli();
        for (const build of ["first-build", "second-build"]) {
          const started = start({ BUILD_ID: build });
          await started.says("worker started");
          const { workers } = await cli.json(["workers", "--url", place.url]);
          assert.deepEqual(
            workers.map(({ version }: WorkerRecord) => version),
            [build],
          );
          started.child.kill("SIGTERM");
          assert.equal((await started.ended).code, 0);
        }
      });
    });
  }
});

/** Its process cannot be seen from here. */
async function moveElsewhere({ store }: Holdfast): Promise<void> {
  const { engine } = store.db;
  await engine.transaction((tx) => tx.run(sql`update holdfast.worker set host_boot = 'elsewhere'`));
}

/** As if its signs of life had ended so much sooner. */
async function makeOlder({ store }: Holdfast, ms: number): Promise<void> {
  const { engine } = store.db;
  await engine.transaction((tx) =>
    tx.run(sql`update holdfast.worker set heartbeat_at = heartbeat_at - ${ms}`),
  );
}

async function empty({ store }: Holdfast): Promise<void> {
  const { engine } = store.db;
  await engine.transaction(async (tx) => {
    for (const table of ["worker", "ready", "waiting", "lease", "job"]) {
      await tx.script(
        `delete from ${engine.name.startsWith("postgres") ? "holdfast." : "holdfast_"}${table}`,
      );
    }
  });
}

after(assertNothingRuns);
