/** What is changed: parts of an order, which go to and fro. */
import { defineWorkflow } from "../../src/workflows/index.ts";

export const order = defineWorkflow({
  name: "bench.order",
  initial: "open",
  states: { open: {}, done: { final: true } },
  moves: { complete: { from: "open", to: "done" } },
  whenChildrenEnd: "complete",
});

export const part = defineWorkflow({
  name: "bench.part",
  parent: order,
  initial: "here",
  states: { here: {}, there: {}, gone: { final: true } },
  moves: {
    go: { from: "here", to: "there" },
    return: { from: "there", to: "here" },
    leave: { from: ["here", "there"], to: "gone" },
  },
});

export const ACTOR = "bench";
