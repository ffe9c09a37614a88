/**
 * Registers a worker, or waits for a slot as a standby.
 *
 * The wait ends when a slot is free: at once where the database sends notifications, within a second where the standby has
 * to poll.
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
import { isGone, ownTrace } from "../registry/heartbeat.ts";
import type { WorkersStore } from "../registry/store.ts";
import { type NewWorker, type Registered, SLOTS_MAX } from "../registry/worker-record.ts";
import type { WorkerSettings } from "./options.ts";

/** The longest pause between two polls of a standby for a free slot. */
const STANDBY_MS_MAX = 500;

/** A standby polls at least this often within the heartbeat timeout. */
const LOOKS_PER_STALE = 4;

/** How long a worker waits for concurrent registrations, and for its registration in all. */
const LOCK_MS_MAX = 5_000;
const REGISTRATION_MS_MAX = 10_000;

/** How long a worker tries to register while other processes lock the database. */
const BUSY_MS_MAX = 60_000;
const BUSY_PAUSE_MS = 100;

/** How many workers of one type are read. */
const SEEN_MAX = SLOTS_MAX;

interface RegistrationParts {
  readonly store: { readonly db: Database; readonly workers: WorkersStore };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
  /** Aborts when the worker is no longer wanted. */
  readonly signal: AbortSignal;
}

export async function register(id: string, parts: RegistrationParts): Promise<Registered> {
  const { store, settings } = parts;
  if (settings.onConflict === "standby") return standBy(id, parts);
  const stopAt = parts.runtime.monotonic() + BUSY_MS_MAX;
  for (let tries = 1; ; tries += 1) {
    try {
      return await store.workers.register(await newWorker(id, parts));
    } catch (error) {
      await waitIfBusy(error, parts, { tries, stopAt });
    }
  }
}

/** Waits for a database that other processes lock, as every other method does. */
async function waitIfBusy(
  error: unknown,
  { runtime, logger, signal }: RegistrationParts,
  { tries, stopAt }: { readonly tries: number; readonly stopAt: number },
): Promise<void> {
  if (!(error instanceof StoreBusyError) || runtime.monotonic() >= stopAt) throw error;
  if (tries === 1) logger.warn({ err: error }, "could not register; retrying");
  await sleep(runtime, BUSY_PAUSE_MS * runtime.random(), { signal });
  if (signal.aborted) throw new ClosedError({ what: "Holdfast" });
}

async function standBy(id: string, parts: RegistrationParts): Promise<Registered> {
  const { store, runtime, logger, settings, signal } = parts;
  let standsBy = false;
  let notedAt = Number.NEGATIVE_INFINITY;
  let woken = new AbortController();
  const unwatch = store.db.watch(({ kind }) => {
    if (kind === "workers") woken.abort();
  });
  try {
    for (;;) {
      if (signal.aborted) throw new ClosedError({ what: "Holdfast" });
      woken = new AbortController();
      const registered = await tryOnce(id, parts, standsBy);
      if ("instance" in registered) return registered;
      const facts = { event: "worker:standby", worker: id, ...registered };
      if (!standsBy) logger.info(facts, "worker is standing by");
      standsBy = true;
      if (runtime.monotonic() - notedAt >= NOTE_EVERY_MS) {
        notedAt = runtime.monotonic();
        await noteStandby(id, parts);
      }
      const waitMs = Math.min(STANDBY_MS_MAX, settings.heartbeatTimeoutMs / LOOKS_PER_STALE);
      await sleep(runtime, waitMs, { signal: AbortSignal.any([signal, woken.signal]) });
    }
  } finally {
    unwatch();
    // It is registered now, or ends. A row that stays expires after a minute.
    if (standsBy) await store.workers.forgetUnregistered(id).catch(() => {});
  }
}

/** Records the standby, so that operators see it. Errors are ignored. */
async function noteStandby(id: string, { store, settings }: RegistrationParts): Promise<void> {
  const { name: type, version, queues, tasks } = settings;
  const { hostname, pid } = ownTrace();
  const facts = { id, type, hostname, pid, version, queues, tasks: [...tasks.keys()] };
  await store.workers.noteUnregistered({ ...facts, kind: "standby" }).catch(() => {});
}

/** Returns the active worker if all slots are taken. A standby waits for a database that is unavailable. */
async function tryOnce(
  id: string,
  parts: RegistrationParts,
  standsBy: boolean,
): Promise<Registered | { active: string | null }> {
  try {
    return await parts.store.workers.register(await newWorker(id, parts));
  } catch (error) {
    if (error instanceof WorkerRefusedError) return { active: error.active };
    if (standsBy && (error instanceof StoreUnavailableError || error instanceof StoreBusyError)) {
      return { active: null };
    }
    throw error;
  }
}

async function newWorker(id: string, { store, settings }: RegistrationParts): Promise<NewWorker> {
  const { name, slots, version, queues, tasks, concurrency } = settings;
  const { heartbeatTimeoutMs: staleMs, stoppingTimeoutMs: hungMs } = settings;
  // The worker in our slot may be dead, and perhaps only this host can tell.
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
    waitLimits: { lockMs: LOCK_MS_MAX, allMs: REGISTRATION_MS_MAX },
  };
}
