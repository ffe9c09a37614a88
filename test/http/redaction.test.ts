/** Redaction rules, on every way that data leaves the server. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { startServer } from "../../src/app/server.ts";
import { openStore } from "../../src/app/store.ts";
import { HIDDEN } from "../../src/config/redaction.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { defineTask } from "../../src/core/task.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { send } from "./client.ts";

const SECRET = "4419-0000-1111-2222";

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  for (let looks = 0; looks < 200 && !(await holds()); looks += 1) await pause(50);
  assert.ok(await holds());
}

test("inputs, results, steps, reports and earlier inputs are hidden in every answer, and workers get the whole", async () => {
  const redact = ["card", "customer.email"];
  await using holdfast = await openHoldfast("sqlite::memory:", { redact });
  await using server = await startServer({ holdfast, port: 0 });
  const texts: string[] = [];
  const ask = async (path: string, body?: object): Promise<any> => {
    const reply = await send(server, path, body === undefined ? {} : { method: "POST", body });
    texts.push(reply.text);
    return reply.json;
  };
  const seen: unknown[] = [];
  const task = defineTask({
    name: "charge",
    retry: { maxAttempts: 1 },
    run: async (input, ctx) => {
      seen.push(input);
      await ctx.step("quote", async () => ({ card: SECRET, fee: 1 }));
      ctx.report("receipt", { card: SECRET });
      ctx.log("charging", { card: SECRET });
      if (seen.length === 1) throw new Error("declined");
      return { card: SECRET, ok: true };
    },
  });
  await using worker = await holdfast.startWorker({ tasks: [task], signals: false });
  assert.ok(worker.id !== "");
  const input = { card: SECRET, customer: { email: SECRET, name: "Ada" }, email: "public" };
  const { id } = await ask("/api/v1/jobs", { task: "charge", input, options: { maxAttempts: 1 } });
  const status = async (): Promise<string> => (await holdfast.jobs.get(id))?.status ?? "";
  await eventually(async () => (await status()) === "failed");
  assert.deepEqual(seen, [input]);
  const { job } = await ask(`/api/v1/jobs/${id}`);
  assert.deepEqual(job.input, {
    card: HIDDEN,
    customer: { email: HIDDEN, name: "Ada" },
    email: "public",
  });
  // Edited as it was shown, with one change: what is hidden stays what it was.
  const edited = { ...job.input, email: "other" };
  await ask(`/api/v1/jobs/${id}/retry`, { input: edited });
  await eventually(async () => (await status()) === "done");
  assert.deepEqual(seen[1], { ...input, email: "other" });
  const paths = ["", "/story", "/attempts", "/events", "/dependencies", "/explanation"].map(
    (part) => `/api/v1/jobs/${id}${part}`,
  );
  for (const path of [...paths, "/api/v1/jobs?input=Ada", "/api/v1/jobs"]) await ask(path);
  const { inputs, isComplete } = await ask("/api/v1/tasks/charge/inputs");
  assert.deepEqual(
    inputs.map((one: any) => [one.id, one.status, one.input]),
    [[id, "done", { ...job.input, email: "other" }]],
  );
  assert.equal(isComplete, true);
  const events = await (
    await fetch(`${server.url}/api/v1/jobs/${id}/events`, {
      headers: { accept: "text/event-stream" },
      signal: AbortSignal.timeout(5_000),
    })
  ).text();
  assert.match(events, /hidden by redaction/);
  for (const text of [...texts, events]) assert.ok(!text.includes(SECRET), text);
  assert.equal((await ask("/api/v1/session")).redacts, true);
  // A search must not tell what is hidden.
  assert.deepEqual((await ask(`/api/v1/jobs?input=${SECRET}`)).jobs, []);
  assert.equal((await ask("/api/v1/jobs?input=Ada")).jobs.length, 1);
  // Where nothing can be restored, the marker is refused.
  const refused = await send(server, "/api/v1/jobs", {
    method: "POST",
    body: { task: "charge", input: edited },
  });
  assert.equal(refused.status, 422);
  const rerun = await send(server, `/api/v1/jobs/${id}/rerun`, {
    method: "POST",
    body: { from: null, confirm: ["quote"], input: { more: HIDDEN } },
  });
  assert.equal(rerun.status, 422, rerun.text);
  // Workers of other languages get all of it.
  await holdfast.enqueue("elsewhere", input, { queue: "http" });
  const acquired = await send(server, "/api/v1/leases/acquire", {
    method: "POST",
    body: { worker: "w", queues: ["http"] },
  });
  assert.ok(acquired.text.includes(SECRET));
});

test("no answer of a search depends on what is hidden: neither its jobs, nor `next`, nor how far it looked", async () => {
  // No search ends by time, so each looks as far as the other.
  const runtime = { ...systemRuntime, monotonic: () => 0 };
  const store = await openStore("sqlite::memory:", { runtime });
  await using holdfast = await openHoldfast(store, { redact: ["password"] });
  await using server = await startServer({ holdfast, port: 0 });
  const task = defineTask({ name: "t", run: async () => {} });
  const hidden = { password: "hunter2-Zq", note: "seen" };
  for (let at = 0; at < 120; at += 1) {
    const input = at % 2 === 0 ? hidden : { password: "other", note: "seen" };
    await holdfast.enqueue(task, input, { tags: ["acme"], key: `k-${at}` });
  }
  const search = async (query: string): Promise<any> => {
    const { status, json } = await send(server, `/api/v1/${query}`, {});
    assert.equal(status, 200, query);
    return json;
  };
  const guesses = ['"password":"hunter2', "hunter2-Zq", '"password":"h', "Zq"];
  const terms = ["", "&status=pending", "&tag=acme", "&key=k-0", "&queue=default", "&task=t"];
  for (const rest of terms.flatMap((term) => ["&limit=1", "&limit=50"].map((one) => term + one))) {
    const wrong = await search(`jobs?input=${encodeURIComponent("nothing has this")}${rest}`);
    assert.deepEqual(wrong.jobs, []);
    for (const guess of guesses) {
      const right = await search(`jobs?input=${encodeURIComponent(guess)}${rest}`);
      assert.deepEqual(right, wrong, `${guess} ${rest}`);
    }
    // What is shown is found, page by page.
    const seen = await search(`jobs?input=seen${rest}`);
    assert.ok(seen.jobs.length > 0, rest);
  }
  const body = { action: "retry", filter: { input: "hunter2" }, dryRun: true };
  const refused = await send(server, "/api/v1/bulk", { method: "POST", body });
  assert.deepEqual([refused.status, refused.json.field], [422, "filter.input"]);
  const all = await search(`jobs?input=seen&limit=200`);
  assert.deepEqual([all.jobs.length, all.next, all.isComplete], [120, null, true]);
});

after(assertNothingRuns);
