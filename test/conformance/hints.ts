/**
 * Hints: a watcher is soon told that something changed.
 *
 * A hint may be lost, so a test does the same thing again until one is heard, and fails when none
 * ever is.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Hint } from "../../src/database/engine.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import { done, enqueueOne, newJob, settleOne, startOne, upTo } from "../support/jobs.ts";
import { within } from "../support/waiting.ts";

const ROUNDS_MAX = 50;
const ROUND_LIMIT_MS = 200;

type Kinds = readonly Hint["kind"][];

/** Acts until the watcher hears a hint of one of these kinds. */
async function untilHeard(
  watcher: Store,
  kinds: Kinds,
  act: () => Promise<unknown>,
): Promise<Hint> {
  const heard = Promise.withResolvers<Hint>();
  const stop = watcher.db.watch((hint) => {
    if (kinds.includes(hint.kind)) heard.resolve(hint);
  });
  try {
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      await act();
      const hint = await within(ROUND_LIMIT_MS, heard.promise);
      if (hint !== null) return hint;
    }
    return assert.fail(`no hint of ${kinds.join(" or ")} in ${ROUNDS_MAX} rounds`);
  } finally {
    stop();
  }
}

/** Jobs that are claimed already, so that settling one is all that a watcher can hear. */
async function claimedJobs(store: Store) {
  await store.jobs.enqueue(Array.from({ length: ROUNDS_MAX }, () => newJob()));
  return store.jobs.claim(upTo(ROUNDS_MAX));
}

export const hints: Group = (open) => {
  test("a watcher is notified of a job that became pending", async () => {
    const { store } = await open();
    const hint = await untilHeard(store, ["pending", "unknown"], () =>
      enqueueOne(store, { queue: "mail" }),
    );
    if (hint.kind === "pending") assert.equal(hint.queue, "mail");
  });

  test("a watcher is notified of a job that ended", async () => {
    const { store } = await open();
    const claimed = await claimedJobs(store);
    await untilHeard(store, ["finished", "unknown"], () => settleOne(store, done(claimed.pop()!)));
  });

  test("a watcher is notified of a job that was handed back", async () => {
    const { store } = await open();
    const claimed = await claimedJobs(store);
    await untilHeard(store, ["pending", "unknown"], () => store.jobs.release([claimed.pop()!]));
  });

  test("a watcher is notified of a job that was promoted", async () => {
    const { store, clock } = await open();
    const jobs = Array.from({ length: ROUNDS_MAX }, () => newJob({ start: { delayMs: 1 } }));
    await store.jobs.enqueue(jobs);
    clock.advance(1);
    await untilHeard(store, ["pending", "unknown"], () => store.jobs.promoteDue({ limit: 1 }));
  });

  test("a watcher is notified of a cancel request for a running job", async () => {
    const { store } = await open();
    const claimed = await claimedJobs(store);
    await untilHeard(store, ["cancel", "unknown"], () => store.jobs.cancel(claimed.pop()!.id));
  });

  test("a watcher is notified of a job that another process enqueued", async (t) => {
    const { store, alone, another } = await open();
    if (alone !== null) return t.skip(alone);
    const other = await another();
    await untilHeard(store, ["pending", "unknown"], () => enqueueOne(other));
  });

  test("a watcher is notified of a job that another process settled", async (t) => {
    const { store, alone, another } = await open();
    if (alone !== null) return t.skip(alone);
    const other = await another();
    const claimed = await claimedJobs(store);
    await untilHeard(store, ["finished", "unknown"], () => settleOne(other, done(claimed.pop()!)));
  });

  test("every watcher is notified, and one that stopped is not", async () => {
    const { store } = await open();
    let heard = 0;
    const stop = store.db.watch(() => (heard += 1));
    await untilHeard(store, ["pending", "unknown"], () => enqueueOne(store));
    assert.ok(heard > 0);

    stop();
    stop();
    const before = heard;
    await untilHeard(store, ["pending", "unknown"], () => enqueueOne(store));
    assert.equal(heard, before);
  });

  test("a store that is watched can be closed", async () => {
    const { store } = await open();
    const stop = store.db.watch(() => {});
    await settleOne(store, done(await startOne(store)));
    await store.close();
    stop();
  });
};
