/** Schedules in workers: they run on time, changes take effect without a restart, and one that fails stops no other. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { z } from "zod";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import {
  defineSchedule,
  type RunRecord,
  type Schedule,
  type ScheduleDetails,
} from "../../src/schedules/index.ts";
import { sql } from "../../src/database/sql.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, withCode } from "./observe.ts";

after(assertNothingRuns);

/** Where the test's clock begins: a whole hour. */
const START = Date.parse("2027-01-15T08:00:00Z");
const LATE_MS_MAX = 20;

function kit(logger?: Parameters<typeof openTestHoldfast>[0]) {
  return openTestHoldfast({ start: START, ...logger });
}

async function mustGet({ schedules }: Holdfast, name: string): Promise<ScheduleDetails> {
  const details = await schedules.get(name);
  assert.ok(details !== null);
  return details;
}

suite("schedules in a worker", () => {
  test("a declared schedule runs on time, and a task can ask for its tick", async () => {
    await using opened = await kit();
    const { holdfast, clock } = opened;
    const seen: { late: number; input: unknown; run: RunRecord | null }[] = [];
    const report = defineTask({
      name: "report.send",
      input: z.object({ to: z.string() }),
      run: async (input, ctx) => {
        const run = await ctx.holdfast.schedules.runOf(ctx.id);
        seen.push({ late: clock.now() - (run?.tick ?? 0), input, run });
      },
    });
    const hourly = defineSchedule({
      name: "hourly",
      task: report,
      input: { to: "ada" },
      cron: "0 * * * *",
      timeZone: "Europe/Berlin",
    });
    await holdfast.startWorker({
      tasks: [report],
      schedules: [hourly],
      poll: "1h",
      heartbeat: "1h",
    });
    await clock.advance("3h");
    assert.deepEqual(
      seen.map(({ run }) => ((run?.tick ?? 0) - START) / 3_600_000),
      [1, 2, 3],
    );
    assert.ok(seen.every(({ late }) => late >= 0 && late <= LATE_MS_MAX));
    assert.deepEqual(seen[0]?.input, { to: "ada" });
    const { nextRuns, words, declaredBy } = await mustGet(holdfast, "hourly");
    assert.deepEqual(
      [nextRuns.map((at) => (at - START) / 3_600_000), words, declaredBy],
      [[4, 5, 6, 7, 8], "Every hour (Europe/Berlin)", "worker"],
    );
  });

  test("a schedule that is created, edited, paused and resumed takes effect without a restart", async () => {
    await using opened = await kit();
    const { holdfast, clock } = opened;
    const at: number[] = [];
    const heartbeat = defineTask({
      name: "heartbeat",
      run: () => void at.push((clock.now() - START) / 1_000),
    });
    for (let workers = 0; workers < 2; workers += 1) {
      await holdfast.startWorker({ tasks: [heartbeat], poll: "1h", heartbeat: "1h" });
    }
    await clock.advance("5s");
    await holdfast.schedules.create({ name: "heartbeat", task: heartbeat, every: "10s" });
    await clock.advance("30s");
    await holdfast.schedules.edit("heartbeat", { every: "1m" });
    await clock.advance("90s");
    await holdfast.schedules.pause("heartbeat", { actor: "ada", reason: "too loud" });
    await clock.advance("5m");
    await holdfast.schedules.resume("heartbeat", { actor: "ada" });
    await clock.advance("1m");
    assert.deepEqual(at.map(Math.floor), [10, 20, 30, 60, 120, 480]);
    const [pause] = await holdfast.audit.list({ subject: "schedule heartbeat", actor: "ada" });
    assert.deepEqual([pause?.action, pause?.reason], ["schedule.pause", "too loud"]);
  });

  test("queue: a run begins when the job before it ends", async () => {
    await using opened = await kit();
    const { holdfast, clock } = opened;
    const spans: [number, number][] = [];
    const now = (): number => Math.floor((clock.now() - START) / 1_000);
    const slow = defineTask({
      name: "slow",
      run: async () => {
        const begun = now();
        await new Promise<void>((resolve) => void clock.timer(15_000, resolve));
        spans.push([begun, now()]);
      },
    });
    const schedule = { name: "slow", task: slow, every: "10s", overlap: "queue" } as const;
    await holdfast.startWorker({ tasks: [slow], schedules: [defineSchedule(schedule)] });
    await clock.advance("62s");
    assert.deepEqual(spans, [
      [10, 25],
      [25, 40],
      [40, 55],
    ]);
    const { queuedCount } = await mustGet(holdfast, "slow");
    assert.equal(queuedCount, 2);
    await holdfast.schedules.pause("slow");
    await clock.advance("1m");
  });

  test("a schedule that cannot enqueue is logged and kept, and the others continue", async () => {
    const log = keepLog();
    await using opened = await kit({ logger: log.logger });
    const { holdfast, clock } = opened;
    let runs = 0;
    const task = defineTask({ name: "count", run: () => void (runs += 1) });
    await holdfast.schedules.create({ name: "broken", task, every: "10s" });
    await holdfast.schedules.create({ name: "sound", task, every: "10s" });
    const { engine } = holdfast.store.db;
    const broken = sql`update holdfast.schedule set options = ${'{"queue":"holdfast.x","maxAttempts":1}'} where name = 'broken'`;
    await engine.transaction((tx) => tx.run(broken));
    await holdfast.startWorker({ tasks: [task] });
    await clock.advance("35s");
    assert.equal(runs, 3);
    const failures = log.lines.filter(({ facts }) => facts["event"] === "schedule:failed");
    assert.equal(failures.length, 1);
    const { error, errorAt } = await mustGet(holdfast, "broken");
    assert.match(error ?? "", /reserved/);
    assert.notEqual(errorAt, null);
    await holdfast.schedules.edit("broken", { options: { queue: "default" } });
    await clock.advance("65s");
    assert.equal((await mustGet(holdfast, "broken")).error, null);
    assert.equal((await holdfast.schedules.runs("broken")).length > 0, true);
  });

  test("a schedule that workers of two names declare differently is warned of, with both names", async () => {
    const log = keepLog();
    await using opened = await kit({ logger: log.logger });
    const task = defineTask({ name: "count", run: () => {} });
    for (const [name, every] of [
      ["mailer", "1h"],
      ["other", "2h"],
      ["other", "2h"],
    ] as const) {
      const schedules = [defineSchedule({ name: "hourly", task, every })];
      const worker = await opened.holdfast.startWorker({ name, tasks: [task], schedules });
      await worker.stop();
    }
    const warnings = log.lines.filter(({ facts }) => facts["event"] === "schedule:taken");
    assert.deepEqual(
      warnings.map(({ level, facts }) => [level, facts["name"], facts["from"]]),
      [["warn", "other", "mailer"]],
    );
    assert.match(
      warnings[0]?.message ?? "",
      /'hourly' is declared by workers named 'other' and, diff/,
    );
  });

  test("missed runs are told", async () => {
    const log = keepLog();
    await using opened = await kit({ logger: log.logger });
    const { holdfast, clock } = opened;
    const task = defineTask({ name: "count", run: () => {} });
    await holdfast.schedules.create({ name: "hourly", task, cron: "0 * * * *", missed: "skip" });
    await clock.advance("150m");
    await holdfast.startWorker({ tasks: [task] });
    await clock.advance("1s");
    const line = log.lines.find(({ facts }) => facts["event"] === "schedule:missed");
    assert.deepEqual([line?.level, line?.message], ["warn", "schedule 'hourly' missed 2 runs"]);
    assert.deepEqual(await holdfast.schedules.runs("hourly"), []);
  });

  test("an invalid schedule is refused before anything is stored", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const { schedules } = holdfast;
    const task = defineTask({ name: "mail", input: z.object({ to: z.string() }), run: () => {} });
    const good = { name: "s", task, input: { to: "ada" }, every: "1m" };
    const wrong: readonly [string, string, object][] = [
      ["INPUT_REJECTED", "", { input: { to: 1 } }],
      ["INVALID_ARGUMENT", "name", { name: "" }],
      ["INVALID_ARGUMENT", "task", { task: "a@b" }],
      ["INVALID_ARGUMENT", "cron", { cron: "* * * * *" }],
      ["INVALID_ARGUMENT", "missed", { missed: "all" }],
      ["INVALID_ARGUMENT", "missed.all", { missed: { all: 0 } }],
      ["INVALID_ARGUMENT", "overlap", { overlap: "no" }],
      ["INVALID_ARGUMENT", "options.delay", { options: { delay: "1s" } }],
      ["INVALID_ARGUMENT", "options.onConflict", { options: { key: "k", onConflict: "reject" } }],
      ["INVALID_ARGUMENT", "queue", { options: { queue: "holdfast.x" } }],
      ["INVALID_ARGUMENT", "evry", { evry: "1m" }],
    ];
    for (const [code, field, facts] of wrong) {
      const creating = schedules.create({ ...good, ...facts });
      await assert.rejects(creating, withCode(code, field === "" ? undefined : field));
    }
    const never = schedules.create({ name: "s", task: "mail", cron: "0 0 31 2 *" });
    await assert.rejects(never, withCode("INVALID_ARGUMENT", "cron"));
    for (const cron of ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6 *"]) {
      const declare = (): unknown => defineSchedule({ name: "s", task: "mail", cron });
      assert.throws(declare, withCode("INVALID_ARGUMENT", "cron"));
    }
    defineSchedule({ name: "s", task: "mail", cron: "0 0 29 2 *" });
    assert.deepEqual(await schedules.list(), []);
    await assert.rejects(schedules.edit("s", {}), withCode("INVALID_ARGUMENT", "changes"));
    assert.equal(await schedules.get("s"), null);
    await assert.rejects(schedules.pause("s"), withCode("SCHEDULE_NOT_FOUND"));
    await assert.rejects(schedules.runs("s"), withCode("SCHEDULE_NOT_FOUND"));
    const twice = [defineSchedule(good), defineSchedule(good)];
    const starting = holdfast.startWorker({ tasks: [task], schedules: twice });
    await assert.rejects(starting, withCode("INVALID_ARGUMENT", "schedules"));
  });

  test("a declared schedule is created as it is, and its input is checked", async () => {
    await using opened = await kit();
    const { holdfast, clock } = opened;
    const report = defineTask({ name: "report", input: z.object({ days: z.int() }), run: () => 1 });
    const facts = { name: "nightly", task: report, cron: "30 2 * * *", timeZone: "Europe/Berlin" };
    const nightly = defineSchedule({ ...facts, input: { days: 1 } });
    const made = await holdfast.schedules.create(nightly, { actor: "ann", paused: true });
    assert.deepEqual([made.cron, made.input, made.pausedBy], [facts.cron, { days: 1 }, "ann"]);
    await assert.rejects(holdfast.schedules.create(nightly), withCode("SCHEDULE_EXISTS"));
    const wrong = defineSchedule({ ...facts, name: "wrong", input: { days: 0.5 } });
    await assert.rejects(holdfast.schedules.create(wrong), withCode("INPUT_REJECTED"));
    await holdfast.schedules.resume("nightly");
    await clock.advance("24h");
    assert.equal((await opened.drain([report])).totals.done, 1);
  });

  test("a drain declares the schedules that it is given, once, as a worker would", async () => {
    await using opened = await kit();
    const { holdfast, clock } = opened;
    const count = defineTask({ name: "count", run: () => {} });
    const hourly = defineSchedule({ name: "hourly", task: count, every: "1h" });
    const daily = defineSchedule({ name: "daily", task: "count", every: "1d" });
    const schedules = [hourly, daily];
    assert.equal((await opened.drain([count], { schedules })).totals.done, 0);
    await clock.advance("1h");
    assert.equal((await opened.drain([count], { schedules, skipTime: true })).totals.done, 1);
    assert.equal((await opened.drain([count])).totals.done, 0);
    assert.equal((await holdfast.schedules.get("daily"))?.declaredBy, "drain");
    assert.equal((await opened.drain([count], { schedules: [hourly] })).totals.done, 0);
    assert.equal(await holdfast.schedules.get("daily"), null);
    const drain = opened.drain([count], { schedules: [hourly, hourly] });
    await assert.rejects(drain, withCode("INVALID_ARGUMENT", "schedules"));
    const nothing = opened.drain([count], { schedules: [{} as Schedule] });
    await assert.rejects(nothing, withCode("INVALID_ARGUMENT", "schedules"));
  });

  test("a drain runs what is due, without a worker", async () => {
    await using opened = await kit();
    const { holdfast, clock } = opened;
    const task = defineTask({ name: "count", run: () => {} });
    const options = {
      name: "slow",
      task,
      every: "10m",
      missed: { all: 9 },
      overlap: "queue",
    } as const;
    await holdfast.schedules.create(options);
    await clock.advance("35m");
    const { totals } = await opened.drain([task]);
    assert.equal(totals.done, 3);
    assert.equal((await opened.drain([task])).totals.done, 0);
  });

  test("a preview stores nothing", async () => {
    await using opened = await kit();
    const preview = await opened.holdfast.schedules.preview({ cron: "0 9 * * MON", count: 2 });
    const monday = Date.parse("2027-01-18T09:00:00Z");
    const week = 7 * 86_400_000;
    assert.deepEqual(preview, {
      words: "At 09:00 on Monday (UTC)",
      nextRuns: [monday, monday + week],
      clock: null,
    });
  });
});
