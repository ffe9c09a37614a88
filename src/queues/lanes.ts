/**
 * The lanes of a queue: which customer has how many jobs waiting.
 *
 * Pending jobs are counted by reading the index of their lanes in slices. A lane is read up to a limit and then skipped, so
 * a lane with a million jobs costs no more than one with ten thousand.
 */
import type { Runtime } from "../core/runtime.ts";
import { type Engine, readNow } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { Pause } from "../limits/gates.ts";
import { laneName } from "../jobs/rows.ts";

/** Of more pending jobs in a lane, it is only said that there are more. It is also what one statement reads. */
const COUNT_MAX = 10_000;

/** Pending jobs that one look reads. The lanes behind them are not counted. */
const LOOK_MAX = 2_000_000;

/** Lanes that are listed. */
export const LANES_SHOWN = 20;

/** Lanes of one look that are kept, besides those that are asked for by name. */
export const LANES_SHOWN_MAX = 100;

/** Starts are counted in the last minute; if there are too many, in the last seconds. */
const WINDOWS_MS = [60_000, 3_000];

/** Jobs that ended in a window. */
const ENDED_MAX = 20_000;

/** Attempts of a window that did not end in a job that is done: each is looked up. */
const ATTEMPTS_MAX = 2_000;

const MINUTE_MS = 60_000;

/** A lane of a queue, and its jobs. */
export interface LaneFigures {
  /** The name of the lane; null: the jobs that are in none. */
  readonly lane: string | null;
  /** How many jobs wait in it, up to 10,000. */
  readonly pending: number;
  /** There are more than that. */
  readonly isMore: boolean;
  /** Since when the oldest of them waits (ms since 1970); null: none waits. */
  readonly oldestPendingAt: number | null;
  /** How many of its jobs run. */
  readonly running: number;
  /** How many of its jobs started in the last minute; null: too many to be counted. */
  readonly startsPerMinute: number | null;
}

/** A lane with what operators set for it. */
export interface Lane extends LaneFigures {
  /** The lane's share when lanes take turns. */
  readonly weight: number;
  /** Since when, by whom and why; null: it is not paused. */
  readonly paused: Pause | null;
}

/** The lanes of a queue, at one instant. */
export interface Lanes<L = Lane> {
  /** When they were counted (ms since 1970, the database's clock). */
  readonly countedAt: number;
  /** False: the queue has so many pending jobs that lanes at the end of the alphabet were not counted. */
  readonly isComplete: boolean;
  /** Those with the most pending jobs first. */
  readonly lanes: readonly L[];
  /** Of all lanes that were counted. */
  readonly total: {
    /** How many lanes have pending jobs. */
    readonly lanes: number;
    /** How many jobs wait. */
    readonly pending: number;
    /** There are more: a lane has more than is counted. */
    readonly isMore: boolean;
  };
}

interface Counted {
  pending: number;
  oldest: number;
}

/** Counts the lanes. Those of these names are in the answer, whatever they have. */
export async function lanesOf(
  engine: Engine,
  queue: string,
  named: readonly string[],
): Promise<Lanes<LaneFigures>> {
  const countedAt = await readNow(engine);
  const { counted, isComplete } = await countPending(engine, queue);
  const running = await countRunning(engine, queue);
  const starts = await countStarts(engine, queue, countedAt);
  const names = new Set([...counted.keys(), ...running.keys(), ...named]);
  const all = [...names].map((name): LaneFigures => {
    const { pending = 0, oldest = null } = counted.get(name) ?? {};
    return {
      lane: name === "" ? null : name,
      pending: Math.min(pending, COUNT_MAX),
      isMore: pending > COUNT_MAX,
      oldestPendingAt: oldest,
      running: running.get(name) ?? 0,
      startsPerMinute: starts === null ? null : (starts.get(name) ?? 0),
    };
  });
  const sorted = all.toSorted(byPending);
  const isNamed = new Set(named);
  const rest = sorted
    .slice(LANES_SHOWN_MAX)
    .filter(({ lane }) => lane !== null && isNamed.has(lane));
  return {
    countedAt,
    isComplete,
    lanes: [...sorted.slice(0, LANES_SHOWN_MAX), ...rest],
    total: {
      lanes: counted.size,
      pending: all.reduce((sum, { pending }) => sum + pending, 0),
      isMore: all.some(({ isMore }) => isMore),
    },
  };
}

/** The most first; of the same number, the one that waits longest. */
function byPending(a: LaneFigures, b: LaneFigures): number {
  const more = b.pending - a.pending || Number(b.isMore) - Number(a.isMore);
  const older = (a.oldestPendingAt ?? Infinity) - (b.oldestPendingAt ?? Infinity);
  return more || older || b.running - a.running || ((a.lane ?? "") < (b.lane ?? "") ? -1 : 1);
}

interface LaneRow {
  readonly lane: string;
  readonly pending: number;
  readonly oldest: number;
}

async function countPending(engine: Engine, queue: string) {
  const counted = new Map<string, Counted>();
  let after: string | null = null;
  for (let read = 0; read < LOOK_MAX;) {
    const { rows, isLast }: Slice = await sliceAfter(engine, queue, after);
    for (const row of rows) add(counted, row);
    if (isLast) return { counted, isComplete: true };
    read += rows.reduce((sum, { pending }) => sum + pending, 0);
    after = rows.at(-1)?.lane ?? null;
  }
  return { counted, isComplete: false };
}

/** Jobs of limited tasks stand beside the others of their lane. */
function add(counted: Map<string, Counted>, { lane, pending, oldest }: LaneRow): void {
  const name = laneName(lane) ?? "";
  const before = counted.get(name) ?? { pending: 0, oldest };
  counted.set(name, {
    pending: before.pending + pending,
    oldest: Math.min(before.oldest, oldest),
  });
}

interface Slice {
  readonly rows: readonly LaneRow[];
  readonly isLast: boolean;
}

/**
 * The lanes that lie within the next `COUNT_MAX` jobs, or the one that goes on behind them. To find the end first reads the
 * index alone; MariaDB would write the rows of a limited subquery to a table on its disk.
 */
async function sliceAfter(engine: Engine, queue: string, after: string | null): Promise<Slice> {
  const from = sql`
      from holdfast.ready ${engine.byPrimaryKey()}
     where queue = ${queue}
       and ${after === null ? sql`lane >= ''` : sql`lane > ${after}`}`;
  const lanes = (where: Sql): Promise<LaneRow[]> =>
    engine.all<LaneRow>(sql`
    select lane, count(*) as pending, min(ready_at) as oldest ${from} ${where} group by lane order by lane`);
  const [end] = await engine.all<{ lane: string; place: number }>(sql`
    select lane, place ${from} order by lane, place, id limit 1 offset ${COUNT_MAX}`);
  if (end === undefined) return { rows: await lanes(nothing), isLast: true };
  const rows = await lanes(sql`and lane < ${end.lane}`);
  if (rows.length > 0) return { rows, isLast: false };
  const large = await lanes(sql`and lane = ${end.lane} and place <= ${end.place}`);
  return { rows: large, isLast: false };
}

/** There are as many leases as slots. */
async function countRunning(engine: Engine, queue: string): Promise<Map<string, number>> {
  const rows = await engine.all<{ lane: string; jobs: number }>(sql`
    select coalesce(lane, '') as lane, count(*) as jobs
      from holdfast.lease
     where queue = ${queue}
     group by coalesce(lane, '')`);
  return new Map(rows.map(({ lane, jobs }) => [lane, jobs]));
}

/** How many started in a minute, by lane. Null: so many ended even in the short window that they are not counted. */
async function countStarts(
  engine: Engine,
  queue: string,
  now: number,
): Promise<Map<string, number> | null> {
  for (const windowMs of WINDOWS_MS) {
    const starts = await startsSince(engine, queue, now - windowMs);
    if (starts === null) continue;
    const perMinute = ([lane, jobs]: [string, number]): [string, number] => [
      lane,
      Math.round((jobs * MINUTE_MS) / windowMs),
    ];
    return new Map([...starts].map(perMinute));
  }
  return null;
}

/** Jobs that run, those that are done, and attempts that ended in another way. Null: too many. */
async function startsSince(
  engine: Engine,
  queue: string,
  since: number,
): Promise<Map<string, number> | null> {
  const starts = new Map<string, number>();
  for (const { most, rows } of [begun(since), done(since), attempts(engine, since)]) {
    // Other jobs are counted too, to know whether the limit was reached.
    const counts = await engine.all<{ lane: string | null; jobs: number }>(sql`
      select case when queue = ${queue} and begun_at >= ${since} then coalesce(lane, '') end as lane,
             count(*) as jobs
        from (${rows} limit ${most}) ended
       group by 1`);
    if (counts.reduce((sum, { jobs }) => sum + jobs, 0) >= most) return null;
    for (const { lane, jobs } of counts) {
      if (lane !== null) starts.set(lane, (starts.get(lane) ?? 0) + jobs);
    }
  }
  return starts;
}

interface Source {
  readonly most: number;
  readonly rows: Sql;
}

function begun(since: number): Source {
  const rows = sql`
          select queue, lane, claimed_at as begun_at from holdfast.lease where claimed_at >= ${since}`;
  return { most: ENDED_MAX, rows };
}

function done(since: number): Source {
  const rows = sql`
          select queue, lane, started_at as begun_at
            from holdfast.finished
           where status = 'done'
             and finished_at >= ${since}`;
  return { most: ENDED_MAX, rows };
}

function attempts(engine: Engine, since: number): Source {
  const rows = sql`
          select s.queue, s.lane, a.started_at as begun_at
            from (select job_id, started_at
                    from holdfast.attempt ${engine.byEnd()}
                   where ended_at >= ${since}
                   order by ended_at desc
                   limit ${ATTEMPTS_MAX}) a
            join holdfast.job_state s on s.id = a.job_id`;
  return { most: ATTEMPTS_MAX, rows };
}

/** The first of them with what is set for each, and those that are paused. */
export function shownLanes(
  { lanes, ...look }: Lanes<LaneFigures>,
  set: Readonly<Record<string, Pick<Lane, "weight" | "paused">>>,
  limit: number,
): Lanes {
  const shown = lanes.map((one): Lane => {
    const { weight = 1, paused = null } = set[one.lane ?? ""] ?? {};
    return { ...one, weight, paused };
  });
  const first = shown.slice(0, limit);
  return {
    ...look,
    lanes: [...first, ...shown.slice(limit).filter(({ paused }) => paused !== null)],
  };
}

/** The pause after a look, as a multiple of the time that it took. */
const REST = 20;

/** Queues whose lanes are remembered. */
const LOOKS_MAX = 100;

interface LanesStore {
  lanes(queue: string, named: readonly string[]): Promise<Lanes<LaneFigures>>;
}

interface Look {
  readonly answer: Promise<Lanes<LaneFigures>>;
  /** Until then it is not repeated. */
  until: number;
}

/** However many people look at a large queue, its lanes are counted in a twentieth of the time. */
export class LaneLooks {
  readonly #store: LanesStore;
  readonly #runtime: Runtime;
  /** By queue. */
  readonly #looks = new Map<string, Look>();

  constructor(store: LanesStore, runtime: Runtime) {
    this.#store = store;
    this.#runtime = runtime;
  }

  of(queue: string, named: readonly string[]): Promise<Lanes<LaneFigures>> {
    const known = this.#looks.get(queue);
    if (known !== undefined && this.#runtime.monotonic() < known.until) return known.answer;
    const look = { answer: this.#store.lanes(queue, named), until: Number.POSITIVE_INFINITY };
    this.#looks.delete(queue);
    this.#looks.set(queue, look);
    const [oldest = ""] = this.#looks.keys();
    if (this.#looks.size > LOOKS_MAX) this.#looks.delete(oldest);
    void this.#note(look);
    return look.answer;
  }

  async #note(look: Look): Promise<void> {
    const startedAt = this.#runtime.monotonic();
    await look.answer.catch(() => {}); // Its callers get the error.
    const now = this.#runtime.monotonic();
    look.until = now + REST * (now - startedAt);
  }
}
