/**
 * What the files in deploy/ and the guide are held against: the settings, paths and commands that the program has.
 *
 * MERGE: the list of settings belongs to the schema in src/config/, the ports and limits to its defaults; `COMING` and
 * `METRICS` go when the last of these commands and src/server/metric-list.ts are there.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");
export const LAUNCHER = join(ROOT, "bin/holdfast.js");

export const SETTINGS: ReadonlySet<string> = new Set([
  "HOLDFAST_URL",
  "DATABASE_URL",
  "MYSQL_DB_HOST",
  "MYSQL_DB_USER",
  "MYSQL_DB_PASSWORD",
  "MYSQL_DB_NAME",
  "MYSQL_DB_PORT",
  "HOLDFAST_REDIS_URL",
  "HOLDFAST_LOCKS",
  "HOLDFAST_TASKS",
  "HOLDFAST_HOST",
  "HEALTH_CHECK_PORT",
  "HOLDFAST_PORT",
  "PORT",
  "MAX_CONCURRENT_JOBS",
  "POLL_INTERVAL_MS",
  "SHUTDOWN_TIMEOUT_MS",
  "MONITOR_INTERVAL_MS",
  "LOG_LEVEL",
  "HOLDFAST_LOG_LEVEL",
  "NODE_ENV",
  "HOLDFAST_TOKEN",
  "HOLDFAST_QUEUES",
  "HOLDFAST_WORKER_NAME",
  "HOLDFAST_CANARY_INTERVAL_MS",
  "HOLDFAST_WEBHOOK_URLS",
  "HOLDFAST_WEBHOOK_SECRET",
  "HOLDFAST_WEBHOOK_PRIVATE",
  "HOLDFAST_PROCESSES",
  "HOLDFAST_SLOTS",
  "HOLDFAST_STANDBY",
  "HOLDFAST_SCHEMA",
  "HOLDFAST_LEASE",
  "HOLDFAST_KEEP_DONE",
  "HOLDFAST_KEEP_FAILED",
  "HOLDFAST_KEEP_CANCELLED",
  "HOLDFAST_DEBUG",
  "HOLDFAST_CONFIG",
  // Not of the schema: the version of the build (src/core/version.ts), and Node's own.
  "BUILD_ID",
  "NODE_OPTIONS",
]);

export const DEFAULT_PORT = 8080;
export const DEFAULT_SHUTDOWN_MS = 30_000;

/** A worker whose time is up aborts its tasks, hands them back and closes its connections. */
export const AFTER_SHUTDOWN_MS = 10_000;

export const PROBE_PATHS: ReadonlySet<string> = new Set(["/health", "/live", "/ready"]);
export const METRICS_PATH = "/metrics";

/** Commands of this program that are being built. */
const COMING = ["start", "serve", "doctor", "alerts", "tokens", "config", "top"];

let help: string | null = null;

/** The commands that the program has today. */
export function commandsNow(): Set<string> {
  help ??= execFileSync(process.execPath, [LAUNCHER, "--help"], { encoding: "utf8" });
  const [, list = ""] = /\nCommands:\n([\s\S]*?)\n\n/.exec(help) ?? [];
  return new Set([...list.matchAll(/^ {2}([a-z]+)/gm)].map(([, name = ""]) => name));
}

/** Those, and the ones that are on their way. */
export function commands(): Set<string> {
  return new Set([...commandsNow(), ...COMING]);
}

/** Metrics that the rules and the guide name, until there is the list itself. */
const METRICS = [
  "holdfast_up",
  "holdfast_queue_jobs",
  "holdfast_queue_oldest_pending_seconds",
  "holdfast_census_age_seconds",
  "holdfast_claim_duration_seconds",
  "holdfast_attempts_total",
  "holdfast_leases_lost_total",
  "holdfast_worker_heartbeat_age_seconds",
  "holdfast_fleet_drift_builds",
  "holdfast_pool_waiting",
  "holdfast_table_dead_rows",
  "holdfast_oldest_transaction_seconds",
  "holdfast_event_loop_delay_p99_seconds",
  "process_resident_memory_bytes",
];

export function metricNames(): Set<string> {
  const file = join(ROOT, "src/server/metric-list.ts");
  if (!existsSync(file)) return new Set(METRICS);
  const names = readFileSync(file, "utf8").matchAll(/^ {2}([a-z]+_[a-z0-9_]+): /gm);
  return new Set([...names].map(([, name = ""]) => name));
}

/** `30s`, `1m30s`, `45`: what Compose, systemd and Kubernetes write, in milliseconds. */
export function spanMs(text: string | number): number {
  const parts = [...String(text).matchAll(/(\d+)(ms|s|m|h)?/g)];
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (units[unit ?? "s"] ?? 0), 0);
}
