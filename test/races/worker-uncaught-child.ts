/**
 * A worker whose tasks throw where no handler can catch it, and an application that throws on its own.
 *
 * What it shall do stands in its role. It says what became of everything, and ends by itself.
 */
import { EventEmitter } from "node:events";
import { defineTask, type Holdfast } from "../../src/index.ts";
import { until } from "../worker/observe.ts";
import { config, openHere, say, startHere } from "./worker-child.ts";

const strays: Record<string, (message: string) => unknown> = {
  "a timer": (message) => setTimeout(() => raise(message), 1),
  "an interval": (message) => {
    const interval = setInterval(() => {
      clearInterval(interval);
      raise(message);
    }, 1);
  },
  "an immediate": (message) => setImmediate(() => raise(message)),
  "the next tick": (message) => process.nextTick(() => raise(message)),
  "a microtask": (message) => queueMicrotask(() => raise(message)),
  "an emitter without a listener for errors": (message) => {
    const emitter = new EventEmitter();
    setTimeout(() => emitter.emit("error", new Error(message)), 1);
  },
  "a listener of an emitter": (message) => {
    const emitter = new EventEmitter().on("data", () => raise(message));
    setTimeout(() => emitter.emit("data"), 1);
  },
  "a promise that is not awaited": (message) => void Promise.reject(new Error(message)),
  "an async function that is not awaited": (message) => {
    void (async () => {
      await pause(1);
      raise(message);
    })();
  },
};

function raise(message: string): never {
  throw new Error(message);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Throws astray, and would never end by itself. */
const stray = defineTask({
  name: "stray",
  retry: { maxAttempts: 1 },
  run(where: string) {
    strays[where]?.(`from ${where}`);
    return new Promise(() => {});
  },
});

/** Returns at once, and throws astray when it has long been done. */
const afterwards = defineTask({
  name: "afterwards",
  run() {
    setTimeout(() => raise("after the end"), 50);
    return "done before";
  },
});

const simple = defineTask({ name: "simple", queue: "simple", run: (n: number) => n });

/** Runs beside all the others. */
const runs = Promise.withResolvers<void>();
const mayEnd = Promise.withResolvers<string>();
const neighbour = defineTask({
  name: "neighbour",
  run() {
    runs.resolve();
    return mayEnd.promise;
  },
});

async function stayCalm(holdfast: Holdfast): Promise<void> {
  const beside = await holdfast.enqueue(neighbour, null);
  await runs.promise;
  for (const where of Object.keys(strays)) await failAstray(holdfast, where);
  const done = await holdfast.enqueue(afterwards, null);
  const result = await done.result();
  await until("the error was thrown", () => wasThrown("after the end"));
  say("afterwards", { result, status: (await done.get()).status });
  mayEnd.resolve("undisturbed");
  say("neighbour", { result: await beside.result() });
}

async function failAstray(holdfast: Holdfast, where: string): Promise<void> {
  const job = await holdfast.enqueue(stray, where);
  const error = await job.result({ timeout: "2s" }).then(() => null, String);
  const { status, lastError } = await job.get();
  say("stray", { where, status, message: lastError?.message, error });
}

const roles: Record<string, (holdfast: Holdfast) => Promise<unknown>> = {
  calm: stayCalm,
  "foreign exception": async () => {
    setTimeout(() => raise("from the application"), 1);
    await until("the process has ended", () => false);
  },
  "foreign rejection": async () => {
    void Promise.reject(new Error("from the application"));
    await until("the process has ended", () => false);
  },
  "own listener": async (holdfast) => {
    process.on("uncaughtException", ({ message }, origin) => {
      thrown.add(message);
      say("heard", { message, origin });
    });
    setTimeout(() => raise("an exception"), 1);
    await until("it was thrown", () => wasThrown("an exception"));
    await failAstray(holdfast, "a timer");
    void Promise.reject(new Error("a rejection"));
    await until("it was thrown", () => wasThrown("a rejection"));
    await failAstray(holdfast, "the next tick");
    await failAstray(holdfast, "a promise that is not awaited");
  },
  "bad listener": async (holdfast) => {
    const worker = await holdfast.startWorker({ tasks: [simple] });
    // oxlint-disable-next-line typescript/no-misused-promises -- people do
    worker.on("job:done", async () => raise("from an async listener"));
    for (const n of [1, 2, 3]) await (await holdfast.enqueue(simple, n)).result();
  },
};

/** Node tells about every error here before anybody can do something about it. */
const thrown = new Set<string>();
process.on("uncaughtExceptionMonitor", (error) => void thrown.add(error.message));
function wasThrown(message: string): boolean {
  return thrown.has(message);
}

const holdfast = await openHere();
await startHere(holdfast, [stray, afterwards, neighbour]);
await roles[config.role]?.(holdfast);
await holdfast.close();
say("end");
