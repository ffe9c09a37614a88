/** A database with its locks kept here or there, or not at all. */
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { missing, urlOf } from "../support/servers.ts";

/** Where the first layer is. What must hold, holds in each. */
export const MODES = ["off", "sql", "redis"] as const;
export type Mode = (typeof MODES)[number];

/** The Redis that all tests share, if there is one. */
export function sharedRedis(): string | null {
  return missing("redis") === false ? urlOf("redis") : null;
}

/** Those that can be tried here. */
export function modesWith(redis: string | null): Mode[] {
  return MODES.filter((mode) => mode !== "redis" || redis !== null);
}

export function openIn(
  { url, redis }: { readonly url: string; readonly redis: string | null },
  mode: Mode,
): Promise<Holdfast> {
  return openHoldfast(url, { locks: mode, redis: mode === "redis" ? (redis ?? "") : "" });
}
