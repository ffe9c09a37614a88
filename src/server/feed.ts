/**
 * What is new in the database, for everybody who looks on: one look for all clients of this process.
 *
 * It reads on by the keys of what it saw last: the ids of jobs, and the instants at which jobs ended. Both are made before they
 * are committed, so what comes late may stand before what was seen. Each look therefore begins a little earlier, and tells what it
 * has not told. A client that comes back says where it was; it may be told something twice, and misses nothing.
 */
import { firstIdAt, idTime, isId } from "../core/id.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Observation } from "../ops/observation.ts";
import type { EndedRecord, NewcomerRecord } from "../store/access.ts";
import type { WorkerRecord } from "../store/registry.ts";
import type { Store } from "../store/store.ts";
import type { ServerEvent } from "./sse.ts";

/** How late a commit may be, and how far clocks of those who enqueue may be behind. */
const OVERLAP_MS = 5_000;
/** Of each kind in one look. Where more happens, somebody who looks on is told that, and not all of it. */
const ROWS_MAX = 1_000;
/** So often without a hint, and so often at most however many hints there are. */
const POLL_MS = 2_000;
const GAP_MS = 200;
const WORKERS_MAX = 1_000;

/** Where somebody is in what happens: the last job that came, and when the last one ended. */
const AWAY_MS_MAX = 15 * 60_000;

interface Position {
  readonly id: string;
  readonly endedAt: number;
}

export interface FeedParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly monitor: { latest(): Observation | null } | null;
}

export class Feed {
  readonly #parts: FeedParts;
  readonly #listeners = new Set<(event: ServerEvent) => void>();
  #watch: Watch | null = null;

  constructor(parts: FeedParts) {
    this.#parts = parts;
  }

  /** From now on `hear` is told. Returns the function that ends it, and where one is when it begins. */
  async join(
    hear: (event: ServerEvent) => void,
  ): Promise<{ readonly leave: () => void; readonly cursor: string }> {
    this.#listeners.add(hear);
    this.#watch ??= new Watch(this.#parts, (event) => {
      for (const listener of this.#listeners) listener(event);
    });
    const leave = (): void => {
      this.#listeners.delete(hear);
      if (this.#listeners.size === 0) this.stop();
    };
    return { leave, cursor: await this.#watch.begun };
  }

  /** What happened since somebody was there. */
  async since(cursor: string): Promise<ServerEvent[]> {
    const position = readCursor(cursor);
    if (position === null) return [gap("everything")];
    const { store } = this.#parts;
    // Whoever was away for long reads pages: everything that ended since would have to be put in order.
    if ((await store.clock()) - position.endedAt > AWAY_MS_MAX) return [gap("everything")];
    const rows = await readRows(store, position);
    return [...eventsOf(rows), ...gapsOf(rows)];
  }

  stop(): void {
    this.#watch?.stop();
    this.#watch = null;
  }
}

/** Looks again and again, while somebody listens. */
class Watch {
  readonly begun: Promise<string>;
  readonly #parts: FeedParts;
  readonly #tell: (event: ServerEvent) => void;
  readonly #loop: Loop;
  readonly #unwatch: () => void;
  #position: Position | null = null;
  #seen: ReadonlySet<string> = new Set();
  #workers = new Map<string, WorkerRecord>();
  #countedAt: number | null = null;
  #soon: Timer | null = null;
  readonly #begin = Promise.withResolvers<string>();

  constructor(parts: FeedParts, tell: (event: ServerEvent) => void) {
    this.#parts = parts;
    this.#tell = tell;
    this.begun = this.#begin.promise;
    const { runtime, logger, store } = parts;
    const once = (): Promise<number> => this.#look();
    this.#loop = new Loop({ name: "feed", runtime, logger, once, background: true });
    this.#unwatch = store.watch(() => this.#wakeSoon());
  }

  stop(): void {
    this.#unwatch();
    this.#soon?.cancel();
    void this.#loop.stop();
  }

  #wakeSoon(): void {
    this.#soon ??= this.#parts.runtime.timer(
      GAP_MS,
      () => {
        this.#soon = null;
        this.#loop.wake();
      },
      "background",
    );
  }

  async #look(): Promise<number> {
    if (this.#position === null) await this.#start();
    else await this.#lookAtJobs(this.#position);
    await this.#lookAtWorkers();
    this.#lookAtCensus();
    this.#begin.resolve(cursorOf(this.#position as Position));
    return POLL_MS;
  }

  /** What is there when it begins is old news. */
  async #start(): Promise<void> {
    const { store } = this.#parts;
    const now = await store.clock();
    const [newest] = await store.list({ limit: 1 });
    const id = newest?.id ?? firstIdAt(now);
    this.#position = { id, endedAt: now };
    this.#seen = new Set((await readRows(store, this.#position)).keys);
    for (const worker of await this.#alive()) this.#workers.set(worker.id, worker);
  }

  async #lookAtJobs(before: Position): Promise<void> {
    const { store } = this.#parts;
    const rows = await readRows(store, before);
    const fresh = eventsOf(rows, this.#seen);
    const position = await this.#after(before, rows);
    const news = [...fresh, ...gapsOf(rows)];
    // Whoever is cut off in the middle begins where all of these began.
    const [was, is] = [cursorOf(before), cursorOf(position)];
    news.forEach((event, index) =>
      this.#tell({ ...event, id: index === news.length - 1 ? is : was }),
    );
    this.#seen = new Set(rows.keys);
    this.#position = position;
  }

  async #after(before: Position, { jobs, ended }: Rows): Promise<Position> {
    const { store } = this.#parts;
    const last = jobs.length === ROWS_MAX ? (await store.list({ limit: 1 }))[0] : jobs.at(-1);
    const endedAt =
      ended.length === ROWS_MAX ? await store.clock() : (ended.at(-1)?.finishedAt ?? 0);
    return {
      id: last === undefined || last.id < before.id ? before.id : last.id,
      endedAt: Math.max(before.endedAt, endedAt),
    };
  }

  #alive(): Promise<WorkerRecord[]> {
    return this.#parts.store.workers({ alive: true, limit: WORKERS_MAX });
  }

  async #lookAtWorkers(): Promise<void> {
    const now = new Map((await this.#alive()).map((worker) => [worker.id, worker]));
    for (const worker of now.values()) {
      const before = this.#workers.get(worker.id);
      if (before?.status === worker.status && before.wish === worker.wish) continue;
      this.#tell(workerEvent(worker));
    }
    for (const worker of this.#workers.values()) {
      if (!now.has(worker.id)) this.#tell(workerEvent({ ...worker, status: "stopped" }));
    }
    this.#workers = now;
  }

  #lookAtCensus(): void {
    const census = this.#parts.monitor?.latest()?.census ?? null;
    if (census === null || census.countedAt === this.#countedAt) return;
    this.#countedAt = census.countedAt;
    this.#tell({ event: "census", data: census });
  }
}

interface Rows {
  readonly jobs: readonly NewcomerRecord[];
  readonly ended: readonly EndedRecord[];
  readonly keys: readonly string[];
}

async function readRows(store: Store, { id, endedAt }: Position): Promise<Rows> {
  const after = firstIdAt(Math.max(0, idTime(id) - OVERLAP_MS));
  const jobs = await store.jobsAfter({ after, limit: ROWS_MAX });
  const ended = await store.endedSince({ at: endedAt - OVERLAP_MS, limit: ROWS_MAX });
  return { jobs, ended, keys: [...jobs.map(keyOf), ...ended.map(keyOf)] };
}

/** A job may end more than once: whoever revives it gives it another epoch. */
function keyOf(row: NewcomerRecord | EndedRecord): string {
  return "epoch" in row ? `${row.id} ${row.epoch} ${row.finishedAt}` : row.id;
}

function eventsOf({ jobs, ended }: Rows, seen: ReadonlySet<string> = new Set()): ServerEvent[] {
  const isFresh = (row: NewcomerRecord | EndedRecord): boolean => !seen.has(keyOf(row));
  return [
    ...jobs.filter(isFresh).map((data) => ({ event: "enqueued", data })),
    ...ended.filter(isFresh).map((data) => ({ event: "finished", data })),
  ];
}

function gapsOf({ jobs, ended }: Rows): ServerEvent[] {
  return [
    ...(jobs.length === ROWS_MAX ? [gap("enqueued")] : []),
    ...(ended.length === ROWS_MAX ? [gap("finished")] : []),
  ];
}

/** More happened than is told: whoever wants to know all of it reads the lists. */
function gap(of: "enqueued" | "finished" | "everything"): ServerEvent {
  return { event: "gap", data: { of } };
}

function workerEvent(worker: WorkerRecord): ServerEvent {
  const { id, type, status, wish, version, running, done } = worker;
  return { event: "worker", data: { id, type, status, wish, version, running, done } };
}

function cursorOf({ id, endedAt }: Position): string {
  return `${id}~${endedAt}`;
}

function readCursor(text: string): Position | null {
  const [id = "", at = ""] = text.split("~");
  return isId(id) && /^\d{1,15}$/.test(at) ? { id, endedAt: Number(at) } : null;
}
