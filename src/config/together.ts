/** What has to fit together: settings that are right by themselves and wrong beside one another. */
import { formatMs } from "../core/duration.ts";
import type { Origins } from "./config.ts";
import type { Problem } from "./problem.ts";
import { settingOf, type Key, type Settings } from "./schema.ts";

/** A worker that is late with one sign of life is not dead yet. */
const BEATS = 2;

interface Rule {
  /** The one that is at fault first. Where any of them cannot be used, nothing is said about the others. */
  readonly about: readonly [Key, ...Key[]];
  /** Null: they fit. */
  readonly problem: (settings: Settings, origins: Origins) => string | null;
}

const RULES: readonly Rule[] = [
  { about: ["stale", "heartbeat"], problem: ({ stale, heartbeat }) => tooShort(stale, heartbeat) },
  { about: ["hung", "heartbeat"], problem: ({ hung, heartbeat }) => tooShort(hung, heartbeat) },
  {
    about: ["url", "nodeEnv", "mysqlHost", "mysqlUser", "mysqlPassword", "mysqlName", "mysqlPort"],
    problem: ({ nodeEnv }, origins) =>
      nodeEnv === "production" && origins.url.source === null && !isMysqlMeant(origins)
        ? "is not set. With NODE_ENV=production the database has to be named."
        : null,
  },
  {
    about: ["schema", "url"],
    problem: ({ schema, url }) =>
      schema === null || /^postgres/i.test(url) ? null : "only PostgreSQL has schemas.",
  },
  {
    about: ["locks", "redis"],
    problem: ({ locks, redis }) =>
      locks === "redis" && redis === null ? `needs a Redis: set ${nameOf("redis")}.` : null,
  },
  {
    about: ["canary", "monitor"],
    problem: ({ canary, monitor }) =>
      canary > 0 && monitor === 0 ? `needs the monitor, and ${nameOf("monitor")} is off.` : null,
  },
];

/** `wrong` are those that cannot be used, so that their defaults stand in for them. */
export function checkTogether(
  settings: Settings,
  origins: Origins,
  wrong: ReadonlySet<Key>,
): Problem[] {
  return RULES.filter(({ about }) => !about.some((key) => wrong.has(key))).flatMap((rule) => {
    const problem = rule.problem(settings, origins);
    if (problem === null) return [];
    const [key] = rule.about;
    const { name, source } = origins[key];
    const given = source === null ? null : settingOf(key).kind.print(settings[key]);
    return [{ name: name ?? nameOf(key), source, given, problem }];
  });
}

function tooShort(ms: number | null, heartbeat: number): string | null {
  if (ms === null || ms >= heartbeat * BEATS) return null;
  return `must be ${formatMs(heartbeat * BEATS)} at least, ${BEATS} times ${nameOf("heartbeat")}.`;
}

/** Parts of it are missing, which is said. */
function isMysqlMeant(origins: Origins): boolean {
  return (["mysqlHost", "mysqlUser", "mysqlPassword", "mysqlName", "mysqlPort"] as const).some(
    (part) => origins[part].source !== null,
  );
}

function nameOf(key: Key): string {
  return settingOf(key).env[0] ?? key;
}
