import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { openStore } from "../../src/app/store.ts";
import { defineTask, GiveUpError, openHoldfast, type Worker } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { hear, keepLog, storyOf, until } from "./observe.ts";
import { wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

const failing = defineTask({
  name: "failing",
  retry: { maxAttempts: 2, backoff: { initial: "10s" } },
  run() {
    throw new RangeError("out of range");
  },
});

const hopeless = defineTask({
  name: "hopeless",
  run() {
    throw new GiveUpError("no");
  },
});

const patient = defineTask({
  name: "patient",
  run: (_input: null, { signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    }),
});

suite("the events of a worker about a job", () => {
  test("are emitted from its first job on, however long its registration takes", async () => {
    const slow = wrapStore(await openStore("sqlite::memory:"), (real) => ({
      workers: {
        async move(...args) {
          await pause(50);
          return real.workers.move(...args);
        },
      },
    }));
    await using holdfast = await openHoldfast(slow);
    const { id } = await holdfast.enqueue(echo, 1);
    const heard = hear(await holdfast.startWorker({ tasks: [echo] }));
    await until("the job is done", async () => (await holdfast.jobs.get(id))?.status === "done");
    await until("all is heard", () => storyOf(heard, id).length === 2);
    assert.deepEqual(storyOf(heard, id), ["job:started", "job:done"]);
  });

  test("name the job, its task and queue, the worker, the epoch, the attempt and the trace", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const slow = defineTask({
      name: "slow",
      queue: "mail",
      run: () => new Promise<void>((resolve) => void clock.timer(250, resolve)),
    });
    const worker = await holdfast.startWorker({ tasks: [slow] });
    const heard = hear(worker);
    const { id } = await holdfast.enqueue(slow, null);
    await clock.advance("1s");
    const traceId = `${worker.id}-${id}-1`;
    const ownership = { worker: worker.id, epoch: 1, attempt: 1, traceId };
    const facts = { id, task: "slow", queue: "mail", ...ownership };
    assert.deepEqual(heard, [
      { name: "job:started", event: facts },
      { name: "job:done", event: { ...facts, durationMs: 250 } },
    ]);
  });

  test("say what follows a failed attempt", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const worker = await holdfast.startWorker({ tasks: [failing] });
    const heard = hear(worker);
    const job = await holdfast.enqueue(failing, null);
    await clock.advance(1);
    const { status, dueAt } = await job.get();
    assert.equal(status, "retry");
    await clock.advance("30s");

    const first = ["job:started", "job:retrying"];
    const second = ["job:started", "job:failed"];
    assert.deepEqual(storyOf(heard, job.id), [...first, ...second]);
    const [, retrying, , failed] = heard;
    assert.ok(retrying?.name === "job:retrying" && failed?.name === "job:failed");
    assert.ok(retrying.event.error instanceof RangeError);
    assert.ok(failed.event.error instanceof RangeError);
    assert.equal(retrying.event.retryAt, dueAt);
    assert.deepEqual([failed.event.attempt, failed.event.epoch], [2, 2]);
    assert.equal(failed.event.traceId, `${worker.id}-${job.id}-2`);
  });

  test("are emitted once the database has recorded the end", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const worker = await holdfast.startWorker({ tasks: [echo, hopeless] });
    const seen: Promise<unknown>[] = [];
    const note = ({ id }: { id: string }) => {
      seen.push(holdfast.jobs.get(id).then((job) => job?.status));
    };
    worker.on("job:done", note);
    worker.on("job:failed", note);
    await holdfast.enqueue(echo, 1);
    await until("the first was told", () => seen.length === 1);
    await holdfast.enqueue(hopeless, null);
    await until("the second was told", () => seen.length === 2);
    assert.deepEqual(await Promise.all(seen), ["done", "failed"]);
  });

  test("include jobs that were cancelled and jobs that were handed back", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const worker = await holdfast.startWorker({ tasks: [patient] });
    const heard = hear(worker);
    const cancelled = await holdfast.enqueue(patient, null);
    const released = await holdfast.enqueue(patient, null);
    await until("both run", () => worker.status().running === 2);
    await cancelled.cancel();
    await until("one is left", () => worker.status().running === 1);
    await worker.stop({ timeout: 0 });
    assert.deepEqual(storyOf(heard, cancelled.id), ["job:started", "job:cancelled"]);
    assert.deepEqual(storyOf(heard, released.id), ["job:started", "job:released"]);
  });

  test("include leases that it reclaimed from a dead worker", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const job = await holdfast.enqueue(echo, "again");
    const [lease] = await holdfast.leases.acquire({ worker: "dead-worker", lease: "10s" });
    const log = keepLog();
    await using other = await openHoldfast(holdfast.store, { runtime: clock, logger: log.logger });
    const worker = await other.startWorker({ tasks: [echo], grace: "2s" });
    const heard = hear(worker);
    await clock.advance("30s");
    const lost = { worker: "dead-worker", epoch: lease?.epoch, status: "retry" };
    const event = { id: job.id, task: "echo", queue: "default", ...lost };
    assert.deepEqual(heard[0], { name: "lease:recovered", event });
    assert.equal(worker.status().recovered, 1);
    const [taken, ...more] = log.of("job reclaimed");
    assert.deepEqual(more, []);
    const { event: name, why, status } = taken?.facts ?? {};
    assert.deepEqual([name, why, status], ["lease:recovered", "lease expired", "retry"]);
    assert.deepEqual(storyOf(heard.slice(1), job.id), ["job:started", "job:done"]);
    const stopped = worker.stop();
    await clock.advance("5s");
    await stopped;
  });
});

suite("a listener", () => {
  test("that throws harms no job, no other listener and not the worker", async () => {
    const log = keepLog();
    await using holdfast = await openHoldfast("sqlite::memory:", { logger: log.logger });
    const worker = await holdfast.startWorker({ tasks: [echo] });
    const calm: string[] = [];
    for (const name of ["job:started", "job:done"] as const) {
      worker.on(name, () => {
        throw new Error(`a bad listener of ${name}`);
      });
      worker.on(name, ({ id }) => void calm.push(`${name} ${id}`));
    }
    const first = await holdfast.enqueue(echo, 1);
    assert.equal(await first.result(), 1);
    const second = await holdfast.enqueue(echo, 2);
    assert.equal(await second.result(), 2);
    await until("all was told", () => calm.length === 4);
    assert.deepEqual(
      calm,
      [first.id, second.id].flatMap((id) => [`job:started ${id}`, `job:done ${id}`]),
    );
    const told = log.of("a listener of 'job:started' threw");
    assert.equal(told.length, 2);
    assert.match(String(told[0]?.facts["err"]), /a bad listener/);
  });

  test("is not called once it is removed", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const worker = await holdfast.startWorker({ tasks: [echo] });
    let heard = 0;
    const off = worker.on("job:done", () => void (heard += 1));
    const all = hear(worker);
    const first = await holdfast.enqueue(echo, 1);
    await until("it was told", () => storyOf(all, first.id).length === 2);
    off();
    const second = await holdfast.enqueue(echo, 2);
    await until("it was told", () => storyOf(all, second.id).length === 2);
    assert.equal(heard, 1);
  });

  test("receives the worker's own events: started, stopping, stopped", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const worker = await holdfast.startWorker({ tasks: [echo] });
    const told: string[] = [];
    for (const name of ["worker:started", "worker:stopping", "worker:stopped"] as const) {
      worker.on(name, (event) => void told.push(`${name} ${event.worker}`));
    }
    // Running a job takes longer than telling that the worker has started.
    await (await holdfast.enqueue(echo, 1)).result();
    await worker.stop();
    assert.deepEqual(told, [
      `worker:started ${worker.id}`,
      `worker:stopping ${worker.id}`,
      `worker:stopped ${worker.id}`,
    ]);
  });
});

suite("a worker's status", () => {
  function sumOfEnds(worker: Worker): number {
    const { done, retried, failed, cancelled, released, staleWritesRefused } = worker.status();
    return done + retried + failed + cancelled + released + staleWritesRefused;
  }

  test("adds up: every job it claimed has come to one end", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const worker = await holdfast.startWorker({ tasks: [echo, failing, hopeless, patient] });
    await holdfast.enqueueMany(echo, [1, 2, 3]);
    await holdfast.enqueueMany(failing, [null, null]);
    await holdfast.enqueue(hopeless, null);
    const cancelled = await holdfast.enqueue(patient, null);
    await holdfast.enqueue(patient, null);
    await clock.advance("1m");
    await cancelled.cancel();
    await clock.advance("5s");
    const busy = worker.status();
    assert.equal(busy.running, 1);
    assert.equal(busy.claimed, sumOfEnds(worker) + busy.running + busy.buffered);

    const stopped = worker.stop({ timeout: 0 });
    await clock.advance("10s");
    await stopped;
    const { id: _id, desiredState, slot, instance, ...status } = worker.status();
    assert.deepEqual(
      { desiredState, slot, instance },
      { desiredState: "run", slot: null, instance: 1 },
    );
    const ends = { done: 3, retried: 2, failed: 3, cancelled: 1, released: 1, suspended: 0 };
    const lost = { recovered: 0, leasesLost: 0, staleWritesRefused: 0 };
    const now = { state: "stopped", running: 0, buffered: 0, claimed: 10 };
    assert.deepEqual(status, { ...now, ...ends, ...lost });
    assert.equal(status.claimed, sumOfEnds(worker));
  });

  test("has an id of its own for every start: the worker's name and a UUID", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const ids: string[] = [];
    for (const name of ["mail", "mail", "mail", undefined]) {
      await using worker = await holdfast.startWorker({
        tasks: [echo],
        ...(name === undefined ? {} : { name }),
      });
      assert.equal(worker.status().id, worker.id);
      ids.push(worker.id);
    }
    const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
    for (const id of ids.slice(0, 3)) assert.match(id, new RegExp(`^mail-${uuid}$`));
    assert.match(ids[3] ?? "", new RegExp(`^worker-${uuid}$`));
    assert.equal(new Set(ids).size, 4);
  });
});
