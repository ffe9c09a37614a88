/** Schedules: each tick has one job, however many schedulers there are and whatever happens in between. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import { sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import {
  ScheduleChangedError,
  ScheduleDeclaredError,
  ScheduleExistsError,
  ScheduleNotFoundError,
} from "../../src/schedules/schedule.ts";
import type { Declared } from "../../src/schedules/store.ts";
import type { ScheduleOptions } from "../../src/schedules/index.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import { claimOne, done, failed, HOUR_MS, mustFind, settleOne, upTo } from "../support/jobs.ts";
import { START_AT } from "../support/runtime.ts";
import {
  allRuns,
  by,
  createOne,
  definition,
  jobIds,
  MINUTE_MS,
  mustFindSchedule,
} from "../support/schedules.ts";
import { manySchedulers } from "./schedule-ticks.ts";

const AT_ONCE = 8;
const DAY_MS = 24 * HOUR_MS;

/** Several who make the same call at the same moment, from as many processes as there can be. */
async function together<T>(
  { store, alone, another }: Bundle,
  call: (one: Store) => Promise<T>,
): Promise<T[]> {
  const stores = alone === null ? [store, await another(), await another()] : [store];
  const calls = Array.from({ length: AT_ONCE }, (_, index) =>
    call(stores[index % stores.length] as Store),
  );
  return Promise.all(calls);
}

async function outcomes(store: Store): Promise<string[]> {
  return (await allRuns(store)).map(({ outcome }) => outcome);
}

/** The ticks of the runs, in minutes since the beginning of the test. */
async function minutes(store: Store): Promise<number[]> {
  return (await allRuns(store)).map(({ tick }) => (tick - START_AT) / MINUTE_MS);
}

function declared(facts: Partial<ScheduleOptions> = {}, hash = "a"): Declared {
  return { definition: definition(facts), hash: hash.repeat(64) };
}

export const schedules: Group = (open) => {
  test("a schedule is stored with all its fields, and its first tick is in the future", async () => {
    const { store } = await open();
    const created = await createOne(store, {
      cron: "30 2 * * MON-FRI",
      timeZone: "Europe/Berlin",
      input: { to: "ada" },
      options: { queue: "mail", priority: 7, maxAttempts: 9, key: "k" },
      missed: { all: 12 },
      overlap: "queue",
      description: "sends the mail",
    });
    const stored = {
      name: "nightly",
      task: "mail.send",
      payload: '{"to":"ada"}',
      options: '{"queue":"mail","priority":7,"maxAttempts":9,"key":"k"}',
      cron: "30 2 * * MON-FRI",
      timeZone: "Europe/Berlin",
      everyMs: null,
      offsetMs: null,
      missed: "all",
      missedLimit: 12,
      overlap: "queue",
      description: "sends the mail",
      nextAt: Date.parse("2027-01-18T01:30:00Z"),
      sinceAt: START_AT,
      lastAt: null,
      pausedAt: null,
      pausedBy: null,
      declaredBy: null,
      declared: null,
      revision: 1,
      createdAt: START_AT,
      updatedAt: START_AT,
      missedCount: 0,
      queuedCount: 0,
      error: null,
      errorAt: null,
    };
    assert.deepEqual(created, stored);
    assert.deepEqual(await store.schedules.find("nightly"), stored);
    await assert.rejects(createOne(store), ScheduleExistsError);
    assert.equal(await store.schedules.find("another"), null);
  });

  test("of several that create the same schedule at once, one does", async () => {
    const bundle = await open();
    const created = await together(bundle, (one) =>
      createOne(one).then(
        () => "created",
        (error: unknown) => (error as Error).name,
      ),
    );
    const expected = [
      "created",
      ...Array.from({ length: AT_ONCE - 1 }, () => "ScheduleExistsError"),
    ];
    assert.deepEqual(
      created.toSorted((a, b) => (a < b ? 1 : -1)),
      expected,
    );
    assert.equal((await bundle.store.audit.list({ limit: 10 })).length, 1);
  });

  test("nothing is due before the tick, and the job of the tick has what the schedule says", async () => {
    const { store, clock } = await open();
    await createOne(store, { input: { to: "ada" }, options: { queue: "mail", priority: 3 } });
    assert.deepEqual(await store.schedules.due({ limit: 10 }), {
      due: [],
      queued: [],
      nextInMs: MINUTE_MS,
    });
    assert.equal((await store.jobs.upcoming()).schedulesInMs, MINUTE_MS);
    assert.equal(await store.schedules.fire("nightly"), null);
    clock.advance(MINUTE_MS);
    assert.equal((await store.jobs.upcoming()).schedulesInMs, 0);
    assert.deepEqual((await store.schedules.due({ limit: 10 })).due, ["nightly"]);
    const fired = await store.schedules.fire("nightly");
    const [run] = fired?.runs ?? [];
    const job = await mustFind(store, run?.job ?? "");
    assert.deepEqual(
      [job.task, job.queue, job.priority, job.payload, job.status, job.maxAttempts],
      ["mail.send", "mail", 3, '{"to":"ada"}', "pending", 3],
    );
    const tick = START_AT + MINUTE_MS;
    const expected = {
      schedule: "nightly",
      tick,
      manual: false,
      outcome: "enqueued",
      job: job.id,
      at: tick,
    };
    assert.deepEqual(await allRuns(store), [expected]);
    assert.deepEqual(await store.schedules.runOf(job.id), expected);
    const { nextAt, lastAt } = await mustFindSchedule(store);
    assert.deepEqual([lastAt, nextAt], [tick, tick + MINUTE_MS]);
    assert.equal(await store.schedules.fire("nightly"), null);
  });

  test("many schedulers make one job of a tick", async () => {
    const bundle = await open();
    await createOne(bundle.store);
    bundle.clock.advance(MINUTE_MS);
    const fired = await together(bundle, (one) => one.schedules.fire("nightly"));
    assert.equal(fired.filter((one) => one !== null).length, 1);
    assert.equal((await jobIds(bundle.store)).length, 1);
  });

  test("a tick that was set back by hand has no second job, and the next one has its own", async () => {
    const { store, clock, byHand } = await open();
    await createOne(store);
    clock.advance(MINUTE_MS);
    await store.schedules.fire("nightly");
    await byHand(sql`update holdfast.schedule set next_at = ${START_AT + MINUTE_MS}`);
    const again = await store.schedules.fire("nightly");
    assert.deepEqual(again?.runs, []);
    clock.advance(MINUTE_MS);
    await store.schedules.fire("nightly");
    assert.deepEqual(await minutes(store), [1, 2]);
    assert.equal((await jobIds(store)).length, 2);
  });

  test("the database refuses a second run of a tick", async () => {
    const { store, clock, byHand } = await open();
    await createOne(store);
    clock.advance(MINUTE_MS);
    await store.schedules.fire("nightly");
    const second = sql`
      insert into holdfast.schedule_run (schedule, tick, is_manual, outcome, job_id, at)
      select schedule, tick, is_manual, 'skipped', null, at from holdfast.schedule_run`;
    await assert.rejects(byHand(second), StoreRefusedError);
  });

  test("a few late ticks all run, and the next one follows from the last", async () => {
    const { store, clock } = await open();
    await createOne(store, { every: "10s", missed: "skip" });
    clock.advance(35_500);
    const fired = await store.schedules.fire("nightly");
    const ticks = fired?.runs.map(({ tick }) => tick - START_AT);
    assert.deepEqual([ticks, fired?.missed], [[10_000, 20_000, 30_000], 0]);
    assert.equal((await mustFindSchedule(store)).nextAt, START_AT + 40_000);
  });

  for (const [missed, count] of [
    ["skip", 0],
    ["once", 1],
    [{ all: 3 }, 3],
  ] as const) {
    test(`missed ticks: ${JSON.stringify(missed)}`, async () => {
      const { store, clock } = await open();
      // The test begins on a whole hour, so that five ticks are missed and none is on time.
      await createOne(store, { every: "1h", offset: "39m", missed });
      clock.advance(4 * HOUR_MS + 45 * MINUTE_MS);
      const fired = await store.schedules.fire("nightly");
      assert.equal(fired?.missed, 5 - count);
      const hours = (await minutes(store)).map((minute) => (minute - 39) / 60);
      assert.deepEqual(hours, [0, 1, 2, 3, 4].slice(5 - count));
      const { nextAt, missedCount } = await mustFindSchedule(store);
      assert.equal(missedCount, 5 - count);
      assert.equal(nextAt, START_AT + 5 * HOUR_MS + 39 * MINUTE_MS);
      assert.equal((await jobIds(store)).length, count);
    });
  }

  test("an edit takes effect at once and keeps omitted fields", async () => {
    const { store, clock } = await open();
    await createOne(store, { every: "1h", input: 1 });
    const edited = await store.schedules.edit("nightly", { every: "5m", overlap: "skip" }, by());
    assert.deepEqual(
      [edited.everyMs, edited.overlap, edited.payload, edited.revision],
      [300_000, "skip", "1", 2],
    );
    assert.equal(edited.nextAt, START_AT + 5 * MINUTE_MS);
    clock.advance(5 * MINUTE_MS);
    await store.schedules.fire("nightly");
    const cron = await store.schedules.edit("nightly", { cron: "0 9 * * *" }, by(), {
      revision: 2,
    });
    assert.deepEqual([cron.cron, cron.timeZone, cron.everyMs], ["0 9 * * *", "UTC", null]);
    assert.equal(cron.nextAt, Date.parse("2027-01-15T09:00:00Z"));
    const stale = store.schedules.edit("nightly", { input: 2 }, by(), { revision: 2 });
    await assert.rejects(stale, ScheduleChangedError);
    await assert.rejects(store.schedules.edit("none", { input: 2 }, by()), ScheduleNotFoundError);
    const never = store.schedules.edit("nightly", { cron: "0 0 31 2 *" }, by());
    await assert.rejects(never, /matches no date/);
  });

  test("ticks that are due when a schedule is edited or paused are not lost", async () => {
    const { store, clock } = await open();
    await createOne(store, { every: "10s", input: 1 });
    clock.advance(25_000);
    await store.schedules.edit("nightly", { every: "20s", input: 2 }, by());
    clock.advance(20_000);
    await store.schedules.pause("nightly", by());
    clock.advance(20_000);
    await store.schedules.resume("nightly", by());
    clock.advance(20_000);
    await store.schedules.fire("nightly");
    const runs = await allRuns(store);
    const ticks = runs.map(({ tick }) => tick - START_AT);
    assert.deepEqual(ticks, [10_000, 20_000, 40_000, 80_000]);
    const jobs = await Promise.all(runs.map(({ job }) => mustFind(store, job ?? "")));
    assert.deepEqual(
      jobs.map(({ payload }) => payload),
      ["1", "1", "2", "2"],
    );
  });

  test("a tick whose job cannot be enqueued, or that was missed, stays due through a change", async () => {
    const { store, clock, byHand } = await open();
    await createOne(store, { input: 1 });
    await byHand(sql`update holdfast.schedule set options = ${'{"queue":"holdfast.no"}'}`);
    clock.advance(MINUTE_MS + 5_000);
    await assert.rejects(store.schedules.fire("nightly"), /reserved/);
    await store.schedules.edit(
      "nightly",
      { every: "10s", options: { queue: "mail", maxAttempts: 1 } },
      by(),
    );
    clock.advance(HOUR_MS);
    await store.schedules.pause("nightly", by());
    await store.schedules.resume("nightly", by());
    await store.schedules.edit("nightly", { every: "20s" }, by());
    const fired = await store.schedules.fire("nightly");
    assert.deepEqual(
      fired?.runs.map(({ tick }) => tick - START_AT),
      [60_000],
    );
  });

  test("a paused schedule has no ticks, and says by whom", async () => {
    const { store, clock } = await open();
    await createOne(store);
    const paused = await store.schedules.pause("nightly", by("grace"));
    assert.deepEqual([paused.pausedAt, paused.pausedBy], [START_AT, "grace"]);
    assert.equal((await store.schedules.pause("nightly", by())).pausedBy, "grace");
    clock.advance(10 * MINUTE_MS + 1);
    assert.deepEqual(await store.schedules.due({ limit: 10 }), {
      due: [],
      queued: [],
      nextInMs: null,
    });
    assert.equal((await store.jobs.upcoming()).schedulesInMs, null);
    assert.equal(await store.schedules.fire("nightly"), null);
    const resumed = await store.schedules.resume("nightly", by());
    assert.deepEqual([resumed.pausedAt, resumed.nextAt], [null, START_AT + 11 * MINUTE_MS]);
    clock.advance(MINUTE_MS);
    await store.schedules.fire("nightly");
    assert.deepEqual(await minutes(store), [11]);
    const born = await store.schedules.create(definition({ name: "born" }), by(), { paused: true });
    assert.equal(born.pausedBy, "ada");
  });

  test("overlap: a tick is skipped while the job of an earlier one has not ended", async () => {
    const { store, clock } = await open();
    await createOne(store, { overlap: "skip" });
    const next = async (): Promise<void> => {
      clock.advance(MINUTE_MS);
      await store.schedules.fire("nightly");
    };
    await next();
    await next();
    const job = await claimOne(store);
    await next();
    assert.deepEqual(await outcomes(store), ["enqueued", "skipped", "skipped"]);
    await settleOne(store, done(job));
    await next();
    assert.deepEqual(await outcomes(store), ["enqueued", "skipped", "skipped", "enqueued"]);
  });

  test("overlap: ticks wait for the job before them, in order, and each has its own job", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    await createOne(store, { overlap: "queue" });
    for (let tick = 0; tick < 3; tick += 1) {
      clock.advance(MINUTE_MS);
      await store.schedules.fire("nightly");
    }
    assert.deepEqual(await outcomes(store), ["enqueued", "queued", "queued"]);
    assert.deepEqual((await store.schedules.due({ limit: 10 })).queued, ["nightly"]);
    assert.equal((await store.jobs.upcoming()).schedulesInMs, 0);
    for (let left = 2; left > 0; left -= 1) {
      assert.equal(await store.schedules.release("nightly"), null);
      await settleOne(store, done(await claimOne(store)));
      const released = await together(bundle, (one) => one.schedules.release("nightly"));
      assert.equal(released.filter((one) => one !== null).length, 1);
      assert.equal((await mustFindSchedule(store)).queuedCount, left - 1);
    }
    assert.deepEqual(await outcomes(store), ["enqueued", "enqueued", "enqueued"]);
    assert.equal(new Set((await allRuns(store)).map(({ job }) => job)).size, 3);
    assert.equal(await store.schedules.release("nightly"), null);
  });

  for (const overlap of ["skip", "queue"] as const) {
    test(`overlap ${overlap}: a tick finds the job of an earlier one behind many newer runs`, async () => {
      const { store, clock } = await open();
      await createOne(store, { overlap });
      const tick = async (): Promise<string | undefined> => {
        clock.advance(MINUTE_MS);
        return (await store.schedules.fire("nightly"))?.runs[0]?.outcome;
      };
      const left = overlap === "skip" ? "skipped" : "queued";
      assert.equal(await tick(), "enqueued");
      const first = await claimOne(store);
      // More than a page of them, so that the first run is looked for behind it.
      for (let run = 0; run < 102; run += 1) await store.schedules.run("nightly", by());
      await store.jobs.settle((await store.jobs.claim(upTo(200))).map((job) => done(job)));
      assert.deepEqual([await tick(), await tick()], [left, left]);
      assert.equal(await store.schedules.release("nightly"), null);
      await settleOne(store, done(first));
      if (overlap === "skip") return assert.equal(await tick(), "enqueued");
      assert.equal((await store.schedules.release("nightly"))?.runs.length, 1);
      assert.equal(await tick(), "queued");
    });
  }

  test("overlap: a job that an operator retried is in the way again", async () => {
    const { store, clock } = await open();
    await createOne(store, { overlap: "skip" });
    const tick = async (): Promise<string | undefined> => {
      clock.advance(MINUTE_MS);
      return (await store.schedules.fire("nightly"))?.runs[0]?.outcome;
    };
    await tick();
    const first = await claimOne(store);
    await settleOne(store, failed(first));
    assert.equal(await tick(), "enqueued");
    await settleOne(store, done(await claimOne(store)));
    await store.jobs.retry(first.id, 1);
    assert.equal(await tick(), "skipped");
  });

  test("run now: a job at once, also while paused, beside the ticks", async () => {
    const { store, clock } = await open();
    await createOne(store, { overlap: "skip" });
    await store.schedules.pause("nightly", by());
    const first = await store.schedules.run("nightly", by("grace"));
    const second = await store.schedules.run("nightly", by("grace"));
    assert.notEqual(first, second);
    assert.equal((await mustFind(store, first)).status, "pending");
    const runs = await allRuns(store);
    assert.deepEqual(
      runs.map(({ manual, job }) => [manual, job]),
      [
        [true, first],
        [true, second],
      ],
    );
    await store.schedules.resume("nightly", by());
    clock.advance(MINUTE_MS);
    await store.schedules.fire("nightly");
    assert.equal((await outcomes(store)).at(-1), "skipped");
    await assert.rejects(store.schedules.run("none", by()), ScheduleNotFoundError);
    const [line] = await store.audit.list({
      subject: "schedule nightly",
      actor: "grace",
      limit: 1,
    });
    assert.deepEqual([line?.action, line?.detail], ["schedule.run", `job ${second}`]);
  });

  test("a tick joins the job that holds its key", async () => {
    const { store, clock } = await open();
    await createOne(store, { options: { key: "one" } });
    for (let tick = 0; tick < 2; tick += 1) {
      clock.advance(MINUTE_MS);
      await store.schedules.fire("nightly");
    }
    const runs = await allRuns(store);
    assert.deepEqual(await outcomes(store), ["enqueued", "joined"]);
    assert.equal(runs[0]?.job, runs[1]?.job);
    assert.equal((await jobIds(store)).length, 1);
  });

  test("declared schedules are added, changed and deleted; an operator's edit and pause stay", async () => {
    const bundle = await open();
    const { store } = bundle;
    const all = [declared({ name: "a" }), declared({ name: "b" })];
    const declare = (group: string, some: readonly Declared[]) =>
      store.schedules.declare(group, some, `code of ${group}`);
    const starts = await together(bundle, (one) => one.schedules.declare("mailer", all, "code"));
    assert.deepEqual(starts.flatMap(({ added }) => added).toSorted(), ["a", "b"]);
    await createOne(store, { name: "theirs" });
    await declare("other", [declared({ name: "c" })]);
    await store.schedules.edit("a", { every: "2m" }, by());
    await store.schedules.pause("a", by());
    const nothing = { added: [], changed: [], removed: [], taken: [] };
    assert.deepEqual(await declare("mailer", all), nothing);
    assert.equal((await mustFindSchedule(store, "a")).everyMs, 2 * MINUTE_MS);
    const changed = [declared({ name: "a", every: "3m" }, "b")];
    assert.deepEqual(await declare("mailer", changed), {
      ...nothing,
      changed: ["a"],
      removed: ["b"],
    });
    const { everyMs, pausedBy, declaredBy } = await mustFindSchedule(store, "a");
    assert.deepEqual([everyMs, pausedBy, declaredBy], [3 * MINUTE_MS, "ada", "mailer"]);
    const names = (await store.schedules.list({ limit: 10 })).map(({ name }) => name);
    assert.deepEqual(names, ["a", "c", "theirs"]);
    await assert.rejects(store.schedules.delete("a", by()), ScheduleDeclaredError);
    await store.schedules.delete("a", by(), { force: true });
    await store.schedules.delete("theirs", by());
    await assert.rejects(store.schedules.delete("a", by()), ScheduleNotFoundError);
    const lines = await store.audit.list({ subject: "schedule a", limit: 20 });
    assert.deepEqual(
      lines.map(({ action }) => action),
      [
        "schedule.declare",
        "schedule.edit",
        "schedule.pause",
        "schedule.declare",
        "schedule.delete",
      ],
    );
  });

  test("workers of two names that declare a schedule differently take it from each other, and learn from whom", async () => {
    const { store } = await open();
    const declare = (group: string, hash: string) =>
      store.schedules.declare(group, [declared({ name: "a" }, hash)], `code of ${group}`);
    assert.deepEqual((await declare("mailer", "1")).taken, []);
    assert.deepEqual((await declare("mailer", "2")).taken, []);
    const { changed, taken } = await declare("other", "3");
    assert.deepEqual([changed, taken], [["a"], [{ schedule: "a", from: "mailer" }]]);
    assert.deepEqual((await declare("other", "3")).taken, []);
    assert.deepEqual((await declare("mailer", "3")).taken, [], "the same is no conflict");
  });

  test("an operator's edit stays when workers of another name declare the same", async () => {
    const { store } = await open();
    const same = [declared({ name: "a" })];
    const nothing = { added: [], changed: [], removed: [], taken: [] };
    const declare = (group: string, some: readonly Declared[]) =>
      store.schedules.declare(group, some, `code of ${group}`);
    await declare("mailer", same);
    const { revision } = await store.schedules.edit("a", { every: "2m" }, by());
    for (const group of ["other", "mailer", "other"]) {
      assert.deepEqual(await declare(group, same), nothing);
      const now = await mustFindSchedule(store, "a");
      assert.deepEqual(
        [now.everyMs, now.revision, now.declaredBy],
        [2 * MINUTE_MS, revision, group],
      );
    }
    // It belongs to those that declared it last, so the others do not delete it.
    assert.deepEqual(await declare("mailer", []), nothing);
    const lines = await store.audit.list({ subject: "schedule a", limit: 20 });
    assert.deepEqual(
      lines.map(({ action }) => action),
      ["schedule.declare", "schedule.edit"],
    );
    assert.deepEqual(await declare("other", []), { ...nothing, removed: ["a"] });
  });

  test("schedules and runs come in pages", async () => {
    const { store, clock } = await open();
    for (const name of ["d", "b", "a", "c"]) await createOne(store, { name, task: `task.${name}` });
    await store.schedules.pause("c", by());
    const page = async (filter: object): Promise<string> => {
      const found = await store.schedules.list({ limit: 2, ...filter });
      return found.map(({ name }) => name).join("");
    };
    assert.deepEqual(
      [
        await page({}),
        await page({ after: "b" }),
        await page({ paused: true }),
        await page({ task: "task.d" }),
      ],
      ["ab", "cd", "c", "d"],
    );
    clock.advance(50_000);
    await store.schedules.edit("a", { every: "10s" }, by());
    clock.advance(30_000);
    await store.schedules.fire("a");
    const runs = await store.schedules.runs({ schedule: "a", limit: 2 });
    const more = await store.schedules.runs({
      schedule: "a",
      limit: 2,
      before: runs[1]?.tick ?? 0,
    });
    assert.deepEqual(
      [...runs, ...more].map(({ tick }) => tick - START_AT),
      [80_000, 70_000, 60_000],
    );
  });

  test("the newest runs of several schedules are read at once", async () => {
    const { store, clock } = await open();
    for (const name of ["a", "b", "c"]) await createOne(store, { name, every: "10s" });
    clock.advance(30_000);
    for (const name of ["a", "b"]) await store.schedules.fire(name);
    for (let times = 0; times < 3; times += 1) {
      clock.advance(10_000);
      await store.schedules.fire("a");
    }
    const runs = await store.schedules.recent({ schedules: ["a", "b", "c"], limit: 2 });
    const a = await store.schedules.runs({ schedule: "a", limit: 2 });
    assert.deepEqual(
      runs.filter(({ schedule }) => schedule === "a"),
      a,
    );
    assert.deepEqual(new Set(runs.map(({ schedule }) => schedule)), new Set(["a", "b"]));
    assert.deepEqual(await store.schedules.recent({ schedules: [], limit: 2 }), []);
  });

  test("old runs are pruned, except those of the last day and waiting ones", async () => {
    const { store, clock, byHand } = await open();
    await createOne(store);
    const old = Array.from({ length: 1_005 }, (_, at) => START_AT + at * MINUTE_MS);
    for (let at = 0; at < old.length; at += 250) {
      const rows = old
        .slice(at, at + 250)
        .map((tick) => sql`(${"nightly"}, ${tick}, 0, ${"skipped"}, ${tick})`);
      await byHand(sql`
        insert into holdfast.schedule_run (schedule, tick, is_manual, outcome, at)
        values ${rows.reduce((all, one) => sql`${all}, ${one}`)}`);
    }
    assert.equal(await store.schedules.pruneRuns("nightly"), 0);
    clock.advance(3 * DAY_MS);
    assert.equal(await store.schedules.pruneRuns("nightly"), 5);
    assert.equal((await allRuns(store)).length, 1_000);
  });

  test("an old run is not pruned while its job has not ended", async () => {
    const { store, clock, byHand } = await open();
    await createOne(store, { overlap: "skip" });
    clock.advance(MINUTE_MS);
    await store.schedules.fire("nightly");
    const job = await claimOne(store);
    const later = Array.from({ length: 1_001 }, (_, at) => clock.now() + (at + 1) * MINUTE_MS);
    for (let at = 0; at < later.length; at += 250) {
      const rows = later
        .slice(at, at + 250)
        .map((tick) => sql`(${"nightly"}, ${tick}, 0, ${"skipped"}, ${tick})`);
      await byHand(sql`
        insert into holdfast.schedule_run (schedule, tick, is_manual, outcome, at)
        values ${rows.reduce((all, one) => sql`${all}, ${one}`)}`);
    }
    clock.advance(3 * DAY_MS);
    assert.equal(await store.schedules.pruneRuns("nightly"), 1);
    assert.equal((await allRuns(store))[0]?.job, job.id);
    await settleOne(store, done(job));
    assert.equal(await store.schedules.pruneRuns("nightly"), 1);
  });

  test("why a tick could not be handled is kept until one is", async () => {
    const { store, clock } = await open();
    await createOne(store);
    await store.schedules.noteError("nightly", "x".repeat(5_000));
    const { error, errorAt } = await mustFindSchedule(store);
    assert.deepEqual([error?.length, errorAt], [1_000, START_AT]);
    const standing = { schedules: 1, paused: 0, failing: 1, lateMs: 0, missed: 0 };
    assert.deepEqual(await store.schedules.standing(), standing);
    clock.advance(MINUTE_MS + 500);
    assert.equal((await store.schedules.standing()).lateMs, 500);
    await store.schedules.fire("nightly");
    assert.equal((await mustFindSchedule(store)).error, null);
  });

  manySchedulers(open);
};
