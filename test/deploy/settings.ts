/**
 * What the files in deploy/ and the guide are held against: the settings, paths and commands that the program has.
 */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { keys, schema, settingOf } from "../../src/app/settings.ts";
import { metrics } from "../../src/monitoring/metric-list.ts";
import { launcher } from "../support/package.ts";

export const ROOT = join(import.meta.dirname, "../..");

export const SETTINGS: ReadonlySet<string> = new Set([
  ...keys.flatMap((key) => settingOf(key).env),
  // Not of the schema: the version of the build (src/core/version.ts), and Node's own.
  "BUILD_ID",
  "NODE_OPTIONS",
]);

export const DEFAULT_PORT = schema.port.initial;
export const DEFAULT_SHUTDOWN_MS = schema.shutdown.initial;

/** A worker whose time is up aborts its tasks, hands them back and closes its connections. */
export const AFTER_SHUTDOWN_MS = 10_000;

export const PROBE_PATHS: ReadonlySet<string> = new Set(["/health", "/live", "/ready"]);
export const METRICS_PATH = "/metrics";

let help: string | null = null;

/** The commands that the program has. */
export function commands(): Set<string> {
  help ??= execFileSync(process.execPath, [launcher, "--help"], { encoding: "utf8" });
  const [, list = ""] = /\nCommands:\n([\s\S]*?)\n\n/.exec(help) ?? [];
  return new Set([...list.matchAll(/^ {2}([a-z]+)/gm)].map(([, name = ""]) => name));
}

export function metricNames(): Set<string> {
  return new Set(Object.keys(metrics));
}

/** `30s`, `1m30s`, `45`: what Compose, systemd and Kubernetes write, in milliseconds. */
export function spanMs(text: string | number): number {
  const parts = [...String(text).matchAll(/(\d+)(ms|s|m|h)?/g)];
  const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (units[unit ?? "s"] ?? 0), 0);
}
