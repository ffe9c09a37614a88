/** A shop whose jobs run, fail, wait and are retried: what the dashboard's tests and pictures show. */
import { setTimeout as wait } from "node:timers/promises";
import { defineTask, type Holdfast, type Worker } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";

class CarrierTimeout extends Error {
  override readonly name = "CarrierTimeout";
}

class PaymentDeclined extends Error {
  override readonly name = "PaymentDeclined";
}

interface Order {
  readonly id: string;
  readonly cents: number;
  readonly carrier?: string;
}

const ship = defineTask({
  name: "order.ship",
  queue: "orders",
  retry: { maxAttempts: 3, backoff: { initial: "20ms", max: "50ms" } },
  async run(order: Order, ctx) {
    await ctx.step("quote", async () =>
      wait(5).then(() => ({ cents: 499, carrier: order.carrier ?? "dhl" })),
    );
    await ctx.effect("charge", async () => wait(8).then(() => ({ payment: `ch_${order.id}` })), {
      verify: async () => ({ payment: `ch_${order.id}` }),
    });
    ctx.log(`asking ${order.carrier ?? "dhl"} for a label`, { weight: 2.75 });
    await ctx.step("shipping label", async () => {
      await wait(6);
      if (order.carrier === "ups") ctx.log.warn("ups is slow", { seconds: 5 });
      if (order.carrier === "ups")
        throw new CarrierTimeout(`no answer from ${order.carrier} within 10 s`);
    });
    return { tracking: `T-${order.id}` };
  },
});

/** Its next attempt is far away, so that it can be looked at. */
const slowRetry = defineTask({
  name: "invoice.charge",
  queue: "billing",
  retry: { maxAttempts: 5, backoff: { initial: "10m", max: "1h" } },
  run(order: Order) {
    if (order.cents > 5_000) throw new PaymentDeclined("card ending in 4419 was declined");
    return { charged: order.cents };
  },
});

const mail = defineTask({
  name: "mail.send",
  queue: "mail",
  run: (to: { to: string }) => ({ sent: to.to }),
});

const report = defineTask({
  name: "report.daily",
  queue: "reports",
  async run(_: unknown, ctx) {
    ctx.progress(0.62, "page 62 of 100");
    await wait(600_000, undefined, { signal: ctx.signal });
  },
});

const merge = defineTask({
  name: "report.merge",
  queue: "reports",
  run: ({ month }: { month: string }) => ({ merged: month }),
});

const cool = defineTask({
  name: "cart.remind",
  queue: "orders",
  async run(_: unknown, ctx) {
    await ctx.sleep("cooling off", "10m");
  },
});

export const orders = defineWorkflow({
  name: "order",
  initial: "open",
  states: {
    open: {},
    paid: {},
    shipped: {},
    delivered: { final: true },
    refunded: { final: true },
  },
  moves: {
    pay: { from: "open", to: "paid" },
    ship: { from: "paid", to: "shipped" },
    deliver: { from: "shipped", to: "delivered" },
    refund: {
      from: ["paid", "shipped"],
      to: "refunded",
      guard: ({ patch }) => "approvedBy" in patch || "a manager must approve it",
    },
  },
});

export const shopTasks = [ship, slowRetry, mail, report, merge, cool];

/** A job whose worker ended between the intent of an effect and its answer: an operator must say what became of it. */
export async function jobInDoubt(holdfast: Holdfast): Promise<string> {
  const { id } = await holdfast.enqueue("outside.pay", {}, { queue: "outside" });
  const [lease] = await holdfast.leases.acquire({ worker: "py-1", queues: ["outside"] });
  const fence = { id, worker: "py-1", epoch: lease?.epoch ?? 0 };
  const step = { name: "charge card", occurrence: 1, kind: "effect", position: 1 } as const;
  const { store } = holdfast;
  await store.steps.put(fence, { ...step, status: "doubt", result: null, isNew: true });
  await store.jobs.settle([{ ...fence, outcome: { kind: "suspended", delayMs: null } }]);
  return id;
}

const MINUTE_MS = 60_000;

export const ERROR_KIND = "0123456789abcdef0123456789abcdef";

/** What takes minutes and hours to come about is written: contention of locks, a kind of error, runs of a schedule. */
async function writePast(
  { store }: Holdfast,
  jobs: Pick<Shop["ids"], "failed" | "done"> & { readonly alsoFailed: string },
) {
  const now = await store.db.clock();
  const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const locks = Array.from({ length: 48 }, (_, step) => {
    const isHot = step > 4 && step < 9;
    const at = { minute: minute - step * 5 * MINUTE_MS, source: "shop", wait_ms_sum: 90 };
    const stock = isHot ? '{"20":30,"35":10}' : `{"${8 + (step % 5)}":40}`;
    return [
      {
        ...at,
        type: "stock",
        acquisitions: 40,
        timeouts: isHot ? 2 : 0,
        held_ms_max: 9_800,
        waits: stock,
      },
      {
        ...at,
        type: "order",
        acquisitions: 90,
        timeouts: 0,
        held_ms_max: 1_200,
        waits: '{"4":90}',
      },
    ];
  });
  const message = "no answer from ups within # s";
  const kind = {
    id: ERROR_KIND,
    task: "order.ship",
    name: "CarrierTimeout",
    message,
    sample: message,
    sample_job: jobs.failed,
    first_sample: message,
    first_job: jobs.failed,
    state: "open",
    first_at: now - MINUTE_MS,
    last_at: now,
    first_build: "9c41d07",
    builds: '["9c41d07"]',
    failed: 2,
    retried: 4,
  };
  const runs = Array.from({ length: 20 }, (_, run) => {
    const tick = minute - (run + 1) * 5 * MINUTE_MS;
    const isSkipped = run % 7 === 3;
    const job = run % 9 === 4 ? jobs.alsoFailed : jobs.done;
    const outcome = isSkipped ? "skipped" : "enqueued";
    return {
      schedule: "stock-sync",
      tick,
      is_manual: 0,
      outcome,
      job_id: isSkipped ? null : job,
      at: tick,
    };
  });
  await store.db.engine.transaction(async (tx) => {
    await tx.insert("lock_stat", locks.flat());
    await tx.insert("lock_wait", [
      {
        name: "stock:9",
        source: "shop",
        owner: "shop-1",
        waiting: 0,
        since_at: now,
        timeouts: 8,
        seen_at: now,
      },
    ]);
    await tx.insert("error_kind", [kind]);
    await tx.insert("schedule_run", runs);
  });
}

export interface Shop {
  readonly worker: Worker;
  readonly ids: Readonly<
    Record<
      | "failed"
      | "retry"
      | "done"
      | "running"
      | "sleeping"
      | "pending"
      | "scheduled"
      | "flow"
      | "item"
      | "doubt",
      string
    >
  >;
}

/** Fills a database and leaves one worker running. */
export async function openShop(holdfast: Holdfast): Promise<Shop> {
  await holdfast.queues.pause("mail", { actor: "on-call", reason: "provider is down" });
  await holdfast.queues.set("billing", { concurrency: 5, rate: { count: 50, per: "1s" } });
  const worker = await holdfast.startWorker({
    name: "shop-worker",
    workflows: [orders],
    tasks: shopTasks,
    concurrency: 20,
    shutdown: "50ms",
    version: "9c41d07",
  });
  const pending = await holdfast.enqueue(
    mail,
    { to: "ada@example.com" },
    { key: "order-48236-paid" },
  );
  await holdfast.enqueueMany(
    mail,
    Array.from({ length: 11 }, (_, index) => ({ to: `customer-${index}@example.com` })),
  );
  const done = await holdfast.enqueue(
    ship,
    { id: "48226", cents: 1_999 },
    { key: "order-48226", tags: ["acme", "express"] },
  );
  for (let index = 0; index < 24; index += 1) {
    const tags = index % 3 === 0 ? ["acme"] : ["northwind"];
    await holdfast.enqueue(
      ship,
      { id: String(48_100 + index), cents: 1_000 + index },
      { key: `order-${48_100 + index}`, tags },
    );
  }
  const failed = await holdfast.enqueue(
    ship,
    { id: "48211", cents: 700, carrier: "ups" },
    { key: "order-48211", tags: ["acme"] },
  );
  const alsoFailed = await holdfast.enqueue(
    ship,
    { id: "48207", cents: 800, carrier: "ups" },
    { key: "order-48207" },
  );
  const retry = await holdfast.enqueue(
    slowRetry,
    { id: "48179", cents: 9_900 },
    { key: "order-48179-charge" },
  );
  await holdfast.enqueue(slowRetry, { id: "48180", cents: 900 }, { key: "order-48180-charge" });
  const running = await holdfast.enqueue(report, null, { key: "report-2026-11-16" });
  const sleeping = await holdfast.enqueue(cool, { cart: 7 }, { key: "cart-9021-reminder" });
  const scheduled = await holdfast.enqueue(
    mail,
    { to: "grace@example.com" },
    { key: "cart-9033-reminder", delay: "3h" },
  );
  const flow = await holdfast.flows.enqueue("monthly report", (build) => {
    const parts = ["north", "south", "west"].map((region) =>
      build.job(ship, { id: region, cents: 1 }, { name: `fetch ${region}` }),
    );
    const held = build.job(mail, { to: "report@example.com" }, { name: "ask the team" });
    build.job(merge, { month: "2026-11" }, { after: [...parts, held], name: "merge" });
  });
  await holdfast.schedules.create({
    name: "nightly-report",
    task: merge,
    input: { month: "2026-11" },
    cron: "30 2 * * *",
    timeZone: "Europe/Berlin",
  });
  await holdfast.schedules.create({
    name: "stock-sync",
    task: merge,
    input: { month: "2026-11" },
    every: "5m",
  });
  const item = await holdfast.workflows.start(orders, {
    data: { cents: 1_999 },
    identifier: "A-48213",
    tenant: "acme",
    actor: "shop-web",
  });
  await item.move("pay", { actor: "bank" });
  const doubt = await jobInDoubt(holdfast);
  await writePast(holdfast, { failed: failed.id, alsoFailed: alsoFailed.id, done: done.id });
  await settle(holdfast, [failed.id, alsoFailed.id, retry.id, done.id, sleeping.id, running.id]);
  return {
    worker,
    ids: {
      failed: failed.id,
      retry: retry.id,
      done: done.id,
      running: running.id,
      sleeping: sleeping.id,
      pending: pending.id,
      scheduled: scheduled.id,
      flow: flow.id,
      item: item.id,
      doubt,
    },
  };
}

const SETTLED = new Set(["failed", "retry", "done", "waiting"]);

/** Until each of these has failed, waits or runs. */
async function settle(holdfast: Holdfast, ids: readonly string[]): Promise<void> {
  for (let times = 0; times < 200; times += 1) {
    const jobs = await Promise.all(ids.map((id) => holdfast.jobs.get(id)));
    const isBack = jobs.every(
      (job) => job !== null && (SETTLED.has(job.status) || job.task === "report.daily"),
    );
    const failed = jobs.slice(0, 2).every((job) => job?.status === "failed");
    if (isBack && failed) return;
    await wait(50);
  }
  throw new Error("The shop did not come to rest.");
}
