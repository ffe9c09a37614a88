/** Filters with a name that does not exist: the command says so, and which names there are. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { TestCli } from "./command.ts";

suite("filters with a name that does not exist", () => {
  const cli = new TestCli();
  before(async () => {
    await using holdfast = await openHoldfast(cli.url);
    await holdfast.enqueue("mail.send", 1, { queue: "mail" });
    await holdfast.enqueue("flaky", 1);
    const order = defineWorkflow({
      name: "order",
      initial: "open",
      states: { open: {}, paid: { final: true } },
      moves: { pay: { from: "open", to: "paid" } },
    });
    await holdfast.workflows.start(order, { data: {}, actor: "ada" });
  });
  after(() => cli[Symbol.asyncDispose]());

  const said: readonly [args: string[], stdout: string][] = [
    [
      ["items", "list", "--workflow", "ordr"],
      "No items. Unknown workflow 'ordr'. Known: order. Did you mean order?\n",
    ],
    [
      ["items", "list", "--workflow", "order", "--status", "payed"],
      "No items. Workflow 'order' has no state 'payed'. Known: open, paid.\n",
    ],
    [["items", "list", "--workflow", "order", "--status", "paid"], "No items.\n"],
    [["jobs", "--queue", "nosuch"], "No jobs. Unknown queue 'nosuch'. Known: default, mail.\n"],
    [
      ["jobs", "--task", "flakyy"],
      "No jobs. Unknown task 'flakyy'. Known: flaky, mail.send. Did you mean flaky?\n",
    ],
    [["jobs", "--queue", "mail", "--status", "failed"], "No jobs.\n"],
    [
      ["retry", "--task", "flakyy", "--all"],
      "Retried 0 jobs. Unknown task 'flakyy'. Known: flaky, mail.send. Did you mean flaky?\n",
    ],
    [
      ["cancel", "--queue", "mial", "--dry-run"],
      "0 jobs would be cancelled. Unknown queue 'mial'. Known: default, mail. Did you mean mail?\n",
    ],
    [["retry", "--task", "flaky"], "Retried 0 jobs.\n"],
  ];
  for (const [args, stdout] of said) {
    test(args.join(" "), async () => {
      const { code, stdout: printed } = await cli.holdfast(args);
      assert.deepEqual([code, printed], [0, stdout]);
    });
  }

  test("for machines the answer has the same shape as ever", async () => {
    assert.deepEqual(await cli.json(["items", "list", "--workflow", "ordr"]), { items: [] });
    assert.deepEqual(await cli.json(["jobs", "--queue", "nosuch"]), { jobs: [], next: null });
    const { action, status, matched, changed } = await cli.json(["retry", "--task", "flakyy"]);
    assert.deepEqual([action, status, matched, changed], ["retry", "done", 0, 0]);
  });
});
