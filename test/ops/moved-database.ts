/** A database as real use leaves it, with rows in every table that is copied, and ways to compare it with its copy. */
import assert from "node:assert/strict";
import {
  defineEvent,
  defineTask,
  GiveUpError,
  type Holdfast,
  openHoldfast,
} from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { Tokens } from "../../src/tokens/tokens.ts";
import { columnsOf, COPIED_TABLES, names, tableOf } from "../../src/copy/tables.ts";
import type { Engine, Row } from "../../src/database/engine.ts";
import { openEngine } from "../../src/database/open.ts";
import { sql } from "../../src/database/sql.ts";
import { nextId } from "../support/jobs.ts";
import { until } from "../worker/observe.ts";

export const ada = { actor: "ada" };
export const packed = defineEvent({ name: "packed" });

/** How often the bodies of steps ran, in this process. */
export const ran = { quote: 0, charge: 0 };

export const plain = defineTask({ name: "plain", run: async (n: number) => n });
const broken = defineTask({
  name: "broken",
  async run(text: string) {
    throw new GiveUpError(`no such address: ${text}`);
  },
});
const flaky = defineTask({
  name: "flaky",
  retry: { maxAttempts: 5, backoff: { initial: "1h", max: "1h" } },
  async run(_: null, ctx) {
    if (ctx.attempt === 1) throw new Error("ünreachable 🙈 \\ ' \" \n end");
    return ctx.attempt;
  },
});
/** Waits for its event between its two steps. */
export const order = defineTask({
  name: "order",
  async run(id: string, ctx) {
    const quote = await ctx.step("quote", () => ({ cents: (ran.quote += 1), id }));
    ctx.log("quoted", { quote });
    await ctx.event(packed, id);
    await ctx.step("charge", () => (ran.charge += 1));
    return quote;
  },
});
const careful = defineTask({
  name: "careful",
  async run(_: null, ctx) {
    return ctx.effect("pay", async () => "paid twice");
  },
});
export const tasks = [plain, broken, flaky, order, careful];

export const parcel = defineWorkflow({
  name: "parcel",
  keep: "365d",
  initial: "open",
  states: { open: { limit: { after: "1h", move: "lose" } }, paid: {}, lost: { final: true } },
  moves: { pay: { from: "open", to: "paid" }, lose: { from: ["open", "paid"], to: "lost" } },
});
export const line = defineWorkflow({
  name: "line",
  parent: parcel,
  initial: "new",
  states: { new: {}, packed: { final: true } },
  moves: { pack: { from: "new", to: "packed" } },
});

/** Uses the database at this URL, and leaves it without anything running. Returns the id of the order that waits. */
export async function fill(url: string): Promise<{ order: string; doubt: string }> {
  await using holdfast = await openHoldfast(url, { version: "abc1234" });
  const store = holdfast.store;
  const doubt = await crashInEffect(holdfast);
  const worker = await holdfast.startWorker({ name: "mailer", tasks, slots: 1 });
  await holdfast.enqueueMany(plain, [1, 2, 3], (n) => ({ key: `plain-${n}`, keyFor: "2h" }));
  const leapDay = { name: "leap day", task: plain, input: 9, cron: "30 2 29 2 *" };
  await holdfast.schedules.create({ ...leapDay, timeZone: "Asia/Tokyo" }, ada);
  await holdfast.schedules.run("leap day", ada);
  await holdfast.queues.set("later", { concurrency: 3, ...ada });
  const failed = await holdfast.enqueue(broken, "grüße@日本");
  const retrying = await holdfast.enqueue(flaky, null);
  const waiting = await holdfast.enqueue(order, "o-1");
  await holdfast.enqueue(plain, 4, { delay: "1h", key: "tomorrow" });
  const regretted = await holdfast.enqueue(plain, 5, { delay: "1h" });
  await holdfast.jobs.cancel(regretted.id, { ...ada, reason: "not yet" });
  await until("the jobs are where they stay", async () => {
    const found = await Promise.all(
      [failed.id, retrying.id, waiting.id, doubt].map((id) => holdfast.jobs.get(id)),
    );
    return (
      found.map((job) => job?.status).join() === "failed,retry,waiting,waiting" &&
      (await holdfast.jobs.effectsInDoubt()).length === 1
    );
  });
  await holdfast.emit(packed, "o-2", null);
  await items(holdfast);
  await holdfast.locks.with("order:42", {}, async () => {});
  await holdfast.leases.acquire({ worker: "py-1", queues: ["nothing-here"] });
  await new Tokens(holdfast).create({ name: "ci", role: "viewer" }, ada);
  await holdfast.audit.prune({ keep: 0, ...ada });
  await new Tokens(holdfast).create({ name: "cd", role: "operator" }, ada);
  await worker.stop();
  await holdfast.enqueueMany(plain, [6, 7, 8], () => ({ priority: 3 }));
  await holdfast.flows.enqueue("two in turn", (flow) => {
    const before = flow.job(plain, 9);
    flow.job(plain, 10, { name: "last", after: [before] });
  });
  await seldom(store.db.engine);
  return { order: waiting.id, doubt };
}

/** A worker died after it had written that it would pay. */
async function crashInEffect(holdfast: Holdfast): Promise<string> {
  const { store } = holdfast;
  const { id } = await holdfast.enqueue(careful, null);
  const worker = `mailer-${nextId()}`;
  const held = { queues: ["default"], tasks: ["careful"], limit: 1, leaseMs: 60_000 };
  const [job] = await store.jobs.claim({ ...held, worker });
  assert.ok(job !== undefined);
  const pay = { name: "pay", occurrence: 1, position: 1, kind: "effect" } as const;
  assert.ok(await store.steps.put(job, { ...pay, status: "begun", result: null, isNew: true }));
  await store.jobs.reclaimFrom({ workers: [worker], maxCrashes: 3, limit: 10 });
  return id;
}

async function items({ workflows }: Holdfast): Promise<void> {
  const item = await workflows.start(parcel, { data: { to: "Ada" }, identifier: "p-1", ...ada });
  for (let n = 0; n < 3; n += 1) {
    const below = await workflows.start(line, { data: { n }, parent: item.id, ...ada });
    if (n > 0) await below.move("pack", ada);
  }
  await item.update({ to: "Bob" }, ada);
  await (await workflows.item(parcel, item.id)).move("pay", { actor: "bank", reason: "paid" });
  await workflows.start(parcel, { data: {}, tenant: "second", ...ada });
  const gone = await workflows.start(parcel, { data: {}, ...ada });
  await gone.move("lose", ada);
}

/** Rows that take a server, an alert or a long time to come into being. */
async function seldom(engine: Engine): Promise<void> {
  const id = nextId();
  const [job] = await engine.all<{ id: string }>(sql`select id from holdfast.job limit 1`);
  const [item] = await engine.all<{ id: string }>(
    sql`select id from holdfast.item where status = 'lost'`,
  );
  const minute = 1_800_000 * 60_000;
  const rows: Record<string, Row> = {
    job_trace: { job_id: job?.id ?? "", traceparent: "00-1-2-01", tracestate: null },
    job_tag: { tag: "invoices", job_id: job?.id ?? "" },
    job_revision: { job_id: job?.id ?? "", revision: 1, payload: "{}", changed_at: 5 },
    rerun: {
      job_id: job?.id ?? "",
      run: 1,
      step: "pay",
      occurrence: 1,
      status: "failed", // a done one would count as an attempt of a job that has not ended
      epoch: 1,
      attempt: 1,
      worker: "w",
      started_at: 4,
      finished_at: 5,
      result: "7",
      error: null,
      rerun_at: 6,
    },
    rerun_step: {
      job_id: job?.id ?? "",
      run: 1,
      name: "pay",
      occurrence: 1,
      position: 1,
      kind: "effect",
      status: "done",
      epoch: 1,
      begun_at: 4,
      ended_at: 5,
      result: "7",
    },
    pacing: {
      kind: "throttle",
      task: "mail.send",
      pace_key: "ada",
      job_id: job?.id ?? "",
      first_at: 4,
      until_at: 5,
    },
    bulk_action: {
      id,
      action: "retry",
      filter: "{}",
      terms: "{}",
      dry_run: 0,
      actor: "ada",
      status: "done",
      walk: "failed",
      sample: "[]",
      refusals: "[]",
      created_at: 4,
      changed_at: 5,
      ended_at: 5,
    },
    item_job: { job_id: nextId(), item_id: item?.id ?? "", status: "done" },
    item_pruning: { item_id: item?.id ?? "" },
    lock_stat: {
      minute,
      type: "order",
      source: "a",
      acquisitions: 1,
      timeouts: 0,
      wait_ms_sum: 1,
      held_ms_max: 1,
      waits: "[]",
    },
    depth: { queue: "default", status: "pending", jobs: 7, oldest_at: 5 },
    minute_total: {
      minute,
      queue: "default",
      arrived: 1,
      done: 1,
      failed: 0,
      cancelled: 0,
      run_ms_sum: 1,
      run_ms_max: 1,
    },
    span_total: {
      step_ms: 900_000,
      at: 900_000,
      queue: "",
      arrived: 1,
      done: 1,
      failed: 0,
      cancelled: 0,
      expired: 0,
      retried: 0,
      crashed: 0,
      run_ms_sum: 1,
      run_ms_max: 1,
      pickups: "{}",
      pending: 3,
    },
    task_stat: {
      hour: 3_600_000,
      task: "mail.send",
      source: "w-1",
      build: "9c41d07",
      runs: "{}",
      waits: "{}",
    },
    task_total: {
      hour: 3_600_000,
      task: "mail.send",
      build: "9c41d07",
      done: 1,
      failed: 0,
      cancelled: 0,
      expired: 0,
      retried: 0,
      crashed: 0,
      runs: "{}",
      waits: null,
    },
    lock_span: {
      at: 900_000,
      type: "order",
      acquisitions: 1,
      timeouts: 0,
      wait_ms_sum: 1,
      held_ms_max: 1,
      waits: "{}",
    },
    build: { version: "9c41d07", first_at: 1, last_at: 2 },
    task: { name: "mail.send", input_schema: "{}", version: "9c41d07", seen_at: 1 },
    error_kind: {
      id: "e".repeat(32),
      task: "mail.send",
      name: "Error",
      code: null,
      message: "no answer",
      sample: "no answer",
      sample_job: job?.id ?? "",
      first_sample: "no answer",
      first_job: job?.id ?? "",
      state: "open",
      first_at: 1,
      last_at: 2,
      builds: "[]",
      failed: 1,
      retried: 0,
    },
    error_hour: { kind_id: "e".repeat(32), hour: 3_600_000, build: "", failed: 1, retried: 0 },
    error_minute: { minute: 60_000, kind_id: "e".repeat(32), build: "", failed: 1, retried: 0 },
    alert: {
      id,
      rule: "r",
      subject: "s",
      severity: "info",
      status: "raised",
      message: "m",
      facts: "{}",
      change_id: nextId(),
      since_at: 1,
      seen_at: 2,
      raised_at: 3,
      resolved_at: null,
    },
    request: {
      principal: "ci",
      request_key: "k",
      fingerprint: "f".repeat(64),
      seed: "s",
      begun_at: 1,
      status: 201,
      body: "{}",
    },
  };
  await engine.transaction(async (tx) => {
    for (const [table, row] of Object.entries(rows)) await tx.insert(table, [row]);
    await tx.run(sql`update holdfast.counts set counted_at = 123456, took_ms = 7 where id = 1`);
  });
}

/** Every row of every table that is copied, in an order that does not depend on the engine. */
export async function contentOf(url: string): Promise<Record<string, string[]>> {
  const engine = await openEngine(url, { create: false });
  try {
    const columns = columnsOf(engine);
    const tables: Record<string, string[]> = {};
    for (const { name } of COPIED_TABLES) {
      const wanted = columns.get(name) ?? [];
      const rows = await engine.all(sql`select ${names(wanted)} from ${tableOf(name)}`);
      tables[name] = rows.map((row) => JSON.stringify(wanted.map((c) => row[c]))).toSorted();
    }
    return tables;
  } finally {
    await engine.close();
  }
}

/** As it is after the copy has written its own line. */
export function withoutTheCopy(content: Record<string, string[]>): Record<string, string[]> {
  const audit = (content["audit"] ?? []).filter((row) => !row.includes("database.copy"));
  return { ...content, audit, audit_head: [] };
}
