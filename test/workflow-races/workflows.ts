/** What is raced for: an order that is over when the last of its parts is. */
import { defineWorkflow } from "../../src/workflows/index.ts";

export const order = defineWorkflow({
  name: "race.order",
  initial: "open",
  states: { open: {}, done: { final: true } },
  moves: { complete: { from: "open", to: "done" } },
  whenChildrenEnd: "complete",
});

export const part = defineWorkflow({
  name: "race.part",
  parent: order,
  initial: "open",
  states: { open: {}, working: {}, parked: {}, done: { final: true } },
  moves: {
    begin: { from: "open", to: "working" },
    finish: { from: ["open", "working"], to: "done" },
    park: { from: "open", to: "parked" },
    /** No item is ever parked, so this is never allowed. */
    unpark: { from: "parked", to: "open" },
  },
});
