/**
 * The tasks of a run: with steps, effects, rows, naps, events and calls. Each logs an act before it, and returns its
 * epoch: the row itself shows only whose lease it was.
 */
import { defineEvent } from "../core/event.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import { type AnyTask, type Context, defineTask } from "../core/task.ts";
import { Bank } from "./bank.ts";
import type { ProcessLog } from "./process-log.ts";
import type { Input } from "./workload.ts";

export const LEDGER = "verify_ledger";

export const packed = defineEvent<{ n: number }>({ name: "packed" });

const FLAKY_TRIES = 2;

/** A kill is not the job's fault, so no job may run out of attempts because of kills. */
const INNOCENT = { maxAttempts: 1_000, backoff: { initial: "10ms", max: "200ms" } } as const;

const work = (ms: number): Promise<void> => sleep(systemRuntime, ms);

const child = defineTask({
  name: "child",
  retry: INNOCENT,
  async run({ n, ms }: Input) {
    await work(ms);
    return n * 2;
  },
});

export const plain = defineTask({
  name: "plain",
  retry: INNOCENT,
  async run({ n, ms }: Input, ctx) {
    await work(ms);
    return { n, epoch: ctx.fence.epoch };
  },
});

/** Tasks that save nothing, and tasks that only wait. */
const simple: readonly AnyTask[] = [
  child,
  plain,
  defineTask({
    name: "flaky",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      await work(ms);
      if (ctx.attempt <= FLAKY_TRIES) throw new Error("not yet");
      return { n, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "governed",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      await work(ms);
      return { n, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "tick",
    retry: INNOCENT,
    run: ({ n }: Input, ctx) => ({ n, epoch: ctx.fence.epoch }),
  }),
  defineTask({
    name: "flow",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      await work(ms);
      // How many jobs lead to this one, along all ways: shows that it reads the results of all.
      let ways = 1;
      for await (const { result } of ctx.dependencies()) ways += (result as { ways: number }).ways;
      return { n, ways, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "doomed",
    retry: { ...INNOCENT, maxAttempts: 2 },
    run(): { n: number } {
      throw new Error("never");
    },
  }),
  defineTask({
    name: "awaiting",
    retry: INNOCENT,
    async run({ n }: Input, ctx) {
      const said = await ctx.event(packed, String(n));
      return { n: said.n, epoch: ctx.fence.epoch };
    },
  }),
  defineTask({
    name: "parent",
    retry: INNOCENT,
    async run({ n, ms }: Input, ctx) {
      const doubled = await ctx.call(child, { n, ms });
      return { n, child: doubled, epoch: ctx.fence.epoch };
    },
  }),
];

export function tasksOf(parts: {
  readonly processLog: ProcessLog;
  readonly bank: string;
}): AnyTask[] {
  const { processLog, bank } = parts;
  const begin = ({ fence: { id, epoch } }: Context, step: string): void =>
    processLog.say({ f: "body", job: id, epoch, step });
  const look = async (ctx: Context, key: string): Promise<number | null> => {
    const found = await Bank.find(bank, key);
    const { id, epoch } = ctx.fence;
    processLog.say({ f: "asked", job: id, epoch, step: "charge/1", found: found !== null });
    return found;
  };
  const charge = (ctx: Context, n: number, key: string): Promise<number> => {
    begin(ctx, "charge/1");
    return Bank.charge(bank, key, n * 100);
  };
  return [
    ...simple,
    defineTask({
      name: "order",
      retry: INNOCENT,
      async run({ n, ms }: Input, ctx) {
        ctx.log("begins", { n });
        const cents = await ctx.step("quote", async () => {
          begin(ctx, "quote/1");
          await work(ms);
          return n * 100;
        });
        await ctx.effect("charge", ({ key }) => charge(ctx, n, key), {
          verify: ({ key }) => look(ctx, key),
        });
        await ctx.commit("book", (tx) => {
          begin(ctx, "book/1");
          const { id, epoch } = ctx.fence;
          return tx.query(`insert into ${LEDGER} (job_id, epoch) values ('${id}', ${epoch})`);
        });
        ctx.progress(1);
        return { n, paid: cents, epoch: ctx.fence.epoch };
      },
    }),
    defineTask({
      name: "doubtful",
      retry: INNOCENT,
      async run({ n }: Input, ctx) {
        await ctx.effect("charge", ({ key }) => charge(ctx, n, key));
        return { n, epoch: ctx.fence.epoch };
      },
    }),
    defineTask({
      name: "nap",
      retry: INNOCENT,
      async run({ n, ms }: Input, ctx) {
        await ctx.step("before", () => begin(ctx, "before/1"));
        await ctx.sleep("nap", ms);
        await ctx.step("after", () => begin(ctx, "after/1"));
        return { n, epoch: ctx.fence.epoch };
      },
    }),
  ];
}
