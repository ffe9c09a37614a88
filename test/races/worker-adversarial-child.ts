/**
 * A worker whose tasks throw at the worst moments. It says what came of it, and ends by itself.
 *
 * Its role names the moment. Beside the bad job runs a good one, which must not notice.
 */
import { setTimeout as pause } from "node:timers/promises";
import { type Context, defineTask, type Holdfast } from "../../src/index.ts";
import { until } from "../worker/observe.ts";
import { config, openHere, say, startHere } from "./worker-child.ts";

const LONG_MS = 60_000;

/** Neither its class nor its message can be asked for. */
function untouchable(): Error {
  const trap = (): never => {
    throw new Error("trap");
  };
  return new Proxy(new Error("hidden"), {
    getPrototypeOf: trap,
    get: trap,
    has: trap,
    ownKeys: trap,
  });
}

/** Errors that come when the job is cancelled. */
const onAbort: Record<string, (signal: AbortSignal) => unknown> = {
  "listener throws": (signal) =>
    signal.addEventListener("abort", () => {
      throw new Error("from an abort listener");
    }),
  "listener rejects": (signal) =>
    void new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(new Error("a forgotten promise")));
    }),
  "async listener rejects": (signal) =>
    // oxlint-disable-next-line typescript/no-misused-promises -- people do
    signal.addEventListener("abort", async () => {
      throw new Error("from an async abort listener");
    }),
  "forgotten timer": (signal) => void pause(LONG_MS, null, { signal }),
};

const badRuns = Promise.withResolvers<void>();
const mayEnd = Promise.withResolvers<string>();

const bad = defineTask({
  name: "bad",
  retry: { maxAttempts: 1 },
  run(_input: null, { signal }: Context) {
    onAbort[config.role]?.(signal);
    if (config.role === "untouchable from a timer") {
      setTimeout(() => {
        throw untouchable();
      }, 1);
    }
    badRuns.resolve();
    return new Promise(() => {});
  },
});

const good = defineTask({ name: "good", run: () => mayEnd.promise });
const quick = defineTask({ name: "quick", queue: "quick", run: () => null });

async function besideAGoodOne(holdfast: Holdfast): Promise<void> {
  const undisturbed = await holdfast.enqueue(good, null);
  const disturbed = await holdfast.enqueue(bad, null);
  await badRuns.promise;
  if (config.role in onAbort) await disturbed.cancel();
  await disturbed.result({ timeout: "10s" }).catch(() => null);
  say("bad", { status: (await disturbed.get()).status });
  mayEnd.resolve("undisturbed");
  say("good", { result: await undisturbed.result({ timeout: "10s" }) });
}

/** The listener is called while one attempt's end starts the next: it belongs to neither. */
async function ownBug(holdfast: Holdfast): Promise<void> {
  const worker = await holdfast.startWorker({ tasks: [quick], concurrency: 1 });
  let started = 0;
  worker.on("job:started", () => {
    started += 1;
    if (started < 4) return;
    setTimeout(() => {
      throw new Error("a bug of the application");
    }, 1);
  });
  await holdfast.enqueueMany(quick, [null, null, null, null]);
  await until("all have started", () => started === 4);
  await until("the process has ended", () => false, 2_000).catch(() => null);
}

const holdfast = await openHere();
await startHere(holdfast, [bad, good]);
if (config.role === "bug in a listener") await ownBug(holdfast);
else await besideAGoodOne(holdfast);
await holdfast.close();
say("end");
