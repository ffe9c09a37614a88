/** The database a command works on. */
import { Option } from "commander";
import type { Logger } from "../core/log.ts";
import { openStore } from "../store/open.ts";
import { openHoldfast, type Holdfast } from "../worker/holdfast.ts";

export const DEFAULT_URL = "sqlite:holdfast.db";

export interface DatabaseOptions {
  readonly url: string;
}

export function urlOption(): Option {
  return new Option("--url <url>", "the database").env("HOLDFAST_URL").default(DEFAULT_URL);
}

/**
 * For commands that bring jobs in or run them: an old database is brought up to date, and a missing one is created,
 * which is said, because the reason may be a mistyped name.
 */
export async function openForWork(
  url: string,
  say: (line: string) => void,
  logger?: Logger,
): Promise<Holdfast> {
  const store = await openStore(url);
  try {
    const { from, applied } = await store.migrate();
    if (from === 0 && applied.length > 0) say(`Created ${store.name}.`);
    return await openHoldfast(store, logger === undefined ? {} : { logger });
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** For commands that look at what is there: where nothing is, a new and empty database would answer wrongly. */
export function openForLooking(url: string): Promise<Holdfast> {
  return openHoldfast(url, { create: false, migrate: false });
}
