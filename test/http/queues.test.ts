/** Pauses and limits of queues over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { startServer } from "../../src/app/server.ts";

test("queues are paused, resumed and limited over HTTP, and the audit log says by whom", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const server = await startServer({ holdfast, port: 0, production: false });
  const ask = async (path: string, body?: object) => {
    const response = await fetch(`${server.url}/api/v1${path}`, {
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      headers: { "Content-Type": "application/json" },
    });
    return { status: response.status, json: (await response.json()) as Record<string, unknown> };
  };
  try {
    const paused = await ask("/queues/mail/pause", { reason: "down" });
    const { by, reason } = paused.json["paused"] as { by: string; reason: string };
    assert.deepEqual([paused.status, reason], [200, "down"]);
    assert.equal((await ask("/queues/mail/resume", {})).json["paused"], null);
    const lane = (await ask("/queues/mail/pause", { lane: "a/b", reason: "too many" })).json;
    const { paused: since } = (lane["lanes"] as Record<string, { paused: object }>)["a/b"] ?? {};
    assert.deepEqual(
      [lane["changed"], lane["paused"], { ...since, at: 0 }],
      [true, null, { at: 0, by, reason: "too many" }],
    );
    assert.deepEqual((await ask("/queues/mail/resume", { lane: "a/b" })).json["lanes"], {});
    assert.equal((await ask("/queues/mial/resume", {})).status, 404);
    const rate = { count: 5, per: "1s" };
    const set = await ask("/queues/mail/settings", { concurrency: 3, eachLane: { rate } });
    assert.deepEqual(set.json["limits"], { concurrency: 3, rate: null });
    const kept = { count: 5, periodMs: 1_000, burst: 1 };
    assert.deepEqual(set.json["eachLane"], { concurrency: null, rate: kept });
    await ask("/queues/mail/settings", { concurrency: null });
    const { queues } = (await ask("/queues")).json as { queues: { settings: object }[] };
    const { json: itsSettings } = await ask("/queues/mail/settings");
    assert.deepEqual(
      queues.map((queue) => queue.settings),
      [itsSettings],
    );
    const { queue } = (await ask("/queues/mail")).json as { queue: object };
    assert.deepEqual(queue, queues[0], "a queue without jobs that has settings");
    assert.equal((await ask("/queues/none")).json["code"], "QUEUE_NOT_FOUND");
    const wrong = await ask("/queues/mail/settings", { concurrency: -1 });
    assert.deepEqual([wrong.status, wrong.json["field"]], [422, "concurrency"]);
    const lines = await holdfast.audit.list({ limit: 10 });
    assert.deepEqual(
      lines.map(({ action, actor }) => [action, actor]),
      [
        "queue.pause",
        "queue.resume",
        "lane.pause",
        "lane.resume",
        "queue.change",
        "queue.change",
      ].map((one) => [one, by]),
    );
  } finally {
    await server.close();
  }
});

test("all queues are paused together; resuming them leaves alone those that were paused before", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const server = await startServer({ holdfast, port: 0, production: false });
  const ask = async (path: string, body: object, key = path) => {
    const response = await fetch(`${server.url}/api/v1${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    });
    return response.json() as Promise<{ queues: string[]; paused: string[] }>;
  };
  try {
    await holdfast.enqueue("a.b", {}, { queue: "api" });
    await holdfast.enqueue("a.b", {}, { queue: "billing" });
    await holdfast.queues.pause("mail", { actor: "ada", reason: "provider is down" });
    const paused = await ask("/pause-all", { reason: "bad deploy" });
    assert.deepEqual(paused, { queues: ["api", "billing"], paused: ["api", "billing", "mail"] });
    assert.deepEqual(await ask("/pause-all", { reason: "bad deploy" }), paused, "a repetition");
    assert.deepEqual((await ask("/pause-all", {}, "another")).queues, []);
    const [api, mail] = [await holdfast.queues.get("api"), await holdfast.queues.get("mail")];
    assert.deepEqual([api.paused?.reason, mail.paused?.reason], ["bad deploy", "provider is down"]);
    // One that was resumed and paused again by itself stays paused, too.
    await holdfast.queues.resume("billing");
    await holdfast.queues.pause("billing");
    assert.deepEqual(await ask("/resume-all", {}), {
      queues: ["api"],
      paused: ["billing", "mail"],
    });
    const lines = await holdfast.audit.list({ limit: 20 });
    assert.deepEqual(
      lines.map(({ action, subject }) => `${action} ${subject}`),
      [
        "queue.pause queue mail",
        "queue.pause-all all queues",
        "queue.pause queue api",
        "queue.pause queue billing",
        "queue.resume queue billing",
        "queue.pause queue billing",
        "queue.resume-all all queues",
        "queue.resume queue api",
      ],
    );
  } finally {
    await server.close();
  }
});

test("the rules of one queue are limited, and do not hide those of another", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const lanesFrom = (first: number): Record<string, { weight: number }> =>
    Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`lane ${first + n}`, { weight: 2 }]));
  for (let n = 0; n < 10; n += 1) await holdfast.queues.set("a", { lanes: lanesFrom(100 * n) });
  await assert.rejects(holdfast.queues.set("a", { concurrency: 1 }), /1001 rules; at most 1000/);
  await holdfast.queues.set("b", { lanes: { acme: { weight: 2 } } });
  const { lanes } = await holdfast.queues.set("b", { lanes: { acme: { concurrency: 1 } } });
  assert.deepEqual(lanes, { acme: { concurrency: 1, rate: null, weight: 2, paused: null } });
});
