/**
 * What the compiler promises about workflows and items. Compiled by `npm run check`, never run.
 *
 * A line under `@ts-expect-error` must not compile; if it does, the directive itself is the error.
 */
import * as z from "zod";
import type { Committed } from "../../src/core/task.ts";
import { type Context, defineTask, type Holdfast } from "../../src/index.ts";
import {
  defineWorkflow,
  type Item,
  type ItemRecord,
  type Workflow,
} from "../../src/workflows/index.ts";

type IsAny<T> = 0 extends 1 & T ? true : false;

/** True when both are the same type. `any` fits everywhere, so it is the same as nothing but itself. */
type Same<A, B> = IsAny<A> extends IsAny<B> ? ([A, B] extends [B, A] ? true : false) : false;

declare const holdfast: Holdfast;
declare const ctx: Context;

const ship = defineTask({ name: "ship", run: (id: string) => id });

// ── A definition: its states, moves, types and data are known by name ────────────────────────────

export const order = defineWorkflow({
  name: "order",
  types: ["order", "return"],
  initial: "open",
  data: z.object({ cents: z.number(), note: z.string().optional() }),
  states: {
    open: { limit: { after: "1h", move: "expire" } },
    paid: {
      enter: ({ item, enqueue }) => {
        void (true satisfies Same<typeof item.status, OrderState>);
        void (true satisfies Same<typeof item.data.cents, number>);
        void (true satisfies Same<typeof item.type, "order" | "return">);
        enqueue(ship, item.id, { delay: "1m" });
        // @ts-expect-error -- the task takes a text
        enqueue(ship, item.data.cents);
        // @ts-expect-error -- a job of an item has no key
        enqueue(ship, item.id, { key: "k" });
      },
      whenJobsEnd: { done: "finish" },
    },
    done: { final: true },
  },
  moves: {
    pay: {
      from: "open",
      to: "paid",
      guard: ({ item, patch }) => {
        void (true satisfies Same<typeof patch.cents, number | undefined>);
        return item.data.cents > 0 || "it has no price";
      },
    },
    finish: { from: ["open", "paid"], to: "done" },
    expire: { from: "open", to: "done" },
  },
  whenChildrenEnd: ({ progress }) => (progress.length > 0 ? "finish" : null),
});
type OrderState = "open" | "paid" | "done";
type OrderMove = "pay" | "finish" | "expire";
interface OrderData {
  cents: number;
  note?: string | undefined;
}
void (true satisfies Same<
  typeof order,
  Workflow<OrderState, OrderMove, OrderData, "order" | "return">
>);

const states = { open: {}, done: { final: true } };
const moves = { finish: { from: "open", to: "done" } } as const;

defineWorkflow({
  name: "wrong",
  // @ts-expect-error -- there is no state 'new'
  initial: "new",
  states,
  moves,
});
defineWorkflow({
  name: "wrong",
  initial: "open",
  states,
  // @ts-expect-error -- there is no state 'gone'
  moves: { finish: { from: "open", to: "gone" } },
});
defineWorkflow({
  name: "wrong",
  initial: "open",
  states,
  // @ts-expect-error -- there is no state 'new'
  moves: { finish: { from: ["open", "new"], to: "done" } },
});
defineWorkflow({
  name: "wrong",
  initial: "open",
  // @ts-expect-error -- there is no move 'end'
  states: { open: { limit: { after: "1s", move: "end" } }, done: { final: true } },
  moves,
});
defineWorkflow({
  name: "wrong",
  initial: "open",
  // @ts-expect-error -- there is no move 'end'
  states: { open: { whenJobsEnd: { done: "end" } }, done: { final: true } },
  moves,
});
defineWorkflow({
  name: "wrong",
  initial: "open",
  states,
  moves,
  // @ts-expect-error -- there is no move 'end'
  whenChildrenEnd: "end",
});
defineWorkflow({
  name: "wrong",
  initial: "open",
  states,
  moves,
  // @ts-expect-error -- there is no move 'end'
  whenChildrenEnd: () => "end",
});

export const line = defineWorkflow({ name: "line", parent: order, initial: "open", states, moves });
export const folder = defineWorkflow({
  name: "folder",
  parent: "self",
  initial: "open",
  states,
  moves,
});
// @ts-expect-error -- a parent is a workflow, not its name
defineWorkflow({ name: "wrong", parent: "order", initial: "open", states, moves });

// ── Items: a move, a state, a type or a field that is not declared does not compile ──────────────

export async function items(): Promise<void> {
  const { workflows } = holdfast;
  const item = await workflows.start(order, { data: { cents: 1 }, type: "return", actor: "ada" });
  void (true satisfies Same<
    typeof item,
    Item<OrderState, OrderMove, OrderData, "order" | "return">
  >);
  void (true satisfies Same<typeof item.status, OrderState>);
  void (true satisfies Same<typeof item.data, OrderData>);

  // @ts-expect-error -- no actor
  await workflows.start(order, { data: { cents: 1 } });
  // @ts-expect-error -- `cents` is missing
  await workflows.start(order, { data: {}, actor: "ada" });
  // @ts-expect-error -- a text is no price
  await workflows.start(order, { data: { cents: "1" }, actor: "ada" });
  // @ts-expect-error -- there is no field `colour`
  await workflows.start(order, { data: { cents: 1, colour: "red" }, actor: "ada" });
  // @ts-expect-error -- there is no type 'parcel'
  await workflows.start(order, { data: { cents: 1 }, type: "parcel", actor: "ada" });

  const moved = await item.move("pay", { actor: ctx, patch: { note: "paid" }, expect: 1 });
  void (true satisfies Same<typeof moved, typeof item>);
  // @ts-expect-error -- there is no move 'steal'
  await item.move("steal", { actor: "ada" });
  // @ts-expect-error -- no actor
  await item.move("pay", {});
  // @ts-expect-error -- there is no field `colour`
  await item.move("pay", { actor: "ada", patch: { colour: "red" } });
  await item.update({ note: undefined }, { actor: "ada" });
  // @ts-expect-error -- a text is no price
  await item.update({ cents: "1" }, { actor: "ada" });
  // @ts-expect-error -- there is no status 'gone'
  if (item.status === "gone") return;

  await workflows.list(order, { status: "paid", tenant: "acme" });
  // @ts-expect-error -- there is no state 'gone'
  await workflows.list(order, { status: "gone" });
  const change = { id: item.id, move: "finish", patch: { cents: 2 } } as const;
  await workflows.updateChildren(order, item.id, [change], { actor: "ada" });
  // @ts-expect-error -- there is no move 'steal'
  await workflows.updateChildren(order, item.id, [{ ...change, move: "steal" }], { actor: "ada" });
  // @ts-expect-error -- there is no move 'steal'
  await workflows.updateChild(order, item.id, { move: "steal", actor: "ada" });
  await workflows.updateChild(line, item.id, {
    move: "finish",
    actor: "ada",
    parent: { patch: { note: "x" } },
  });
  await holdfast.within(null).workflows.start(line, { data: { any: 1 }, parent: item, actor: ctx });
  await holdfast.startWorker({ tasks: [ship], workflows: [order, line, folder] });
  // @ts-expect-error -- a workflow, not its name
  await holdfast.startWorker({ tasks: [ship], workflows: ["order"] });
}

// ── A commit gives the record of an item; anything else as it is ─────────────────────────────────

export async function commits(): Promise<void> {
  type OrderRecord = ItemRecord<OrderState, OrderData, "order" | "return">;
  const { workflows } = holdfast.within(null);
  const paid = await ctx.commit("pay", () =>
    workflows.change(order, "id", { move: "pay", actor: ctx }),
  );
  void (true satisfies Same<typeof paid, OrderRecord>);
  // @ts-expect-error -- a record has no moves
  await paid.move("finish", { actor: ctx });
  const all = await ctx.commit("list", () => workflows.list(order));
  void (true satisfies Same<typeof all, OrderRecord[]>);
  const perhaps = await ctx.commit("perhaps", async () => (await workflows.list(order))[0] ?? null);
  void (true satisfies Same<typeof perhaps, OrderRecord | null>);
  const kind: { kind: "a" } = await ctx.commit("literal", () => ({ kind: "a" }));
  const texts: string[] = await ctx.commit("empty", () => []);
  void [kind, texts];
  const none = ctx.commit("none", async () => {});
  void (true satisfies Same<typeof none, Promise<void>>);
  const parsed = await ctx.commit("any", () => JSON.parse("1"));
  void (true satisfies IsAny<typeof parsed>);
}

export function committed<T>(body: () => Promise<T>): Promise<Committed<T>> {
  return ctx.commit("generic", body);
}
