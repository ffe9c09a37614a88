/** Isolated tasks, as an application has them: a module that only defines them. */
import { isMainThread, threadId } from "node:worker_threads";
import type { StandardSchemaV1 } from "@standard-schema/spec";
// Not from the index: every thread and process would load the whole library as TypeScript.
import { GiveUpError } from "../../src/core/errors.ts";
import { RetryIn } from "../../src/core/retry.ts";
import { defineEvent } from "../../src/core/event.ts";
import { type Context, defineTask } from "../../src/core/task.ts";
import { NotDoneError } from "../../src/steps/errors.ts";

const module = import.meta.url;
const retry = { maxAttempts: 2, backoff: { initial: 0 } };
const inThread = { in: "thread", module } as const;
const inProcess = { in: "process", module } as const;

/** What a task does to the thread or process that runs it. */
export type Deed = "exit" | "out of memory" | "loop" | "block" | "throw later" | "abort" | "echo";

const deeds: Readonly<Record<Deed, () => unknown>> = {
  exit: () => process.exit(3),
  "out of memory"() {
    const all: unknown[] = [];
    for (;;) all.push(Array.from({ length: 100_000 }, (_, index) => ({ index })));
  },
  loop() {
    for (;;);
  },
  block: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  "throw later": () =>
    new Promise(() => {
      setTimeout(() => {
        throw new Error("thrown in a timer");
      }, 1);
    }),
  abort: () => process.abort(),
  echo: () => `echo in a ${isMainThread ? "process" : "thread"}`,
};

function run({ deed }: { deed: Deed }): unknown {
  return deeds[deed]();
}

export const risky = defineTask({
  name: "risky",
  retry,
  isolation: { ...inProcess, memory: 32 },
  run,
});
export const riskyThread = defineTask({
  name: "risky-thread",
  retry,
  isolation: { ...inThread, memory: 32 },
  run,
});
export const looping = defineTask({
  name: "looping",
  retry,
  timeout: 100,
  isolation: inProcess,
  run,
});
export const loopingThread = defineTask({
  name: "looping-thread",
  retry,
  timeout: 100,
  isolation: inThread,
  run,
});

export const paid = defineEvent<{ amount: number }>({ name: "paid" });

const number: StandardSchemaV1<number> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof value === "number" ? { value } : { issues: [{ message: "is no number" }] },
  },
};

export const double = defineTask({ name: "double", input: number, run: (value) => value * 2 });

/** Uses everything that a context has. */
async function everything({ note }: { note: string }, ctx: Context): Promise<unknown> {
  ctx.progress({ done: 1, total: 4 }, "begun");
  ctx.log("a line", { note });
  ctx.log.warn("a warning", { note });
  ctx.report("numbers", [1, 2, 3]);
  const pair = await Promise.all([
    ctx.step("both", () => `a ${note}`),
    ctx.step("both", async () => `b ${note}`),
  ]);
  const key = await ctx.effect("charge", (effect) => effect.key);
  const rows = await ctx.commit("rows", (tx) => tx.query("select 1 as one"));
  const mapped = await ctx.step("local", () => ({ nothing: undefined }));
  await ctx.sleep("short", 50);
  const { amount } = await ctx.event(paid, note);
  const doubled = await ctx.call(double, amount);
  const { id, task, queue, attempt, maxAttempts, idempotencyKey, traceId, fence } = ctx;
  const facts = { id, task, queue, attempt, maxAttempts, idempotencyKey, traceId, fence };
  return { pair, key, rows, mapped, amount, doubled, facts };
}

export const everythingInThread = defineTask({
  name: "everything-thread",
  isolation: inThread,
  run: everything,
});
export const everythingInProcess = defineTask({
  name: "everything-process",
  isolation: inProcess,
  run: everything,
});

/** What a task throws. */
export type Thrown = "give up" | "retry in" | "snooze" | "own" | "step" | "nested" | "not done";

export const throwing = defineTask({
  name: "throwing",
  retry: { maxAttempts: 3, backoff: { initial: 0 }, maxSnoozes: 1 },
  isolation: inThread,
  async run({ thrown }: { thrown: Thrown }, ctx) {
    class OwnError extends Error {
      override readonly name = "OwnError";
    }
    switch (thrown) {
      case "give up":
        throw new GiveUpError("hopeless");
      case "retry in":
        if (ctx.attempt === 1) return new RetryIn(20, new OwnError("busy"));
        return "retried";
      case "snooze": {
        try {
          ctx.snooze(20, "not yet");
        } catch {
          // It is snoozed all the same.
        }
        return "the snooze was swallowed";
      }
      case "own":
        throw Object.assign(new OwnError("mine"), { code: "MINE", cause: new Error("below") });
      case "step":
        return ctx
          .step("fails", () => {
            throw new OwnError("in a step");
          })
          .catch((error: unknown) => (error instanceof OwnError ? "the same error" : "a copy"));
      case "nested":
        return ctx.step("outer", () => ctx.step("inner", () => 1));
      case "not done":
        return ctx.effect("try", () => {
          if (ctx.attempt === 1) throw new NotDoneError("nothing happened");
          return "done now";
        });
    }
  },
});

/** Waits until its signal aborts, and says why; or ignores it. */
export const waiting = defineTask({
  name: "waiting",
  isolation: inProcess,
  retry: { maxAttempts: 1 },
  run: ({ ignores }: { ignores: boolean }, ctx) =>
    new Promise((_resolve, reject) => {
      ctx.log(`process ${process.pid}`);
      const keep = setInterval(() => {}, 1_000);
      if (ignores) return;
      ctx.signal.addEventListener("abort", () => {
        clearInterval(keep);
        ctx.log(`aborted: ${(ctx.signal.reason as { code: string }).code}`);
        reject(ctx.signal.reason as Error);
      });
    }),
});

export const where = defineTask({
  name: "where",
  isolation: { ...inThread, maxJobs: 2 },
  run: () => threadId,
});

/** Reads what it waited for, inside of a step too. */
export const joining = defineTask({
  name: "joining",
  isolation: inThread,
  async run(_input: null, ctx) {
    const results = await ctx.step("results", () => ctx.results(double));
    const seen: string[] = [];
    for await (const { name, status, result } of ctx.dependencies()) {
      seen.push(`${name} ${status} ${String(result)}`);
    }
    return { results, seen };
  },
});

/** Its definition names a module that does not export it. */
export const lost = defineTask({
  name: "lost",
  retry: { maxAttempts: 1 },
  isolation: { in: "thread", module: new URL("observe.ts", import.meta.url) },
  run: () => null,
});

/** Its module starts a worker when it is imported. */
export const recursive = defineTask({
  name: "recursive",
  retry: { maxAttempts: 1 },
  isolation: { in: "thread", module: new URL("isolated-recursive.ts", import.meta.url) },
  run: () => null,
});

export const withDateInThread = defineTask({
  name: "with-date",
  isolation: inThread,
  run: (): unknown => ({ at: new Date(0) }),
});

/** One of its steps takes a while, and the next fails. */
export async function runTimed(_: unknown, ctx: Context): Promise<void> {
  await ctx.step("quote", () => new Promise((resolve) => setTimeout(resolve, 60, 499)));
  await ctx.step("label", async () => {
    await new Promise((resolve) => setTimeout(resolve, 40));
    throw new TypeError("no answer from the carrier");
  });
}

const once = { maxAttempts: 1 } as const;
export const timedHere = defineTask({ name: "timed-here", retry: once, run: runTimed });
export const timedThread = defineTask({
  name: "timed-thread",
  retry: once,
  isolation: inThread,
  run: runTimed,
});
export const timedProcess = defineTask({
  name: "timed-process",
  retry: once,
  isolation: inProcess,
  run: runTimed,
});
