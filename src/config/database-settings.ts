/** Where the jobs are, and the locks. */
import { lockModes, type LockMode } from "../core/lock.ts";
import { databaseUrl, host, oneOf, password, redisUrl, span, text, whole } from "./kind.ts";
import { SECOND, setting, settled } from "./setting.ts";

export const DEFAULT_URL = "sqlite:holdfast.db";

const LOCK_MS = { least: 100, most: 24 * 60 * 60 * SECOND };
const MYSQL_NAME_MAX = 64;

export const databaseSettings = {
  url: settled({
    group: "Database",
    env: ["HOLDFAST_URL", "DATABASE_URL"],
    flag: "--url <url>",
    file: "url",
    kind: databaseUrl(),
    initial: DEFAULT_URL,
    about: "The database. With NODE_ENV=production it has to be given.",
  }),
  mysqlHost: setting({
    group: "Database",
    env: ["MYSQL_DB_HOST"],
    flag: null,
    file: null,
    kind: host(),
    initial: null,
    about: "The database in parts, instead of a URL: host, user, password and name together.",
  }),
  mysqlPort: settled({
    group: "Database",
    env: ["MYSQL_DB_PORT"],
    flag: null,
    file: null,
    kind: { ...whole(1, 65_535), allowed: "a port from 1 to 65535" },
    initial: 3306,
    about: "The port that belongs to MYSQL_DB_HOST.",
  }),
  mysqlUser: setting({
    group: "Database",
    env: ["MYSQL_DB_USER"],
    flag: null,
    file: null,
    kind: text("the name of a user"),
    initial: null,
    about: "The user that belongs to MYSQL_DB_HOST.",
  }),
  mysqlPassword: setting({
    group: "Database",
    env: ["MYSQL_DB_PASSWORD"],
    flag: null,
    file: null,
    kind: password(),
    initial: null,
    about: "The password that belongs to MYSQL_DB_USER; set to nothing it is empty.",
    emptyCounts: true,
  }),
  mysqlName: setting({
    group: "Database",
    env: ["MYSQL_DB_NAME"],
    flag: null,
    file: null,
    kind: text("the name of a database", (given) => given.length <= MYSQL_NAME_MAX),
    initial: null,
    about: "The database on MYSQL_DB_HOST.",
  }),
  schema: setting({
    group: "Database",
    env: ["HOLDFAST_SCHEMA"],
    flag: "--schema <name>",
    file: "schema",
    kind: text(
      "the name of a schema: a-z, 0-9 and _, at most 48, not beginning with a digit or pg_",
      (given) => /^(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,47}$/.test(given),
    ),
    initial: null,
    about: "The schema that the tables stand in, on PostgreSQL (holdfast).",
  }),
  redis: setting({
    group: "Database",
    env: ["HOLDFAST_REDIS_URL"],
    flag: null,
    file: "redis",
    kind: redisUrl(),
    initial: null,
    about: "A Redis for locks, and on MySQL for waking workers.",
  }),
  locks: setting<LockMode>({
    group: "Database",
    env: ["HOLDFAST_LOCKS"],
    flag: null,
    file: "locks",
    kind: oneOf(lockModes),
    initial: null,
    about: "Where locks are kept (redis if there is one, else sql); off: workflows do without.",
  }),
  lockTtl: settled({
    group: "Database",
    env: ["HOLDFAST_LOCK_TTL"],
    flag: null,
    file: "lockTtl",
    kind: span(LOCK_MS),
    initial: 15 * SECOND,
    about: "How long a lock lasts that is not extended.",
  }),
  lockWait: settled({
    group: "Database",
    env: ["HOLDFAST_LOCK_WAIT"],
    flag: null,
    file: "lockWait",
    kind: span({}),
    initial: 10 * SECOND,
    about: "How long somebody waits for a lock.",
  }),
};
