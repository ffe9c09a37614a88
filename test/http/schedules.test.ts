/** Schedules over HTTP: what the library does, its errors with the field, and an actor for every change. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { openHoldfast, type Holdfast } from "../../src/index.ts";
import { startServer, type Server } from "../../src/app/server.ts";
import type { Calendar } from "../../src/schedules/index.ts";
import { tempFolder } from "../support/folder.ts";

const DAY_MS = 86_400_000;

suite("schedules over HTTP", () => {
  const folder = tempFolder();
  const url = `sqlite:${folder.file(".db")}`;
  let holdfast: Holdfast;
  let server: Server;

  before(async () => {
    holdfast = await openHoldfast(url);
    server = await startServer({ holdfast, port: 0, production: false });
  });

  after(async () => {
    await server.close();
    await holdfast.close();
    folder[Symbol.dispose]();
  });

  async function ask(path: string, body?: object, headers: object = {}) {
    const response = await fetch(`${server.url}/api/v1${path}`, {
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      headers: { "Content-Type": "application/json", ...headers },
    });
    const json = (await response.json()) as Record<string, unknown>;
    return { status: response.status, json, location: response.headers.get("location") };
  }

  test("create, list, edit, pause, resume, run, delete", async () => {
    const nightly = {
      name: "night/ly",
      task: "mail.send",
      cron: "30 2 * * *",
      input: { to: "ada" },
    };
    const created = await ask("/schedules", nightly);
    assert.deepEqual(
      [created.status, created.json["words"], created.location],
      [201, "At 02:30 every day (UTC)", "/api/v1/schedules/night%2Fly"],
    );
    assert.equal((await ask("/schedules", nightly)).json["code"], "SCHEDULE_EXISTS");
    const path = "/schedules/night%2Fly";
    const found = await ask(path);
    const runs = found.json["nextRuns"] as number[];
    assert.deepEqual(
      [found.status, runs.length, (runs[4] ?? 0) - (runs[0] ?? 0)],
      [200, 5, 4 * DAY_MS],
    );
    const edited = await ask(`${path}/edit`, {
      every: "1h",
      options: { priority: 5 },
      revision: 1,
    });
    assert.deepEqual([edited.json["everyMs"], edited.json["revision"]], [3_600_000, 2]);
    const stale = await ask(`${path}/edit`, { every: "2h", revision: 1 });
    assert.deepEqual([stale.status, stale.json["code"]], [409, "SCHEDULE_CHANGED"]);
    const paused = await ask(`${path}/pause`, { reason: "too loud" });
    assert.deepEqual([paused.status, paused.json["nextAt"]], [200, null]);
    assert.equal(((await ask("/schedules?paused=true")).json["schedules"] as unknown[]).length, 1);
    assert.equal((await ask(`${path}/resume`, {})).json["pausedAt"], null);
    const key = { "Idempotency-Key": "once-and-no-more" };
    const ran = await ask(`${path}/run`, {}, key);
    const again = await ask(`${path}/run`, {}, key);
    assert.deepEqual([ran.status, again.json["job"]], [201, ran.json["job"]]);
    const job = await ask(ran.location?.slice("/api/v1".length) ?? "");
    assert.equal((job.json["job"] as { priority: number }).priority, 5);
    const history = (await ask(`${path}/runs`)).json["runs"] as { status: string }[];
    assert.deepEqual(
      history.map((run) => ({ ...run, tick: 0, at: 0 })),
      [
        {
          schedule: "night/ly",
          tick: 0,
          manual: true,
          outcome: "enqueued",
          job: ran.json["job"],
          status: "pending",
          at: 0,
        },
      ],
    );
    const listed = (await ask("/schedules?runs=5")).json["schedules"] as { runs: unknown[] }[];
    assert.deepEqual(listed[0]?.runs, history);
    assert.equal((await ask("/schedules?runs=51")).json["field"], "runs");
    assert.deepEqual((await ask(`${path}/delete`, {})).json, { deleted: "night/ly" });
    assert.equal((await ask(path)).status, 404);
    assert.equal((await ask(`${path}/run`, {})).json["code"], "SCHEDULE_NOT_FOUND");
    const lines = await holdfast.audit.list({ subject: "schedule night/ly" });
    assert.deepEqual(
      lines.map(({ action, actor }) => `${action.slice("schedule.".length)} ${actor}`),
      ["create", "edit", "pause", "resume", "run", "delete"].map((action) => `${action} local`),
    );
  });

  test("the calendar has the ticks of the next days, and says which schedules run too often to list", async () => {
    await holdfast.schedules.create({ name: "noon", task: "a.b", cron: "0 12 * * *" });
    await holdfast.schedules.create({ name: "often", task: "a.b", every: "1m" });
    await holdfast.schedules.create({ name: "off", task: "a.b", every: "1d" }, { paused: true });
    const { json } = await ask("/schedule-calendar?days=3");
    const { from, until, schedules, isAll } = json as unknown as Calendar;
    assert.deepEqual([until - from, isAll], [3 * DAY_MS, true]);
    assert.deepEqual(
      schedules.map(({ name, ticks, isDense }) => [name, ticks.length, isDense]),
      [
        ["noon", 3, false],
        ["often", 0, true],
      ],
    );
    const [noon] = schedules;
    assert.ok(noon?.ticks.every((at) => at > from && at <= until && (at / DAY_MS) % 1 === 0.5));
    for (const { name } of schedules) await holdfast.schedules.delete(name);
    await holdfast.schedules.delete("off");
  });

  test("a preview, and what is wrong, with the field", async () => {
    const preview = await ask(
      "/schedule-preview?cron=0%209%20*%20*%20MON&count=2&after=1800000000000",
    );
    assert.deepEqual(preview.json, {
      words: "At 09:00 on Monday (UTC)",
      nextRuns: [Date.parse("2027-01-18T09:00Z"), Date.parse("2027-01-25T09:00Z")],
      clock: null,
    });
    for (const [body, field] of [
      [{ cron: "1--100000000 * * * *" }, "cron"],
      [{ cron: "* * * * *", timeZone: "Mars/Base" }, "timeZone"],
      [{ every: "1ms" }, "every"],
      [{ every: "1h", missed: { all: 5_000 } }, "missed"],
      [{ every: "1h", colour: "red" }, "colour"],
    ] as const) {
      const refused = await ask("/schedules", { name: "bad", task: "a.b", ...body });
      assert.deepEqual([refused.status, String(refused.json["field"]).split(".")[0]], [422, field]);
    }
  });
});
