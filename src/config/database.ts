/** Which database is meant: a URL, or a MySQL in parts, as many hosts hand it out. */
import { schema, type Key } from "./schema.ts";
import type { Candidate } from "./sources.ts";
import type { Problem } from "./problem.ts";

const NEEDED = ["mysqlHost", "mysqlUser", "mysqlPassword", "mysqlName"] as const;
const PARTS = [...NEEDED, "mysqlPort"] as const;

export interface DatabaseChoice {
  /** What counts instead of what was given. */
  readonly used: ReadonlyMap<Key, readonly Candidate[]>;
  readonly problems: readonly Problem[];
}

/** The parts make a URL when they are given in a source that counts more than that of any URL. */
export function databaseOf(given: (key: Key) => readonly Candidate[]): DatabaseChoice {
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
  if (composed === null) return { used: new Map(), problems: [] }; // said part by part
  return {
    used: new Map([["url", [{ ...first, name: "MYSQL_DB_…", given: composed }, ...given("url")]]]),
    problems: [],
  };
}

function withoutParts(): Map<Key, readonly Candidate[]> {
  return new Map(PARTS.map((part) => [part, []]));
}

function bothGiven(url: Candidate, part: Candidate): Problem {
  return {
    name: part.name,
    source: part.source,
    given: null,
    problem: `${url.name} names a database too. Keep one of them.`,
  };
}

function isMissing(part: (typeof NEEDED)[number]): Problem {
  const [name = ""] = schema[part].env;
  const problem =
    "is not set, but others are. MYSQL_DB_HOST, _USER, _PASSWORD and _NAME go together.";
  return { name, source: null, given: null, problem };
}

/** Null: one of them cannot be used. */
function compose(given: (part: (typeof PARTS)[number]) => unknown): string | null {
  const host = schema.mysqlHost.kind.read(given("mysqlHost"));
  const user = schema.mysqlUser.kind.read(given("mysqlUser"));
  const password = schema.mysqlPassword.kind.read(given("mysqlPassword"));
  const name = schema.mysqlName.kind.read(given("mysqlName"));
  const port = schema.mysqlPort.kind.read(given("mysqlPort") ?? schema.mysqlPort.initial);
  if (host === null || user === null || password === null || name === null || port === null) {
    return null;
  }
  const server = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  const account = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
  return `mysql://${account}@${server}:${port}/${encodeURIComponent(name)}`;
}
