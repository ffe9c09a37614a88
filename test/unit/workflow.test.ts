/** What defineWorkflow refuses, and what it makes of what it takes. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import * as z from "zod";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { defineWorkflow, type Workflow, declarationOf } from "../../src/workflows/workflow.ts";

const plain = {
  name: "order",
  initial: "open",
  states: { open: {}, done: { final: true } },
  moves: { finish: { from: "open", to: "done" } },
};

/** Whatever the compiler says about it. */
const define = (facts: object): Workflow => defineWorkflow({ ...plain, ...facts } as never);

function refused(field: string, words: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof InvalidArgumentError, String(error));
    assert.equal(error.field, field);
    assert.match(error.message, words);
    return true;
  };
}

suite("defineWorkflow", () => {
  const noOne = { open: {}, held: {}, done: { final: true } };
  const limit = (facts: object) => ({ states: { ...plain.states, open: { limit: facts } } });
  const jobs = (facts: unknown) => ({ states: { ...plain.states, open: { whenJobsEnd: facts } } });
  const move = (facts: unknown) => ({ moves: { finish: facts } });

  const wrong: readonly [what: string, facts: object, field: string, words: RegExp][] = [
    ["an unknown option", { colour: "red" }, "colour", /no such option/],
    ["a name that is none", { name: "" }, "name", /empty/],
    ["a version that is none", { version: 0 }, "version", /from 1/],
    ["a version that is a text", { version: "1" }, "version", /whole number/],
    ["no states", { states: {} }, "states", /from 1/],
    ["states that are none", { states: ["open"] }, "states", /object/],
    ["too many states", { states: many(101, () => ({ final: true })) }, "states", /to 100/],
    ["a state that is none", { states: { open: null } }, "states.open", /object/],
    ["a state without a name", { states: { ...plain.states, "": {} } }, "states", /empty/],
    [
      "an unknown option of a state",
      { states: { open: { finally: true } } },
      "states.open.finally",
      /no such/,
    ],
    [
      "final that is no answer",
      { states: { open: { final: 1 } } },
      "states.open.final",
      /true or false/,
    ],
    [
      "enter that is no function",
      { states: { open: { enter: 1 } } },
      "states.open.enter",
      /function/,
    ],
    [
      "an initial state that there is not",
      { initial: "new" },
      "initial",
      /no state 'new'.*open, done/,
    ],
    ["no initial state", { initial: undefined }, "initial", /no state/],
    [
      "a state without a way out",
      { states: noOne },
      "states.held",
      /no move leads out.*final: true/,
    ],
    ["no moves", { moves: undefined }, "moves", /object/],
    ["a move that is none", move("done"), "moves.finish", /object/],
    ["a move from nowhere", move({ from: "new", to: "done" }), "moves.finish", /no state 'new'/],
    ["a move to nowhere", move({ from: "open", to: "gone" }), "moves.finish", /no state 'gone'/],
    ["a move from no state at all", move({ from: [], to: "done" }), "moves.finish", /at least one/],
    ["a move without a beginning", move({ to: "done" }), "moves.finish", /list/],
    [
      "a move out of a final state",
      move({ from: ["open", "done"], to: "open" }),
      "moves.finish",
      /'done' is final/,
    ],
    [
      "a guard that is no function",
      move({ ...plain.moves.finish, guard: true }),
      "moves.finish.guard",
      /function/,
    ],
    [
      "an unknown option of a move",
      move({ ...plain.moves.finish, gaurd: 1 }),
      "moves.finish.gaurd",
      /no such option/,
    ],
    ["a limit without a time", limit({ move: "finish" }), "states.open.limit.after", /duration/],
    ["a limit of no time", limit({ after: 0, move: "finish" }), "states.open.limit.after", /least/],
    [
      "a limit with an unknown move",
      limit({ after: "1s", move: "end" }),
      "states.open",
      /'end' is not a move/,
    ],
    [
      "an unknown option of a limit",
      limit({ after: "1s", to: "done" }),
      "states.open.limit.to",
      /no such option/,
    ],
    ["jobs that lead to no move", jobs({ done: "end" }), "states.open", /'end' is not a move/],
    [
      "failed jobs that lead to no move",
      jobs({ done: "finish", failed: "end" }),
      "states.open",
      /'end'/,
    ],
    ["jobs that lead to nothing", jobs("finish"), "states.open.whenJobsEnd", /object/],
    [
      "an unknown end of jobs",
      jobs({ done: "finish", lost: "finish" }),
      "states.open.whenJobsEnd.lost",
      /no such option/,
    ],
    ["types that are none", { types: "order" }, "types", /list/],
    ["no types", { types: [] }, "types", /from 1/],
    ["a type twice", { types: ["a", "a"] }, "types", /twice/],
    ["a type without a name", { types: [" a"] }, "types", /white space/],
    ["a parent that is none", { parent: { name: "x" } }, "parent", /defineWorkflow.*"self"/],
    ["a parent by name", { parent: "order" }, "parent", /defineWorkflow/],
    ["data that is no schema", { data: { cents: "number" } }, "data", /Standard Schema/],
    [
      "an unknown move when children end",
      { whenChildrenEnd: "end" },
      "whenChildrenEnd",
      /no move 'end'/,
    ],
    ["a retention that is none", { keep: "for ever" }, "keep", /duration/],
  ];
  for (const [what, facts, field, words] of wrong) {
    test(`${what} is refused`, () => {
      assert.throws(() => define(facts), refused(field, words));
    });
  }

  test("nothing at all is refused", () => {
    assert.throws(() => defineWorkflow(undefined as never), refused("options", /object/));
  });

  test("a final state may have no limit, for there is not a move of it", () => {
    const states = {
      ...plain.states,
      done: { final: true, limit: { after: "1s", move: "finish" } },
    };
    assert.throws(() => define({ states }), refused("states.done", /Moves: none/));
  });

  test("omitted fields have defaults", () => {
    const { version, types, parent, nests, data, whenChildrenEnd, keepMs } = define({});
    assert.deepEqual(
      [version, types, parent, nests, data, whenChildrenEnd, keepMs],
      [1, ["order"], null, false, null, null, null],
    );
  });

  test("the stored form contains what the database checks", () => {
    const above = define({ name: "cart" });
    const workflow = define({
      version: 3,
      types: ["a", "b"],
      parent: above,
      data: z.object({}),
      states: { open: { limit: { after: "1m", move: "finish" } }, paid: {}, done: { final: true } },
      moves: {
        pay: { from: "open", to: "paid", guard: () => true },
        finish: { from: ["open", "paid", "open"], to: "done" },
      },
      keep: "1s",
    });
    assert.deepEqual(declarationOf(workflow), {
      name: "order",
      version: 3,
      parent: "cart",
      keepMs: 1_000,
      types: ["a", "b"],
      states: [
        { name: "open", isInitial: true, isFinal: false },
        { name: "paid", isInitial: false, isFinal: false },
        { name: "done", isInitial: false, isFinal: true },
      ],
      moves: [
        { name: "pay", from: "open", to: "paid" },
        { name: "finish", from: "open", to: "done" },
        { name: "finish", from: "paid", to: "done" },
      ],
    });
    assert.equal(declarationOf(define({ parent: "self" })).parent, "order");
  });
});

function many(count: number, make: () => object): Record<string, object> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`s${n}`, make()]));
}
