import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, before, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertRefused, TestCli } from "./command.ts";

/** An order that a job has shipped, which an operator had cancelled and retried first; and one of another tenant. */
async function furnish(cli: TestCli): Promise<{ item: string; job: string }> {
  await using holdfast = await openHoldfast(cli.url);
  const ship = defineTask({
    name: "order.ship",
    async run(item: string, ctx) {
      await holdfast.workflows.change(order, item, { move: "ship", actor: ctx });
    },
  });
  const order = defineWorkflow({
    name: "order",
    initial: "open",
    states: {
      open: {},
      paid: { enter: ({ item, enqueue }) => enqueue(ship, item.id) },
      shipped: { final: true },
    },
    moves: { pay: { from: "open", to: "paid" }, ship: { from: "paid", to: "shipped" } },
  });
  const first = { data: { cents: 1999 }, identifier: "order-42", actor: "shop" };
  const item = await holdfast.workflows.start(order, first);
  await item.move("pay", { actor: "bank", reason: "with a tip" });
  const other = { data: { cents: 5 }, tenant: "acme", actor: "shop" };
  await holdfast.workflows.start(order, other);
  const [, paid] = await item.history();
  const [job = ""] = paid?.jobs ?? [];
  assert.match((await cli.holdfast(["cancel", job, "--reason", "not yet"])).stdout, /^Cancelled/);
  await cli.json(["retry", job]);
  await holdfast.startWorker({ tasks: [ship] });
  await holdfast.jobs.result(job);
  return { item: item.id, job };
}

suite("holdfast audit", () => {
  let cli: TestCli;
  let item: string;
  let job: string;
  before(async () => {
    cli = new TestCli();
    ({ item, job } = await furnish(cli));
  });
  after(() => cli[Symbol.asyncDispose]());

  test("lists the actions of operators, with actor and reason", async () => {
    const { stdout } = await cli.holdfast(["audit"]);
    assert.match(stdout, /^LINE +WHEN +ACTOR +ACTION +SUBJECT +CHANGE +REASON\n/);
    const change = "pending → cancelled  not yet";
    assert.match(stdout, new RegExp(`^ +1 .* cli \\S+ +job\\.cancel  job ${job}  ${change}$`, "m"));
    assert.match(stdout, /^ +2 .* job\.retry .* cancelled → pending$/m);
    const { lines } = await cli.json(["audit", "--subject", `job ${job}`, "--limit", "1"]);
    assert.deepEqual([lines.length, lines[0].seq, lines[0].action], [1, 2, "job.retry"]);
  });

  test("items are listed and filtered, without their data", async () => {
    const { stdout } = await cli.holdfast(["items"]);
    assert.match(stdout, /^ID +STATUS +SINCE +WORKFLOW +IDENTIFIER +TENANT\n/);
    assert.match(stdout, new RegExp(`^${item}  shipped .* order +order-42 +default$`, "m"));
    assert.match(stdout, /\n2 items\n$/);
    const { items } = await cli.json(["items", "--status", "open", "--workflow", "order"]);
    assert.deepEqual([items.length, items[0].tenant, items[0].data], [1, "acme", undefined]);
  });

  test("an item is shown, with its data", async () => {
    const { stdout } = await cli.holdfast(["items", "show", item]);
    assert.match(stdout, new RegExp(`^order ${item}\n  status +shipped, since `));
    assert.match(stdout, /^data\n {2}\{\n {4}"cents": 1999\n/m);
    assertRefused(await cli.holdfast(["items", "show", "nobody"]), 4, /no item nobody/);
    assertRefused(await cli.holdfast(["items", "history", "nobody"]), 4, /no item nobody/);
  });

  test("the history of an item also shows its jobs, and the actions of operators on them", async () => {
    const { stdout } = await cli.holdfast(["items", "history", item]);
    const told = stdout.split("\n").slice(1);
    for (const [index, pattern] of [
      /^ +1 .* start: open +shop/,
      /^ +2 .* pay: open → paid +bank +with a tip/,
      /order\.ship enqueued/,
      /job\.cancel +cli .*; not yet/,
      /job\.retry +cli /,
      /attempt 1: done +worker-/,
      new RegExp(`^ +3 .* ship: paid → shipped +job ${job}`),
      /ended: done/,
    ].entries()) {
      assert.match(told[index] ?? "", pattern);
    }
    const { trail } = await cli.json(["items", "history", item, "--after", "2"]);
    assert.deepEqual(
      trail.map(({ kind }: { kind: string }) => kind),
      ["enqueued", "action", "action", "attempt", "line", "ended"],
    );
    assert.equal(trail[4].line.traceId, trail[3].attempt.traceId);
  });

  test("reports an unchanged log, and prints the witness for the next run", async () => {
    const { code, stdout } = await cli.holdfast(["audit", "verify"]);
    assert.equal(code, 0);
    assert.match(stdout, /^2 operator actions, 4 lines of 2 items\nNo line was removed/);
    const [, witness = ""] = /--witness (\S+)\n$/.exec(stdout) ?? [];
    const { held, items } = await cli.json(["audit", "verify", "--witness", witness]);
    assert.deepEqual([held, items], [true, 2]);
    assertRefused(await cli.holdfast(["audit", "verify", "--witness", "2"]), 2, /--witness/);
  });

  test("finds changed lines, and exits with code 1", async () => {
    const db = new DatabaseSync(cli.path("holdfast.db"));
    db.exec(`
      drop trigger holdfast_item_audit_stays;
      update holdfast_item_audit set reason = 'none' where item_id = '${item}' and seq = 2`);
    db.close();
    const { code, stdout, stderr } = await cli.holdfast(["audit", "verify"]);
    assert.equal(code, 1);
    assert.match(stdout, new RegExp(`^changed  item ${item}, line 2: `));
    assert.doesNotMatch(stdout, /Nothing was/);
    assert.match(stderr, /^The audit log was tampered with: 1 violation/);
    const inJson = await cli.holdfast(["audit", "verify", "--json"]);
    assert.deepEqual([inJson.code, JSON.parse(inJson.stdout).breaks[0].kind], [1, "changed"]);
    assert.equal(JSON.parse(inJson.stderr).error.code, "AUDIT_BROKEN");
  });

  test("prunes old lines, and says so", async () => {
    assert.equal(
      (await cli.holdfast(["audit", "prune", "--keep", "1d"])).stdout,
      "No line is that old.\n",
    );
    assert.equal(
      (await cli.json(["audit", "prune", "--keep", "0s", "--reason", "test"])).pruned,
      2,
    );
    const earlier = await cli.holdfast(["audit", "verify", "--witness", `1:${"0".repeat(64)}`]);
    const said = /^Lines 1 to 2 were pruned by cli \S+ at \d{4}-.*Z\. The witness is among them/m;
    assert.match(earlier.stdout, said);
    const { pruned } = JSON.parse((await cli.holdfast(["audit", "verify", "--json"])).stdout);
    assert.deepEqual([pruned.upTo, pruned.actor.startsWith("cli ")], [2, true]);
    const { lines } = await cli.json(["audit"]);
    assert.deepEqual(
      [lines.length, lines[0].seq, lines[0].action, lines[0].reason],
      [1, 3, "audit.prune", "test"],
    );
  });

  test("detects lines that were removed without a record, even if the others are unchanged", async () => {
    await using other = new TestCli();
    await furnish(other);
    const { stdout } = await other.holdfast(["audit", "verify"]);
    const [, witness = ""] = /--witness (\S+)\n$/.exec(stdout) ?? [];
    const db = new DatabaseSync(other.path("holdfast.db"));
    const wipe = "update holdfast_audit_head set pruned_seq = seq, pruned_hash = hash";
    assert.throws(() => db.exec(wipe), /pruned by a line that names the range/);
    db.exec(`drop trigger holdfast_audit_head_is_pruned; ${wipe}; delete from holdfast_audit`);
    db.close();
    for (const more of [[], ["--witness", witness]]) {
      const verified = await other.holdfast(["audit", "verify", ...more]);
      assert.equal(verified.code, 1);
      assert.match(
        verified.stdout,
        /^pruning  operators, line 2: lines 1 to 2 are counted as pruned/,
      );
      assert.doesNotMatch(verified.stdout, /Nothing was removed|were pruned by/);
    }
  });
});
