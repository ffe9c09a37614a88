/**
 * PostgreSQL: a job that becomes ready is announced in the transaction that makes it so.
 *
 * The proxy cuts every connection that sends a note by itself, as if the process had died right after its commit. What
 * another process hears then came with the commit.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import type { Hint } from "../../src/database/engine.ts";
import { declareAll, startItem } from "../support/items.ts";
import { runBulk } from "../support/bulk.ts";
import {
  claimOne,
  enqueueOne,
  failed,
  newJob,
  nextId,
  settlement,
  settleOne,
  suspended,
} from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Proxy } from "../support/proxy.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { within } from "../support/waiting.ts";
import { until } from "../worker/observe.ts";

/** A note that is sent by itself, after a commit. */
const NOTE_ALONE = /set_config\('synchronous_commit'/;
const HEARD_MS_MAX = 3_000;

describe("PostgreSQL", { skip: missing("postgres"), timeout: 60_000 }, () => {
  let database: ScratchDatabase;
  let listening: Store;
  let quiet: Store;
  let proxy: Proxy;
  before(async () => {
    database = await scratchDatabase("postgres");
    proxy = await Proxy.before(database.url);
    listening = await openStore(database.url);
    await listening.migrate();
    await declareAll(listening);
    listening.db.watch(() => {});
    await until("it listens", () => listening.db.pushState() === "up");
    quiet = await openStore(proxy.url);
    proxy.ban(NOTE_ALONE);
  });
  after(async () => {
    await quiet?.close();
    await proxy?.[Symbol.asyncDispose]();
    await listening?.close();
    await database?.drop();
  });

  /** Whether others hear that the queue has a job, though the process sends nothing after its commit. */
  async function isHeard(queue: string, act: () => Promise<unknown>): Promise<boolean> {
    const heard = Promise.withResolvers<Hint>();
    const stop = listening.db.watch((hint) => {
      if (hint.kind === "pending" && hint.queue === queue) heard.resolve(hint);
    });
    try {
      await act();
      return (await within(HEARD_MS_MAX, heard.promise)) !== null;
    } finally {
      stop();
    }
  }

  async function failedJob(queue: string): Promise<string> {
    const { id } = await enqueueOne(quiet, { queue });
    await settleOne(quiet, failed(await claimOne(quiet, { queues: [queue] })));
    return id;
  }

  test("the proxy keeps notes from being sent after a commit", async () => {
    const { withheld, resets } = proxy.counters;
    await quiet.jobs.enqueue([newJob({ queue: "alone" })]);
    await until("a note was cut off", () => {
      return proxy.counters.withheld > withheld || proxy.counters.resets > resets;
    });
  });

  test("jobs of a state that an item enters are announced with the commit", async () => {
    const jobs = [newJob({ queue: "entered" })];
    assert.ok(await isHeard("entered", () => startItem(quiet, { jobs })));
  });

  test("of many changes at once, at least one is announced with its commit", async () => {
    const start = () => startItem(quiet, { jobs: [newJob({ queue: "many" })] });
    assert.ok(await isHeard("many", () => Promise.all(Array.from({ length: 8 }, start))));
    assert.ok(
      await isHeard("one more", () => startItem(quiet, { jobs: [newJob({ queue: "one more" })] })),
    );
  });

  test("a change that is rolled back sends no notification, and the next one does", async () => {
    const hints: Hint[] = [];
    const stop = listening.db.watch((hint) => void hints.push(hint));
    const jobs = (queue: string) => [newJob({ queue })];
    const refused = startItem(quiet, { workflow: "line", jobs: jobs("undone") });
    await assert.rejects(refused, { code: "INTEGRITY_VIOLATION" });
    assert.ok(await isHeard("next", () => startItem(quiet, { jobs: jobs("next") })));
    stop();
    assert.ok(!hints.some((hint) => hint.kind === "pending" && hint.queue === "undone"));
  });

  test("jobs that an event wakes are announced with the commit", async () => {
    const waits = { event: "packed", key: "1" };
    await quiet.jobs.enqueue([newJob({ queue: "waits" })]);
    const job = await claimOne(quiet, { queues: ["waits"] });
    await settleOne(quiet, settlement(job, { kind: "suspended", delayMs: null, waits: [waits] }));
    const event = { name: "packed", key: "1", payload: "null" };
    assert.ok(await isHeard("waits", () => quiet.steps.emit(event)));
  });

  test("a retried job is announced with the commit, alone and with others", async () => {
    const one = await failedJob("again");
    assert.ok(await isHeard("again", () => quiet.jobs.retry(one, 1)));
    const other = await failedJob("all again");
    const request = { action: "retry", filter: { id: [other] } } as const;
    assert.ok(await isHeard("all again", () => runBulk(quiet, request)));
  });

  test("a job that replaces another is announced with the commit", async () => {
    const job = newJob({ queue: "instead", key: "k", onConflict: "replace" });
    assert.ok(await isHeard("instead", () => quiet.jobs.enqueue([job])));
  });

  test("a job whose effect is no longer in doubt is announced with the commit", async () => {
    await quiet.jobs.enqueue([newJob({ queue: "doubt" })]);
    const job = await claimOne(quiet, { queues: ["doubt"] });
    const step = { name: "a", occurrence: 1, position: 1, kind: "effect", result: null } as const;
    await quiet.steps.put(job, { ...step, status: "doubt", isNew: true });
    await quiet.jobs.settle([suspended(job)]);
    const said = { id: nextId(), actor: "ada", job: job.id, name: "a", occurrence: 1 };
    assert.ok(await isHeard("doubt", () => quiet.steps.resolveEffect({ ...said, happened: null })));
  });
});

after(assertNothingRuns);
