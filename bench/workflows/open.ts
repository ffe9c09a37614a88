/** A database with its locks kept here or there, or not at all. */
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { urlOf } from "../../test/support/servers.ts";

export const MODES = ["off", "sql", "redis"] as const;
export type Mode = (typeof MODES)[number];

export function openIn(url: string, mode: Mode): Promise<Holdfast> {
  return openHoldfast(url, { locks: mode, redis: mode === "redis" ? urlOf("redis") : "" });
}
