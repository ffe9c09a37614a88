/** The database a command works on. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { DEFAULT_URL } from "../config/database-settings.ts";
import type { Settings } from "../config/schema.ts";
import { StoreUnavailable } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { openStore } from "../store/open.ts";
import { openHoldfast, type Holdfast, type HoldfastOptions } from "../worker/holdfast.ts";
import { UrlOption, usesDefaultUrl } from "./url-option.ts";

export interface DatabaseOptions {
  readonly url: string;
}

export function urlOption(): UrlOption {
  return new UrlOption();
}

/**
 * For commands that bring jobs in or run them: an old database is brought up to date, and a missing one is created,
 * which is said, because the reason may be a mistyped name.
 */
export async function openForWork(
  url: string,
  say: (line: string) => void,
  options: Omit<HoldfastOptions, "migrate" | "create" | "version" | "runtime"> = {},
): Promise<Holdfast> {
  const { schema, redis, ...others } = options;
  const store = await openStore(url, {
    ...(schema === undefined ? {} : { schema }),
    ...(redis === undefined ? {} : { redis }),
  });
  try {
    const { from, applied } = await store.migrate();
    if (from === 0 && applied.length > 0) say(`Created ${store.name}.`);
    return await openHoldfast(store, { ...others, ...(redis === undefined ? {} : { redis }) });
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The same, with all that the settings say. */
export function openForService(settings: Settings, logger: Logger): Promise<Holdfast> {
  const { url, schema, redis, locks, lockTtl, lockWait } = settings;
  return openForWork(url, (line) => logger.info({ event: "schema:created" }, line), {
    logger,
    lockTtl,
    lockWait,
    ...(schema === null ? {} : { schema }),
    ...(redis === null ? {} : { redis }),
    ...(locks === null ? {} : { locks }),
  });
}

/** For commands that look at what is there: where nothing is, a new and empty database would answer wrongly. */
export async function openForLooking(url: string): Promise<Holdfast> {
  const path = resolve(DEFAULT_URL.replace("sqlite:", ""));
  if (usesDefaultUrl() && !existsSync(path)) {
    throw new StoreUnavailable({
      problem: `There is no database at ${path}, the default: neither --url nor HOLDFAST_URL names one.`,
      remedy:
        "Name yours, such as --url sqlite:shop.db, or create this one with 'holdfast migrate'.",
    });
  }
  return openHoldfast(url, { create: false, migrate: false });
}
