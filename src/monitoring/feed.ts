/**
 * Changes in the database for live clients: one query serves all clients of this process.
 *
 * It reads on from the last keys it saw: job ids, and the times at which jobs ended. Both are assigned before the commit, so a
 * late commit may sort before rows already seen. Each query therefore starts a little earlier and skips what was already sent.
 * A client that reconnects says where it was; it may get an event twice, but misses none.
 */
import { firstIdAt, idTime, isId } from "../core/id.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Database } from "../database/database.ts";
import type { ServerEvent } from "../http-kernel/sse.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { EndedRecord, NewcomerRecord } from "../jobs/store.ts";
import type { WorkersStore } from "../registry/store.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import type { Observation } from "./monitor.ts";

/** `hello`: what was missed is sent. `gap`: some events were left out. `tick`: only the time. */
export const streamEvents = [
  "hello",
  "enqueued",
  "finished",
  "worker",
  "counts",
  "gap",
  "tick",
] as const;

export interface StreamEvent extends ServerEvent {
  readonly event: (typeof streamEvents)[number];
}

/** The parts of the store that are used here. */
interface Stores {
  readonly db: Database;
  readonly jobs: JobsStore;
  readonly workers: WorkersStore;
}

/** How late a commit may be, and how far the clocks of enqueuing processes may lag. */
const OVERLAP_MS = 5_000;

/** Per kind and query. Beyond it, clients get a `gap` event instead of every row. */
const ROWS_MAX = 1_000;

/** The interval without notifications, and the shortest one however many arrive. */
const POLL_MS = 2_000;

const GAP_MS = 200;

const WORKERS_MAX = 1_000;

/** A client that was away for longer reads pages: sorting everything that ended since would be too expensive. */
const AWAY_MS_MAX = 15 * 60_000;

/** A client's position: the last enqueued job, and when the last job ended. */
interface Position {
  readonly id: string;
  readonly endedAt: number;
}

interface FeedParts {
  readonly store: Stores;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly monitor: { latest(): Observation | null } | null;
}

export class Feed {
  readonly #parts: FeedParts;
  readonly #listeners = new Set<(event: StreamEvent) => void>();
  #watch: Watch | null = null;

  constructor(parts: FeedParts) {
    this.#parts = parts;
  }

  /** Calls the listener from now on. Returns a function that ends this, and the current position. */
  async join(
    listener: (event: StreamEvent) => void,
  ): Promise<{ readonly leave: () => void; readonly cursor: string }> {
    this.#listeners.add(listener);
    this.#watch ??= new Watch(this.#parts, (event) => {
      for (const each of this.#listeners) each(event);
    });
    const leave = (): void => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.stop();
    };
    return { leave, cursor: await this.#watch.begun };
  }

  /** The events since a position. */
  async since(cursor: string): Promise<ServerEvent[]> {
    const position = readCursor(cursor);
    if (position === null) return [gap("everything")];
    const { store } = this.#parts;
    if ((await store.db.clock()) - position.endedAt > AWAY_MS_MAX) return [gap("everything")];
    const rows = await readRows(store, position);
    return [...eventsOf(rows), ...gapsOf(rows)];
  }

  stop(): void {
    this.#watch?.stop();
    this.#watch = null;
  }
}

/** Polls while there is a listener. */
class Watch {
  readonly begun: Promise<string>;
  readonly #parts: FeedParts;
  readonly #tell: (event: StreamEvent) => void;
  readonly #loop: Loop;
  readonly #unwatch: () => void;
  #position: Position | null = null;
  #seen: ReadonlySet<string> = new Set();
  #workers = new Map<string, WorkerRecord>();
  #countedAt: number | null = null;
  #soon: Timer | null = null;
  readonly #begin = Promise.withResolvers<string>();

  constructor(parts: FeedParts, tell: (event: StreamEvent) => void) {
    this.#parts = parts;
    this.#tell = tell;
    this.begun = this.#begin.promise;
    const { runtime, logger, store } = parts;
    const once = (): Promise<number> => this.#look();
    this.#loop = new Loop({ name: "feed", runtime, logger, once, background: true });
    this.#unwatch = store.db.watch(() => this.#wakeSoon());
  }

  stop(): void {
    this.#unwatch();
    this.#soon?.cancel();
    void this.#loop.stop();
  }

  #wakeSoon(): void {
    const wake = (): void => {
      this.#soon = null;
      this.#loop.wake();
    };
    this.#soon ??= this.#parts.runtime.timer(GAP_MS, wake, "background");
  }

  async #look(): Promise<number> {
    if (this.#position === null) await this.#start();
    else await this.#lookAtJobs(this.#position);
    await this.#lookAtWorkers();
    this.#lookAtCounts();
    this.#begin.resolve(cursorOf(this.#position as Position));
    return POLL_MS;
  }

  /** Rows that exist at the start are not reported. */
  async #start(): Promise<void> {
    const { store } = this.#parts;
    const now = await store.db.clock();
    const [newest] = await store.jobs.list({ limit: 1 });
    const id = newest?.id ?? firstIdAt(now);
    this.#position = { id, endedAt: now };
    this.#seen = new Set((await readRows(store, this.#position)).keys);
    for (const worker of await this.#alive()) this.#workers.set(worker.id, worker);
  }

  async #lookAtJobs(before: Position): Promise<void> {
    const rows = await readRows(this.#parts.store, before);
    const events = [...eventsOf(rows, this.#seen), ...gapsOf(rows)];
    const position = await this.#after(before, rows);
    // A client that is cut off midway resumes before this whole batch.
    const [was, is] = [cursorOf(before), cursorOf(position)];
    events.forEach((event, index) =>
      this.#tell({ ...event, id: index === events.length - 1 ? is : was }),
    );
    this.#seen = new Set(rows.keys);
    this.#position = position;
  }

  async #after(before: Position, { jobs, ended }: Rows): Promise<Position> {
    const { store } = this.#parts;
    const last = jobs.length === ROWS_MAX ? (await store.jobs.list({ limit: 1 }))[0] : jobs.at(-1);
    const endedAt =
      ended.length === ROWS_MAX ? await store.db.clock() : (ended.at(-1)?.finishedAt ?? 0);
    return {
      id: last === undefined || last.id < before.id ? before.id : last.id,
      endedAt: Math.max(before.endedAt, endedAt),
    };
  }

  #alive(): Promise<WorkerRecord[]> {
    return this.#parts.store.workers.list({ alive: true, limit: WORKERS_MAX });
  }

  async #lookAtWorkers(): Promise<void> {
    const now = new Map((await this.#alive()).map((worker) => [worker.id, worker]));
    for (const worker of now.values()) {
      const before = this.#workers.get(worker.id);
      if (before?.status === worker.status && before.desiredState === worker.desiredState) continue;
      this.#tell(workerEvent(worker));
    }
    for (const worker of this.#workers.values()) {
      if (!now.has(worker.id)) this.#tell(workerEvent({ ...worker, status: "stopped" }));
    }
    this.#workers = now;
  }

  #lookAtCounts(): void {
    const counts = this.#parts.monitor?.latest()?.counts ?? null;
    if (counts === null || counts.countedAt === this.#countedAt) return;
    this.#countedAt = counts.countedAt;
    this.#tell({ event: "counts", data: counts });
  }
}

interface Rows {
  readonly jobs: readonly NewcomerRecord[];
  readonly ended: readonly EndedRecord[];
  readonly keys: readonly string[];
}

async function readRows(store: Stores, { id, endedAt }: Position): Promise<Rows> {
  const after = firstIdAt(Math.max(0, idTime(id) - OVERLAP_MS));
  const jobs = await store.jobs.after({ after, limit: ROWS_MAX });
  const ended = await store.jobs.endedSince({ at: endedAt - OVERLAP_MS, limit: ROWS_MAX });
  return { jobs, ended, keys: [...jobs.map(keyOf), ...ended.map(keyOf)] };
}

/** A job may end more than once: a retry by an operator raises its epoch. */
function keyOf(row: NewcomerRecord | EndedRecord): string {
  return "epoch" in row ? `${row.id} ${row.epoch} ${row.finishedAt}` : row.id;
}

function eventsOf({ jobs, ended }: Rows, seen: ReadonlySet<string> = new Set()): StreamEvent[] {
  const isFresh = (row: NewcomerRecord | EndedRecord): boolean => !seen.has(keyOf(row));
  return [
    ...jobs.filter(isFresh).map((data) => ({ event: "enqueued", data }) as const),
    ...ended.filter(isFresh).map((data) => ({ event: "finished", data }) as const),
  ];
}

function gapsOf({ jobs, ended }: Rows): StreamEvent[] {
  return [
    ...(jobs.length === ROWS_MAX ? [gap("enqueued")] : []),
    ...(ended.length === ROWS_MAX ? [gap("finished")] : []),
  ];
}

/** More happened than is sent; the lists have everything. */
function gap(of: "enqueued" | "finished" | "everything"): StreamEvent {
  return { event: "gap", data: { of } };
}

function workerEvent(worker: WorkerRecord): StreamEvent {
  const { id, type, status, desiredState, version, running, done } = worker;
  return { event: "worker", data: { id, type, status, desiredState, version, running, done } };
}

function cursorOf({ id, endedAt }: Position): string {
  return `${id}~${endedAt}`;
}

function readCursor(text: string): Position | null {
  const [id = "", at = ""] = text.split("~");
  return isId(id) && /^\d{1,15}$/.test(at) ? { id, endedAt: Number(at) } : null;
}
