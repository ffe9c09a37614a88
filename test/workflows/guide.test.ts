/** Runs what docs/guide/workflows.md shows about jobs that move items. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { runInNewContext } from "node:vm";
import { defineTask } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";

after(assertNothingRuns);

const PAGE = join(import.meta.dirname, "../../docs/guide/workflows.md");

const order = defineWorkflow({
  name: "order",
  initial: "open",
  states: { open: {}, paid: {}, shipped: { final: true } },
  moves: { pay: { from: "open", to: "paid" }, ship: { from: "paid", to: "shipped" } },
});

/** The block of code on the page that has these words, as it stands there. */
function snippet(words: string): string {
  const blocks = readFileSync(PAGE, "utf8").matchAll(/^```ts\n(.*?)^```$/gms);
  const found = [...blocks].map(([, code = ""]) => code).filter((code) => code.includes(words));
  assert.equal(found.length, 1, `one block of workflows.md has ${words}`);
  return found[0] as string;
}

suite("the page about workflows", () => {
  test("shows a job that moves an item", async () => {
    const code = snippet("ctx.commit(");
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const item = await holdfast.workflows.start(order, { data: {}, actor: "test" });
    const pay = defineTask({
      name: "pay",
      run: async (id: string, ctx) => {
        await (runInNewContext(`(async () => {${code}})()`, { ctx, order, id }) as Promise<void>);
      },
    });
    await holdfast.enqueue(pay, item.id);
    const { jobs } = await bench.drain([pay]);
    assert.deepEqual(
      jobs.map(({ status, error }) => [status, error?.message]),
      [["done", undefined]],
    );
    const { status, data } = await holdfast.workflows.item(order, item.id);
    assert.deepEqual([status, data], ["paid", { paidBy: "card" }]);
  });
});

suite("a commit that returns items", () => {
  test("gives their records, in this attempt and in the next", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const item = await holdfast.workflows.start(order, { data: { cents: 7 }, actor: "test" });
    const seen: unknown[] = [];
    const pay = defineTask({
      name: "pay",
      retry: { maxAttempts: 2, backoff: { initial: 1 } },
      run: async (id: string, ctx) => {
        const one = await ctx.commit("pay", (tx) =>
          holdfast.within(tx).workflows.change(order, id, { move: "pay", actor: ctx }),
        );
        const all = await ctx.commit("list", (tx) => holdfast.within(tx).workflows.list(order));
        seen.push({ one, all });
        if (ctx.attempt === 1) throw new Error("not yet");
      },
    });
    await holdfast.enqueue(pay, item.id);
    await bench.drain([pay], { skipTime: true });
    const now = await holdfast.workflows.item(order, item.id);
    const record = now.toJSON();
    assert.equal(record.status, "paid");
    assert.deepEqual(record.data, { cents: 7 });
    assert.deepEqual(seen, [
      { one: record, all: [record] },
      { one: record, all: [record] },
    ]);
  });

  test("is the exception: a step says how to return an item", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const item = await holdfast.workflows.start(order, { data: {}, actor: "test" });
    const load = defineTask({
      name: "load",
      run: (id: string, ctx): Promise<unknown> =>
        ctx.step("load", () => holdfast.workflows.item(order, id)),
    });
    await holdfast.enqueue(load, item.id);
    const { jobs } = await bench.drain([load]);
    assert.match(
      jobs[0]?.error?.message ?? "",
      /^The result of step 'load' .* \$: has a toJSON\(\), .* Pass that result\./,
    );
  });
});
