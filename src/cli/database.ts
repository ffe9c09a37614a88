/** The database a command works on. */
import { Option } from "commander";
import type { Logger } from "../core/log.ts";
import { openHoldfast, type Holdfast } from "../worker/holdfast.ts";

export const DEFAULT_URL = "sqlite:holdfast.db";

export interface DatabaseOptions {
  readonly url: string;
}

export function urlOption(): Option {
  return new Option("--url <url>", "the database").env("HOLDFAST_URL").default(DEFAULT_URL);
}

/** For commands that bring jobs in or run them: a missing database is created, an old one is brought up to date. */
export function openForWork(url: string, logger?: Logger): Promise<Holdfast> {
  return openHoldfast(url, logger === undefined ? {} : { logger });
}

/** For commands that look at what is there: where nothing is, a new and empty database would answer wrongly. */
export function openForLooking(url: string): Promise<Holdfast> {
  return openHoldfast(url, { create: false, migrate: false });
}
