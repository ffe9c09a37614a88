/** A transaction of the user's that goes by what was there when it began, while others change the same tree. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { connections } from "../within/connections.ts";
import { codeOf } from "../worker/observe.ts";
import { ada, named, onEveryEngine } from "./shop.ts";

const NOT_THERE = "one transaction at a time writes there";

/** As most people begin one, and as careful people do. */
const levels = ["", "repeatable read", "serializable"] as const;

onEveryEngine("transactions that others overtake", (shop) => {
  for (const level of levels) {
    test(`the last child closes its parent, in a transaction that is ${level || "as usual"}`, async (t) => {
      const { holdfast, url, engine } = shop();
      if (engine === "SQLite") return t.skip(NOT_THERE);
      const order = defineWorkflow({
        name: named("order"),
        initial: "open",
        states: { open: {}, done: { final: true } },
        moves: { finish: { from: "open", to: "done" } },
        whenChildrenEnd: "finish",
      });
      const line = defineWorkflow({
        name: named("line"),
        parent: order,
        initial: "new",
        states: { new: {}, packed: { final: true } },
        moves: { pack: { from: "new", to: "packed" } },
      });
      const { workflows } = holdfast;
      const parent = await workflows.start(order, { data: {}, ...ada });
      const below = { parent, data: {} };
      const [first, second] = await workflows.startMany(line, [below, below], ada);
      assert.ok(first !== undefined && second !== undefined);
      await using user = (await connections[engine]?.(url)) as NonNullable<
        Awaited<ReturnType<(typeof connections)[string]>>
      >;
      await user.run("create table if not exists orders (id integer)");
      for (const text of beginning(engine, level)) await user.run(text);
      await user.count(); // from here on, what it reads does not change
      await first.move("pack", ada);
      await parent.update({ n: 1 }, ada);
      const inside = holdfast.within(user.tx).workflows;
      const moving = inside.change(line, second.id, { ...ada, move: "pack" });
      const outcome = await moving.then(
        () => "moved",
        (error: unknown) => codeOf(error),
      );
      await user.run(outcome === "moved" ? "commit" : "rollback");
      // PostgreSQL refuses such a transaction, for its user to begin again. No decision rests on an outdated row.
      const isRefused = engine === "PostgreSQL" && level !== "";
      assert.equal(outcome, isRefused ? "STORE_BUSY" : "moved");
      if (isRefused) await second.move("pack", ada);
      const closed = await parent.refresh();
      assert.deepEqual([closed.status, closed.data], ["done", { n: 1 }]);
      assert.equal((await parent.history()).length, 3);
    });
  }
});

function beginning(engine: string, level: string): string[] {
  if (level === "") return ["begin"];
  if (engine === "PostgreSQL") return [`begin isolation level ${level}`];
  return [`set transaction isolation level ${level}`, "begin"];
}

after(assertNothingRuns);
