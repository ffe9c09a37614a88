import { defineTask } from "holdfast";
import { drizzle } from "drizzle-orm/node-postgres";
import { eq } from "drizzle-orm";
import type { PoolClient } from "pg";
import { invoices, orders } from "./tables.ts";

/** Pays once, whatever happens, then writes the order and its invoice together with the end of the job. */
export const pay = defineTask({
  name: "order.pay",
  run: async (input: { order: string; cents: number }, ctx) => {
    await ctx.progress(0.5, "asking the bank");
    const receipt = await ctx.effect("charge", async () => `paid ${input.cents}`);
    await ctx.commit("bill", async (tx) => {
      const db = drizzle(tx.client as PoolClient);
      await db.update(orders).set({ state: receipt }).where(eq(orders.id, input.order));
      await db.insert(invoices).values({ order: input.order, cents: input.cents });
    });
    return { receipt };
  },
});
