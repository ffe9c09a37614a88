/** An order bot: charge, book, wait for the warehouse, notify. However often it dies, no order is done twice. */
import { DatabaseSync } from "node:sqlite";
import { defineEvent, defineTask, openHoldfast } from "holdfast";

/** A bank that knows idempotency keys, and loses the connection right after its first charge. */
const bank = {
  charges: new Map<string, number>(),
  charge(cents: number, key: string): string {
    const isFirst = this.charges.size === 0;
    this.charges.set(key, cents);
    if (isFirst) throw new Error("the bank hung up");
    return `paid ${cents}`;
  },
  find(key: string): string | null {
    const cents = this.charges.get(key);
    return cents === undefined ? null : `paid ${cents}`;
  },
};

const packed = defineEvent<{ tracking: string }>({ name: "packed" });

const notify = defineTask({
  name: "customer.notify",
  run: (text: string) => `told the customer: ${text}`,
});

const ship = defineTask({
  name: "order.ship",
  retry: { maxAttempts: 5, backoff: { initial: "10ms" } },
  async run(order: { id: string; cents: number }, ctx) {
    // Kept: an attempt that begins again gets the same quote.
    const cents = await ctx.step("quote", () => order.cents + 300);
    // Written down before and after. When it is not known whether it happened, the bank is asked.
    const paid = await ctx.effect("charge", ({ key }) => bank.charge(cents, key), {
      verify: ({ key }) => bank.find(key),
    });
    // Your rows and the step in one transaction, while the job is still ours.
    await ctx.commit("book", (tx) =>
      tx.query("insert into shipment values (?, ?)", [order.id, paid]),
    );
    // Gives its place back; survives restarts.
    await ctx.sleep("cooling off", "50ms");
    // It may be emitted before or after the job waits for it.
    const { tracking } = await ctx.event(packed, order.id, { timeout: "3d" });
    return ctx.call(notify, `order ${order.id} is on its way as ${tracking}, ${paid}`);
  },
});

const db = new DatabaseSync("shop.db");
db.exec("create table if not exists shipment (id text, paid text)");
await using holdfast = await openHoldfast("sqlite:shop.db");
const worker = await holdfast.startWorker({ tasks: [ship, notify], signals: true });
worker.on("job:retrying", ({ task, error }) => console.log(`${task}: ${String(error)}`));

const job = await holdfast.enqueue(ship, { id: "42", cents: 1999 }, { key: "order-42" });
await holdfast.emit(packed, "42", { tracking: "T-42" }); // the warehouse is fast
console.log(await job.result({ timeout: "10s" }));
const [{ shipments }] = db.prepare("select count(*) as shipments from shipment").all() as [
  { shipments: number },
];
console.log(`charges: ${bank.charges.size}, shipments: ${shipments}`);
db.close();
