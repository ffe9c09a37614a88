import assert from "node:assert/strict";
import type { Store } from "../../src/app/store.ts";
import { done, failed, member, newJob, nextId, upTo } from "./jobs.ts";

/** Enqueues a flow, ends and retries its jobs, and reads all about it. */
export async function wholeFlow({ jobs, flows }: Store): Promise<void> {
  const flow = { id: nextId(), kind: "flow", name: "f", callback: null } as const;
  const ends = [1, 2, 3].map((n) =>
    newJob({ ...member([], { flow: flow.id, name: `end ${n}` }), queue: "flow" }),
  );
  const last = newJob(
    member(
      ends.map(({ id }) => id),
      { flow: flow.id },
    ),
  );
  await flows.enqueue(flow, [...ends, last]);
  const claimed = await jobs.claim(upTo(3, { queues: ["flow"] }));
  const [first, second, third] = claimed;
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  await jobs.settle([done(first)]);
  await jobs.settle([done(second), failed(third)]);
  await jobs.retry(third.id, 1);
  await jobs.cancel(last.id);
  await flows.find(flow.id);
  await flows.list({ limit: 10, before: flow.id });
  for (const state of [undefined, "failed", "done", "live"] as const)
    await flows.jobs(flow.id, { limit: 10, ...(state === undefined ? {} : { state }) });
  await flows.edges(flow.id, { limit: 10 });
  await flows.named(flow.id, ["end 1"]);
  await flows.flowOf(last.id);
  await flows.dependencies(last.id, { after: 0, limit: 10 });
  await flows.dependents(first.id, { limit: 10 });
  await flows.waitsFor(last.id, { limit: 10 });
}
