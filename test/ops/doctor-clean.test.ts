/** A system that is busy, in which workers died and were reaped, is found well: before, meanwhile and afterwards. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { type Diagnosis, Doctor } from "../../src/app/ops.ts";
import { defineEvent, defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { newWorker, silence } from "../support/workers.ts";
import { until } from "../worker/observe.ts";
import { sampledEngines } from "../registry/places.ts";

const JOBS = 150;

const packed = defineEvent({ name: "packed" });
const child = defineTask({ name: "child", run: async () => "called" });
const plain = defineTask({ name: "plain", run: async (n: number) => n });
const flaky = defineTask({
  name: "flaky",
  retry: { maxAttempts: 3, backoff: { initial: "10ms", max: "20ms" } },
  async run(n: number, ctx) {
    if (n % 2 === 0 || ctx.attempt === 1) throw new Error("no");
  },
});
const order = defineTask({
  name: "order",
  async run(n: number, ctx) {
    await ctx.step("quote", () => n);
    await ctx.effect("charge", async ({ key }) => key);
    await ctx.sleep("cool off", "20ms");
    await ctx.call(child, null);
    ctx.log("nearly done");
  },
});
const later = defineTask({
  name: "later",
  async run(key: string, ctx) {
    await ctx.event(packed, key);
  },
});
const tasks = [child, plain, flaky, order, later];

const parcel = defineWorkflow({
  name: "parcel",
  initial: "open",
  states: {
    open: { limit: { after: "1h", move: "lose" } },
    paid: { enter: ({ enqueue }) => enqueue(plain, 1) },
    lost: { final: true },
  },
  moves: { pay: { from: "open", to: "paid" }, lose: { from: ["open", "paid"], to: "lost" } },
});
const line = defineWorkflow({
  name: "line",
  parent: parcel,
  initial: "new",
  states: { new: {}, packed: { final: true } },
  moves: { pack: { from: "new", to: "packed" } },
});

/** Jobs in every state, and items. */
async function bustle(holdfast: Holdfast): Promise<void> {
  const numbers = Array.from({ length: JOBS }, (_, n) => n);
  await holdfast.enqueueMany(plain, numbers, (n) => (n % 3 === 0 ? { key: `plain-${n}` } : {}));
  await holdfast.enqueueMany(flaky, numbers.slice(0, 20));
  await holdfast.enqueueMany(order, numbers.slice(0, 20));
  const waiting = await holdfast.enqueueMany(later, ["a", "b", "c"]);
  await holdfast.enqueue(plain, 1, { delay: "1h", key: "tomorrow", keyFor: "2h" });
  const regretted = await holdfast.enqueue(plain, 2, { delay: "1h" });
  await holdfast.jobs.cancel(regretted.id, { actor: "ada", reason: "not yet" });
  const item = await holdfast.workflows.start(parcel, { data: {}, actor: "shop" });
  for (let n = 0; n < 3; n += 1) {
    const below = await holdfast.workflows.start(line, {
      data: {},
      parent: item.id,
      actor: "shop",
    });
    if (n > 0) await below.move("pack", { actor: "shop" });
  }
  await (
    await holdfast.workflows.start(parcel, { data: {}, actor: "shop" })
  ).move("pay", {
    actor: "bank",
  });
  await holdfast.locks.with("order:42", {}, async () => {});
  await until("one waits for its event", async () => {
    return (await holdfast.jobs.get(waiting[0]?.id ?? ""))?.status === "waiting";
  });
  await holdfast.emit(packed, "a", null);
}

/** Two that died: one has been silent for long, of the other it was seen that its process is gone. */
async function reap({ store }: Holdfast): Promise<void> {
  const [silent, gone] = [newWorker({ slots: null }), newWorker({ slots: null })];
  await store.workers.register(silent);
  await store.workers.register(gone);
  const held = { queues: ["graveyard"], tasks: null, limit: 1, leaseMs: 60_000 };
  await store.jobs.claim({ ...held, worker: gone.id });
  const closed = await store.workers.closeDead({ ...silence, gone: [silent.id, gone.id] });
  assert.equal(closed.length, 2);
  const dead = [silent.id, gone.id];
  const taken = await store.jobs.reclaimFrom({ workers: dead, maxCrashes: 3, limit: 10 });
  assert.equal(taken.length, 1);
}

for (const engine of sampledEngines) {
  describe(engine.name, { skip: engine.skip, timeout: 60_000 }, () => {
    test("a busy system is found well, all the time", async () => {
      await using place = await engine.place();
      await using holdfast = await openHoldfast(place.url, { version: "abc1234" });
      const doctor = new Doctor(holdfast);
      await holdfast.enqueue(plain, 1, { queue: "graveyard" });
      for (const name of ["mailer", "shipper"]) {
        await holdfast.startWorker({ name, tasks, workflows: [parcel, line], concurrency: 5 });
      }
      await reap(holdfast);
      let bustling = true;
      const busy = bustle(holdfast).finally(() => void (bustling = false));
      const looks: Diagnosis[] = [];
      const isIdle = async (): Promise<boolean> => {
        looks.push(await doctor.examine());
        if (bustling) return false;
        const stats = (await holdfast.stats()).find(({ queue }) => queue === "default");
        return stats?.counts.pending === 0 && stats.counts.processing === 0;
      };
      await until("all is done", isIdle);
      await busy;
      looks.push(await doctor.examine({ deep: true }));
      assert.ok(looks.length > 2, "it was never looked at while it was busy");
      for (const { findings, healthy } of looks) assert.deepEqual([findings, healthy], [[], true]);
      const states = (await holdfast.stats()).find(({ queue }) => queue === "default")?.counts;
      for (const status of ["done", "failed", "cancelled", "waiting", "scheduled"] as const) {
        assert.ok((states?.[status] ?? 0) > 0, `nothing is ${status}`);
      }
    });
  });
}

after(assertNothingRuns);
