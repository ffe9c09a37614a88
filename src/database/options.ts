/** Where jobs are stored. */
import {
  databaseUrl,
  host,
  password,
  type Problem,
  redisUrl,
  setting,
  settled,
  text,
  whole,
} from "../config/kind.ts";
import type { Choice } from "../config/resolve.ts";
import type { Candidate } from "../config/sources.ts";

export const DEFAULT_URL = "sqlite:holdfast.db";

const MYSQL_NAME_MAX = 64;

export const databaseSettings = {
  url: settled({
    group: "Database",
    env: ["HOLDFAST_URL", "DATABASE_URL"],
    flag: "--url <url>",
    file: "url",
    kind: databaseUrl(),
    initial: DEFAULT_URL,
    about: "The database; required when NODE_ENV=production.",
  }),
  mysqlHost: setting({
    group: "Database",
    env: ["MYSQL_DB_HOST"],
    flag: null,
    file: null,
    kind: host(),
    initial: null,
    about: "The MySQL host, instead of a URL; set the user, password and name as well.",
  }),
  mysqlPort: settled({
    group: "Database",
    env: ["MYSQL_DB_PORT"],
    flag: null,
    file: null,
    kind: { ...whole(1, 65_535), allowed: "a port from 1 to 65535" },
    initial: 3306,
    about: "The MySQL port.",
  }),
  mysqlUser: setting({
    group: "Database",
    env: ["MYSQL_DB_USER"],
    flag: null,
    file: null,
    kind: text("a user name"),
    initial: null,
    about: "The MySQL user.",
  }),
  mysqlPassword: setting({
    group: "Database",
    env: ["MYSQL_DB_PASSWORD"],
    flag: null,
    file: null,
    kind: password(),
    initial: null,
    about: "The MySQL password; set it to an empty string if there is none.",
    emptyCounts: true,
  }),
  mysqlName: setting({
    group: "Database",
    env: ["MYSQL_DB_NAME"],
    flag: null,
    file: null,
    kind: text(
      `a database name of at most ${MYSQL_NAME_MAX} characters`,
      (given) => given.length <= MYSQL_NAME_MAX,
    ),
    initial: null,
    about: "The MySQL database name.",
  }),
  schema: setting({
    group: "Database",
    env: ["HOLDFAST_SCHEMA"],
    flag: "--schema <name>",
    file: "schema",
    kind: text(
      "a schema name: at most 48 characters of a-z, 0-9 and _, not starting with a digit or pg_",
      (given) => /^(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,47}$/.test(given),
    ),
    initial: null,
    about: "The PostgreSQL schema that holds the tables (default: holdfast).",
  }),
  redis: setting({
    group: "Database",
    env: ["HOLDFAST_REDIS_URL"],
    flag: null,
    file: "redis",
    kind: redisUrl(),
    initial: null,
    about: "A Redis server for locks and, with MySQL, for waking workers.",
  }),
};

// Chooses the database: a URL, or the separate MySQL variables that many hosting providers supply.

const NEEDED = ["mysqlHost", "mysqlUser", "mysqlPassword", "mysqlName"] as const;

const PARTS = [...NEEDED, "mysqlPort"] as const;

/** The MySQL parts make a URL if their source has a higher precedence than that of any URL. */
export function databaseOf(
  given: (key: "url" | (typeof PARTS)[number]) => readonly Candidate[],
): Choice {
  const [url] = given("url");
  const firsts = PARTS.flatMap((part) => given(part).slice(0, 1));
  const [first] = firsts.toSorted((one, other) => one.rank - other.rank);
  if (first === undefined) return { used: new Map(), problems: [] };
  if (url !== undefined && url.rank < first.rank) return { used: withoutParts(), problems: [] };
  if (url !== undefined && url.rank === first.rank) {
    return { used: withoutParts(), problems: [bothGiven(url, first)] };
  }
  const missing = NEEDED.filter((part) => given(part).length === 0);
  if (missing.length > 0) return { used: new Map(), problems: missing.map(isMissing) };
  const composed = compose((part) => given(part)[0]?.given);
  if (composed === null) return { used: new Map(), problems: [] }; // each invalid part is reported by itself
  return {
    used: new Map([["url", [{ ...first, name: "MYSQL_DB_…", given: composed }, ...given("url")]]]),
    problems: [],
  };
}

function withoutParts(): Map<string, readonly Candidate[]> {
  return new Map(PARTS.map((part) => [part, []]));
}

function bothGiven(url: Candidate, part: Candidate): Problem {
  return {
    name: part.name,
    source: part.source,
    given: null,
    problem: `${url.name} also names a database. Keep only one of them.`,
  };
}

function isMissing(part: (typeof NEEDED)[number]): Problem {
  const [name = ""] = databaseSettings[part].env;
  const problem =
    "not set. MYSQL_DB_HOST, MYSQL_DB_USER, MYSQL_DB_PASSWORD and MYSQL_DB_NAME must be set together.";
  return { name, source: null, given: null, problem };
}

/** Null: one of the parts is invalid. */
function compose(given: (part: (typeof PARTS)[number]) => unknown): string | null {
  const { mysqlHost, mysqlUser, mysqlPassword, mysqlName, mysqlPort } = databaseSettings;
  const hostName = mysqlHost.kind.read(given("mysqlHost"));
  const user = mysqlUser.kind.read(given("mysqlUser"));
  const secret = mysqlPassword.kind.read(given("mysqlPassword"));
  const name = mysqlName.kind.read(given("mysqlName"));
  const port = mysqlPort.kind.read(given("mysqlPort") ?? mysqlPort.initial);
  if (hostName === null || user === null || secret === null || name === null || port === null) {
    return null;
  }
  const server = hostName.includes(":") && !hostName.startsWith("[") ? `[${hostName}]` : hostName;
  const account = `${encodeURIComponent(user)}:${encodeURIComponent(secret)}`;
  return `mysql://${account}@${server}:${port}/${encodeURIComponent(name)}`;
}
