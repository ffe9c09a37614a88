/** The verbs of locks: held ones, statistics about waiting, releasing one by force. */
import { HoldfastError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, listOf, right } from "../operations/show.ts";
import { count, relative, span } from "../terminal/table.ts";
import type { Locks } from "./locks.ts";
import { CONTENDED_MAX, CONTENDED_SHOWN } from "./contention.ts";
import { HEAT_RANGES, type HeatRange } from "./stats.ts";

interface LocksApp {
  readonly locks: Pick<Locks, "list" | "stats" | "forceRelease" | "contended" | "heat">;
}

const operation = operationsOf<LocksApp>("locks");

const lock = s
  .object({
    key: s.text(),
    token: s.number(),
    owner: s.text(),
    trace: s.text().nullable(),
    acquiredAt: s.instant,
    expiresAt: s.instant,
    expiresInMs: s.number(),
  })
  .named("Lock", "A held lock.");

const contended = s
  .object({
    key: s.text(),
    holder: lock.nullable().about("Who holds it now; null: it is free."),
    waiting: s.count.about("Requests that wait for it now, in all processes."),
    waiters: s
      .list(s.object({ owner: s.text(), waiting: s.count, since: s.instant }))
      .about("The processes in which they wait; the one that waits longest first."),
    timeouts: s.count.about("Requests that gave up within the last hour."),
  })
  .named("ContendedLock", "A lock that is waited for, or was until requests gave up.");

const times = {
  type: s.text(),
  acquisitions: s.count,
  timeouts: s.count,
  waitMs: s
    .object({ average: s.number(), p50: s.number(), p95: s.number(), p99: s.number() })
    .nullable(),
  heldMsMax: s.number(),
};

const stats = s
  .object({
    types: s.list(s.object(times)),
    minutes: s.list(s.object({ ...times, minute: s.instant })),
    partial: s.boolean(),
  })
  .named("LockStats", "Lock statistics by type.");

const counts = { acquisitions: s.count, timeouts: s.count };
const p99Ms = s.number().nullable();

const heat = s
  .object({
    from: s.instant,
    to: s.instant,
    stepMs: s.integer(),
    types: s.list(
      s.object({
        type: s.text(),
        ...counts,
        heldMsMax: s.number(),
        p50Ms: s.number().nullable(),
        p99Ms,
        cells: s.list(s.object({ at: s.instant, ...counts, p99Ms })),
      }),
    ),
  })
  .named("LockHeat", "Waits for locks over time, by type.");

const type = s.key.optional().about("Only keys that start with this prefix and a colon.");
const typeFlag = { value: "<name>", about: "only keys that begin with '<name>:'" };

/** From this width on, the table also shows what a lock is for. */
const WIDE = 120;

const HELD: Columns<s.TypeOf<typeof lock>> = [
  flexible("LOCK", ({ key }) => key),
  flexible("OWNER", ({ owner }) => owner),
  // By the clock of the lock's backend.
  right("HELD", (held) => span(held.expiresAt - held.expiresInMs - held.acquiredAt)),
  right("EXPIRES IN", ({ expiresInMs }) => span(expiresInMs)),
  right("TOKEN", ({ token }) => String(token)),
  flexible("FOR", ({ trace }) => trace ?? "", WIDE),
];

const WAITS: Columns<s.TypeOf<typeof stats>["types"][number]> = [
  flexible("TYPE", (one) => one.type),
  right("ACQUIRED", ({ acquisitions }) => count(acquisitions)),
  right("TIMED OUT", ({ timeouts }, { colors }) =>
    timeouts === 0 ? "0" : { text: count(timeouts), paint: colors.red },
  ),
  right("WAIT AVG", ({ waitMs }) => brief(waitMs?.average)),
  right("P50", ({ waitMs }) => brief(waitMs?.p50)),
  right("P95", ({ waitMs }) => brief(waitMs?.p95)),
  right("P99", ({ waitMs }) => brief(waitMs?.p99)),
  right("MAX HELD", ({ heldMsMax }) => brief(heldMsMax)),
];

const CONTENDED: Columns<s.TypeOf<typeof contended>> = [
  flexible("LOCK", ({ key }) => key),
  flexible("HELD BY", ({ holder }) => holder?.owner ?? "(free)"),
  right("FOR", ({ holder }) =>
    holder === null ? "" : span(holder.expiresAt - holder.expiresInMs - holder.acquiredAt),
  ),
  right("WAITING", ({ waiting }, { colors }) =>
    waiting === 0 ? "0" : { text: count(waiting), paint: colors.yellow },
  ),
  right("OLDEST", ({ waiters: [first] }) =>
    first === undefined ? "" : relative(first.since, systemRuntime.now()),
  ),
  right("TIMED OUT, 1H", ({ timeouts }, { colors }) =>
    timeouts === 0 ? "0" : { text: count(timeouts), paint: colors.red },
  ),
];

class LockNotFoundError extends HoldfastError {
  constructor(key: string) {
    super("LOCK_NOT_FOUND", `Lock ${key} is not held. List held locks with 'holdfast locks'.`);
  }
}

export const lockOperations = {
  list: operation({
    name: "listLocks",
    summary: "List held locks",
    access: "viewer",
    input: { type, limit: s.pageLimit.optional() },
    returns: "The locks, oldest first.",
    result: s.object({ locks: s.list(lock) }),
    run: async ({ locks }, input) => ({ locks: await locks.list(input) }),
    http: { method: "GET", path: "/api/v1/locks" },
    cli: {
      command: "locks list",
      about: "list held locks, oldest first",
      flags: { type: typeFlag, limit: { about: "maximum number of locks", initial: 50 } },
      examples: ["locks list --type invoice"],
      show: listOf({
        rows: ({ locks }) => locks,
        columns: HELD,
        none: "No locks.",
        unit: "lock",
      }),
    },
    agent: "Which locks are held now, by whom and for how long.",
  }),

  contended: operation({
    name: "listContendedLocks",
    summary: "List contended locks: who holds each, who waits, and how many gave up",
    access: "viewer",
    input: {
      limit: s.integer({ min: 1, max: CONTENDED_MAX }).about("Maximum number of locks.").optional(),
    },
    returns: "Those that most requests wait for first. Waits are told after one to three seconds.",
    result: s.object({ locks: s.list(contended) }),
    run: async ({ locks }, input) => ({ locks: await locks.contended(input) }),
    http: { method: "GET", path: "/api/v1/locks/contended" },
    cli: {
      command: "locks contended",
      about: "list the locks that are waited for, with their holders and waiters",
      flags: { limit: { about: "maximum number of locks", initial: CONTENDED_SHOWN } },
      examples: ["locks contended"],
      show: listOf({
        rows: ({ locks }) => locks,
        columns: CONTENDED,
        none: "No lock is waited for, and no request gave up in the last hour.",
        unit: "lock",
      }),
    },
    agent: "Which locks are contended: who holds each and since when, who waits, how many gave up.",
  }),

  stats: operation({
    name: "lockStats",
    summary: "Lock statistics: acquisitions, timeouts and waits",
    access: "viewer",
    input: { last: s.durationText.optional(), type },
    returns: "Statistics by type and by minute.",
    result: stats,
    run: ({ locks }, input) => locks.stats(input),
    http: { method: "GET", path: "/api/v1/locks/stats" },
    cli: {
      command: "locks stats",
      about: "show how often locks were acquired and how long callers waited",
      flags: { type: typeFlag, last: { about: "how far back, at most 7d", initial: "1h" } },
      examples: ["locks stats --last 24h"],
      show: listOf({
        rows: ({ types }) => types,
        columns: WAITS,
        none: ({ last }) => `No locks in the last ${last ?? ""}.`,
      }),
    },
  }),

  release: operation({
    name: "releaseLock",
    summary: "Release a lock by force",
    access: "operator",
    input: { key: s.key },
    isAudited: true,
    returns: "The lock as it was.",
    result: s.object({ lock }),
    run: async ({ locks }, { key }, { by }) => {
      const released = await locks.forceRelease(key, by);
      if (released === null) throw new LockNotFoundError(key);
      return { lock: released };
    },
    http: { method: "POST", path: "/api/v1/locks/release" },
    cli: {
      command: "locks release",
      arguments: { key: "the lock's key" },
      examples: ["locks release invoice:42 --reason 'its owner is gone'"],
      json: (result) => ({ released: result.lock }),
      show: (result, { input }) => [
        `Released ${input.key}, which was held by ${result.lock.owner}`,
      ],
    },
    agent:
      "Release a lock by force. Its holder may still be at work: only if it is known to be dead.",
  }),

  heat: operation({
    name: "lockHeat",
    summary: "How locks were contended over time",
    access: "viewer",
    input: { range: s.choice(Object.keys(HEAT_RANGES) as HeatRange[]).optional() },
    returns: "Steps without a request for a lock are missing. At most 100 steps.",
    result: heat,
    run: ({ locks }, { range = "4h" }) => locks.heat(range),
    http: { method: "GET", path: "/api/v1/locks/heat" },
  }),
};

export const lockCommands = {
  name: "locks",
  about: "list locks, show lock statistics, and release locks",
  parts: Object.values(lockOperations),
};

/** "0.4ms", "12ms", "3s". */
function brief(ms: number | undefined): string {
  if (ms === undefined) return "";
  return ms < 10 ? `${ms.toFixed(1)}ms` : span(ms);
}
