/**
 * The verbs that are killed, and the database they are killed on: jobs in every state, so that each
 * verb meets everything it has to tell apart. Parent and child both read this file.
 */
import type { OperatorEntry } from "../../src/audit/entry.ts";
import { BulkCarrier } from "../../src/bulk/carrier.ts";
import { checkRequest } from "../../src/bulk/request.ts";
import type { Fence, Outcome } from "../../src/core/job.ts";
import { silentLogger } from "../../src/core/log.ts";
import { systemRuntime, type Runtime } from "../../src/core/runtime.ts";
import type { NewJob, Wanted } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import { defineSchedule } from "../../src/schedules/schedule.ts";

/** The instant of the crash. The clock stands still, so a verb that is repeated does the very same. */
export const CRASH_AT = 1_700_000_000_000;

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

export interface Clock {
  now: number;
}

export function runtimeOn(clock: Clock): Runtime {
  // The ids that a verb draws are the same when another process repeats it.
  const fillRandom = (bytes: Uint8Array): void => void bytes.fill(7);
  return { ...systemRuntime, now: () => clock.now, fillRandom };
}

/** Jobs are told apart by readable names; an id is the name in the shape of one. */
export function idOf(name: string): string {
  return `00000000-0000-7000-8000-${Buffer.from(name).toString("hex").padStart(12, "0").slice(-12)}`;
}

function job(name: string, options: Partial<NewJob> = {}): NewJob {
  const plain = {
    queue: "mail",
    task: "send",
    priority: 0,
    maxAttempts: 3,
    key: null,
    start: null,
  };
  return { id: idOf(name), payload: JSON.stringify({ name }), ...plain, ...options };
}

function wanted(options: Partial<Wanted>): Wanted {
  const all = { worker: "w1", queues: ["mail"], tasks: null, limit: 100, leaseMs: MINUTE_MS };
  return { ...all, ...options };
}

// ── The database ─────────────────────────────────────────────────────────────────────────────────

const FINISHED = { done: "fi-don", failed: "fi-fai", cancelled: "fi-can", recent: "fi-rec" };
/** Claimed by w1 and still running: one for each way in which an attempt can end. */
const RUNNING: Record<string, Outcome> = {
  "ru-don": { kind: "done", result: '"result"' },
  "ru-key": { kind: "done", result: null },
  "ru-ret": { kind: "retry", delayMs: MINUTE_MS, error: "again" },
  "ru-las": { kind: "retry", delayMs: MINUTE_MS, error: "for the last time" },
  "ru-fai": { kind: "failed", error: "never" },
  "ru-sus": { kind: "suspended", delayMs: MINUTE_MS },
  "ru-eve": { kind: "suspended", delayMs: null },
  "ru-rel": { kind: "released" },
  "ru-can": { kind: "cancelled", error: null },
  "ru-ask": { kind: "done", result: "null" },
};
/** Claimed by w2, whose lease has ended. */
const EXPIRED = ["ex-ret", "ex-las", "ex-ask", "ex-key"];
const PENDING = ["re-one", "re-top", "re-key"];
const WAITING = ["wa-due", "wa-key", "wa-far"];

const OPTIONS: Record<string, Partial<NewJob>> = {
  "fi-fai": { key: "of a failed job" },
  "ru-key": { key: "of a running job" },
  "ru-las": { maxAttempts: 1 },
  "ex-las": { maxAttempts: 1 },
  "ex-key": { key: "of an expired job", maxAttempts: 1 },
  "re-top": { priority: 5 },
  "re-key": { key: "of a pending job" },
  "wa-due": { start: { delayMs: MINUTE_MS } },
  "wa-key": { start: { delayMs: MINUTE_MS }, key: "of a waiting job" },
  "wa-far": { start: { delayMs: 10 * DAY_MS } },
};

/** Fills an empty store, and leaves the clock at the instant of the crash. */
export async function prepare(store: Store, clock: Clock): Promise<void> {
  const enqueue = (names: readonly string[]): Promise<unknown> =>
    store.jobs.enqueue(names.map((name) => job(name, OPTIONS[name])));
  clock.now = CRASH_AT - 2 * DAY_MS;
  await store.migrate();
  await enqueue(Object.values(FINISHED));
  await finishSome(store, clock);
  clock.now = CRASH_AT - 10 * MINUTE_MS;
  await enqueue(EXPIRED);
  await store.jobs.claim(wanted({ worker: "w2" }));
  await store.jobs.cancel(idOf("ex-ask"));
  await enqueue(Object.keys(RUNNING));
  clock.now = CRASH_AT - MINUTE_MS / 2;
  await store.jobs.claim(wanted({}));
  await store.jobs.cancel(idOf("ru-ask"));
  clock.now = CRASH_AT - 2 * MINUTE_MS;
  await enqueue([...PENDING, ...WAITING]);
  clock.now = CRASH_AT - MINUTE_MS / 2;
  const schedule = { name: "often", task: "send", every: "20s", options: { queue: "mail" } };
  await store.schedules.create(defineSchedule(schedule).definition, {
    id: idOf("line"),
    actor: "a",
  });
  clock.now = CRASH_AT;
  const request = checkRequest({ action: "cancel", filter: { status: "pending" } });
  await store.bulk.create(request, by("bu-one"));
}

/** Two of them after an attempt that did not end them, so that there is a history to keep or to prune. */
async function finishSome(store: Store, clock: Clock): Promise<void> {
  await endAll(store, {
    [FINISHED.done]: { kind: "done", result: "1" },
    [FINISHED.failed]: { kind: "released" },
    [FINISHED.cancelled]: { kind: "cancelled", error: null },
    [FINISHED.recent]: { kind: "released" },
  });
  await endAll(store, {
    [FINISHED.failed]: { kind: "failed", error: "broken" },
    [FINISHED.recent]: { kind: "released" },
  });
  clock.now = CRASH_AT - MINUTE_MS;
  await endAll(store, { [FINISHED.recent]: { kind: "done", result: "2" } });
}

async function endAll(store: Store, outcomes: Record<string, Outcome>): Promise<void> {
  const claimed = await store.jobs.claim(wanted({ worker: "w0" }));
  for (const [name, outcome] of Object.entries(outcomes)) {
    const fence = claimed.find(({ id }) => id === idOf(name));
    if (fence === undefined) throw new Error(`${name} is not there to be settled.`);
    await store.jobs.settle([{ ...fence, outcome }]);
  }
}

// ── The verbs ────────────────────────────────────────────────────────────────────────────────────

const running = (name: string): Fence => ({ id: idOf(name), worker: "w1", epoch: 1 });

export interface Verb {
  act(store: Store): Promise<unknown>;
  /** How many jobs it adds, moves, marks or deletes. */
  readonly changes: number;
  /** Whether a verb that happened does more when it is called again at the same instant. */
  readonly takesMore?: boolean;
  /** It starts on an empty file instead of the prepared one. */
  readonly onEmptyFile?: boolean;
}

const settlements = Object.entries(RUNNING).map(([name, outcome]) => ({
  ...running(name),
  outcome,
}));

export const verbs: Record<string, Verb> = {
  migrate: { changes: 0, act: (store) => store.migrate(), onEmptyFile: true },
  enqueue: {
    changes: 3,
    act: (store) =>
      store.jobs.enqueue([
        job("ne-now"),
        job("ne-far", { start: { delayMs: DAY_MS } }),
        job("ne-key", { key: "a new one" }),
        job("ne-dup", { key: "of a pending job" }),
        job("re-one"),
      ]),
  },
  "enqueue in the place of others": {
    changes: 6,
    act: (store) =>
      store.jobs.enqueue([
        job("ne-one", { key: "of a pending job", onConflict: "replace", keyForMs: DAY_MS }),
        job("ne-two", { key: "of a waiting job", onConflict: "replace" }),
        job("ne-new", { key: "a new one", onConflict: "reject", keyForMs: DAY_MS }),
        job("ne-now"),
      ]),
  },
  claim: {
    changes: 2,
    act: (store) => store.jobs.claim(wanted({ worker: "w3", limit: 2 })),
    takesMore: true,
  },
  settle: {
    changes: 10,
    act: (store) => store.jobs.settle([...settlements, { ...settlements[0]!, epoch: 7 }]),
  },
  settleAndClaim: {
    changes: 6,
    act: (store) => store.jobs.settleAndClaim(settlements.slice(0, 4), wanted({ limit: 2 })),
    takesMore: true,
  },
  extend: {
    changes: 2,
    act: (store) => store.jobs.extend([running("ru-don"), running("ru-ask")], 5 * MINUTE_MS),
  },
  release: {
    changes: 2,
    act: (store) => store.jobs.release([running("ru-key"), running("ru-ask")]),
  },
  reclaimExpired: {
    changes: 4,
    act: (store) => store.jobs.reclaimExpired({ graceMs: 0, maxCrashes: 3, limit: 10 }),
  },
  promoteDue: { changes: 2, act: (store) => store.jobs.promoteDue({ limit: 10 }) },
  "cancel of a pending job": { changes: 1, act: (store) => store.jobs.cancel(idOf("re-key")) },
  "cancel of a waiting job": { changes: 1, act: (store) => store.jobs.cancel(idOf("wa-key")) },
  "cancel of a running job": { changes: 1, act: (store) => store.jobs.cancel(idOf("ru-key")) },
  "the ticks of a schedule": { changes: 2, act: (store) => store.schedules.fire("often") },
  retry: {
    changes: 1,
    // Called again it says IllegalMoveError, as it should: the job is pending.
    act: (store) => store.jobs.retry(idOf("fi-fai"), 2).catch(unlessIllegalMove),
  },
  "retry with another input": {
    changes: 1,
    act: (store) => store.jobs.retry(idOf("fi-fai"), 2, by("ed-one"), '"corrected"'),
  },
  "run now": { changes: 1, act: (store) => store.jobs.runNow(idOf("wa-far"), by("rn-one")) },
  edit: {
    changes: 1,
    act: (store) => {
      const terms = { payload: '"corrected"', priority: 3, start: null };
      return store.jobs.edit(idOf("wa-key"), terms, by("ed-two"));
    },
  },
  replay: {
    changes: 1,
    act: (store) => {
      return store.jobs.replay({ id: idOf("fi-don"), newId: idOf("rp-new") }, by("rp-one"));
    },
  },
  delete: { changes: 1, act: (store) => store.jobs.delete(idOf("fi-don"), by("dl-one")) },
  rerun: {
    changes: 1,
    act: (store) => {
      const terms = { from: null, confirm: [], attempts: 1, payload: '"again"' };
      return store.steps.rerun({ job: idOf("fi-don"), ...terms, operator: by("rr-one") });
    },
  },
  "debounce and throttle": {
    changes: 2,
    act: (store) =>
      store.jobs.enqueue([
        job("ne-deb", { pace: { kind: "debounce", key: "k", waitMs: 5, maxWaitMs: 9 } }),
        job("ne-thr", { pace: { kind: "throttle", key: "k", periodMs: 5 } }),
        job("ne-las", { pace: { kind: "debounce", key: "k", waitMs: 5, maxWaitMs: 9 } }),
      ]),
  },
  "a bulk action": {
    changes: 3,
    act: async (store) => {
      let lines = 0;
      const newId = (): string => idOf(`li-${lines++}`);
      const parts = { store, newId, logger: silentLogger, name: "carrier" };
      return new BulkCarrier(parts).page(idOf("bu-one"));
    },
  },
  prune: {
    changes: 3,
    act: (store) => {
      const retention = { done: DAY_MS, failed: DAY_MS, cancelled: DAY_MS, expired: DAY_MS };
      return store.jobs.prune({ retention, limit: 10 });
    },
  },
};

function by(name: string): OperatorEntry {
  return { id: idOf(name), actor: "ada" };
}

function unlessIllegalMove(error: unknown): void {
  if (error instanceof Error && "code" in error && error.code === "ILLEGAL_MOVE") return;
  throw error;
}
