/**
 * The verbs of the store that write, each as something that can be done calmly or with its answer lost.
 *
 * What is right is not said here: the same is done twice, once calmly, and both times must look the same.
 */
import assert from "node:assert/strict";
import type { ClaimedJob, NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import {
  claimOne,
  done,
  enqueueOne,
  HOUR_MS,
  jobIn,
  LEASE_MS,
  mustFind,
  newJob,
  outcomes,
  pictureOf,
  released,
  retry,
  settlement,
  upTo,
} from "../support/jobs.ts";
import type { EngineUnderTest } from "./engines.ts";

/** Which message makes the change: a statement that commits by itself, or the COMMIT of a transaction. */
export type Message = keyof EngineUnderTest["alone"] | "commit";

export interface Act {
  readonly verb: (store: Store) => Promise<unknown>;
  readonly isCommitted: (store: Store) => Promise<boolean>;
  /** A claim that never reached the server answers with nothing: what it wanted is there for the next one. */
  readonly claimRest?: (store: Store, answer: unknown) => Promise<unknown>;
  /** The jobs that it is about. */
  readonly ids: readonly string[];
}

export interface Verb {
  readonly name: string;
  readonly message: Message;
  /** Makes what the verb needs, with a store without faults. No other job is in the queue. */
  readonly prepare: (store: Store, queue: string) => Promise<Act>;
}

const BULK = 50;

export function enqueueing(jobs: readonly NewJob[], others: readonly string[] = []): Act {
  const [first] = jobs;
  assert.ok(first !== undefined);
  return {
    verb: (store) => store.jobs.enqueue(jobs),
    isCommitted: async (store) => (await store.jobs.find(first.id)) !== null,
    ids: [...jobs.map(({ id }) => id), ...others],
  };
}

const enqueues: Verb[] = [
  {
    name: "enqueue",
    message: "insert",
    prepare: async (_store, queue) => enqueueing([newJob({ queue, priority: 3 })]),
  },
  {
    name: "enqueue with a delay",
    message: "insert",
    prepare: async (_store, queue) => enqueueing([newJob({ queue, start: { delayMs: HOUR_MS } })]),
  },
  {
    name: "enqueue with a key",
    message: "commit",
    prepare: async (_store, queue) => enqueueing([newJob({ queue, key: `key of ${queue}` })]),
  },
  {
    name: "enqueue with a key that is kept",
    message: "commit",
    async prepare(store, queue) {
      const kept = { queue, key: `key of ${queue}`, keyForMs: HOUR_MS };
      const holder = await jobIn(store, "done", kept);
      return enqueueing([newJob({ queue }), newJob(kept)], [holder]);
    },
  },
  {
    name: "enqueue in the place of another",
    message: "commit",
    async prepare(store, queue) {
      const key = `key of ${queue}`;
      const holder = await enqueueOne(store, { queue, key, keyForMs: HOUR_MS });
      return enqueueing([newJob({ queue, key, onConflict: "replace" })], [holder.id]);
    },
  },
  {
    name: "enqueue what would be rejected",
    message: "commit",
    prepare: async (_store, queue) =>
      enqueueing([newJob({ queue, key: `key of ${queue}`, onConflict: "reject" })]),
  },
  {
    name: "enqueue in bulk",
    message: "insert",
    prepare: async (_store, queue) =>
      enqueueing(Array.from({ length: BULK }, () => newJob({ queue }))),
  },
  {
    name: "enqueue in bulk with keys, one of them taken",
    message: "commit",
    async prepare(store, queue) {
      const holder = await enqueueOne(store, { queue, key: `taken in ${queue}` });
      const jobs = [
        newJob({ queue, key: `free in ${queue}` }),
        newJob({ queue, key: `taken in ${queue}` }),
        newJob({ queue }),
        newJob({ queue, key: `free in ${queue}` }),
      ];
      return enqueueing(jobs, [holder.id]);
    },
  },
];

const claims: Verb[] = [
  {
    name: "claim",
    message: "claim",
    async prepare(store, queue) {
      const jobs = [newJob({ queue }), newJob({ queue, priority: 5 }), newJob({ queue })];
      await store.jobs.enqueue(jobs);
      const wanted = upTo(2, { queues: [queue] });
      return {
        verb: (each) => each.jobs.claim(wanted),
        claimRest: async (each, claimed) => (isEmpty(claimed) ? each.jobs.claim(wanted) : claimed),
        isCommitted: async (each) => (await leasesIn(each, queue)).length === 2,
        ids: jobs.map(({ id }) => id),
      };
    },
  },
];

const settles: Verb[] = outcomes.map(({ name, settle, status }) => ({
  name: `settle as ${name}`,
  message: name === "done" ? "settle" : "commit",
  async prepare(store, queue) {
    await enqueueOne(store, { queue, key: `key of ${queue}` });
    const claimed = await claimOne(store, { queues: [queue] });
    return {
      verb: (each) => each.jobs.settle([settle(claimed)]),
      isCommitted: async (each) => (await mustFind(each, claimed.id)).status === status,
      ids: [claimed.id],
    };
  },
}));

const turns: Verb[] = (["done", "retry", "released"] as const).map((outcome) => ({
  name: `settleAndClaim with ${outcome}`,
  message: outcome === "done" ? "claim" : "commit",
  async prepare(store, queue) {
    const first = await enqueueOne(store, { queue });
    const held = await claimOne(store, { queues: [queue] });
    const next = await enqueueOne(store, { queue, priority: 1 });
    const settled = {
      done: done(held, '"sent"'),
      retry: retry(held, { delayMs: HOUR_MS }),
      released: released(held),
    }[outcome];
    const wanted = upTo(1, { queues: [queue] });
    return {
      verb: (each) => each.jobs.settleAndClaim([settled], wanted),
      async claimRest(each, answer) {
        const turn = answer as { claimed: ClaimedJob[] };
        return isEmpty(turn.claimed) ? { ...turn, claimed: await each.jobs.claim(wanted) } : turn;
      },
      isCommitted: async (each) => (await mustFind(each, next.id)).status === "processing",
      ids: [first.id, next.id],
    };
  },
}));

const others: Verb[] = [
  {
    name: "cancel a pending job",
    message: "commit",
    async prepare(store, queue) {
      const { id } = await enqueueOne(store, { queue, key: `key of ${queue}` });
      return {
        verb: (each) => each.jobs.cancel(id),
        isCommitted: async (each) => (await mustFind(each, id)).status === "cancelled",
        ids: [id],
      };
    },
  },
  {
    name: "cancel a job that is being worked on",
    message: "commit",
    async prepare(store, queue) {
      await enqueueOne(store, { queue });
      const { id } = await claimOne(store, { queues: [queue] });
      return {
        verb: (each) => each.jobs.cancel(id),
        isCommitted: async (each) => (await mustFind(each, id)).cancelRequestedAt !== null,
        ids: [id],
      };
    },
  },
  {
    name: "retry",
    message: "commit",
    async prepare(store, queue) {
      await enqueueOne(store, { queue, key: `key of ${queue}` });
      const claimed = await claimOne(store, { queues: [queue] });
      await store.jobs.settle([settlement(claimed, { kind: "failed", error: "{}" })]);
      return {
        verb: (each) => each.jobs.retry(claimed.id, 2),
        isCommitted: async (each) => (await mustFind(each, claimed.id)).status === "pending",
        ids: [claimed.id],
      };
    },
  },
  {
    name: "extend",
    message: "extend",
    async prepare(store, queue) {
      await enqueueOne(store, { queue });
      const claimed = await claimOne(store, { queues: [queue] });
      return {
        verb: (each) => each.jobs.extend([claimed], LEASE_MS * 2),
        isCommitted: async (each) =>
          ((await mustFind(each, claimed.id)).lockedUntil ?? 0) > claimed.lockedUntil,
        ids: [claimed.id],
      };
    },
  },
  {
    name: "release",
    message: "commit",
    async prepare(store, queue) {
      const id = await jobIn(store, "processing", { queue });
      const [fence] = await leasesIn(store, queue);
      assert.ok(fence !== undefined);
      return {
        verb: (each) => each.jobs.release([fence]),
        isCommitted: async (each) => (await mustFind(each, id)).status === "pending",
        ids: [id],
      };
    },
  },
];

export const verbs: readonly Verb[] = [...enqueues, ...claims, ...settles, ...turns, ...others];

function isEmpty(claimed: unknown): boolean {
  return (claimed as ClaimedJob[]).length === 0;
}

async function leasesIn(store: Store, queue: string) {
  const leases = await store.jobs.leases({ state: "active", limit: 1_000 });
  return leases.filter((lease) => lease.queue === queue);
}

/** Beyond this a number is an instant. */
const INSTANT_MIN = 1e12;

/** What a verb answered and what it made of its jobs, in words that do not depend on when and to which jobs it happened. */
export async function storyOf(
  store: Store,
  { act, queue, answer }: { act: Act; queue: string; answer: unknown },
): Promise<unknown> {
  const pictures = await Promise.all(act.ids.map((id) => pictureOf(store, id)));
  const listed = await store.jobs.list({ queue, limit: 1_000 });
  const story = { answer: answer ?? null, pictures, listed: listed.map(({ id }) => id).toSorted() };
  let text = JSON.stringify(story, (name, value: unknown) => {
    if (name === "readyAt") return null; // unknown for a claim that was looked up
    return typeof value === "number" && value > INSTANT_MIN ? "an instant" : value;
  });
  for (const [index, id] of act.ids.entries()) text = text.replaceAll(id, `job ${index + 1}`);
  return JSON.parse(text.replaceAll(queue, "the queue"));
}
