/** A task and a workflow for tests of the API. */
import { defineTask } from "../../src/core/task.ts";
import { defineWorkflow, unchecked, type AnyWorkflow } from "../../src/workflows/workflow.ts";
import { z } from "zod";

export const ship = defineTask({
  name: "order.ship",
  queue: "orders",
  retry: { maxAttempts: 5 },
  input: z.object({ order: z.string() }),
  async run({ order }, ctx) {
    ctx.log("shipping", { order });
    await ctx.step("quote", () => ({ cents: 100 }));
    return { tracking: `T-${order}` };
  },
});

/** One that can be moved again and again. */
export const tally = defineWorkflow({
  name: "tally",
  data: unchecked<{ by?: string }>(),
  initial: "open",
  states: { open: {}, counted: {}, closed: { final: true } },
  moves: {
    count: { from: ["open", "counted"], to: "counted" },
    close: { from: "counted", to: "closed" },
  },
});

/** Parts of an order. */
export const part = (parent: AnyWorkflow) =>
  defineWorkflow({
    name: "part",
    parent,
    data: unchecked<{ sku: string }>(),
    initial: "open",
    states: { open: {}, packed: { final: true } },
    moves: { pack: { from: "open", to: "packed" } },
  });

export const order = defineWorkflow({
  name: "order",
  data: unchecked<{ cents: number; paidBy?: string }>(),
  initial: "open",
  states: { open: {}, paid: {}, shipped: { final: true } },
  moves: {
    pay: {
      from: "open",
      to: "paid",
      guard: ({ patch }) => patch.paidBy !== undefined || "say who paid",
    },
    ship: { from: "paid", to: "shipped" },
  },
});
