/** All settings: their name in each source, their type, and their default. */
import { monitoringSettings } from "../alerts/options.ts";
import {
  list,
  oneOf,
  type Problem,
  type Setting,
  setting,
  settled,
  text,
  type ValuesOf,
  whole,
  yesOrNo,
} from "../config/kind.ts";
import type { ConfigOf, OriginsOf, SettingsTable } from "../config/resolve.ts";
import { fileSettings } from "../config/sources.ts";
import { type Duration, formatMs } from "../core/duration.ts";
import type { FinalStatus } from "../core/job.ts";
import { isRule, RULE_ALLOWED, RULES_MAX } from "../config/redaction.ts";
import { databaseOf, databaseSettings } from "../database/options.ts";
import { serverSettings } from "../http-kernel/limits.ts";
import { lockSettings } from "../locks/lock.ts";
import { HEARTBEATS_PER_STALE, type WorkerConfig, workerSettings } from "../worker/options.ts";
import type { ClientConfig } from "./holdfast.ts";

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
/** How much is logged. */
export type LogLevel = (typeof logLevels)[number];

const PROCESSES_MAX = 64;

const processSettings = {
  logLevel: settled<LogLevel>({
    group: "Monitoring",
    env: ["HOLDFAST_LOG_LEVEL", "LOG_LEVEL"],
    flag: "--log-level <level>",
    file: "logLevel",
    kind: oneOf(logLevels),
    initial: "info",
    about: "The lowest level to log.",
  }),
  processes: settled({
    group: "Process",
    env: ["HOLDFAST_PROCESSES"],
    flag: "--processes <n>",
    file: "processes",
    kind: whole(1, PROCESSES_MAX),
    initial: 1,
    about: "Number of processes that run jobs; with more than one, this process supervises them.",
  }),
  nodeEnv: setting({
    group: "Process",
    env: ["NODE_ENV"],
    flag: null,
    file: null,
    kind: text("a name such as production or development"),
    initial: null,
    about:
      "production: log JSON even on a terminal, and require the settings that otherwise have development defaults.",
  }),
  redact: setting<readonly string[]>({
    group: "Process",
    env: ["HOLDFAST_REDACT"],
    flag: null,
    file: "redact",
    kind: list(text(RULE_ALLOWED, isRule), RULES_MAX),
    initial: null,
    about:
      "Fields of inputs, results and other data that the dashboard, the API, the command line and logs hide.",
  }),
  debug: settled({
    group: "Process",
    env: ["HOLDFAST_DEBUG"],
    flag: null,
    file: null,
    kind: yesOrNo(),
    initial: false,
    about: "Adds the stack trace to error messages.",
  }),
};

export const schema = {
  ...databaseSettings,
  ...lockSettings,
  ...workerSettings,
  ...serverSettings,
  ...monitoringSettings,
  ...processSettings,
  ...fileSettings,
};

export type Key = keyof typeof schema;
export const keys = Object.keys(schema) as Key[];

export type Settings = ValuesOf<typeof schema>;

export type Origins = OriginsOf<Key>;

export type Config = ConfigOf<Key, Settings>;

export const settingsTable: SettingsTable<Key, Settings> = {
  // For loops over all settings, where the type of a single one does not matter.
  settings: schema as unknown as Readonly<Record<Key, Setting<unknown>>>,
  choose: databaseOf,
  crossCheck,
};

export function settingOf(key: Key): Setting<unknown> {
  return settingsTable.settings[key];
}

// What `holdfast.config.ts` may contain.

/** Every key is optional. The command line and the environment take precedence. */
export interface HoldfastConfig extends WorkerConfig, ClientConfig {
  /** `sqlite:shop.db`, `postgres://…` or `mysql://…`. Default `sqlite:holdfast.db`. */
  readonly url?: string | undefined;
  /** The module that exports the tasks, relative to this file. */
  readonly tasks?: string | undefined;
  /** When all slots are taken, wait for a free one instead of failing. */
  readonly standby?: boolean | undefined;
  /** How long finished jobs are kept. */
  readonly retention?: { readonly [Ending in FinalStatus]?: Duration | undefined } | undefined;
  /** The address that the server listens on. */
  readonly host?: string | undefined;
  /** The port that the server listens on. */
  readonly port?: number | undefined;
  /** The path below which a proxy serves Holdfast, such as `/tools/jobs`. Default: none. */
  readonly basePath?: string | undefined;
  /** Prefer the environment: this file is usually committed. */
  readonly token?: string | undefined;
  /** How often the monitor runs; 0 turns it off. Default 30 s. */
  readonly monitor?: Duration | undefined;
  /** How often canary jobs are sent. Default: none are. */
  readonly canary?: Duration | undefined;
  /** Where alerts are sent, and the secret that signs them. */
  readonly webhooks?:
    | {
        /** The addresses, `https://…`; every alert goes to each. */
        readonly urls?: readonly string[] | undefined;
        /** The key that signs requests, of at least 16 characters. Default: they are not signed. */
        readonly secret?: string | undefined;
        /** Whether loopback and private addresses are allowed. Default false. */
        readonly private?: boolean | undefined;
      }
    | undefined;
  /** How much is logged. */
  readonly logLevel?: LogLevel | undefined;
  /** How many worker processes `holdfast start` runs. */
  readonly processes?: number | undefined;
  /** Fields that the dashboard, the API, the command line and logs hide: names, or paths such as `card.number`. */
  readonly redact?: readonly string[] | undefined;
}

/** Returns its argument; it exists for type checking in editors. */
export function defineConfig(config: HoldfastConfig): HoldfastConfig {
  return config;
}

// Cross-checks: settings that are valid by themselves but conflict with each other.

interface Rule {
  /** The setting to report comes first. If any of them is invalid, the rule is skipped. */
  readonly about: readonly [Key, ...Key[]];
  /** Null: no conflict. */
  readonly problem: (settings: Settings, origins: Origins) => string | null;
}

const RULES: readonly Rule[] = [
  {
    about: ["heartbeatTimeout", "heartbeat"],
    problem: ({ heartbeatTimeout, heartbeat }) => tooShort(heartbeatTimeout, heartbeat),
  },
  {
    about: ["stoppingTimeout", "heartbeat"],
    problem: ({ stoppingTimeout, heartbeat }) => tooShort(stoppingTimeout, heartbeat),
  },
  {
    about: ["url", "nodeEnv", "mysqlHost", "mysqlUser", "mysqlPassword", "mysqlName", "mysqlPort"],
    problem: ({ nodeEnv }, origins) =>
      nodeEnv === "production" && origins.url.source === null && !isMysqlMeant(origins)
        ? "not set. It is required when NODE_ENV=production."
        : null,
  },
  {
    about: ["schema", "url"],
    problem: ({ schema: name, url }) =>
      name === null || /^postgres/i.test(url) ? null : "only PostgreSQL has schemas.",
  },
  {
    about: ["locks", "redis"],
    problem: ({ locks, redis }) =>
      locks === "redis" && redis === null ? `requires ${nameOf("redis")} to be set.` : null,
  },
  {
    about: ["canary", "monitor"],
    problem: ({ canary, monitor }) =>
      canary > 0 && monitor === 0 ? `requires the monitor, but ${nameOf("monitor")} is off.` : null,
  },
];

function crossCheck(settings: Settings, origins: Origins, wrong: ReadonlySet<Key>): Problem[] {
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
  if (ms === null || ms >= heartbeat * HEARTBEATS_PER_STALE) return null;
  return `must be at least ${formatMs(heartbeat * HEARTBEATS_PER_STALE)} (${HEARTBEATS_PER_STALE} times ${nameOf("heartbeat")}).`;
}

/** Some MySQL parts are set; the missing ones are reported elsewhere. */
function isMysqlMeant(origins: Origins): boolean {
  return (["mysqlHost", "mysqlUser", "mysqlPassword", "mysqlName", "mysqlPort"] as const).some(
    (part) => origins[part].source !== null,
  );
}

function nameOf(key: Key): string {
  return settingOf(key).env[0] ?? key;
}
