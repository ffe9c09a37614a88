/** Streams: a client that comes back misses nothing, a slow one is cut off, and a server that closes ends them. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { firstIdAt } from "../../src/core/id.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { defineTask } from "../../src/core/task.ts";
import { DEFAULT_LIMITS } from "../../src/http-kernel/limits.ts";
import { EventStream } from "../../src/http-kernel/sse.ts";
import { newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { tempFolder } from "../support/folder.ts";
import { within } from "../support/waiting.ts";
import { TestServer, Ear } from "./client.ts";

const LIMIT_MS = 20_000;
const CUTS_MAX = 50;
const folder = tempFolder();

/** Says a hundred things, one at a time, as the test lets it. */
const talker = defineTask({
  name: "talker",
  async run({ lines }: { lines: number }, ctx) {
    for (let line = 1; line <= lines; line += 1) {
      ctx.log(`line ${line}`);
      if (line % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 100));
    }
  },
});

test("a client that is disconnected repeatedly gets all reports of a job, each once", async () => {
  await using api = await TestServer.open(`sqlite:${folder.file(".db")}`);
  await api.holdfast.startWorker({ tasks: [talker] });
  const { id } = await api.post("/api/v1/jobs", { task: "talker", input: { lines: 80 } }, 201);
  const heard: number[] = [];
  let last: string | null = null;
  let cuts = 0;
  for (;;) {
    const headers: Record<string, string> = last === null ? {} : { "last-event-id": last };
    await using ear = await Ear.open(api.server, `/api/v1/jobs/${id}/events`, headers);
    let isOver = false;
    for (let events = 0; events < 15; events += 1) {
      const entry = await ear.next();
      if (entry === null) break;
      last = entry.id;
      if (entry.event === "log") heard.push(entry.data.seq);
      if (entry.event === "status" && entry.data.status === "done") isOver = true;
    }
    if (isOver) {
      assert.equal(await ear.next(), null, "the stream ends with the job");
      break;
    }
    cuts += 1;
    assert.ok(cuts < CUTS_MAX, "it begins anew every time");
  }
  assert.ok(cuts >= 4, `it was cut off ${cuts} times`);
  assert.deepEqual(
    heard,
    Array.from({ length: 80 }, (_, index) => index + 1),
  );
  const headers = { accept: "text/event-stream", "last-event-id": String(last) };
  assert.equal((await api.ask(`/api/v1/jobs/${id}/events`, { headers })).status, 204);
});

test("a client of the stream gets every job that arrived and ended, however often it is disconnected", async () => {
  await using api = await TestServer.open(`sqlite:${folder.file(".db")}`);
  const quick = defineTask({ name: "quick", run: async () => null });
  await api.holdfast.startWorker({ tasks: [quick] });
  const enqueued = new Set<string>();
  const heard = { enqueued: new Set<string>(), finished: new Set<string>() };
  let last = await whereNow(api);
  for (let round = 0; round < 8; round += 1) {
    // Half of them without a listener.
    for (const when of ["apart", "connected"]) {
      const jobs = await api.holdfast.enqueueMany(
        quick,
        Array.from({ length: 5 }, () => null),
      );
      for (const { id } of jobs) enqueued.add(id);
      await Promise.all(jobs.map((job) => job.result({ timeout: "20s" })));
      if (when === "apart") continue;
      await using ear = await Ear.open(api.server, "/api/v1/stream", {
        "last-event-id": String(last),
      });
      const wanted = [...enqueued];
      while (!wanted.every((id) => heard.enqueued.has(id) && heard.finished.has(id))) {
        const entry = await within(LIMIT_MS, ear.next());
        assert.ok(entry !== null, "something was not told");
        last = entry.id ?? last;
        if (entry.event === "enqueued") heard.enqueued.add(entry.data.id);
        if (entry.event === "finished") heard.finished.add(entry.data.id);
      }
    }
  }
  assert.equal(enqueued.size, 80);
});

test("live, each event is sent once, even if it was committed late", async () => {
  await using api = await TestServer.open(`sqlite:${folder.file(".db")}`);
  await using ear = await Ear.open(api.server, "/api/v1/stream");
  await ear.until("hello");
  const { store } = api.holdfast;
  const [first, last] = [newJob({ id: idAt(0) }), newJob({ id: idAt(1) })];
  // Made three seconds ago by a transaction whose commit took that long.
  const late = newJob({ id: idAt(-3_000) });
  const heard: string[] = [];
  for (const job of [first, late, last]) {
    await store.jobs.enqueue([job]);
    while (heard.at(-1) !== job.id) heard.push((await ear.until("enqueued")).data.id);
  }
  assert.deepEqual(heard, [first.id, late.id, last.id]);
});

test("too many events at once are replaced by a gap event", async () => {
  await using api = await TestServer.open(`sqlite:${folder.file(".db")}`);
  await using ear = await Ear.open(api.server, "/api/v1/stream");
  const { id: cursor } = await ear.until("hello");
  const jobs = Array.from({ length: 1_500 }, () => ({ task: "a.b" }));
  await api.post("/api/v1/jobs/bulk", { jobs }, 201);
  assert.deepEqual((await ear.until("gap")).data, { of: "enqueued" });
  await using resumed = await Ear.open(api.server, "/api/v1/stream", {
    "last-event-id": String(cursor),
  });
  assert.deepEqual((await resumed.until("gap")).data, { of: "enqueued" });
  await using lost = await Ear.open(api.server, "/api/v1/stream", { "last-event-id": "nonsense" });
  assert.deepEqual((await lost.until("gap")).data, { of: "everything" });
});

test("workers and counts are sent when they change", async () => {
  const byStatus = {
    pending: 1,
    scheduled: 0,
    processing: 0,
    waiting: 0,
    retry: 0,
    done: 0,
    failed: 0,
    cancelled: 0,
    expired: 0,
  };
  const queues = [{ queue: "q", counts: byStatus, oldestPendingAt: 1 }];
  const counts = { countedAt: 5, tookMs: 1, queues };
  const seen = { at: 1, counts, minutes: [], findings: [], canaries: [] };
  await using api = await TestServer.open(`sqlite:${folder.file(".db")}`, {
    monitor: { latest: () => seen },
  });
  await using ear = await Ear.open(api.server, "/api/v1/stream");
  assert.deepEqual((await ear.until("counts")).data, counts);
  const quick = defineTask({ name: "quick", run: async () => null });
  const worker = await api.holdfast.startWorker({ tasks: [quick], name: "q" });
  const { data } = await ear.until("worker", ({ status }) => status === "running");
  await worker.stop();
  await ear.until("worker", ({ id, status }) => id === data.id && status === "stopped");
  const stats = await api.get("/api/v1/stats");
  assert.deepEqual([stats.countedAt, stats.queues], [5, counts.queues]);
});

test("a stream sends heartbeats", async () => {
  await using api = await TestServer.open(undefined, { limits: { heartbeatMs: 20 } });
  await using ear = await Ear.open(api.server, "/api/v1/stream");
  await ear.until("hello");
  await api.post("/api/v1/jobs", { task: "a.b" }, 201);
  await ear.until("enqueued");
  assert.ok(ear.comments.some((comment) => comment.includes("still here")));
});

test("a server that closes ends its streams", async () => {
  const api = await TestServer.open(undefined, { limits: { closeMs: 60_000 } });
  const { id } = await api.post("/api/v1/jobs", { task: "a.b" }, 201);
  const ears = await Promise.all([
    Ear.open(api.server, "/api/v1/stream"),
    Ear.open(api.server, "/api/v1/stream"),
    Ear.open(api.server, `/api/v1/jobs/${id}/events`),
  ]);
  await ears[0]?.until("hello");
  assert.equal(
    await within(
      LIMIT_MS,
      api.server.close().then(() => true),
    ),
    true,
  );
  for (const ear of ears) while ((await ear.next()) !== null);
  for (const ear of ears) await ear[Symbol.asyncDispose]();
  await api.holdfast.close();
});

test("more streams than there is room for are refused, and room is made when one ends", async () => {
  await using api = await TestServer.open(undefined, { limits: { streams: 2 } });
  const ears = [
    await Ear.open(api.server, "/api/v1/stream"),
    await Ear.open(api.server, "/api/v1/stream"),
  ];
  const refused = await api.ask("/api/v1/stream");
  assert.deepEqual([refused.status, refused.json.code], [503, "TOO_MANY_STREAMS"]);
  // A client can cause it as often as it likes.
  for (let again = 0; again < 5; again += 1) await api.get("/api/v1/stream", 503);
  const told = api.log.filter((line) => /^(?:warn|error)\b.*too many/.test(line));
  assert.equal(told.length, 1, told.join("\n"));
  assert.ok(!api.log.some((line) => line.startsWith("error")));
  await ears[0]?.[Symbol.asyncDispose]();
  for (let tries = 0; ; tries += 1) {
    if ((await api.ask("/api/v1/stream")).status === 200) break;
    assert.ok(tries < 200, "there never was room");
  }
  await ears[1]?.[Symbol.asyncDispose]();
});

test("a HEAD request for a stream occupies no stream", async () => {
  await using api = await TestServer.open(undefined, { limits: { streams: 1 } });
  for (let count = 0; count < 3; count += 1) {
    assert.equal((await api.ask("/api/v1/stream", { method: "HEAD" })).status, 200);
  }
  await using ear = await Ear.open(api.server, "/api/v1/stream");
  await ear.until("hello");
});

test("a client that takes nothing is cut off when its buffer is full, and memory stays as it was", async () => {
  const stream = new EventStream(systemRuntime, { ...DEFAULT_LIMITS, streamBuffer: 5 });
  for (let count = 0; count < 4; count += 1) stream.send({ event: "e", data: count });
  assert.equal(stream.signal.aborted, false);
  for (let count = 0; count < 100; count += 1) stream.send({ event: "e", data: count });
  assert.equal(stream.signal.aborted, true);
  await assert.rejects(new Response(stream.body).text(), /too slow/);
  // One that has to be told everything is waited for, but not for ever.
  const patient = new EventStream(systemRuntime, {
    ...DEFAULT_LIMITS,
    streamBuffer: 2,
    stallMs: 30,
  });
  for (let count = 0; count < 3; count += 1) await patient.sendInTime({ event: "e", data: count });
  assert.equal(patient.signal.aborted, true);
});

async function whereNow(api: TestServer): Promise<string | null> {
  await using ear = await Ear.open(api.server, "/api/v1/stream");
  return (await ear.until("hello")).id;
}

let given = 0;
function idAt(ms: number): string {
  given += 1;
  return firstIdAt(Date.now() + ms).slice(0, -4) + String(given).padStart(4, "0");
}

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
