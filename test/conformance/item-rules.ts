/**
 * What the database refuses: hand-typed statements, without any verb of the store.
 *
 * Each begins with one that is legal, and differs from it in what is refused: so nothing else is the reason.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import type { Row } from "../../src/database/engine.ts";
import { Sql, sql, type SqlValue } from "../../src/database/sql.ts";
import type { StoredItem } from "../../src/workflows/item-record.ts";
import type { Group, Open } from "../support/bundle.ts";
import {
  cancelled,
  changeItem,
  declareAll,
  folders,
  lines,
  orders,
  pack,
  pay,
  pictureOfItems,
  startItem,
} from "../support/items.ts";
import { nextId } from "../support/jobs.ts";
import { near } from "../support/near.ts";
import { START_AT } from "../support/runtime.ts";
import { words } from "./item-words.ts";
import type { Store } from "../../src/app/store.ts";

const AT = START_AT + 1_000;
const hash = (letter: string): string => letter.repeat(64);

/** The row of an item, typed by hand. */
function typed(facts: Row & { workflow: string; status: string }): Row {
  const id = nextId();
  return {
    id,
    type: facts.workflow,
    tenant: "default",
    identifier: "by hand",
    parent_id: null,
    root_id: id,
    depth: 0,
    data: "{}",
    revision: 1,
    created_at: AT,
    updated_at: AT,
    entered_at: AT,
    audit_seq: 1,
    audit_hash: hash("a"),
    change_id: nextId(),
    actor: "mallory",
    action: "start",
    move: null,
    reason: null,
    lock_wait_us: null,
    trace_id: null,
    jobs: "[]",
    data_hash: hash("b"),
    ...facts,
  };
}

const anOrder = (facts: Row = {}): Row => typed({ workflow: "order", status: "open", ...facts });

function below(parent: StoredItem, facts: Row = {}): Row {
  const place = { parent_id: parent.id, root_id: parent.root, depth: parent.depth + 1 };
  const at = parent.updatedAt;
  const times = { created_at: at, updated_at: at, entered_at: at };
  return typed({ workflow: "line", status: "new", ...place, ...times, ...facts });
}

function insert(store: Store, ...rows: Row[]): Promise<void> {
  return store.db.engine.transaction((tx) => tx.insert("item", rows));
}

/** `update holdfast.item set … where id = …` */
function update(store: Store, id: string, set: Row): Promise<number> {
  const columns = Object.keys(set);
  const [first = "", ...others] = columns;
  const strings = [
    `update holdfast.item set ${first} = `,
    ...others.map((column) => `, ${column} = `),
    " where id = ",
    "",
  ];
  const query = new Sql(strings, [...columns.map((column) => set[column] as SqlValue), id]);
  return store.db.engine.transaction((tx) => tx.run(query));
}

/** A move of an order from open to paid, with all that belongs to it. */
function paying({ revision, auditSeq, enteredAt }: StoredItem): Row {
  return {
    status: "paid",
    revision: revision + 1,
    updated_at: enteredAt + 1,
    entered_at: enteredAt + 1,
    audit_seq: auditSeq + 1,
    audit_hash: hash("c"),
    change_id: nextId(),
    actor: "mallory",
    action: "move",
    move: "pay",
  };
}

/** Another data, with all that belongs to it. */
function patching(item: StoredItem): Row {
  const { status: _status, move: _move, entered_at: _entered, ...rest } = paying(item);
  return { ...rest, data: '{"cents":1}', action: "update", move: null };
}

function saying(...why: string[]): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof StoreRefusedError, String(error));
    assert.ok(
      why.some((one) => error.message.includes(one)),
      error.message,
    );
    return true;
  };
}

/** Constraints say it in the words of the database. */
function refused(error: unknown): boolean {
  return error instanceof StoreRefusedError;
}

function namesOf(cases: object): string {
  return Object.keys(cases).join("; ");
}

async function setUp(open: Open): Promise<Store> {
  const store = await near(await open());
  await declareAll(store);
  return store;
}

export const itemRules: Group = (open) => {
  arrivals(open);
  changes(open);
  trees(open);
  audits(open);
};

function arrivals(open: Open): void {
  test("an item inserted with SQL is accepted if it is legal, and gets an audit line", async () => {
    const store = await setUp(open);
    const row = anOrder();
    await insert(store, row);
    const [line, ...more] = await store.items.history({
      item: String(row["id"]),
      after: 0,
      limit: 9,
    });
    assert.deepEqual(
      [line?.seq, line?.actor, line?.action, line?.newStatus, line?.hash, more.length],
      [1, "mallory", "start", "open", hash("a"), 0],
    );
  });

  test("an item is imported into any declared state, and the audit says so", async () => {
    const store = await setUp(open);
    const row = anOrder({ status: "paid", action: "import", created_at: 5, entered_at: 7 });
    await insert(store, row);
    const [line] = await store.items.history({ item: String(row["id"]), after: 0, limit: 9 });
    assert.deepEqual(
      [line?.action, line?.oldStatus, line?.newStatus, line?.at],
      ["import", null, "paid", AT],
    );
  });

  const wrong: Readonly<Record<string, [row: () => Row, why: string]>> = {
    "of an unknown workflow": [() => anOrder({ workflow: "nothing" }), words.type],
    "of an unknown type": [() => anOrder({ type: "parcel" }), words.type],
    "in an unknown state": [() => anOrder({ status: "lost" }), words.initial],
    "imported into an unknown state": [
      () => anOrder({ status: "lost", action: "import" }),
      words.initial,
    ],
    "imported at another revision than 1": [
      () => anOrder({ status: "paid", action: "import", revision: 2 }),
      words.initial,
    ],
    "in another state than the initial one": [() => anOrder({ status: "paid" }), words.initial],
    "at another revision than 1": [() => anOrder({ revision: 2 }), words.initial],
    "whose audit begins with another number": [() => anOrder({ audit_seq: 2 }), words.initial],
    "that is not started but moved": [
      () => anOrder({ action: "move", move: "pay" }),
      words.initial,
    ],
    "without a parent where it needs one": [
      () => typed({ workflow: "line", status: "new" }),
      words.orphan,
    ],
  };
  test(`refused is an item ${namesOf(wrong)}`, async () => {
    const store = await setUp(open);
    for (const [name, [row, why]] of Object.entries(wrong)) {
      await assert.rejects(insert(store, row()), saying(why), name);
    }
    assert.deepEqual(await store.items.after(null, 9), []);
  });

  const impossible: Readonly<Record<string, Row>> = {
    "whose audit has no hash": { audit_hash: "x" },
    "without a name": { identifier: "" },
    "without a tenant": { tenant: "" },
    "that entered its state after it was changed": { entered_at: AT + 1 },
    "that was created after it was changed": { created_at: AT + 1, entered_at: AT + 1 },
    "that did something unheard of": { action: "steal" },
    "that is its own top, and below something": { depth: 1 },
  };
  test(`refused is an item ${namesOf(impossible)}`, async () => {
    const store = await setUp(open);
    for (const [name, facts] of Object.entries(impossible)) {
      await assert.rejects(insert(store, anOrder(facts)), refused, name);
    }
    assert.deepEqual(await store.items.after(null, 9), []);
  });

  test("no item is started with a type, or in a state, that only ended ones still have", async () => {
    const store = await setUp(open);
    const old = await startItem(store, { type: "return" });
    await changeItem(store, old, cancelled);
    const [open1, , shipped] = orders().states;
    assert.ok(open1 !== undefined && shipped !== undefined);
    await store.items.declare(
      orders({
        version: 2,
        types: ["order"],
        states: [open1, shipped],
        moves: [{ name: "ship", from: "open", to: "shipped" }],
      }),
    );
    await assert.rejects(insert(store, anOrder({ type: "return" })), saying(words.type));
    await assert.rejects(insert(store, anOrder({ status: "cancelled" })), saying(words.initial));
    assert.equal((await store.items.find(old.id))?.status, "cancelled");
  });
}

function changes(open: Open): void {
  test("a move made with SQL is accepted if it is legal, and so is a change of data", async () => {
    const store = await setUp(open);
    const item = await startItem(store);
    assert.equal(await update(store, item.id, patching(item)), 1);
    const patched = (await store.items.find(item.id)) as StoredItem;
    assert.equal(await update(store, item.id, paying(patched)), 1);
    const history = await store.items.history({ item: item.id, after: 0, limit: 9 });
    assert.deepEqual(
      history.map(({ seq, action, oldStatus, newStatus }) => [seq, action, oldStatus, newStatus]),
      [
        [1, "start", null, "open"],
        [2, "update", "open", "open"],
        [3, "move", "open", "paid"],
      ],
    );
    assert.deepEqual(
      history.map(({ previousHash }) => previousHash),
      [hash("0"), item.auditHash, hash("c")],
    );
  });

  type Wrong = [set: (item: StoredItem) => Row, why: string];
  const wrong: Readonly<Record<string, Wrong>> = {
    "a move that is not declared": [
      (item) => ({ ...paying(item), status: "shipped", move: "ship" }),
      words.move,
    ],
    "a move under the name of another": [
      (item) => ({ ...paying(item), move: "cancel" }),
      words.move,
    ],
    "a move to an unknown state": [(item) => ({ ...paying(item), status: "lost" }), words.move],
    "a move that says it is none": [
      (item) => ({ ...paying(item), action: "update", move: null }),
      words.move,
    ],
    "an import of what is there": [(item) => ({ ...patching(item), action: "import" }), words.move],
    "a second start": [(item) => ({ ...patching(item), action: "start" }), words.move],
    "a revision that is skipped": [
      (item) => ({ ...paying(item), revision: item.revision + 2 }),
      words.revision,
    ],
    "a revision that stays": [
      (item) => ({ ...paying(item), revision: item.revision }),
      words.revision,
    ],
    "a change before the last one": [
      (item) => ({ ...patching(item), updated_at: item.updatedAt - 1 }),
      words.revision,
    ],
    "a status without a line in the audit": [
      (item) => ({ ...paying(item), audit_seq: item.auditSeq }),
      words.audited,
    ],
    "data without a line in the audit": [
      (item) => ({ ...patching(item), audit_seq: item.auditSeq }),
      words.audited,
    ],
    "another word about the last change": [
      (item) => ({ actor: "nobody", revision: item.revision + 1 }),
      words.audited,
    ],
    "a gap in the audit": [
      (item) => ({ ...paying(item), audit_seq: item.auditSeq + 2 }),
      words.audited,
    ],
    "a stay that begins before its move": [
      (item) => ({ ...paying(item), entered_at: item.enteredAt }),
      words.stay,
    ],
    "a stay that begins anew without a move": [
      (item) => ({ ...patching(item), entered_at: item.enteredAt + 1 }),
      words.stay,
    ],
    "another name": [(item) => ({ ...patching(item), identifier: "another" }), words.keeps],
    "another tenant": [(item) => ({ ...patching(item), tenant: "another" }), words.keeps],
    "another type": [(item) => ({ ...patching(item), type: "return" }), words.keeps],
    "another birthday": [
      (item) => ({ ...patching(item), created_at: item.createdAt - 1 }),
      words.keeps,
    ],
    "a parent": [(item) => ({ ...patching(item), parent_id: nextId(), depth: 1 }), words.keeps],
  };
  test(`refused is ${namesOf(wrong)}`, async () => {
    const store = await setUp(open);
    const item = await startItem(store);
    const before = await pictureOfItems(store, [item]);
    for (const [name, [set, why]] of Object.entries(wrong)) {
      await assert.rejects(update(store, item.id, set(item)), saying(why), name);
    }
    assert.deepEqual(await pictureOfItems(store, [item]), before);
  });
}

function trees(open: Open): void {
  test("a child inserted with SQL is counted by its parent", async () => {
    const store = await setUp(open);
    const parent = await startItem(store);
    await insert(store, below(parent));
    assert.deepEqual(await store.items.progressOf(parent.id), [
      { workflow: "line", status: "new", isFinal: false, children: 1 },
    ]);
  });

  type Wrong = [row: (parent: StoredItem) => Row, ...why: string[]];
  const wrong: Readonly<Record<string, Wrong>> = {
    "a parent that does not exist": [
      (parent) => below(parent, { parent_id: nextId() }),
      words.parent,
    ],
    "a parent of another workflow": [
      (parent) => below(parent, { workflow: "folder", type: "folder" }),
      words.family,
    ],
    "a parent where there is none": [
      (parent) => below(parent, { workflow: "order", type: "order", status: "open" }),
      words.family,
    ],
    "another top than that of its parent": [
      (parent) => below(parent, { root_id: nextId() }),
      words.place,
    ],
    "another depth than below its parent": [(parent) => below(parent, { depth: 2 }), words.place],
    "a time ahead of its parent's": [
      (parent) => below(parent, { updated_at: parent.updatedAt + 1 }),
      words.behind,
    ],
  };
  test(`refused is an item with ${namesOf(wrong)}`, async () => {
    const store = await setUp(open);
    const parent = await startItem(store);
    for (const [name, [row, ...why]] of Object.entries(wrong)) {
      await assert.rejects(insert(store, row(parent)), saying(...why), name);
    }
    assert.deepEqual(await store.items.progressOf(parent.id), []);
  });

  test("a child of an item that has ended is refused", async () => {
    const store = await setUp(open);
    const parent = await changeItem(store, await startItem(store), cancelled);
    await assert.rejects(insert(store, below(parent)), saying(words.ended));
    await assert.rejects(insert(store, below(parent, { action: "import" })), saying(words.ended));
    await insert(store, below(parent, { action: "import", status: "packed" }));
  });

  test("an item below itself, and two below each other, are refused", async () => {
    const store = await setUp(open);
    const self = below(await startItem(store, { workflow: "folder" }), {
      workflow: "folder",
      type: "folder",
    });
    await assert.rejects(insert(store, { ...self, parent_id: self["id"] as string }), refused);
    const other = { ...self, id: nextId(), parent_id: self["id"] as string };
    const both = [{ ...self, parent_id: other.id }, other];
    await assert.rejects(insert(store, ...both), saying(words.parent));
    assert.equal((await store.items.after(null, 9)).length, 1);
  });

  test("an item keeps its parent: no second one, none at all, and no cycle", async () => {
    const store = await setUp(open);
    const top = await startItem(store, { workflow: "folder" });
    const child = await startItem(store, { workflow: "folder", parent: top });
    const other = await startItem(store, { workflow: "folder" });
    const moves: Row[] = [
      { parent_id: other.id, root_id: other.id },
      { parent_id: null, root_id: child.id, depth: 0 },
    ];
    for (const place of moves) {
      const set = { ...place, revision: child.revision + 1 };
      await assert.rejects(update(store, child.id, set), saying(words.keeps));
    }
    const cycle = { parent_id: child.id, depth: 1, revision: top.revision + 2 };
    await assert.rejects(update(store, top.id, cycle), saying(words.keeps));
  });

  test("a child does not get ahead of its parent", async () => {
    const store = await setUp(open);
    const parent = await startItem(store);
    const child = await startItem(store, { workflow: "line", parent });
    const ahead = { updated_at: child.updatedAt + 1, revision: child.revision + 1 };
    await assert.rejects(update(store, child.id, ahead), saying(words.behind));
    await update(store, parent.id, { ...ahead, revision: parent.revision + 2 });
    assert.equal(await update(store, child.id, ahead), 1);
  });
}

function audits(open: Open): void {
  /** The statement, and how many lines it would concern. */
  async function attempt(store: Store, query: Sql): Promise<void> {
    await store.db.engine.transaction((tx) => tx.run(query));
  }

  test("audit lines cannot be changed, deleted or added with SQL", async () => {
    const store = await setUp(open);
    const item = await changeItem(store, await startItem(store), pay);
    const before = await pictureOfItems(store, [item]);
    const columns = sql`at, actor, action, move, old_status, new_status, revision, reason, lock_wait_us, trace_id, jobs,
                        data_hash, previous_hash, hash, change_id`;
    const copy = (seq: number): Sql => sql`
      insert into holdfast.item_audit (item_id, seq, ${columns})
      select item_id, ${store.db.engine.typed(seq)}, ${columns} from holdfast.item_audit where item_id = ${item.id} and seq = 2`;
    await assert.rejects(attempt(store, copy(2)), refused);
    await assert.rejects(attempt(store, copy(3)), saying(words.told));
    await assert.rejects(
      attempt(
        store,
        sql`update holdfast.item_audit set actor = 'nobody' where item_id = ${item.id}`,
      ),
      saying(words.written),
    );
    await assert.rejects(
      attempt(store, sql`delete from holdfast.item_audit where item_id = ${item.id}`),
      saying(words.retention),
    );
    assert.deepEqual(await pictureOfItems(store, [item]), before);
  });

  test("a line is not replaced, and neither is an item", async (t) => {
    const store = await setUp(open);
    if (store.db.name.startsWith("postgres")) return t.skip("there is no such statement");
    const item = await startItem(store);
    const before = await pictureOfItems(store, [item]);
    for (const table of [sql`holdfast.item_audit`, sql`holdfast.item`]) {
      const replacing = sql`replace into ${table} select * from ${table}`;
      await assert.rejects(attempt(store, replacing), saying(words.told, words.retention));
    }
    assert.deepEqual(await pictureOfItems(store, [item]), before);
  });

  test("neither items nor their audit are emptied", async (t) => {
    const store = await setUp(open);
    if (!store.db.name.startsWith("postgres")) return t.skip("no trigger is asked there");
    const item = await startItem(store);
    const tables = ["item_audit", "item", "item cascade", "workflow cascade"];
    for (const table of tables) {
      const truncating = new Sql([`truncate holdfast.${table}`], []);
      await assert.rejects(attempt(store, truncating), saying(words.retention));
    }
    assert.notEqual(await store.items.find(item.id), null);
  });

  test("an item cannot be deleted before its retention is over, even with SQL", async () => {
    const store = await setUp(open);
    const [living, kept] = [await startItem(store), await startItem(store)];
    await changeItem(store, kept, cancelled);
    const over = (id: string): Sql =>
      sql`insert into holdfast.item_pruning (item_id) values (${id})`;
    for (const { id } of [living, kept]) {
      await assert.rejects(
        attempt(store, sql`delete from holdfast.item where id = ${id}`),
        saying(words.retention),
      );
      await assert.rejects(attempt(store, over(id)), saying(words.living));
    }
    // One that lives is not let go by a workflow that does not keep its items either.
    await store.items.declare(orders({ version: 2, keepMs: 0 }));
    await assert.rejects(attempt(store, over(living.id)), saying(words.living));
    await attempt(store, over(kept.id));
  });

  test("states, types and moves that items need stay in the declaration", async () => {
    const store = await setUp(open);
    await startItem(store);
    const statements = [
      sql`delete from holdfast.workflow_state where workflow = 'order' and name = 'open'`,
      sql`delete from holdfast.workflow_type where workflow = 'order' and name = 'order'`,
      sql`delete from holdfast.workflow where name = 'order'`,
    ];
    for (const statement of statements) await assert.rejects(attempt(store, statement), refused);
    const unused = { version: 2, types: ["order"] };
    await store.items.declare(orders(unused)); // nothing hinders what the store itself may do
    assert.equal((await store.items.findWorkflow("line"))?.parent, lines().parent);
    assert.equal((await store.items.findWorkflow("folder"))?.parent, folders().name);
  });

  test("how many are below an item never goes below none", async () => {
    const store = await setUp(open);
    const parent = await startItem(store);
    const child = await startItem(store, { workflow: "line", parent });
    await attempt(store, sql`update holdfast.item_progress set children = 0`);
    await assert.rejects(changeItem(store, child, pack), /refused/);
  });
}
