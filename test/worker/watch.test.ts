/** A watcher of a job sees its reports and its end, from this process or another, on every database. */
import assert from "node:assert/strict";
import { after, before, describe, suite, test } from "node:test";
import type { WatchEntry } from "../../src/app/ops.ts";
import { openStore } from "../../src/app/store.ts";
import { type Context, defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { drawnEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until, withCode } from "./observe.ts";
import { withOutage, wrapStore } from "./wrapped-store.ts";

after(assertNothingRuns);

/** What an entry says, in a word. */
function word(entry: WatchEntry): string {
  switch (entry.kind) {
    case "status":
      return entry.status;
    case "progress":
      return `${entry.share * 100} %`;
    case "log":
      return entry.text;
    case "report":
      return entry.name;
    case "dropped":
      return `${entry.count} dropped`;
  }
}

async function all(entries: AsyncIterable<WatchEntry>): Promise<WatchEntry[]> {
  const seen: WatchEntry[] = [];
  for await (const entry of entries) seen.push(entry);
  return seen;
}

async function words(entries: AsyncIterable<WatchEntry>): Promise<string[]> {
  return (await all(entries)).map(word);
}

/** A caller may break out of the loop. */
async function firstOf(entries: AsyncIterable<WatchEntry>): Promise<string> {
  for await (const entry of entries) if (entry.kind === "status") return word(entry);
  return assert.fail("there was none");
}

const chatty = defineTask({
  name: "chatty",
  retry: { maxAttempts: 3, backoff: { initial: 0 } },
  run(lines: number, ctx) {
    for (let n = 1; n <= lines; n += 1) ctx.log(`line ${n}`);
    return lines;
  },
});

for (const { name, skip, place } of drawnEngines("watch")) {
  describe(`watching on ${name}`, { skip, timeout: 60_000 }, () => {
    let where: Place;
    let worker: Holdfast;
    let watcher: Holdfast;
    const running = new Map<string, { ctx: Context; end: (value: unknown) => void }>();
    const steered = defineTask({
      name: "steered",
      retry: { maxAttempts: 3, backoff: { initial: 0 } },
      run: (_input: null, ctx) =>
        new Promise((resolve) => running.set(ctx.id, { ctx, end: resolve })),
    });
    before(async () => {
      where = await place();
      worker = await openHoldfast(where.url);
      watcher = await openHoldfast(where.url);
      await worker.startWorker({ tasks: [steered, chatty], maintenanceInterval: 20 });
    });
    after(async () => {
      await Promise.all([worker.close(), watcher.close()]);
      await where[Symbol.asyncDispose]();
    });
    const started = (id: string) => until("it runs", () => running.get(id));

    test("reports of a job in another process arrive while it runs, and then its end", async () => {
      const job = await watcher.enqueue(steered, null);
      const entries = job.watch();
      const seen: WatchEntry[] = [];
      const next = async (): Promise<WatchEntry> => {
        const { value } = await entries.next();
        assert.ok(value !== undefined, "it ended too soon");
        seen.push(value);
        return value;
      };
      // Until the next entry that is not about a status: how many of those are seen is a matter of pace.
      const nextSaid = async (): Promise<WatchEntry> => {
        for (;;) {
          const entry = await next();
          if (entry.kind !== "status") return entry;
        }
      };
      const { ctx, end } = await started(job.id);
      ctx.log("first");
      assert.equal(word(await nextSaid()), "first");
      ctx.progress(0.5, "halfway");
      assert.equal(word(await nextSaid()), "50 %");
      ctx.report("third", { n: 3 });
      const third = await nextSaid();
      assert.deepEqual([third.kind === "report" && third.data, third.seq], [{ n: 3 }, 3]);
      end("over");
      seen.push(...(await all(entries)));
      const told = seen.map(word).filter((one) => one !== "pending");
      assert.deepEqual(told, ["processing", "first", "50 %", "third", "done"]);
      const last = seen.at(-1);
      assert.deepEqual([last?.seq, last?.epoch], [3, 1]);
      assert.equal(await job.result(), "over");
    });

    test("a job that has ended shows all its reports, and how it ended", async () => {
      const job = await worker.enqueue(chatty, 3);
      await job.result();
      assert.deepEqual(await words(watcher.jobs.watch(job.id)), [
        "line 1",
        "line 2",
        "line 3",
        "done",
      ]);
      assert.deepEqual(await words(watcher.jobs.watch(job.id, { after: 2 })), ["line 3", "done"]);
      assert.deepEqual(await words(watcher.jobs.watch(job.id, { after: 9 })), ["done"]);
    });

    test("more reports than fit on a page are seen once, in order", async () => {
      const job = await worker.enqueue(chatty, 100);
      await job.result();
      const seen = await all(watcher.jobs.watch(job.id));
      assert.deepEqual(
        seen.map(({ seq }) => seq),
        [...Array.from({ length: 100 }, (_, index) => index + 1), 100],
      );
    });
  });
}

suite("a watcher of a job", () => {
  test("sees each attempt begin, its reports and its outcome", async () => {
    await using kit = await openTestHoldfast();
    const task = defineTask({
      name: "twice",
      retry: { maxAttempts: 2, backoff: { initial: "1m" } },
      async run(_input: null, ctx) {
        ctx.log(`try ${ctx.attempt}`);
        await new Promise<void>((resolve) => kit.clock.timer(5_000, resolve));
        if (ctx.attempt === 1) throw new Error("again");
        ctx.log("enough");
        throw new Error("never");
      },
    });
    const job = await kit.holdfast.enqueue(task, null);
    const watching = words(job.watch());
    await kit.clock.advance("10s");
    await kit.holdfast.startWorker({ tasks: [task] });
    await kit.clock.advance("5m");
    const seen = await watching;
    assert.deepEqual(
      seen.filter((one, index) => one !== "pending" || index === 0),
      ["pending", "processing", "try 1", "retry", "processing", "try 2", "enough", "failed"],
    );
  });

  test("learns until when a job waits, and how often it was tried", async () => {
    await using kit = await openTestHoldfast();
    const job = await kit.holdfast.enqueue(chatty, 0, { delay: "1h" });
    const entries = job.watch();
    const { value } = await entries.next();
    const at = kit.clock.now();
    assert.deepEqual(value, {
      kind: "status",
      status: "scheduled",
      seq: 0,
      epoch: 0,
      attempts: 0,
      dueAt: at + 3_600_000,
      at,
    });
    await entries.return();
  });

  test("reads a long stream by pages", async () => {
    const limits: number[] = [];
    const real = await openStore("sqlite::memory:");
    const store = wrapStore(real, () => ({
      reports: {
        list(filter) {
          limits.push(filter.limit);
          return real.reports.list(filter);
        },
      },
    }));
    await using holdfast = await openHoldfast(store);
    const { id } = await holdfast.enqueue(chatty, 0);
    const [lease] = await holdfast.leases.acquire({ worker: "by-hand" });
    assert.ok(lease !== undefined);
    const line = { kind: "log", name: null, data: '{"text":"x"}', ageMs: 0 } as const;
    const lines = Array.from({ length: 1_000 }, (_, index) => ({ ...line, seq: index + 1 }));
    await store.reports.put(lease, lines);
    await holdfast.leases.release(lease, { as: "done" });
    const seen = await all(holdfast.jobs.watch(id));
    assert.equal(seen.length, 1_001);
    assert.ok(limits.length >= 10 && Math.max(...limits) <= 100);
  });

  test("ends by its signal, whether it waits or not, and releases the store", async () => {
    const real = await openStore("sqlite::memory:");
    let watchers = 0;
    const store = wrapStore(real, () => ({
      db: {
        watch(listener) {
          const unwatch = real.db.watch(listener);
          watchers += 1;
          return () => {
            watchers -= 1;
            unwatch();
          };
        },
      },
    }));
    await using holdfast = await openHoldfast(store);
    const job = await holdfast.enqueue(chatty, 1);
    const ending = new AbortController();
    const entries = job.watch({ signal: ending.signal });
    assert.equal(word((await entries.next()).value as WatchEntry), "pending");
    const waiting = entries.next();
    assert.equal(watchers, 1);
    ending.abort();
    assert.equal((await waiting).done, true);
    assert.deepEqual(await all(job.watch({ signal: AbortSignal.abort() })), []);
    assert.equal(await firstOf(job.watch()), "pending");
    assert.equal(watchers, 0);
  });

  test("of a job that does not exist gets an error", async () => {
    await using kit = await openTestHoldfast();
    const unknown = "00000000-0000-7000-8000-000000000000";
    await assert.rejects(all(kit.holdfast.jobs.watch(unknown)), withCode("JOB_NOT_FOUND"));
    assert.deepEqual(await kit.holdfast.jobs.reports(unknown), []);
  });

  test("gets an error when Holdfast is closed meanwhile", async () => {
    const holdfast = await openHoldfast("sqlite::memory:");
    const job = await holdfast.enqueue(chatty, 1);
    const entries = job.watch();
    await entries.next();
    const waiting = assert.rejects(entries.next(), withCode("CLOSED"));
    await holdfast.close();
    await waiting;
    await assert.rejects(all(job.watch()), withCode("CLOSED"));
  });

  test("survives an outage, but fails at once if there is no database to begin with", async () => {
    const outage = withOutage(await openStore("sqlite::memory:"));
    await using holdfast = await openHoldfast(outage.store);
    const job = await holdfast.enqueue(chatty, 2);
    const entries = job.watch();
    await entries.next();
    outage.down = true;
    await assert.rejects(all(job.watch()), withCode("STORE_UNAVAILABLE"));
    const refusedBefore = outage.refused;
    const rest = words(entries);
    await until("it asks again and again", () => outage.refused > refusedBefore + 1);
    outage.down = false;
    await holdfast.startWorker({ tasks: [chatty], maintenanceInterval: 10 });
    const told = (await rest).filter((one) => one !== "processing");
    assert.deepEqual(told, ["line 1", "line 2", "done"]);
  });

  const refused: [field: string, options: Record<string, unknown>][] = [
    ["after", { after: -1 }],
    ["after", { after: "3" }],
    ["signal", { signal: {} }],
    ["from", { from: 3 }],
  ];
  for (const [field, options] of refused) {
    test(`with ${JSON.stringify(options)} is refused by the name '${field}'`, async () => {
      await using kit = await openTestHoldfast();
      assert.throws(
        () => kit.holdfast.jobs.watch("x", options),
        withCode("INVALID_ARGUMENT", field),
      );
    });
  }

  test("or reads a page with invalid options is refused by their names", async () => {
    await using kit = await openTestHoldfast();
    for (const [field, options] of [
      ["limit", { limit: 0 }],
      ["after", { after: 0.5 }],
      ["kind", { kind: "status" }],
      ["before", { before: 1 }],
    ] as const) {
      const reading = kit.holdfast.jobs.reports("x", options as object);
      await assert.rejects(reading, withCode("INVALID_ARGUMENT", field));
    }
  });
});
