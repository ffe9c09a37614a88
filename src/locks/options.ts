/** Settings of locks. */
import { DAY, oneOf, SECOND, setting, settled, span } from "../config/kind.ts";

/** Where locks are stored: in rows of the database, or in Redis. With "off", workflows run without locks. */
export const lockModes = ["off", "sql", "redis"] as const;

export type LockMode = (typeof lockModes)[number];

/** Limits of a lock's time to live. */
export const TTL_RANGE = { min: 100, max: DAY } as const;

export const lockSettings = {
  locks: setting<LockMode>({
    group: "Database",
    env: ["HOLDFAST_LOCKS"],
    flag: null,
    file: "locks",
    kind: oneOf(lockModes),
    initial: null,
    about:
      "Where locks are stored; off: workflows run without locks (default: redis if configured, otherwise sql).",
  }),
  lockTtl: settled({
    group: "Database",
    env: ["HOLDFAST_LOCK_TTL"],
    flag: null,
    file: "lockTtl",
    kind: span({ least: TTL_RANGE.min, most: TTL_RANGE.max }),
    initial: 15 * SECOND,
    about: "How long a lock lasts unless it is extended.",
  }),
  lockWait: settled({
    group: "Database",
    env: ["HOLDFAST_LOCK_WAIT"],
    flag: null,
    file: "lockWait",
    kind: span({}),
    initial: 10 * SECOND,
    about: "How long to wait for a lock.",
  }),
};
