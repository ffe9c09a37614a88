/** Accepting jobs: all or none, once each, exactly as they were given. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobFilter } from "../../src/jobs/filter.ts";
import { StoreRefusedError } from "../../src/core/errors.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  idsOf,
  mustFind,
  newJob,
  pictureOf,
  settleOne,
  sortedIds,
  startOne,
  statusOf,
  upTo,
} from "../support/jobs.ts";

/** JSON as `core/json.ts` writes it: what is no text in some database stands there as an escape. */
const texts = {
  "an empty text": "",
  "quotes and backslashes": String.raw`{"path":"C:\\temp\\\"x\"","sql":"'; drop table job; --"}`,
  "an escaped NUL": String.raw`{"nul":"a\u0000b"}`,
  "an escaped lone surrogate": String.raw`{"half":"\ud800","other":"\udfff"}`,
  "letters of many scripts": '{"text":"Grüße, Καλημέρα, Здравствуй, שלום, 你好, नमस्ते"}',
  "letters beyond the first plane": '{"text":"👩‍👩‍👧‍👦 𝒳 🜂"}',
  "marks that normal forms would join": '{"e":"\u0065\u0301","\u00E9":"\u212B"}',
  "line ends and tabs": '{\r\n\t"a": 1\n}\r',
  "digits that no double holds": '{"n":12345678901234567890.000000000000000001,"e":1e400}',
  "blanks at both ends": '  {"a":1}  ',
  "a quarter of a megabyte": JSON.stringify("é".repeat(128 * 1_024)),
};

function refusedName(error: { readonly code?: string }): [] {
  assert.equal(error.code, "INVALID_ARGUMENT");
  return [];
}

export const enqueueing: Group = (open) => {
  test("a job that was accepted is pending and has everything it was given", async () => {
    const { store, clock } = await open();
    const job = await enqueueOne(store, {
      queue: "mail",
      task: "mail.send",
      payload: '{"to":"ada"}',
      priority: 7,
      maxAttempts: 5,
      key: "ada",
    });

    assert.deepEqual(await store.jobs.find(job.id), {
      id: job.id,
      queue: "mail",
      task: "mail.send",
      payload: '{"to":"ada"}',
      priority: 7,
      maxAttempts: 5,
      key: "ada",
      lane: null,
      status: "pending",
      epoch: 0,
      attempts: 0,
      crashes: 0,
      enqueuedAt: clock.now(),
      dueAt: null,
      lockedBy: null,
      lockedUntil: null,
      claimedAt: null,
      heartbeatAt: null,
      traceId: null,
      inDoubt: null,
      tags: [],
      finishedAt: null,
      result: null,
      lastError: null,
      cancelRequestedAt: null,
    });
  });

  test("a batch is answered in the order it was given", async () => {
    const { store } = await open();
    const jobs = [newJob(), newJob({ queue: "mail" }), newJob({ start: { delayMs: 5 } })];
    const answers = await store.jobs.enqueue(jobs.toReversed());

    assert.deepEqual(idsOf(answers), idsOf(jobs).toReversed());
    assert.ok(answers.every(({ added }) => added));
  });

  test("an empty batch is accepted", async () => {
    const { store } = await open();
    assert.deepEqual(await store.jobs.enqueue([]), []);
  });

  test("a thousand jobs are accepted at once", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 1_000 }, () => newJob());
    await store.jobs.enqueue(jobs);

    assert.deepEqual(sortedIds(await store.jobs.claim(upTo(1_001))), sortedIds(jobs));
  });

  test("a job with a delay is scheduled for that span from now", async () => {
    const { store, clock } = await open();
    const { id } = await enqueueOne(store, { start: { delayMs: 1_500 } });

    const job = await mustFind(store, id);
    assert.equal(job.status, "scheduled");
    assert.equal(job.dueAt, clock.now() + 1_500);
  });

  test("a job with an instant is scheduled for that instant", async () => {
    const { store, clock } = await open();
    const at = clock.now() + HOUR_MS;
    const { id } = await enqueueOne(store, { start: { at } });

    const job = await mustFind(store, id);
    assert.equal(job.status, "scheduled");
    assert.equal(job.dueAt, at);
  });

  test("a start that has passed is now", async () => {
    const { store, clock } = await open();
    const past = await enqueueOne(store, { start: { at: clock.now() - HOUR_MS } });
    const now = await enqueueOne(store, { start: { delayMs: 0 } });

    assert.equal(await statusOf(store, past.id), "pending");
    assert.equal(await statusOf(store, now.id), "pending");
  });

  test("a scheduled job cannot be claimed before its time", async () => {
    const { store } = await open();
    await enqueueOne(store, { start: { delayMs: 1 } });
    assert.deepEqual(await store.jobs.claim(upTo(10)), []);
  });

  test("an enqueue whose answer was lost can be repeated", async () => {
    const { store } = await open();
    const job = await enqueueOne(store);

    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: false }]);
    assert.deepEqual(idsOf(await store.jobs.list({ limit: 10 })), [job.id]);
  });

  test("repeating an enqueue changes nothing about a job that went on since", async () => {
    const { store } = await open();
    const job = newJob();
    const claimed = await startOne(store, job);
    const before = await pictureOf(store, job.id);

    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: false }]);
    assert.deepEqual(await pictureOf(store, job.id), before);

    await settleOne(store, done(claimed));
    assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: false }]);
    assert.equal(await statusOf(store, job.id), "done");
  });

  test("a job with an existing id stays unchanged, whatever else the call contains", async () => {
    const { store } = await open();
    const job = await enqueueOne(store, { queue: "mail", payload: '"first"' });
    const before = await pictureOf(store, job.id);
    const other = { ...job, queue: "post", payload: '"second"', priority: 9, maxAttempts: 9 };

    assert.deepEqual(await store.jobs.enqueue([other]), [{ id: job.id, added: false }]);
    assert.deepEqual(await pictureOf(store, job.id), before);
    assert.equal(await store.jobs.hasPending("post"), false);
  });

  test("an id that is twice in one batch is one job", async () => {
    const { store } = await open();
    const job = newJob();
    const answers = await store.jobs.enqueue([job, job]);

    assert.deepEqual(answers, [
      { id: job.id, added: true },
      { id: job.id, added: false },
    ]);
    assert.equal((await store.jobs.list({ limit: 10 })).length, 1);
  });

  test("in a large batch of jobs that are alike, existing ones stay as they are", async () => {
    const { store } = await open();
    const ended = newJob();
    await settleOne(store, done(await startOne(store, ended)));
    const running = newJob();
    await startOne(store, running);
    const pending = await enqueueOne(store);
    const jobs = Array.from({ length: 40 }, () => newJob());
    const [first = newJob()] = jobs;
    const answers = await store.jobs.enqueue([...jobs, ended, running, pending, first]);

    assert.deepEqual(
      answers.map(({ added }) => added),
      [...jobs.map(() => true), false, false, false, false],
    );
    assert.equal(await statusOf(store, ended.id), "done");
    assert.equal(await statusOf(store, running.id), "processing");
    assert.deepEqual(sortedIds(await store.jobs.claim(upTo(100))), sortedIds([...jobs, pending]));
  });

  test("a large batch of jobs that are alike is claimed by its priority", async () => {
    const { store } = await open();
    const batchOf = (priority: number) =>
      Array.from({ length: 20 }, () => newJob({ priority, queue: "q", maxAttempts: 4 }));
    const [low, high] = [batchOf(-1), batchOf(5)];
    await store.jobs.enqueue(low);
    await store.jobs.enqueue(high);

    const claimed = await store.jobs.claim({ ...upTo(20), queues: ["q"] });
    assert.deepEqual(sortedIds(claimed), sortedIds(high));
    assert.ok(claimed.every(({ maxAttempts, attempt }) => maxAttempts === 4 && attempt === 1));
  });

  test("a job that the database refuses is an error, and not a job that was there before", async () => {
    const { store } = await open();
    const job = newJob({ maxAttempts: 0 });

    await assert.rejects(store.jobs.enqueue([job]), StoreRefusedError);
    assert.equal(await store.jobs.find(job.id), null);
  });

  test("a batch with one job that cannot be stored is refused as a whole", async () => {
    const { store } = await open();
    const jobs = [newJob({ key: "ada" }), newJob({ maxAttempts: 0 }), newJob()];

    await assert.rejects(store.jobs.enqueue(jobs), StoreRefusedError);
    assert.deepEqual(await store.jobs.list({ limit: 10 }), []);
    // Nor is the key of the first held by a job that does not exist.
    await enqueueOne(store, { key: "ada" });
  });

  for (const [what, text] of Object.entries(texts)) {
    test(`a payload, a result and an error with ${what} come back byte for byte`, async () => {
      const { store } = await open();
      const first = await startOne(store, { payload: text });
      assert.equal(first.payload, text);
      await settleOne(store, done(first, text));
      const ended = await mustFind(store, first.id);
      assert.equal(ended.payload, text);
      assert.equal(ended.result, text);

      const second = await startOne(store);
      await settleOne(store, failed(second, text));
      assert.equal((await mustFind(store, second.id)).lastError, text);
    });
  }

  const pairs = [
    ["Q", "q"],
    ["e", "é"],
    ["\u00E9", "e\u0301"],
    ["ß", "ss"],
    ["a", "a\u200B"],
    ["1", "01"],
    ["mail_send", "mail%send"],
  ] as const;
  for (const [a, b] of pairs) {
    test(`names compare as bytes: '${a}' is not '${b}'`, async () => {
      const { store } = await open();
      const first = await enqueueOne(store, { queue: a, task: a, key: a });
      assert.deepEqual(await store.jobs.claim(upTo(9, { queues: [b] })), []);
      assert.deepEqual(await store.jobs.claim(upTo(9, { queues: [a], tasks: [b] })), []);
      assert.deepEqual(await store.jobs.claim(upTo(9, { queues: [b], tasks: [a] })), []);
      assert.equal(await store.jobs.hasPending(b), false);
      // A filter refuses a name that no job may have.
      const list = (filter: JobFilter) =>
        Promise.resolve()
          .then(() => store.jobs.list(filter))
          .catch(refusedName);
      assert.deepEqual(await list({ queue: b }), []);
      assert.deepEqual(await list({ task: b }), []);

      const second = await enqueueOne(store, { queue: b, task: a, key: b });
      const third = await enqueueOne(store, { queue: b, task: b, key: a });
      assert.equal((await store.jobs.stats()).length, 2);
      assert.equal((await claimOne(store, { queues: [b], tasks: [a] })).id, second.id);
      assert.equal((await claimOne(store, { queues: [b] })).id, third.id);
      assert.equal((await claimOne(store, { queues: [a], tasks: [a] })).id, first.id);
    });
  }
};
