/** A worker whose database does not answer, or is locked by others: what it waits for, and for how long. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import { StoreBusyError } from "../../src/core/errors.ts";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import type { Outcome } from "../../src/core/job.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import type { TaskClient } from "../../src/app/holdfast.ts";
import { Attempt, type AttemptOwner } from "../../src/worker/attempt.ts";
import { nextId } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, until, withCode } from "./observe.ts";
import { mapParts, onPart, wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const TIMEOUT_MS = 300;
/** The database has two seconds when the limit is over; a machine that is busy needs some more. */
const AFTER_MS_MAX = 4_000;

/** A store whose verbs never answer while it hangs. */
function hanging(real: Store): { store: Store; state: { hangs: boolean }; release: () => void } {
  const freed = Promise.withResolvers<void>();
  const state = { hangs: false };
  const hang = (name: string, call: unknown): unknown => {
    if (typeof call !== "function") return undefined;
    if (["watch", "close", "load", "in"].includes(name)) return undefined;
    return async (...args: unknown[]): Promise<unknown> => {
      if (state.hangs) await freed.promise;
      return call(...args) as unknown;
    };
  };
  const store = onPart(
    mapParts(real, (part) => onPart(part, hang)),
    hang,
  );
  return { store, state, release: freed.resolve };
}

suite("stop", () => {
  test("holds its limit although the database does not answer", async () => {
    const { store, state, release } = hanging(await openStore("sqlite::memory:"));
    const holdfast = await openHoldfast(store);
    const started = Promise.withResolvers<void>();
    const task = defineTask({
      name: "long",
      run(_input: null, { signal }) {
        started.resolve();
        return new Promise<null>((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        });
      },
    });
    const worker = await holdfast.startWorker({ tasks: [task] });
    await holdfast.enqueue(task, null);
    await started.promise;
    state.hangs = true;
    const before = performance.now();
    await worker.stop({ timeout: TIMEOUT_MS });
    const tookMs = performance.now() - before;
    assert.ok(tookMs < TIMEOUT_MS + AFTER_MS_MAX, `it took ${tookMs} ms`);
    assert.equal(worker.status().state, "stopped");
    state.hangs = false;
    release();
    await holdfast.close();
  });
});

suite("startWorker", () => {
  const task = defineTask({ name: "work", run: () => null });

  async function startBusy(times: number): Promise<{ holdfast: Holdfast; tries: () => number }> {
    let tries = 0;
    const real = await openStore("sqlite::memory:");
    const store = wrapStore(real, () => ({
      workers: {
        async register(worker) {
          tries += 1;
          if (tries <= times) throw new StoreBusyError({ store: "jobs.db", waitedMs: 5_000 });
          return real.workers.register(worker);
        },
      },
    }));
    return { holdfast: await openHoldfast(store, { logger: log.logger }), tries: () => tries };
  }
  const log = keepLog();

  test("waits for a database that others keep locked, and says so once", async () => {
    const { holdfast, tries } = await startBusy(3);
    await holdfast.startWorker({ tasks: [task] });
    assert.equal(tries(), 4);
    const lines = log.lines.filter(({ message }) => message.startsWith("could not register"));
    assert.equal(lines.length, 1);
    await holdfast.close();
  });

  test("ends its wait when Holdfast is closed", async () => {
    const { holdfast, tries } = await startBusy(Number.POSITIVE_INFINITY);
    const starting = assert.rejects(holdfast.startWorker({ tasks: [task] }), withCode("CLOSED"));
    await until("it has tried again", () => tries() > 1);
    await holdfast.close();
    await starting;
  });
});

suite("an attempt", () => {
  test("whose task throws undefined where only the process can catch it failed with that", async () => {
    await using store = await openStore("sqlite::memory:").then((real) => ({
      real,
      [Symbol.asyncDispose]: () => real.close(),
    }));
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const task = defineTask({ name: "stray", run: () => new Promise<null>(() => {}) });
    const owner: AttemptOwner = {
      ended: (_attempt, outcome) => resolve(outcome),
      stray: () => {},
      stopRenewing: () => Promise.resolve(),
      renewAgain: () => {},
      checkLease: () => {},
    };
    const job = {
      id: nextId(),
      worker: "w",
      epoch: 1,
      queue: "default",
      task: "stray",
      payload: "null",
      priority: 0,
      attempt: 1,
      maxAttempts: 3,
      crashes: 0,
      enqueuedAt: 1,
      readyAt: 1,
      lockedUntil: 1,
    };
    const trustedUntil = Number.POSITIVE_INFINITY;
    const client = {} as TaskClient; // the task does not use it
    const parts = { runtime: systemRuntime, owner, store: store.real, newId: nextId, client };
    const attempt = new Attempt(parts, { job, task, trustedUntil });
    attempt.start();
    const thrown: unknown = undefined;
    attempt.fail(thrown);
    const outcome = await promise;
    const { message } = JSON.parse("error" in outcome ? (outcome.error ?? "") : "") as Error;
    assert.match(message, /undefined/);
    assert.doesNotMatch(message, /aborted/);
  });
});

suite("enqueueMany", () => {
  test("writes more jobs than fit one transaction in their order", async () => {
    const real = await openStore("sqlite::memory:");
    const written: unknown[] = [];
    let underWay = 0;
    const store = wrapStore(real, () => ({
      db: { pollCycles: 4 },
      jobs: {
        async enqueue(jobs) {
          underWay += 1;
          assert.equal(underWay, 1, "two batches at once");
          const enqueued = await real.jobs.enqueue(jobs);
          await new Promise((resolve) => setImmediate(resolve));
          written.push(jobs[0]?.payload);
          underWay -= 1;
          return enqueued;
        },
      },
    }));
    await using holdfast = await openHoldfast(store);
    const task = defineTask({ name: "count", run: (_n: number) => null });
    const inputs = Array.from({ length: 12_000 }, (_, n) => n);
    const jobs = await holdfast.enqueueMany(task, inputs);
    assert.deepEqual(written, ["0", "5000", "10000"]);
    assert.equal(new Set(jobs.map(({ id }) => id)).size, inputs.length);
  });
});
