/**
 * A small database with something of everything, made by a clock and a seed: it is the same every time.
 *
 * `names` gives the ids that the scripts use: `{failed}` in a line of a script stands for one.
 */
import assert from "node:assert/strict";
import { type Holdfast, openHoldfast } from "../../src/app/holdfast.ts";
import { runBulk } from "../support/bulk.ts";
import { defineEvent } from "../../src/core/event.ts";
import { GiveUpError } from "../../src/core/errors.ts";
import { defineTask } from "../../src/core/task.ts";
import { drain } from "../../src/testing/drain.ts";
import { type TestClock, testClock } from "../../src/testing/clock.ts";
import { Tokens } from "../../src/tokens/tokens.ts";
import { sighting } from "../support/alerts.ts";
import { start as startWorker } from "../support/workers.ts";
import { order, part, ship } from "../http/shop.ts";

export const tasks = [ship];
export const workflows = [order, part(order)];
export type Names = Readonly<Record<string, string>>;

const ADA = { actor: "ada" };

const orderPaid = defineEvent({ name: "order.paid" });
const orderShipped = defineEvent({ name: "order.shipped" });
const build = defineTask({ name: "report.build", queue: "reports", run: () => ({ pages: 12 }) });
const charge = defineTask({
  name: "card.charge",
  retry: { maxAttempts: 2, backoff: { initial: "1m", factor: 1 } },
  run: (_input: unknown, { attempt }) => {
    throw attempt === 1 ? new Error("no answer") : new GiveUpError("card declined");
  },
});
const later = defineTask({
  name: "sms.send",
  retry: { maxAttempts: 3, backoff: { initial: "1h" } },
  run: () => {
    throw new TypeError("no route to 4419");
  },
});
const pay = defineTask({
  name: "order.pay",
  retry: { maxAttempts: 3, backoff: { initial: 0 } },
  async run(_input: null, ctx) {
    ctx.log("paying", { cents: 1999 });
    ctx.progress(0.5);
    await ctx.step("quote", () => ({ cents: 1999 }));
    return ctx.effect("charge", () => {
      throw new Error("the bank hung up");
    });
  },
});
const wait = defineTask({
  name: "order.wait",
  run: (_input: null, ctx) => ctx.event(orderPaid, "42"),
});

export interface Furnished {
  readonly holdfast: Holdfast;
  readonly clock: TestClock;
  readonly names: Names;
}

/** Opens the file with the fixture's clock at the time when it was filled. */
export async function furnish(url: string): Promise<Furnished> {
  const clock = testClock();
  const holdfast = await openHoldfast(url, { runtime: clock, version: "build-1", locks: "sql" });
  const names: Record<string, string> = {
    ...(await jobsOf(holdfast, clock)),
    ...(await flowsOf(holdfast, clock)),
    ...(await itemsOf(holdfast)),
    ...(await operationsOf(holdfast, clock)),
  };
  await clock.advance("1m");
  while ((await holdfast.store.stats.foldMinutes({ limit: 100 })) === 100);
  const [kind] = await holdfast.store.errorKinds.list({ state: "open", limit: 1 });
  names["error"] = kind?.id ?? "";
  return { holdfast, clock, names };
}

async function jobsOf(holdfast: Holdfast, clock: TestClock): Promise<Names> {
  const enqueue = async (...given: Parameters<typeof holdfast.enqueue>): Promise<string> => {
    await clock.advance("1m");
    return (await holdfast.enqueue(...given)).id;
  };
  const done = await enqueue(build, { year: 2027 }, { tags: ["acme"] });
  const failed = await enqueue(charge, { cents: 500 }, { tags: ["acme", "card"] });
  const shipped = await enqueue(ship, { order: "42" }, { key: "order-42" });
  const retrying = await enqueue(later, { to: "4419" });
  const doubt = await enqueue(pay, null);
  const waiting = await enqueue(wait, null);
  await drain(holdfast, [build, charge, ship, pay, wait]);
  await clock.advance("2m");
  await drain(holdfast, [charge, later]);
  const cancelled = await enqueue("mail.send", { to: "bob" });
  await holdfast.jobs.cancel(cancelled, { ...ADA, reason: "wrong address" });
  const leased = await enqueue("mail.send", { to: "eve" }, { queue: "mail", lane: "acme" });
  const [lease] = await holdfast.leases.acquire({ worker: "py-1", queues: ["mail"], lease: "1d" });
  assert.equal(lease?.id, leased);
  const scheduled = await enqueue("mail.send", null, { delay: "2h", key: "k1", priority: 7 });
  const pending = await enqueue("mail.send", { to: "ada", note: "日本 \u001B[31m" });
  return { done, failed, shipped, retrying, doubt, waiting, cancelled, leased, scheduled, pending };
}

async function flowsOf(holdfast: Holdfast, clock: TestClock): Promise<Names> {
  const night = await holdfast.flows.enqueue("night", [
    { name: "fetch", task: "x.fetch", input: 1 },
    { name: "merge", task: "x.merge", input: 2, after: ["fetch"] },
  ]);
  await clock.advance("1m");
  const failing = await holdfast.flows.enqueue("failing", [
    { name: "charge", task: charge.name, input: 1, options: { maxAttempts: 1 } },
    { name: "mail", task: "mail.send", input: 2, after: ["charge"] },
  ]);
  await drain(holdfast, [charge]);
  await clock.advance("1m");
  const calls = [["img.resize", { image: 1 }] as const, ["img.resize", { image: 2 }] as const];
  const batch = await holdfast.batches.enqueue("images", calls, { callback: ["img.done"] });
  const [fetch = "", merge = ""] = night.jobs.map(({ id }) => id);
  return { night: night.id, fetch, merge, failing: failing.id, batch: batch.id };
}

async function itemsOf({ workflows: engine }: Holdfast): Promise<Names> {
  const facts = { identifier: "A-1", tenant: "acme", ...ADA };
  const open = await engine.start(order, { data: { cents: 5 }, ...facts });
  const paid = await engine.start(order, { data: { cents: 7 }, identifier: "A-2", ...ADA });
  await paid.move("pay", { ...ADA, patch: { paidBy: "bob" }, reason: "cash" });
  const child = await engine.start(part(order), { data: { sku: "a" }, parent: open.id, ...ADA });
  return { open: open.id, paid: paid.id, child: child.id };
}

/** What people and monitors do. */
async function operationsOf(holdfast: Holdfast, clock: TestClock): Promise<Names> {
  const { store, locks, queues, schedules } = holdfast;
  await locks.acquire("order:42", { trace: "refund 7", ttl: "5m" });
  await clock.advance("1s");
  await locks.acquire("invoice:1", { ttl: "10m" });
  await locks.acquire("日本:1", { ttl: "10m" });
  const refused = assert.rejects(locks.acquire("order:42", { wait: 0 }));
  await clock.advance("1s");
  await refused;
  await locks.stats(); // Writes what was counted.
  await queues.set("mail", { concurrency: 5, rate: { count: 100, per: "1m" }, ...ADA });
  await queues.pause("reports", { ...ADA, reason: "the disk is full" });
  await schedules.create({ name: "nightly", task: "report.build", cron: "30 2 * * *" }, ADA);
  await schedules.create({ name: "sync", task: "shop.sync", every: "15m", overlap: "skip" }, ADA);
  await schedules.pause("sync", { ...ADA, reason: "maintenance" });
  await schedules.run("nightly", ADA);
  await startWorker(store, { id: "mailer-01a1dee7", tasks: ["mail.send"], queues: ["mail"] });
  await startWorker(store, { id: "report-02b2eff8", type: "report", version: "def5678" });
  await holdfast.workers.pause({ type: "report" }, ADA);
  const id = "01a00000-0000-7000-8000-000000000002";
  await store.alerts.note(sighting({ id, holdMs: 0 }));
  const tokens = new Tokens(holdfast);
  await tokens.create({ name: "ci", role: "operator", expires: "90d" }, ADA);
  await tokens.create({ name: "board", role: "viewer" }, ADA);
  await tokens.revoke("board", ADA);
  const bulk = await runBulk(store, { action: "retry", filter: { task: "none" } });
  await holdfast.emit(orderShipped, "42", null);
  return { alert: id, bulk: bulk.id };
}
