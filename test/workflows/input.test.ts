/** What callers give that cannot be used: refused before anything is locked, with the name of what is wrong. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, withCode } from "../worker/observe.ts";
import { ada } from "./shop.ts";

const order = defineWorkflow({
  name: "order",
  types: ["order", "return"],
  initial: "open",
  states: { open: {}, done: { final: true } },
  moves: { finish: { from: "open", to: "done" } },
});
const line = defineWorkflow({
  name: "line",
  parent: order,
  initial: "new",
  states: { new: {}, packed: { final: true } },
  moves: { pack: { from: "new", to: "packed" } },
});

const ship = defineTask({ name: "ship", run: (id: string) => id });

/** Whatever the compiler says about it. */
const any = (value: unknown): never => value as never;

describe("input about items", { timeout: 60_000 }, () => {
  let holdfast: Holdfast;
  let id: string;
  let child: string;
  before(async () => {
    holdfast = await openHoldfast("sqlite::memory:", { version: "build-0" });
    const item = await holdfast.workflows.start(order, { data: {}, ...ada });
    id = item.id;
    child = (await holdfast.workflows.start(line, { parent: item, data: {}, ...ada })).id;
  });
  after(() => holdfast.close());

  type Call = () => Promise<unknown>;
  const start = (facts: object) => () =>
    holdfast.workflows.start(order, any({ data: {}, ...ada, ...facts }));
  const change = (facts: object) => () =>
    holdfast.workflows.change(order, id, any({ ...ada, patch: {}, ...facts }));
  const list = (filter: object) => () => holdfast.workflows.list(order, any(filter));
  const children =
    (changes: unknown, signed: unknown = ada) =>
    () =>
      holdfast.workflows.updateChildren(line, id, any(changes), any(signed));

  const wrong: readonly [what: string, field: string, call: Call][] = [
    ["no workflow", "workflow", () => holdfast.workflows.start(any({ name: "order" }), any({}))],
    ["no workflow at all", "workflow", () => holdfast.workflows.declare(any(null))],
    ["a list of no workflow", "workflow", () => holdfast.workflows.list(any("order"))],
    ["an item of no workflow", "workflow", () => holdfast.workflows.item(any(null), id)],
    ["nothing to start", "options", () => holdfast.workflows.start(order, any(null))],
    ["an unknown option", "colour", start({ colour: "red" })],
    ["an unknown type", "type", start({ type: "parcel" })],
    ["a name that is none", "identifier", start({ identifier: "" })],
    ["a name that is too long", "identifier", start({ identifier: "x".repeat(257) })],
    ["a tenant that is none", "tenant", start({ tenant: " a" })],
    ["a parent that is none", "parent", start({ parent: 7 })],
    ["a parent without an id", "parent", start({ parent: {} })],
    ["a parent that is null", "parent", start({ parent: null })],
    [
      "a child without a parent",
      "parent",
      () => holdfast.workflows.start(line, { data: {}, ...ada }),
    ],
    [
      "an imported child without a parent",
      "parent",
      () => holdfast.workflows.import(line, [{ data: {}, status: "new" }], ada),
    ],
    ["no actor", "actor", start({ actor: undefined })],
    ["an actor that is none", "actor", start({ actor: 7 })],
    ["an actor without an id", "actor", start({ actor: {} })],
    ["an actor without a trace", "trace", start({ actor: { id: "7", traceId: 8 } })],
    ["an actor that is too long", "actor", start({ actor: "x".repeat(129) })],
    ["a reason that is none", "reason", start({ reason: 7 })],
    ["a reason that is too long", "reason", start({ reason: "x".repeat(1_001) })],
    ["half of a character", "reason", start({ reason: "\uD800" })],
    ["a zero", "reason", start({ reason: "a\0b" })],
    ["a trace that is too long", "trace", start({ trace: "x".repeat(1_001) })],
    ["data that is no object", "data", start({ data: [1] })],
    ["data that is null", "data", start({ data: null })],
    ["no items", "items", () => holdfast.workflows.startMany(order, [], ada)],
    ["no list of items", "items", () => holdfast.workflows.startMany(order, any({}), ada)],
    [
      "more items than are allowed",
      "items",
      () =>
        holdfast.workflows.startMany(
          order,
          Array.from({ length: 1_001 }, () => ({ data: {} })),
          ada,
        ),
    ],
    [
      "items of several parents",
      "parent",
      () =>
        holdfast.workflows.startMany(
          line,
          [
            { data: {}, parent: id },
            { data: {}, parent: child },
          ],
          ada,
        ),
    ],
    ["neither a move nor a patch", "patch", change({ patch: undefined })],
    ["a patch that is no object", "patch", change({ patch: [1] })],
    ["a revision that is none", "expect", change({ expect: "1" })],
    ["an instant that is none", "since", change({ since: -1 })],
    ["a move that is no text", "move", change({ move: 7 })],
    ["an unknown option of a change", "expects", change({ expects: 1 })],
    ["a parent where there is none", "parent", change({ parent: { patch: {} } })],
    [
      "an unknown option of a parent",
      "parent.mvoe",
      () =>
        holdfast.workflows.updateChild(
          line,
          child,
          any({ ...ada, move: "pack", parent: { mvoe: "x" } }),
        ),
    ],
    ["an id that is none", "id", () => holdfast.workflows.item(order, any(7))],
    ["no changes", "changes", children([])],
    ["no list of changes", "changes", children("all")],
    ["a change without an id", "id", children([{ move: "pack" }])],
    ["changes without an actor", "options", children([{ id: "1", move: "pack" }], null)],
    ["an unknown filter", "colour", list({ colour: "red" })],
    ["a filter that is no text", "status", list({ status: 7 })],
    ["a page after no item", "before", list({ before: "last" })],
    ["children of no item", "parent", list({ parent: "it" })],
    ["a list of a state that the workflow does not have", "status", list({ status: "payed" })],
    ["a page that is too large", "limit", list({ limit: 1_001 })],
    ["a history that is too long", "limit", () => holdfast.workflows.history(id, { limit: 0 })],
    ["a history of no item", "id", () => holdfast.workflows.history(any(null))],
    ["progress of no item", "id", () => holdfast.workflows.progress(any(null))],
  ];
  for (const [what, field, call] of wrong) {
    test(`${what} is refused`, async () => {
      await assert.rejects(call, withCode("INVALID_ARGUMENT", field));
    });
  }

  test("a patch with values that JSON would change is refused", async () => {
    for (const patch of [new Map(), new Date(), { at: new Date() }, { n: Number.NaN }]) {
      await assert.rejects(change({ patch }), (error) => {
        assert.equal(codeOf(error), "NOT_SERIALIZABLE");
        return true;
      });
    }
  });

  test("none of these calls changed anything", async () => {
    const item = await holdfast.workflows.item(order, id);
    assert.deepEqual([item.revision, (await item.history()).length], [2, 1]);
    assert.equal((await holdfast.workflows.list(order)).length, 1);
  });

  /** One whose second state asks for jobs in its own way. */
  async function entering(enter: (facts: { enqueue: (...args: never[]) => void }) => unknown) {
    const workflow = defineWorkflow({
      name: `entering ${(entered += 1)}`,
      initial: "open",
      states: { open: {}, done: { final: true, enter: any(enter) } },
      moves: { finish: { from: "open", to: "done" } },
    });
    const item = await holdfast.workflows.start(workflow, { data: {}, ...ada });
    return { item, move: () => item.move("finish", ada) };
  }
  let entered = 0;

  const entries: Readonly<
    Record<string, [field: string, enter: (enqueue: (...args: never[]) => void) => unknown]>
  > = {
    "a task that is none": ["task", (enqueue) => enqueue(any("ship"), any(1))],
    "an option that entry jobs do not have": [
      "key",
      (enqueue) => enqueue(any(ship), any("1"), any({ key: "k" })),
    ],
    "a function that is asynchronous": ["enter", async () => {}],
    "more jobs than are allowed": [
      "enter",
      (enqueue) => {
        for (let n = 0; n <= 1_000; n += 1) enqueue(any(ship), any("1"));
      },
    ],
  };
  for (const [what, [field, enter]] of Object.entries(entries)) {
    test(`a state that enqueues its jobs with ${what} is not entered`, async () => {
      const { item, move } = await entering(({ enqueue }) => enter(enqueue));
      await assert.rejects(move, withCode("INVALID_ARGUMENT", field));
      assert.equal((await item.refresh()).status, "open");
      assert.deepEqual(await holdfast.jobs.list({ task: "ship" }), []);
    });
  }

  test("a state enqueues its jobs while it is entered, and not later", async () => {
    let late: (...args: never[]) => void = () => {};
    const { move } = await entering(({ enqueue }) => {
      late = enqueue;
    });
    await move();
    assert.throws(() => late(any(ship), any("1")), withCode("INVALID_ARGUMENT", "enter"));
  });

  test("a parent whose workflow wants a move that does not exist is not closed, and neither its child", async () => {
    const parent = defineWorkflow({
      name: "confused",
      initial: "open",
      states: { open: {}, done: { final: true } },
      moves: { finish: { from: "open", to: "done" } },
      whenChildrenEnd: () => any("finnish"),
    });
    const below = defineWorkflow({
      name: "below",
      parent,
      initial: "new",
      states: { new: {}, packed: { final: true } },
      moves: { pack: { from: "new", to: "packed" } },
    });
    const above = await holdfast.workflows.start(parent, { data: {}, ...ada });
    const item = await holdfast.workflows.start(below, { parent: above, data: {}, ...ada });
    await assert.rejects(item.move("pack", ada), withCode("INVALID_ARGUMENT", "whenChildrenEnd"));
    assert.equal((await item.refresh()).status, "new");
  });
});

after(assertNothingRuns);
