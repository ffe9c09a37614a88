/** Items that move by themselves, because a worker sees to it. */
import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";
import { defineTask, type Holdfast, openHoldfast, type WorkerOptions } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { ada, named, onEveryEngine } from "./shop.ts";

const idle = defineTask({ name: "idle", queue: "idle", run: () => null });

/** Polls often where no notification wakes it. */
const often = { maintenanceInterval: 20, poll: "50ms", heartbeat: "1h" } as const;

/** Until the test is over. */
async function work(
  t: TestContext,
  holdfast: Holdfast,
  options: Partial<WorkerOptions>,
): Promise<void> {
  const worker = await holdfast.startWorker({ tasks: [idle], ...often, ...options });
  t.after(() => worker.stop());
}

/** One that is late after a moment. */
function hurried(facts: { guard?: () => boolean; after?: string } = {}) {
  const { guard = () => true, after: limit = "20ms" } = facts;
  return defineWorkflow({
    name: named("hurried"),
    initial: "open",
    states: {
      open: { limit: { after: limit, move: "expire" } },
      late: { final: true },
      done: { final: true },
    },
    moves: {
      expire: { from: "open", to: "late", guard },
      finish: { from: "open", to: "done" },
    },
  });
}

onEveryEngine("items that move by themselves", (shop) => {
  test("an item whose time is over is moved once, however many workers see it", async (t) => {
    const { holdfast, url } = shop();
    const workflow = hurried();
    await using other = await openHoldfast(url, { version: "build-0" });
    for (const one of [holdfast, other]) await work(t, one, { workflows: [workflow] });
    const news = Array.from({ length: 20 }, () => ({ data: {} }));
    const items = await holdfast.workflows.startMany(workflow, news, ada);
    await until("all are late", async () => {
      const late = await holdfast.workflows.list(workflow, { status: "late" });
      return late.length === items.length;
    });
    for (const item of items) {
      const [, moved, ...more] = await item.history();
      assert.deepEqual(
        [moved?.actor, moved?.move, moved?.reason, more.length],
        ["holdfast", "expire", "its time in the state is over", 0],
      );
      assert.ok((moved?.at ?? 0) >= item.enteredAt + 20);
    }
  });

  test("an item that enters its state again by that move is moved once for each stay", async (t) => {
    const { holdfast, url } = shop();
    const limitMs = 20;
    const workflow = defineWorkflow({
      name: named("reminded"),
      initial: "open",
      states: { open: { limit: { after: limitMs, move: "remind" } }, done: { final: true } },
      moves: { remind: { from: "open", to: "open" }, finish: { from: "open", to: "done" } },
    });
    await using other = await openHoldfast(url, { version: "build-0" });
    for (const one of [holdfast, other]) await work(t, one, { workflows: [workflow] });
    const item = await holdfast.workflows.start(workflow, { data: {}, ...ada });
    const history = await until("it was reminded often", async () => {
      const lines = await item.history();
      return lines.length > 5 && lines;
    });
    await item.move("finish", ada);
    const at = history.map((line) => line.at);
    for (const [index, moment] of at.entries()) {
      assert.ok(index === 0 || moment - (at[index - 1] ?? 0) >= limitMs, String(at));
    }
  });

  test("an item that left its state in time stays unchanged, and so does one whose guard refuses", async (t) => {
    const { holdfast, log } = shop();
    let asked = 0;
    const refused = hurried({ guard: () => (asked += 1) < 0 });
    const left = hurried({ after: "1h" });
    const early = await holdfast.workflows.start(left, { data: {}, ...ada });
    await early.move("finish", ada);
    const item = await holdfast.workflows.start(refused, { data: {}, ...ada });
    await work(t, holdfast, { workflows: [left, refused] });
    await until("the guard was asked", () => asked > 0);
    const { store } = holdfast;
    const dueIn = await until("it is tried again later", async () => {
      const { due, nextInMs } = await store.items.due({ workflows: [refused.name], limit: 9 });
      return due.length === 0 && nextInMs;
    });
    assert.ok(dueIn > 1_000);
    assert.equal(asked, 1);
    assert.equal((await item.refresh()).status, "open");
    assert.equal((await early.refresh()).status, "done");
    assert.deepEqual(log.of("could not move an item that is due"), []);
  });

  test("an item that cannot be moved delays no other, and is reported", async (t) => {
    const { holdfast, log } = shop();
    const broken = hurried({
      guard: () => {
        throw new Error("no stock");
      },
    });
    const fine = hurried();
    const item = await holdfast.workflows.start(broken, { data: {}, ...ada });
    const other = await holdfast.workflows.start(fine, { data: {}, ...ada });
    await work(t, holdfast, { workflows: [broken, fine] });
    await until("the other is moved", async () => (await other.refresh()).status === "late");
    const [line] = await until("it is told", () => {
      const said = log.of("could not move an item that is due");
      return said.length > 0 && said;
    });
    assert.equal(line?.facts["item"], item.id);
    assert.equal((await item.refresh()).status, "open");
  });

  test("an item follows its jobs when they have ended, as they did", async (t) => {
    const { holdfast } = shop();
    const fails = new Set<string>();
    const pack = defineTask({
      name: named("pack"),
      retry: { maxAttempts: 1 },
      run: (id: string) => {
        if (fails.has(id)) throw new Error("broken");
        return id;
      },
    });
    const box = defineWorkflow({
      name: named("box"),
      types: ["box", "crate"],
      initial: "open",
      states: {
        open: {
          enter: ({ item, enqueue }) => {
            for (const n of [1, 2]) enqueue(pack, `${item.identifier} ${n}`);
          },
          whenJobsEnd: { done: "close", failed: "break" },
        },
        empty: {
          whenJobsEnd: { done: "close" },
          enter: ({ enqueue, item }) => {
            if (item.type === "crate") enqueue(pack, `${item.identifier} again`);
          },
        },
        closed: { final: true },
      },
      moves: {
        close: { from: ["open", "empty"], to: "closed" },
        break: { from: "open", to: "empty" },
      },
    });
    fails.add("b 2").add("c 1").add("c again");
    await work(t, holdfast, { tasks: [pack], workflows: [box] });
    const start = (identifier: string, type: "box" | "crate") =>
      holdfast.workflows.start(box, { identifier, type, data: {}, ...ada });
    const [a, b, c] = [await start("a", "box"), await start("b", "box"), await start("c", "crate")];
    const reaches = (item: typeof a, status: string) =>
      until(
        `${item.identifier} is ${status}`,
        async () => (await item.refresh()).status === status,
      );
    await reaches(a, "closed");
    await reaches(b, "closed"); // by way of empty, where there is nothing to wait for
    await reaches(c, "empty");
    const moves = async (item: typeof a) => (await item.history()).map(({ move }) => move);
    assert.deepEqual(await moves(a), [null, "close"]);
    assert.deepEqual(await moves(b), [null, "break", "close"]);
    // It has no move for a job that failed there: it waits until an operator retries it.
    const again = (await c.history()).at(-1)?.jobs[0] ?? "";
    await until("it failed", async () => (await holdfast.jobs.get(again))?.status === "failed");
    await until("it was looked at", async () => {
      const { due, nextInMs } = await holdfast.store.items.due({ workflows: [box.name], limit: 9 });
      return due.length === 0 && nextInMs !== null;
    });
    assert.equal((await c.refresh()).status, "empty");
    fails.clear();
    await holdfast.jobs.retry(again);
    await reaches(c, "closed");
    assert.deepEqual(await moves(c), [null, "break", "close"]);
  });

  test("a worker deletes what its workflow no longer keeps", async (t) => {
    const { holdfast } = shop();
    const short = defineWorkflow({
      name: named("short"),
      initial: "open",
      states: { open: {}, done: { final: true } },
      moves: { finish: { from: "open", to: "done" } },
      keep: 0,
    });
    const [gone, living] = await holdfast.workflows.startMany(
      short,
      [{ data: {} }, { data: {} }],
      ada,
    );
    await gone?.move("finish", ada);
    await work(t, holdfast, { workflows: [short] });
    await until("it is gone", async () => {
      const left = await holdfast.workflows.list(short);
      return left.length === 1 && left[0]?.id === living?.id;
    });
  });
});

after(assertNothingRuns);
