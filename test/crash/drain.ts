/** What happens after a crash: the leases of the dead run out, and others finish every job. */
import { deepEqual, equal } from "node:assert/strict";
import type { Fence } from "../../src/core/job.ts";
import type { Store } from "../../src/app/store.ts";
import { ids, type Tables } from "./tables.ts";
import type { Clock } from "./verbs.ts";

const DAY_MS = 24 * 60 * 60_000;
const BATCH = 100;
/** Reclaiming and retrying takes a handful of rounds; more means that it never ends. */
const ROUNDS_MAX = 10;
const DONE = { outcome: { kind: "done", result: null } } as const;

export interface Drained {
  /** The jobs in the order in which they finished; one that finished twice stands here twice. */
  readonly finished: readonly string[];
  /** How many settlements were tried under the leases of the dead, all of them in vain. */
  readonly refused: number;
}

export async function drain(store: Store, clock: Clock, tables: Tables): Promise<Drained> {
  const dead = (tables["lease"] ?? []).map(fenceOf);
  const finished = [...ids(tables, "finished")];
  let refused = 0;
  clock.now += DAY_MS;
  finished.push(...(await takeBack(store)), ...(await cancelEndless(store, tables)));
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    clock.now += 100 * DAY_MS;
    await store.jobs.promoteDue({ limit: BATCH });
    // Under the dead worker's own name, so that nothing but the epoch tells the two apart.
    const turn = { worker: "w1", queues: ["mail"], tasks: null, limit: BATCH, leaseMs: 1_000 };
    const claimed = await store.jobs.claim(turn);
    if (claimed.length === 0) break;
    deepEqual(await settleAll(store, dead), [], "a settlement of the dead was accepted");
    refused += dead.length;
    const settled = await settleAll(store, claimed);
    equal(settled.length, claimed.length, "a settlement of the living was refused");
    finished.push(...settled);
  }
  return { finished, refused };
}

async function settleAll(store: Store, fences: readonly Fence[]): Promise<string[]> {
  const settled = await store.jobs.settle(fences.map((fence) => ({ ...fence, ...DONE })));
  return settled.map(({ id }) => id);
}

/** Those that end by it: crashed once too often, or to be cancelled anyway. */
async function takeBack(store: Store): Promise<string[]> {
  const taken = await store.jobs.reclaimExpired({ graceMs: 0, maxCrashes: 3, limit: BATCH });
  return taken.filter(({ status }) => status !== "retry").map(({ id }) => id);
}

/** A job that waits for nothing that has a time would wait for ever. */
async function cancelEndless(store: Store, { waiting = [] }: Tables): Promise<string[]> {
  const endless = waiting.filter((row) => row["due_at"] === null).map((row) => String(row["id"]));
  for (const id of endless) equal(await store.jobs.cancel(id), "cancelled");
  return endless;
}

function fenceOf(row: Record<string, unknown>): Fence {
  return { id: String(row["id"]), worker: String(row["locked_by"]), epoch: Number(row["epoch"]) };
}
