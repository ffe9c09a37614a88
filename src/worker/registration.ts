/**
 * How a worker comes to its row: it registers, or waits for a slot as a standby.
 *
 * The wait ends when a slot is free: at once where the database tells its clients what happened, within a second where
 * they have to look.
 */
import {
  ClosedError,
  StoreBusyError,
  StoreUnavailableError,
  WorkerRefusedError,
} from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { type Runtime, sleep } from "../core/runtime.ts";
import type { Database } from "../database/database.ts";
import { NOTE_EVERY_MS } from "../jobs/leases.ts";
import { isGone, ownTrace } from "../registry/process-identity.ts";
import type { WorkersStore } from "../registry/store.ts";
import { type NewWorker, type Registered, SLOTS_MAX } from "../registry/worker-record.ts";
import type { WorkerSettings } from "./options.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly db: Database;
  readonly workers: WorkersStore;
}

/** How often a standby looks whether a slot has become free, at the least. */
const STANDBY_MS_MAX = 500;

/** How many looks it takes to notice a worker that is stale. */
const LOOKS_PER_STALE = 4;

/** How long a worker waits for others that register at the same time, and for its registration in all. */
const LOCK_MS_MAX = 5_000;

const REGISTRATION_MS_MAX = 10_000;

/** How long a worker tries to register while others keep the database locked. */
const BUSY_MS_MAX = 60_000;

const BUSY_PAUSE_MS = 100;

/** How many workers of one type are looked at. */
const SEEN_MAX = SLOTS_MAX;

export interface RegistrationParts {
  readonly store: Stores;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
  /** Aborts when nobody wants the worker any more. */
  readonly signal: AbortSignal;
}

export async function register(id: string, parts: RegistrationParts): Promise<Registered> {
  const { store, settings } = parts;
  if (settings.onConflict === "standby") return standBy(id, parts);
  const stopAt = parts.runtime.monotonic() + BUSY_MS_MAX;
  for (let tries = 1; ; tries += 1) {
    try {
      return await store.workers.register(await newWorker(id, store, settings));
    } catch (error) {
      await waitIfBusy(error, parts, { tries, stopAt });
    }
  }
}

/** A database that others keep locked, one after the other, is waited for as by every other verb. */
async function waitIfBusy(
  error: unknown,
  { runtime, logger, signal }: RegistrationParts,
  { tries, stopAt }: { readonly tries: number; readonly stopAt: number },
): Promise<void> {
  if (!(error instanceof StoreBusyError) || runtime.monotonic() >= stopAt) throw error;
  if (tries === 1) logger.warn({ err: error }, "could not register, and goes on trying");
  await sleep(runtime, BUSY_PAUSE_MS * runtime.random(), { signal });
  if (signal.aborted) throw new ClosedError({ what: "Holdfast" });
}

async function standBy(id: string, parts: RegistrationParts): Promise<Registered> {
  const { store, runtime, logger, settings, signal } = parts;
  let said = false;
  let notedAt = Number.NEGATIVE_INFINITY;
  let woken = new AbortController();
  const unwatch = store.db.watch(({ kind }) => {
    if (kind === "workers") woken.abort();
  });
  try {
    for (;;) {
      if (signal.aborted) throw new ClosedError({ what: "Holdfast" });
      woken = new AbortController();
      const registered = await tryOnce(id, parts, said);
      if ("instance" in registered) return registered;
      const facts = { event: "worker:standby", worker: id, ...registered };
      if (!said) logger.info(facts, "worker stands by");
      said = true;
      if (runtime.monotonic() - notedAt >= NOTE_EVERY_MS) {
        notedAt = runtime.monotonic();
        await noteStandby(id, parts);
      }
      const waitMs = Math.min(STANDBY_MS_MAX, settings.staleMs / LOOKS_PER_STALE);
      await sleep(runtime, waitMs, { signal: AbortSignal.any([signal, woken.signal]) });
    }
  } finally {
    unwatch();
    // It is registered now, or ends. A row that stays is forgotten after a minute.
    if (said) await store.workers.forgetUnregistered(id).catch(() => {});
  }
}

/** So that people can see it. A database that is away is waited for as before. */
async function noteStandby(id: string, { store, settings }: RegistrationParts): Promise<void> {
  const { name: type, version, queues, tasks } = settings;
  const { hostname, pid } = ownTrace();
  const facts = { id, type, hostname, pid, version, queues, tasks: [...tasks.keys()] };
  await store.workers.noteUnregistered({ ...facts, kind: "standby" }).catch(() => {});
}

/** Who is active instead, if somebody is. A database that goes away while the worker stands by is waited for. */
async function tryOnce(
  id: string,
  { store, settings }: RegistrationParts,
  standsBy: boolean,
): Promise<Registered | { active: string | null }> {
  try {
    return await store.workers.register(await newWorker(id, store, settings));
  } catch (error) {
    if (error instanceof WorkerRefusedError) return { active: error.active };
    if (standsBy && (error instanceof StoreUnavailableError || error instanceof StoreBusyError)) {
      return { active: null };
    }
    throw error;
  }
}

async function newWorker(id: string, store: Stores, settings: WorkerSettings): Promise<NewWorker> {
  const { name, slots, version, queues, tasks, concurrency, staleMs, hungMs } = settings;
  // Whoever shares a slot with us may be dead already, and we may be the ones who can see it.
  const others =
    slots === null ? [] : await store.workers.list({ type: name, alive: true, limit: SEEN_MAX });
  return {
    ...ownTrace(),
    id,
    type: name,
    slots,
    version,
    nodeVersion: process.version,
    platform: process.platform,
    arch: process.arch,
    queues,
    tasks: [...tasks.keys()],
    concurrency,
    silence: { staleMs, hungMs, gone: others.filter(isGone).map((other) => other.id) },
    patience: { lockMs: LOCK_MS_MAX, allMs: REGISTRATION_MS_MAX },
  };
}
