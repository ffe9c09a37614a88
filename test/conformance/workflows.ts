/** Declarations of workflows: what the database goes by, and how it changes while items live. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  IntegrityViolationError,
  ItemsStrandedError,
  WorkflowConflictError,
} from "../../src/workflows/errors.ts";
import { sql } from "../../src/database/sql.ts";
import type { Declaration } from "../../src/workflows/item-record.ts";
import type { Group } from "../support/bundle.ts";
import {
  cancelled,
  changeItem,
  declareAll,
  folders,
  lines,
  orders,
  pay,
  ship,
  startItem,
  startItems,
} from "../support/items.ts";
import { near } from "../support/near.ts";
import { within } from "../support/waiting.ts";

const states = (...names: string[]): Declaration["states"] =>
  orders().states.filter(({ name }) => names.includes(name));
const moves = (...names: string[]): Declaration["moves"] =>
  orders().moves.filter(({ name }) => names.includes(name));

/** Without what items that were paid need. */
const withoutPaid = orders({
  version: 2,
  states: states("open", "cancelled"),
  moves: [{ name: "cancel", from: "open", to: "cancelled" }],
});

export const workflows: Group = (open) => {
  test("a declaration is stored as it was given", async () => {
    const { store, clock } = await open();
    assert.equal(await store.items.findWorkflow("order"), null);
    await store.items.declare(orders({ keepMs: 7 }));
    await store.items.declare(folders());
    assert.deepEqual(await store.items.findWorkflow("order"), {
      ...orders({ keepMs: 7 }),
      declaredAt: clock.now(),
    });
    assert.equal((await store.items.findWorkflow("folder"))?.parent, "folder");
  });

  test("a declaration that is made again changes nothing, in whatever order it is written", async () => {
    const { store, clock } = await open();
    await store.items.declare(orders());
    const before = await store.items.findWorkflow("order");
    clock.advance(1);
    await store.items.declare(orders());
    const { states: its, moves: theirs } = orders();
    await store.items.declare(orders({ states: its.toReversed(), moves: theirs.toReversed() }));
    assert.deepEqual(await store.items.findWorkflow("order"), before);
  });

  const others: Readonly<Record<string, Partial<Declaration>>> = {
    "another move": { moves: moves("pay", "ship") },
    "another state": { states: states("open", "paid", "shipped") },
    "another final state": { states: orders().states.map((one) => ({ ...one, isFinal: true })) },
    "another type": { types: ["order"] },
    "another default type": { types: ["return", "order"] },
    "another parent": { parent: "order" },
    "another retention": { keepMs: 1 },
  };
  test(`in conflict under the same version is ${Object.keys(others).join(", ")}`, async () => {
    const { store } = await open();
    await store.items.declare(orders());
    const before = await store.items.findWorkflow("order");
    for (const [name, facts] of Object.entries(others)) {
      const isConflict = (error: unknown): boolean => {
        assert.ok(error instanceof WorkflowConflictError, String(error));
        assert.deepEqual([error.workflow, error.version], ["order", 1]);
        return true;
      };
      await assert.rejects(store.items.declare(orders(facts)), isConflict, name);
    }
    assert.deepEqual(await store.items.findWorkflow("order"), before);
  });

  test("an older version may stay in use, but cannot do what the newer one lacks", async () => {
    const store = await near(await open());
    await store.items.declare(withoutPaid);
    await store.items.declare(orders());
    assert.equal((await store.items.findWorkflow("order"))?.version, 2);
    const item = await startItem(store);
    await assert.rejects(changeItem(store, item, pay), (error) => {
      assert.ok(error instanceof IntegrityViolationError);
      assert.match(error.message, /declares no such move/);
      return true;
    });
    await changeItem(store, item, cancelled);
  });

  test("a newer version goes for items that are there already", async () => {
    const store = await near(await open());
    await store.items.declare(orders());
    const [first, second] = [await startItem(store), await startItem(store)];
    await changeItem(store, first, pay);
    const sent = { name: "sent", isInitial: true, isFinal: false };
    const [opened, ...rest] = orders().states;
    assert.ok(opened !== undefined);
    await store.items.declare(
      orders({
        version: 3,
        states: [{ ...opened, isInitial: false }, sent, ...rest],
        moves: [...orders().moves, { name: "ship", from: "open", to: "shipped" }],
      }),
    );
    await changeItem(store, second, ship);
    await changeItem(store, first, ship);
    await assert.rejects(startItem(store), /initial state/);
  });

  test("a version that would strand living items is refused, and says which", async () => {
    const store = await near(await open());
    await declareAll(store);
    const [paid, returned, ended] = [
      await startItem(store),
      await startItem(store, { type: "return" }),
      await startItem(store, { type: "return" }),
    ];
    await changeItem(store, paid, pay);
    await changeItem(store, ended, cancelled);
    const before = await store.items.findWorkflow("order");
    const declaring = store.items.declare({ ...withoutPaid, types: ["order"], parent: "folder" });
    await assert.rejects(declaring, (error) => {
      assert.ok(error instanceof ItemsStrandedError);
      assert.equal(error.workflow, "order");
      assert.deepEqual(error.stranded, [
        { lacks: "state 'paid'", items: 1, examples: [paid.id] },
        { lacks: "type 'return'", items: 1, examples: [returned.id] },
        { lacks: "parent workflow none", items: 2, examples: [paid.id, returned.id] },
      ]);
      return true;
    });
    assert.deepEqual(await store.items.findWorkflow("order"), before);
    await changeItem(store, paid, ship); // nothing of it was changed
  });

  test("a refusal counts all that are stranded, and names a few", async () => {
    const store = await near(await open());
    await declareAll(store);
    const items = await startItems(
      store,
      Array.from({ length: 7 }, () => ({})),
    );
    const declaring = store.items.declare(
      orders({ version: 2, states: states("paid", "shipped"), moves: moves("ship") }),
    );
    await assert.rejects(declaring, (error) => {
      assert.ok(error instanceof ItemsStrandedError);
      const examples = items.slice(0, 5).map(({ id }) => id);
      assert.deepEqual(error.stranded, [{ lacks: "state 'open'", items: 7, examples }]);
      return true;
    });
  });

  test("ended items stay readable in a state that is gone, and are counted as ended", async () => {
    const store = await near(await open());
    await declareAll(store);
    const parent = await startItem(store);
    const child = await startItem(store, { workflow: "line", parent });
    const gone = await changeItem(store, child, { move: "pack", to: "packed" });
    await store.items.declare(
      lines({
        version: 2,
        types: ["position"],
        states: lines().states.map((one) => (one.isFinal ? { ...one, name: "sent" } : one)),
        moves: [{ name: "send", from: "new", to: "sent" }],
      }),
    );
    assert.deepEqual(await store.items.find(child.id), gone);
    assert.deepEqual(await store.items.list({ workflow: "line", status: "packed", limit: 9 }), [
      gone,
    ]);
    assert.deepEqual(await store.items.progressOf(parent.id), [
      { workflow: "line", status: "packed", isFinal: true, children: 1 },
    ]);
    // And the state may come back.
    await store.items.declare(lines({ version: 3 }));
    await changeItem(store, await startItem(store, { workflow: "line", parent }), {
      move: "pack",
      to: "packed",
    });
  });

  test("several that declare at once are of one mind, and the newest version stands", async (t) => {
    const { store, alone, another } = await open();
    if (alone !== null) return t.skip(alone);
    const openers = [store, await another(), await another()];
    await Promise.all(openers.map((one) => one.items.declare(orders())));
    const versions = [2, 3, 4].map((version) => orders({ version, keepMs: version }));
    await Promise.all(openers.map((one, index) => one.items.declare(versions[index] as never)));
    assert.equal((await store.items.findWorkflow("order"))?.version, 4);
    await Promise.all([...openers, ...openers].map((one) => one.items.declare(folders())));
    assert.deepEqual((await store.items.findWorkflow("folder"))?.states, folders().states);
  });

  test("a declaration waits for a transaction that is entering a state, and then considers it", async (t) => {
    const bundle = await open();
    if (bundle.alone !== null) return t.skip(bundle.alone);
    const store = await near(bundle);
    await store.items.declare(orders());
    const item = await startItem(store);
    const entered = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    const moving = store.db.engine.transaction(async (tx) => {
      await tx.run(sql`
        update holdfast.item
           set status = 'paid', action = 'move', move = 'pay', revision = revision + 1,
               updated_at = ${item.updatedAt + 1}, entered_at = ${item.updatedAt + 1}, audit_seq = audit_seq + 1,
               audit_hash = data_hash
         where id = ${item.id}`);
      entered.resolve();
      await goOn.promise;
    });
    await entered.promise;
    const declaring = (await bundle.another()).items.declare(withoutPaid);
    declaring.catch(() => {});
    assert.equal(await within(WAITS_MS, declaring), null);
    goOn.resolve();
    await moving;
    await assert.rejects(declaring, ItemsStrandedError);
    assert.equal((await store.items.find(item.id))?.status, "paid");
  });

  test("a move waits for a declaration that drops it, and is refused", async (t) => {
    const bundle = await open();
    if (bundle.alone !== null) return t.skip(bundle.alone);
    const store = await near(bundle);
    await store.items.declare(orders());
    const item = await startItem(store);
    const dropped = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    // As the store does it: first the workflow, then its states, then the rest.
    const declaring = store.db.engine.transaction(async (tx) => {
      await tx.run(sql`update holdfast.workflow set version = version where name = 'order'`);
      const locked = sql`name ${store.db.engine.lockRows()}`;
      await tx.all(
        sql`select name from holdfast.workflow_state where workflow = 'order' order by ${locked}`,
      );
      await tx.run(
        sql`delete from holdfast.workflow_move where workflow = 'order' and name = 'pay'`,
      );
      dropped.resolve();
      await goOn.promise;
    });
    await dropped.promise;
    const other = await near({ ...bundle, store: await bundle.another() });
    const moving = changeItem(other, item, pay);
    moving.catch(() => {});
    assert.equal(await within(WAITS_MS, moving), null);
    goOn.resolve();
    await declaring;
    await assert.rejects(moving, /declares no such move/);
  });
};

/** A caller that did not wait would have been done by then. */
const WAITS_MS = 100;
