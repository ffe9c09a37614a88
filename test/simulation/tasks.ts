/** The work: tasks that use everything a task can, take time, fail now and then, and write down what they did. */
import { defineEvent, defineTask, GiveUpError } from "../../src/index.ts";
import type { Context, Task } from "../../src/core/task.ts";
import { sleep } from "../../src/core/runtime.ts";
import type { Bank } from "./bank.ts";
import type { Note } from "./history.ts";
import type { Machine } from "./machine.ts";
import { LEASE_MS, type Plan, type TaskName } from "./plan.ts";

export interface Input {
  readonly n: number;
  /** How long it sleeps. */
  readonly napMs: number;
  readonly cents: number;
}

export const packed = defineEvent<{ parcel: string }>({ name: "packed" });

/** Under which the event is said that the job waits for. */
export const eventKey = ({ n }: Input): string => `order-${n}`;

const WORK_MS = 250;

/** Where a task runs, and who is told. */
export interface Place {
  readonly machine: Machine;
  readonly plan: Plan;
  readonly bank: Bank;
  readonly note: (note: Pick<Note, "kind" | "job" | "epoch" | "name" | "value">) => void;
  readonly crash: () => void;
  /** Unique in the seed. */
  readonly token: (prefix: string) => string;
}

export type Tasks = Record<TaskName | "errand" | "killer" | "tick", Task<Input>>;

/** The tasks as one machine has them. */
export function tasksAt(place: Place): Tasks {
  const own = new Handlers(place);
  const { attempts } = place.plan;
  const retry = { maxAttempts: attempts, backoff: { initial: 100, max: 1_000 } };
  const timeout = place.plan.timeoutMs === 0 ? {} : { timeout: place.plan.timeoutMs };
  const task = (
    name: string,
    run: (input: Input, ctx: Context) => Promise<unknown>,
    more: object = {},
  ): Task<Input> => defineTask({ name, retry, ...more, run });
  const errand = task("errand", (input, ctx) => own.errand(input, ctx));
  return {
    errand,
    plain: task("plain", (input, ctx) => own.plain(input, ctx), timeout),
    steps: task("steps", (input, ctx) => own.steps(input, ctx)),
    beside: task("beside", (input, ctx) => own.beside(input, ctx)),
    pay: task("pay", (input, ctx) => own.pay(input, ctx, true)),
    trust: task("trust", (input, ctx) => own.pay(input, ctx, false)),
    ship: task("ship", (input, ctx) => own.ship(input, ctx)),
    nap: task("nap", (input, ctx) => own.nap(input, ctx)),
    hear: task("hear", (input, ctx) => own.hear(input, ctx)),
    boss: task("boss", (input, ctx) => own.boss(input, ctx, errand)),
    order: task("order", (input, ctx) => own.order(input, ctx, errand)),
    killer: task("killer", (input, ctx) => own.killer(input, ctx)),
    tick: task("tick", (input, ctx) => own.plain(input, ctx)),
  };
}

class Handlers {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  async plain({ n }: Input, ctx: Context): Promise<unknown> {
    await this.#work(ctx);
    return { n };
  }

  async errand({ n }: Input, ctx: Context): Promise<unknown> {
    await this.#work(ctx);
    return { n, token: this.#place.token("errand") };
  }

  async steps({ n }: Input, ctx: Context): Promise<unknown> {
    const kept: unknown[] = [];
    for (const name of ["first", "second", "third"]) {
      kept.push(await this.#step(ctx, name));
      await this.#work(ctx);
    }
    return { n, kept };
  }

  async beside({ n, napMs }: Input, ctx: Context): Promise<unknown> {
    const [left, right] = await Promise.all([
      this.#step(ctx, "left"),
      this.#step(ctx, "right"),
      this.#nap(ctx, napMs),
    ]);
    await this.#work(ctx);
    return { n, kept: [left, right] };
  }

  async pay({ n, cents }: Input, ctx: Context, asks: boolean): Promise<unknown> {
    await this.#work(ctx);
    const receipt = await this.#charge(ctx, cents, asks);
    await this.#work(ctx);
    return { n, receipt };
  }

  async ship({ n }: Input, ctx: Context): Promise<unknown> {
    await this.#work(ctx);
    await this.#book(ctx);
    await this.#work(ctx);
    return { n, shipped: true };
  }

  async nap({ n, napMs }: Input, ctx: Context): Promise<unknown> {
    await this.#nap(ctx, napMs);
    await this.#work(ctx);
    return { n };
  }

  async hear(input: Input, ctx: Context): Promise<unknown> {
    await this.#work(ctx);
    const heard = await ctx.event(packed, eventKey(input));
    await this.#work(ctx);
    return { n: input.n, heard };
  }

  async boss(input: Input, ctx: Context, errand: Task<Input>): Promise<unknown> {
    await this.#work(ctx);
    const child = await ctx.call(errand, input);
    await this.#work(ctx);
    return { n: input.n, child };
  }

  async order(input: Input, ctx: Context, errand: Task<Input>): Promise<unknown> {
    const kept = [await this.#step(ctx, "quote")];
    const receipt = await this.#charge(ctx, input.cents, true);
    await this.#book(ctx);
    await this.#nap(ctx, input.napMs);
    const heard = await ctx.event(packed, eventKey(input));
    const child = await ctx.call(errand, input);
    await this.#work(ctx);
    return { n: input.n, kept, receipt, shipped: true, heard, child };
  }

  /** Takes its machine with it, mostly. */
  async killer({ n }: Input, ctx: Context): Promise<unknown> {
    await this.#work(ctx);
    if (this.#place.machine.chance.isHit(0.7)) {
      this.#place.crash();
      await new Promise<never>(() => {});
    }
    return { n };
  }

  /** Takes a while; a task may notice that it shall stop, or not. Then it may fail. */
  async #work(ctx: Context): Promise<void> {
    const { machine } = this.#place;
    const { chance } = machine;
    const ms = this.#howLong(1);
    if (chance.isHit(0.5)) {
      await sleep(machine.runtime, ms, { signal: ctx.signal });
      ctx.signal.throwIfAborted();
    } else {
      await machine.work(ms, "work");
    }
    this.#mayFail();
  }

  /** Now and then longer than a lease. */
  #howLong(share: number): number {
    const { machine, plan } = this.#place;
    const isLong = machine.chance.isHit(plan.longWork * share);
    return isLong
      ? machine.chance.between(0.5, 2.5) * LEASE_MS
      : machine.chance.between(0, WORK_MS);
  }

  #mayFail(): void {
    const { machine, plan } = this.#place;
    if (!machine.chance.isHit(plan.failures)) return;
    throw machine.chance.isHit(0.1) ? new GiveUpError("hopeless") : new Error("it failed");
  }

  #step(ctx: Context, name: string): Promise<unknown> {
    const { machine, note, token } = this.#place;
    const of = { job: ctx.id, epoch: ctx.fence.epoch, name };
    return ctx.step(name, async () => {
      note({ kind: "called", ...of, value: ctx.signal.aborted });
      note({ kind: "body begins", ...of, value: null });
      await machine.work(this.#howLong(0.5), `step ${name}`);
      this.#mayFail();
      const value = token(name);
      note({ kind: "body ends", ...of, value });
      return value;
    });
  }

  #charge(ctx: Context, cents: number, asks: boolean): Promise<unknown> {
    const { machine, bank, note } = this.#place;
    const of = { job: ctx.id, epoch: ctx.fence.epoch, name: "charge" };
    const verify = async ({ key }: { key: string }): Promise<string | null> => {
      note({ kind: "called", ...of, value: ctx.signal.aborted });
      const found = await bank.find(machine, key);
      note({ kind: "verify", ...of, value: found });
      return found;
    };
    const act = async ({ key }: { key: string }): Promise<string> => {
      note({ kind: "called", ...of, value: ctx.signal.aborted });
      note({ kind: "act", ...of, value: key });
      const receipt = await bank.charge(machine, key, cents);
      note({ kind: "charged", ...of, value: receipt });
      return receipt;
    };
    return ctx.effect("charge", act, asks ? { verify } : {});
  }

  #book(ctx: Context): Promise<unknown> {
    const { machine, note } = this.#place;
    const { id, epoch, worker } = ctx.fence;
    return ctx.commit("book", async (tx) => {
      note({ kind: "called", job: id, epoch, name: "book", value: ctx.signal.aborted });
      await tx.query("insert into sim_shipment values (?, ?, ?)", [id, epoch, worker]);
      await machine.work(machine.chance.between(0, 20), "a transaction is open");
      this.#mayFail();
    });
  }

  async #nap(ctx: Context, ms: number): Promise<void> {
    await ctx.sleep("nap", ms);
    const of = { job: ctx.id, epoch: ctx.fence.epoch, name: "nap" };
    this.#place.note({ kind: "slept", ...of, value: ms });
  }
}
