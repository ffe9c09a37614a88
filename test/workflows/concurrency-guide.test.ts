/** Runs what docs/guide/concurrency.md shows, with changes at the same time, and compares its codes with the errors that there are. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { runInNewContext } from "node:vm";
import { problemOf } from "../../src/http-kernel/problem.ts";
import { HoldfastError } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";

after(assertNothingRuns);

const PAGE = readFileSync(join(import.meta.dirname, "../../docs/guide/concurrency.md"), "utf8");

const order = defineWorkflow({
  name: "order",
  initial: "open",
  states: { open: {}, paid: { final: true } },
  moves: { pay: { from: "open", to: "paid" } },
});

/** The functions that the page declares. */
function shown(globals: object): {
  addToTotal: (id: string, cents: number, actor: string) => Promise<unknown>;
  saveForm: (form: { id: string; revision: number; note: string }, actor: string) => Promise<any>;
} {
  const code = [...PAGE.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block]) => block).join("\n");
  return runInNewContext(`${code}; ({ addToTotal, saveForm })`, globals) as ReturnType<
    typeof shown
  >;
}

suite("the page about concurrent changes", () => {
  test("a program that reads again and retries loses no change of another", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const { addToTotal } = shown({ holdfast, order });
    const { id } = await holdfast.workflows.start(order, { data: { total: 0 }, actor: "test" });
    await Promise.all([1, 10, 100].map((cents) => addToTotal(id, cents, "test")));
    const item = await holdfast.workflows.item(order, id);
    assert.deepEqual(item.data, { total: 111 });
  });

  test("a person whose form is old is told, and nothing is overwritten", async () => {
    await using bench = await openTestHoldfast();
    const { holdfast } = bench;
    const { saveForm } = shown({ holdfast, order });
    const data = { note: "first" };
    const { id, revision } = await holdfast.workflows.start(order, { data, actor: "test" });
    const saved = await saveForm({ id, revision, note: "ada" }, "ada");
    assert.equal(saved.saved, true);
    const told = await saveForm({ id, revision, note: "eve" }, "eve");
    assert.deepEqual([told.saved, told.now], [false, { note: "ada" }]);
  });

  test("each code is one that there is, with the status that the page says", () => {
    const rows = [...PAGE.matchAll(/^\| (`[^|]+) \|.*\| (\d{3}) \|$/gm)];
    assert.equal(rows.length, 10);
    for (const [, codes = "", status] of rows) {
      for (const [, code = ""] of codes.matchAll(/`(\w+)`/g)) {
        const error = new HoldfastError(code, "a test");
        assert.equal(problemOf(error).status, Number(status), code);
      }
    }
  });
});
