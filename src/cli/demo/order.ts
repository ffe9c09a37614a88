/** The demo's task: pack an order, then book it. */
import { systemRuntime, sleep } from "../../core/runtime.ts";
import { defineTask, type Task } from "../../core/task.ts";
import type { Ledger } from "./ledger.ts";

export interface Order {
  readonly number: number;
  readonly cents: number;
  /** How long packing takes: long enough for a worker to be killed in the middle. */
  readonly packingMs: number;
}

const CENTS_MAX = 10_000;
const PACKING_MS = { least: 100, most: 400 };

/** High enough that no kill uses up the last attempt: the demo kills at random, and orders are innocent. */
const ATTEMPTS = 50;

export function makeOrders(orders: number, random: () => number): Order[] {
  const { least, most } = PACKING_MS;
  return Array.from({ length: orders }, (_, index) => ({
    number: index + 1,
    cents: 1 + Math.floor(random() * CENTS_MAX),
    packingMs: least + Math.floor(random() * (most - least)),
  }));
}

/** It never looks at `ctx.signal`: a worker that was frozen will try to finish what is no longer its own. */
export function bookingTask(ledger: Ledger): Task<Order, { booked: boolean }> {
  return defineTask({
    name: "order.book",
    retry: { attempts: ATTEMPTS, first: "100ms", most: "1s" },
    async run(order: Order, ctx) {
      await sleep(systemRuntime, order.packingMs);
      return { booked: await ledger.book(order, ctx.fence) };
    },
  });
}
