/** Moves of items: their rules, their guards, what they enqueue, and what becomes of those above. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import * as z from "zod";
import { defineTask, openHoldfast } from "../../src/index.ts";
import {
  defineWorkflow,
  type GuardFacts,
  InvalidMoveError,
  ItemChangedError,
  ItemNotFoundError,
  MoveRefusedError,
} from "../../src/workflows/index.ts";
import { systemRuntime, type Runtime } from "../../src/core/runtime.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "../worker/observe.ts";
import { ada, named, onEveryEngine, type Shop } from "./shop.ts";

type Guard = (
  facts: GuardFacts<string, Record<string, unknown>, string>,
) => boolean | string | void | Promise<boolean | string | void>;

/** One that is open, and then done if the guard lets it. */
function guarded(guard: Guard) {
  return defineWorkflow({
    name: named("guarded"),
    initial: "open",
    states: { open: {}, done: { final: true } },
    moves: { finish: { from: "open", to: "done", guard } },
  });
}

/** Does not wait as long as the others for functions of the user's. */
const impatient: Runtime = {
  ...systemRuntime,
  timer: (ms, call, kind) => systemRuntime.timer(ms > 4_000 && ms <= 5_000 ? 200 : ms, call, kind),
};

const ship = defineTask({ name: "ship", queue: "held", run: (input: unknown) => input });

/** Orders that are closed by what becomes of their lines. */
function family() {
  const order = defineWorkflow({
    name: named("order"),
    initial: "open",
    states: { open: {}, held: {}, shipped: { final: true }, lost: { final: true } },
    moves: {
      hold: { from: "open", to: "held" },
      release: { from: "held", to: "open" },
      ship: { from: "open", to: "shipped", guard: ({ item }) => item.data["blocked"] !== true },
      lose: { from: "open", to: "lost" },
    },
    whenChildrenEnd: ({ progress }) => {
      if (progress.some(({ status }) => status === "kept")) return null;
      return progress.some(({ status }) => status === "lost") ? "lose" : "ship";
    },
  });
  const line = defineWorkflow({
    name: named("line"),
    parent: order,
    initial: "new",
    states: {
      new: {},
      packed: { final: true },
      lost: { final: true },
      kept: { final: true },
    },
    moves: {
      pack: { from: "new", to: "packed" },
      lose: { from: "new", to: "lost" },
      keep: { from: "new", to: "kept" },
    },
  });
  return { order, line };
}

async function started({ holdfast }: Shop, lines: number, data: Record<string, unknown> = {}) {
  const { order, line } = family();
  const parent = await holdfast.workflows.start(order, { data, ...ada });
  const below = Array.from({ length: lines }, () => ({ parent, data: {} }));
  const children = await holdfast.workflows.startMany(line, below, ada);
  return { order, line, parent, children };
}

onEveryEngine("moves of items", (shop) => {
  test("a move that is not declared, or not from this state, is refused with the declared moves", async () => {
    const { holdfast } = shop();
    const workflow = guarded(() => true);
    const item = await holdfast.workflows.start(workflow, { data: {}, ...ada });
    const done = await item.move("finish", ada);
    const cases = [
      { of: item, move: "steal", from: "done", allowed: [] },
      { of: done, move: "finish", from: "done", allowed: [] },
    ];
    for (const { of, move, from, allowed } of cases) {
      await assert.rejects(of.move(move as "finish", ada), (error) => {
        assert.ok(error instanceof InvalidMoveError);
        assert.deepEqual(
          [error.item, error.move, error.from, error.allowed],
          [item.id, move, from, allowed],
        );
        return true;
      });
    }
    assert.equal((await item.history()).length, 2);
  });

  const verdicts: Readonly<Record<string, [guard: Guard, reason: string | null | undefined]>> = {
    "says true": [() => true, undefined],
    "says nothing": [() => {}, undefined],
    "says true later": [async () => true, undefined],
    "says no": [() => false, null],
    "says why not": [() => "no stock", "no stock"],
    "says why not later": [async () => "no stock", "no stock"],
  };
  for (const [name, [guard, reason]] of Object.entries(verdicts)) {
    const words = reason === undefined ? "lets the item move" : "keeps the item where it is";
    test(`a guard that ${name} ${words}`, async () => {
      const { holdfast } = shop();
      const item = await holdfast.workflows.start(guarded(guard), { data: {}, ...ada });
      const moving = item.move("finish", { ...ada, patch: { n: 1 } });
      if (reason === undefined) assert.equal((await moving).status, "done");
      else {
        await assert.rejects(moving, (error) => {
          assert.ok(error instanceof MoveRefusedError);
          assert.deepEqual([error.item, error.move, error.reason], [item.id, "finish", reason]);
          return true;
        });
        assert.deepEqual(await item.refresh(), item);
        assert.equal((await item.history()).length, 1);
      }
    });
  }

  test("a guard that throws, or says something else, keeps the item where it is too", async () => {
    const { holdfast } = shop();
    const thrown = Object.assign(new Error("no stock"), { code: "ECONNRESET" });
    let calls = 0;
    const throws = guarded(() => {
      calls += 1;
      throw thrown;
    });
    const item = await holdfast.workflows.start(throws, { data: {}, ...ada });
    await assert.rejects(item.move("finish", ada), (error) => error === thrown);
    assert.equal(calls, 1);
    const odd = guarded((() => 0) as unknown as Guard);
    const other = await holdfast.workflows.start(odd, { data: {}, ...ada });
    await assert.rejects(other.move("finish", ada), withCode("INVALID_ARGUMENT", "guard"));
    for (const one of [item, other]) assert.equal((await one.refresh()).status, "open");
  });

  test("a guard gets the current state and the requested change", async () => {
    const { holdfast } = shop();
    const seen: unknown[] = [];
    const order = guarded(() => true);
    const line = defineWorkflow({
      name: named("line"),
      parent: order,
      initial: "new",
      states: { new: {}, packed: { final: true } },
      moves: {
        pack: {
          from: "new",
          to: "packed",
          guard: ({ item, parent, actor, reason, patch, now }) => {
            const stands = [item.status, item.data, item.revision, parent?.id, parent?.revision];
            seen.push(stands, [actor, reason, patch, now >= item.updatedAt]);
          },
        },
      },
    });
    const parent = await holdfast.workflows.start(order, { data: {}, ...ada });
    const child = await holdfast.workflows.start(line, { parent, data: { a: 1 }, ...ada });
    await child.move("pack", { actor: "bob", reason: "why not", patch: { a: 2 } });
    assert.deepEqual(seen, [
      ["new", { a: 1 }, 1, parent.id, 2],
      ["bob", "why not", { a: 2 }, true],
    ]);
  });

  test("a guard that waits for Holdfast is refused or given up, and others go on", async () => {
    const { url } = shop();
    await using holdfast = await openHoldfast(url, { runtime: impatient });
    let again = async (): Promise<unknown> => null;
    const workflow = guarded(async () => void (await again()));
    const item = await holdfast.workflows.start(workflow, { data: {}, ...ada });
    let inner: Promise<unknown> = Promise.resolve();
    again = () => (inner = item.move("finish", ada));
    const moving = assert.rejects(item.move("finish", ada), (error: Error & { code: string }) => {
      assert.equal(error.code, "INVALID_ARGUMENT");
      return true;
    });
    const beside = await holdfast.workflows.start(
      guarded(() => true),
      { data: {}, ...ada },
    );
    assert.equal((await beside.move("finish", ada)).status, "done");
    await moving;
    again = async () => null;
    await inner.catch(() => {}); // it waited for the item, and has it now
  });

  test("a change based on another revision, or on another stay in the state, is refused", async () => {
    const { holdfast } = shop();
    const item = await holdfast.workflows.start(
      guarded(() => true),
      { data: {}, ...ada },
    );
    await item.update({ n: 1 }, { ...ada, expect: 1 });
    await assert.rejects(item.move("finish", { ...ada, expect: 1 }), (error) => {
      assert.ok(error instanceof ItemChangedError);
      assert.deepEqual([error.item, error.expected, error.found], [item.id, 1, 2]);
      return true;
    });
    await assert.rejects(
      item.move("finish", { ...ada, since: item.enteredAt - 1 }),
      ItemChangedError,
    );
    await item.move("finish", { ...ada, expect: 2, since: item.enteredAt });
  });

  test("a patch replaces the named fields, removes those that are undefined, and is validated", async () => {
    const { holdfast } = shop();
    const workflow = defineWorkflow({
      name: named("priced"),
      initial: "open",
      states: { open: {}, done: { final: true } },
      moves: { finish: { from: "open", to: "done" } },
      data: z.object({
        cents: z.number().min(1),
        note: z.string().optional(),
        tags: z.array(z.string()),
      }),
    });
    const data = { cents: 5, note: "x", tags: ["a"] };
    const item = await holdfast.workflows.start(workflow, { data, ...ada });
    const patched = await item.update({ tags: [], note: undefined }, ada);
    assert.deepEqual(patched.data, { cents: 5, tags: [] });
    const bad = { ...ada, patch: { cents: 0 } };
    await assert.rejects(item.move("finish", bad), withCode("INVALID_ARGUMENT", "data.cents"));
    const large = "x".repeat(256 * 1024);
    await assert.rejects(item.update({ note: large }, ada), withCode("TOO_LARGE"));
    await assert.rejects(
      holdfast.workflows.start(workflow, { data: { ...data, cents: 0 }, ...ada }),
      withCode("INVALID_ARGUMENT", "data.cents"),
    );
    assert.deepEqual((await item.refresh()).data, { cents: 5, tags: [] });
    assert.equal((await item.refresh()).revision, 2);
  });

  test("several children move together or not at all", async () => {
    const { holdfast } = shop();
    const { line, parent, children } = await started(shop(), 3);
    const [first, second, third] = children.map(({ id }) => id) as [string, string, string];
    const before = await parent.refresh();
    const pack = (id: string) => ({ id, move: "pack" as const });
    const together = (...changes: { id: string; move: "pack"; expect?: number }[]) =>
      holdfast.workflows.updateChildren(line, parent.id, changes, ada);
    await assert.rejects(together(pack(first), { ...pack(second), expect: 9 }), ItemChangedError);
    await assert.rejects(
      together(pack(first), pack(first)),
      withCode("INVALID_ARGUMENT", "changes"),
    );
    const stranger = (await started(shop(), 1)).children[0]?.id ?? "";
    const both = together(pack(first), pack(stranger));
    await assert.rejects(both, withCode("INVALID_ARGUMENT", "changes"));
    assert.deepEqual(await parent.refresh(), before);
    const moved = await together(pack(third), pack(first));
    assert.deepEqual(
      moved.map(({ id, status }) => [id, status]),
      [
        [third, "packed"],
        [first, "packed"],
      ],
    );
    assert.equal((await parent.refresh()).revision, before.revision + 1);
  });

  test("a child and its parent change in one step", async () => {
    const { holdfast } = shop();
    const { line, parent, children } = await started(shop(), 2);
    const [child] = children;
    assert.ok(child !== undefined);
    const change = { ...ada, move: "pack", parent: { move: "hold", patch: { held: 1 } } } as const;
    const moved = await holdfast.workflows.updateChild(line, child.id, change);
    const above = await parent.refresh();
    assert.deepEqual([moved.status, above.status, above.data], ["packed", "held", { held: 1 }]);
    assert.equal(above.updatedAt, moved.updatedAt);
    assert.equal((await parent.history()).length, 2);
    // Neither, if one of them cannot.
    const other = children[1]?.id ?? "";
    await assert.rejects(holdfast.workflows.updateChild(line, other, change), InvalidMoveError);
    assert.equal((await holdfast.workflows.item(line, other)).status, "new");
  });

  type Ends = readonly ("pack" | "lose" | "keep")[];
  const ends: readonly [ends: Ends, status: string, revision: number][] = [
    [["pack", "pack"], "shipped", 4],
    [["lose", "pack"], "lost", 4],
    [["pack", "keep"], "open", 4],
  ];
  for (const [moves, status, revision] of ends) {
    test(`when its children have ended as ${moves.join(" and ")}, the parent is ${status}`, async () => {
      const { parent, children } = await started(shop(), 2);
      for (const [index, child] of children.entries())
        await child.move(moves[index] ?? "pack", ada);
      const closed = await parent.refresh();
      assert.deepEqual([closed.status, closed.revision], [status, revision]);
      const [, line] = await parent.history();
      assert.equal(line?.actor, status === "open" ? undefined : "holdfast");
    });
  }

  test("a parent is not closed from a state that has no such move, nor against its guard", async () => {
    for (const blocked of [true, false]) {
      const { parent, children } = await started(shop(), 1, { blocked });
      if (!blocked) await parent.move("hold", ada);
      await children[0]?.move("pack", ada);
      assert.equal((await parent.refresh()).status, blocked ? "open" : "held");
      assert.equal((await children[0]?.refresh())?.status, "packed");
    }
  });

  test("the caller's change to a parent that closes is recorded under the caller", async () => {
    const { holdfast } = shop();
    const { line, parent, children } = await started(shop(), 1);
    const change = { actor: "bob", move: "pack", parent: { patch: { blocked: false } } } as const;
    await holdfast.workflows.updateChild(line, children[0]?.id ?? "", change);
    const [, closing, ...more] = await parent.history();
    assert.deepEqual([closing?.actor, closing?.move, more.length], ["bob", "ship", 0]);
    assert.deepEqual((await parent.refresh()).data, { blocked: false });
  });

  test("levels close one after the other, in one step, each once", async () => {
    const { holdfast } = shop();
    const asked: number[] = [];
    const folder = defineWorkflow({
      name: named("folder"),
      parent: "self",
      initial: "open",
      states: { open: {}, closed: { final: true } },
      moves: { close: { from: "open", to: "closed" } },
      whenChildrenEnd: ({ progress }) => {
        asked.push(progress.length);
        return "close";
      },
    });
    const { workflows } = holdfast;
    const top = await workflows.start(folder, { data: {}, ...ada });
    const middle = await workflows.start(folder, { parent: top, data: {}, ...ada });
    const deep = await workflows.start(folder, { parent: middle, data: {}, ...ada });
    const before = (await top.refresh()).revision;
    await deep.move("close", ada);
    for (const item of [top, middle, deep]) assert.equal((await item.refresh()).status, "closed");
    assert.equal((await top.refresh()).revision, before + 1);
    assert.deepEqual(asked, [1, 1]);
    await assert.rejects(
      workflows.start(folder, { parent: top, data: {}, ...ada }),
      (error: Error) => {
        assert.match(error.message, /the parent has ended/);
        return withCode("INTEGRITY_VIOLATION")(error);
      },
    );
  });

  test("a tree has no more levels than are allowed", async () => {
    const { workflows } = shop().holdfast;
    const folder = defineWorkflow({
      name: named("folder"),
      parent: "self",
      initial: "open",
      states: { open: {}, closed: { final: true } },
      moves: { close: { from: "open", to: "closed" } },
    });
    let parent = await workflows.start(folder, { data: {}, ...ada });
    for (let depth = 1; depth < 8; depth += 1) {
      parent = await workflows.start(folder, { parent, data: {}, ...ada });
    }
    const ninth = workflows.start(folder, { parent, data: {}, ...ada });
    await assert.rejects(ninth, withCode("INVALID_ARGUMENT", "parent"));
  });

  test("a state enqueues its jobs with the move, or not at all", async () => {
    const { holdfast } = shop();
    const inputs: unknown[] = [];
    let refuses = true;
    const workflow = defineWorkflow({
      name: named("order"),
      initial: "open",
      states: {
        open: {},
        paid: {
          enter: ({ item, enqueue }) => {
            inputs.push([item.status, item.revision, item.enteredAt === item.updatedAt, item.data]);
            enqueue(ship, item.id, { priority: 3 });
            enqueue(ship, refuses ? Symbol("none") : "again", { delay: "1h" });
          },
        },
        done: { final: true },
      },
      moves: { pay: { from: "open", to: "paid" }, finish: { from: "paid", to: "done" } },
    });
    const item = await holdfast.workflows.start(workflow, { data: {}, ...ada });
    const before = (await holdfast.jobs.list({ task: "ship" })).length;
    await assert.rejects(item.move("pay", ada), withCode("NOT_SERIALIZABLE"));
    refuses = false;
    assert.equal((await item.refresh()).status, "open");
    assert.equal((await holdfast.jobs.list({ task: "ship" })).length, before);
    await item.move("pay", { ...ada, patch: { n: 1 } });
    const [, line] = await item.history();
    const [first, second] = await Promise.all(
      (line?.jobs ?? []).map((id) => holdfast.jobs.get(id)),
    );
    assert.deepEqual([first?.status, first?.input, first?.priority], ["pending", item.id, 3]);
    assert.deepEqual([second?.status, second?.input], ["scheduled", "again"]);
    assert.deepEqual(inputs.at(-1), ["paid", 2, true, { n: 1 }]);
  });

  test("an item is found under its own workflow only, and a parent must be of the declared one", async () => {
    const { workflows } = shop().holdfast;
    const { order, line, parent, children } = await started(shop(), 1);
    const [child] = children;
    assert.ok(child !== undefined);
    await assert.rejects(workflows.item(order, child.id), ItemNotFoundError);
    await assert.rejects(workflows.item(order, "no id at all"), ItemNotFoundError);
    await assert.rejects(
      workflows.change(order, child.id, { ...ada, move: "ship" }),
      ItemNotFoundError,
    );
    const below = workflows.start(line, { parent: child, data: {}, ...ada });
    await assert.rejects(below, withCode("INTEGRITY_VIOLATION"));
    await assert.rejects(
      workflows.start(line, { data: {}, ...ada }),
      withCode("INVALID_ARGUMENT", "parent"),
    );
    await assert.rejects(
      workflows.start(line, { parent: "nobody", data: {}, ...ada }),
      ItemNotFoundError,
    );
    const listed = await workflows.list(line, {
      parent: parent.id,
      status: "new",
      tenant: "default",
    });
    assert.deepEqual(
      listed.map(({ id }) => id),
      [child.id],
    );
  });

  test("a child has its parent's tenant, unless another is given", async () => {
    const { workflows } = shop().holdfast;
    const above = guarded(() => true);
    const below = defineWorkflow({
      name: named("below"),
      parent: above,
      initial: "new",
      states: { new: {}, packed: { final: true } },
      moves: { pack: { from: "new", to: "packed" } },
    });
    const parent = await workflows.start(above, { tenant: "acme", data: {}, ...ada });
    const mine = await workflows.start(below, { parent, data: {}, ...ada });
    const [imported] = await workflows.import(below, [{ parent, data: {}, status: "new" }], ada);
    const other = await workflows.start(below, { parent, tenant: "globex", data: {}, ...ada });
    assert.deepEqual(
      [mine.tenant, imported?.tenant, other.tenant, (await workflows.item(below, mine.id)).tenant],
      ["acme", "acme", "globex", "acme"],
    );
    const listed = await workflows.list(below, { tenant: "acme" });
    assert.equal(listed.length, 2);
    const free = await workflows.start(above, { data: {}, ...ada });
    assert.equal(
      (await workflows.start(below, { parent: free, data: {}, ...ada })).tenant,
      "default",
    );
  });
});

after(assertNothingRuns);
