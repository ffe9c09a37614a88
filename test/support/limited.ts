/** A queue with limits of every kind, whose lanes, gates and leases go into the thousands. */
import assert from "node:assert/strict";
import type { Store } from "../../src/app/store.ts";
import type { RuleChange } from "../../src/queues/store.ts";
import { done, nextId, upTo } from "./jobs.ts";

export const LIMITED = "limited";

const LANES = 1_000;

/** How a lane is named, for a row `n`. */
export const laneOf = (number: string, joined: (...texts: string[]) => string): string =>
  joined("'lane '", `(${number}) % ${LANES}`);

const HIGH = 1_000_000;

const rule = (facts: Partial<RuleChange>): RuleChange => ({
  kind: "queue",
  name: "",
  concurrency: HIGH,
  rate: { count: HIGH, periodMs: 1_000, burst: HIGH },
  weight: null,
  ...facts,
});

/** Limits of the queue, of each lane, of one lane and of a task. */
export async function limitQueue(store: Store): Promise<void> {
  const rules = [
    rule({}),
    rule({ kind: "lanes" }),
    rule({ kind: "lane", name: "lane 7", weight: 2 }),
    rule({ kind: "task", name: "other" }),
  ];
  await store.queues.change({ queue: LIMITED, rules }, { id: nextId(), actor: "ada", reason: "" });
  await store.jobs.claim(WANTED); // learns that the queue has rules
}

const WANTED = upTo(100, { queues: [LIMITED] });

export async function claimLimited(store: Store): Promise<void> {
  const first = await store.jobs.claim(WANTED);
  assert.equal(first.length, 100);
  const ended = first.map((job) => done(job));
  const { claimed } = await store.jobs.settleAndClaim(ended, WANTED);
  assert.equal(claimed.length, 100);
}
