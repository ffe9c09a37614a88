/**
 * The gates of one turn: a limit in use has a row in `gate`, and claims lock it.
 *
 * No count is stored there: how many jobs run is counted from the leases, in a statement after the one that took the lock. So
 * claims under one limit are serial, and each counts all that earlier ones committed.
 *
 * Locks in this order: the gate of the queue, those of tasks by name, those of lanes. Only while it holds no lane's gate does
 * a claim wait for one. Of several queues in one transaction, it waits for gates of the first only: the order of queues
 * changes from turn to turn. So two claims cannot wait for each other.
 */
import { bareName } from "../core/name.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { LANE_END } from "../jobs/rows.ts";
import { afterStarts, mayStart, nextStartMs, type Rate } from "./rates.ts";

// The rules of a queue, as its rows say them.

interface Limit {
  /** How many jobs may run at once, in all processes together; null: any number. */
  readonly concurrency: number | null;
  readonly rate: Rate | null;
}

/** Of the queue, of each lane, of one lane, or of one task in the queue. */
export type RuleKind = "queue" | "lanes" | "lane" | "task";

export interface Rule extends Limit {
  readonly kind: RuleKind;
  /** Of the lane or the task. */
  readonly name: string;
  /** Of a lane: its share when lanes take turns. */
  readonly weight: number;
  /** Of a lane; null: it is not paused. */
  readonly paused: Pause | null;
}

/** Since when, by whom and why. */
export interface Pause {
  /** When it was paused (ms since 1970). */
  readonly at: number;
  /** Who paused it. */
  readonly by: string;
  /** Why, as given; null: no reason was given. */
  readonly reason: string | null;
}

export interface RuleRow {
  kind: RuleKind;
  name: string;
  concurrency: number | null;
  rate_count: number | null;
  rate_ms: number | null;
  rate_burst: number | null;
  weight: number | null;
  paused_at?: number | null;
  paused_by?: string | null;
  pause_reason?: string | null;
}

export function ruleOf(row: RuleRow): Rule {
  const { kind, name, concurrency, weight } = row;
  const rate =
    row.rate_count === null
      ? null
      : {
          count: row.rate_count,
          periodMs: row.rate_ms ?? 0,
          burst: row.rate_burst ?? 1,
        };
  const { paused_at: at = null, paused_by: by, pause_reason: reason = null } = row;
  const paused = at === null ? null : { at, by: by ?? "", reason };
  return { kind, name, concurrency, rate, weight: weight ?? 1, paused };
}

const NO_LIMIT: Limit = { concurrency: null, rate: null };

export function isLimited({ concurrency, rate }: Limit): boolean {
  return concurrency !== null || rate !== null;
}

/** A lane of pending jobs: those of one name, or those of a limited task in it. */
export interface Lane {
  /** As `ready.lane` has it. */
  readonly text: string;
  readonly name: string;
  readonly task: string | null;
}

export function laneOf(text: string): Lane {
  const [name = "", task = null] = text.split(LANE_END);
  return { text, name, task };
}

/** The lane in which a job of this task belongs. */
export function laneFor(name: string, task: string, limited: ReadonlySet<string>): string {
  const bare = bareName(task);
  return limited.has(bare) ? `${name}${LANE_END}${bare}` : name;
}

/** A turn visits no more lanes when it has held its gates for so long: a backlog of jobs in the wrong lane takes many visits. */
const HELD_MS_MAX = 250;

type Kind = "queue" | "task" | "lane";

export interface SeenGate {
  readonly name: string;
  readonly allowed_at: number;
}

export interface GateRow extends SeenGate {
  readonly kind: Kind;
}

/** One limit in this turn: what its row says, and how many may still start. */
interface Gate {
  readonly kind: Kind;
  readonly name: string;
  readonly limit: Limit;
  readonly allowedAt: number;
  readonly room: number;
  started: number;
}

/** The gates of these lanes as they were when the turn began. */
interface Looked {
  readonly lanes: ReadonlySet<string>;
  readonly gates: readonly SeenGate[];
}

interface TurnOfQueue {
  readonly queue: string;
  readonly nowMs: number;
  readonly looked: Looked;
  /** Whether it may wait for gates that other claims hold. */
  readonly mayWait: boolean;
}

export class Gates {
  readonly #engine: Engine;
  readonly #tx: Transaction;
  readonly #queue: string;
  readonly #nowUs: number;
  readonly #looked: Looked;
  /** By kind and name. */
  readonly #gates = new Map<string, Gate>();
  readonly #mayWait: boolean;
  readonly #openedAt: number;
  #holdsRules = false;
  #holdsLanes = false;
  #eachLane: Limit = NO_LIMIT;
  limitedTasks: ReadonlySet<string> = new Set();
  /** When a rate allows the next start; null: no rate stands in the way. */
  nextStartMs: number | null = null;
  /** Lanes that were passed over because they have no gate yet, and it could not be made any more. */
  readonly withoutGate = new Set<string>();
  /** Whether lanes were passed over because other claims hold their gates. */
  hasMet = false;

  constructor(engine: Engine, tx: Transaction, { queue, nowMs, looked, mayWait }: TurnOfQueue) {
    this.#engine = engine;
    this.#tx = tx;
    this.#queue = queue;
    this.#nowUs = nowMs * 1_000;
    this.#looked = looked;
    this.#mayWait = mayWait;
    this.#openedAt = engine.runtime.monotonic();
  }

  /** Other claims have waited for these gates long enough. */
  get isLate(): boolean {
    return this.#engine.runtime.monotonic() - this.#openedAt > HELD_MS_MAX;
  }

  /** Whether the transaction holds gates of this queue. */
  get holds(): boolean {
    return this.#holdsRules || this.#holdsLanes;
  }

  /** The gates of the queue and of tasks, whose rows are locked already. */
  open(rules: readonly Rule[], rows: readonly GateRow[], counts: readonly RunningRow[]): void {
    this.#holdsRules = rows.length > 0;
    this.#eachLane = rules.find(({ kind }) => kind === "lanes") ?? NO_LIMIT;
    const ruled = rules.filter((rule) => rule.kind !== "lanes" && isLimited(rule));
    const tasks = ruled.filter(({ kind }) => kind === "task");
    this.limitedTasks = new Set(tasks.map(({ name }) => name));
    if (ruled.length === 0) return;
    const running = byBareName(counts);
    const total = [...running.values()].reduce((sum, count) => sum + count, 0);
    for (const rule of ruled) {
      const kind = rule.kind === "task" ? "task" : "queue";
      const row = rows.find((gate) => gate.kind === kind && gate.name === rule.name);
      const count = kind === "task" ? (running.get(rule.name) ?? 0) : total;
      this.#add({ kind, name: rule.name, allowed_at: row?.allowed_at ?? 0 }, rule, count);
    }
  }

  /** How many jobs of any lane may start. */
  roomOfQueue(): number {
    return this.#roomOf("queue", "");
  }

  roomOf(lane: Lane): number {
    const task = lane.task === null ? Number.POSITIVE_INFINITY : this.#roomOf("task", lane.task);
    return Math.min(this.roomOfQueue(), task, this.#roomOf("lane", lane.name));
  }

  /** Counts starts, or takes back those that no job was found for. */
  charge({ name, task }: Lane, starts: number): void {
    for (const key of ["queue:", `task:${task}`, `lane:${name}`]) {
      const gate = this.#gates.get(key);
      if (gate !== undefined) gate.started += starts;
    }
  }

  /** Locks the gates of limited lanes, and returns the lanes from which jobs may be taken. */
  async lockLanes(lanes: readonly Lane[], rules: ReadonlyMap<string, Rule>): Promise<Lane[]> {
    const limitOf = (name: string): Limit => {
      const own = rules.get(name);
      const { concurrency, rate } = this.#eachLane;
      if (own === undefined) return this.#eachLane;
      return { concurrency: own.concurrency ?? concurrency, rate: own.rate ?? rate };
    };
    const isFree = ({ name }: Lane): boolean => name === "" || !isLimited(limitOf(name));
    const names = new Set(lanes.filter((lane) => !isFree(lane)).map(({ name }) => name));
    const unknown = [...names].filter((name) => !this.#gates.has(`lane:${name}`)).toSorted();
    if (unknown.length > 0) await this.#lock(unknown, limitOf);
    return lanes.filter((lane) => isFree(lane) || this.#gates.has(`lane:${lane.name}`));
  }

  /** Moves the rates' instants forward, to be committed with the leases. */
  changes(): Sql[] {
    const engine = this.#engine;
    const moved = [...this.#gates.values()].flatMap(({ kind, name, limit, allowedAt, started }) => {
      if (limit.rate === null || started === 0) return [];
      return [{ kind, name, next: afterStarts(limit.rate, allowedAt, started, this.#nowUs) }];
    });
    return [...Map.groupBy(moved, ({ kind }) => kind)].map(([kind, gates]) => {
      const cases = gates.reduce(
        (before, { name, next }) =>
          sql`${before} when ${engine.typed(name)} then ${engine.typed(next)}`,
        nothing,
      );
      const names = gates.map(({ name }) => name);
      return sql`
        update holdfast.gate ${engine.byPrimaryKey()}
           set allowed_at = case name ${cases} end
         where queue = ${this.#queue}
           and kind = ${kind}
           and ${engine.among(sql`name`, names)}`;
    });
  }

  #roomOf(kind: Kind, name: string): number {
    const gate = this.#gates.get(`${kind}:${name}`);
    return gate === undefined ? Number.POSITIVE_INFINITY : gate.room - gate.started;
  }

  #add({ kind, name, allowed_at: allowedAt }: GateRow, limit: Limit, running: number): void {
    const { concurrency, rate } = limit;
    const byCount = concurrency === null ? Number.POSITIVE_INFINITY : concurrency - running;
    const byRate = rate === null ? Number.POSITIVE_INFINITY : this.#byRate(rate, allowedAt);
    const room = Math.max(0, Math.min(byCount, byRate));
    this.#gates.set(`${kind}:${name}`, { kind, name, limit, allowedAt, room, started: 0 });
  }

  #byRate(rate: NonNullable<Limit["rate"]>, allowedAt: number): number {
    const starts = mayStart(rate, allowedAt, this.#nowUs);
    if (starts > 0) return starts;
    const nextMs = nextStartMs(rate, allowedAt, this.#nowUs);
    this.nextStartMs = Math.min(this.nextStartMs ?? Number.POSITIVE_INFINITY, nextMs);
    return 0;
  }

  async #lock(names: readonly string[], limitOf: (name: string) => Limit): Promise<void> {
    const seen = await this.#see(names);
    // A rate that allows no start is seen without a lock: another claim only moves it further.
    const isOpen = ({ name, allowed_at }: SeenGate): boolean => {
      const { rate } = limitOf(name);
      return rate === null || this.#byRate(rate, allowed_at) > 0;
    };
    const there = new Set(seen.map(({ name }) => name));
    const closed = new Set(seen.filter((row) => !isOpen(row)).map(({ name }) => name));
    const missing = names.filter((name) => !there.has(name));
    // An insert waits for another claim that inserts the same row, so it must come before the first lock.
    const mayWait = this.#mayWait && !this.#holdsLanes;
    if (mayWait) await this.#make(missing);
    else for (const name of missing) this.withoutGate.add(name);
    const wanted = names.filter((name) => !closed.has(name) && !this.withoutGate.has(name));
    if (wanted.length === 0) return;
    const isFree = await this.#lockAndCount(wanted, this.#engine.lockFreeRows(), limitOf);
    // Other claims hold them all. Wait for one: nothing that they wait for is held here.
    if (!isFree && mayWait) {
      await this.#lockAndCount(wanted.slice(0, 1), this.#engine.lockRows(), limitOf);
    }
  }

  async #see(names: readonly string[]): Promise<readonly SeenGate[]> {
    const { lanes, gates } = this.#looked;
    if (names.every((name) => lanes.has(name)))
      return gates.filter(({ name }) => names.includes(name));
    return this.#tx.all<SeenGate>(sql`select name, allowed_at ${this.#rows(names)}`);
  }

  /** Sent together, and carried out one after the other: the count sees what earlier holders of the locks committed. */
  async #lockAndCount(
    names: readonly string[],
    lock: Sql,
    limitOf: (name: string) => Limit,
  ): Promise<boolean> {
    const locking = sql`select kind, name, allowed_at ${this.#rows(names)} order by name ${lock}`;
    const [locked = [], counts = []] = await this.#tx.allOf([locking, this.#countIn(names)]);
    const running = new Map(counts.map(({ lane, running: count }) => [lane, Number(count)]));
    for (const row of locked as unknown as GateRow[]) {
      this.#add(row, limitOf(row.name), running.get(row.name) ?? 0);
    }
    this.#holdsLanes ||= locked.length > 0;
    this.hasMet ||= locked.length < names.length;
    return locked.length > 0;
  }

  #rows(names: readonly string[]): Sql {
    return sql`
        from holdfast.gate ${this.#engine.byPrimaryKey()}
       where queue = ${this.#queue}
         and kind = 'lane'
         and ${this.#engine.among(sql`name`, names)}`;
  }

  async #make(names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    const rowOf = (name: string): Sql =>
      sql`holdfast.gate (queue, kind, name) values (${this.#queue}, 'lane', ${name})`;
    await this.#tx.runAll(names.map((name) => this.#engine.insertOrIgnore(rowOf(name))));
  }

  #countIn(names: readonly string[]): Sql {
    const { from, queue, lane } = this.#engine.dialect.sparse.leases;
    return sql`
      select ${lane} as lane, count(*) as running
        from ${from}
       where ${queue} = ${this.#queue}
         and ${this.#engine.among(lane, names)}
       group by ${lane}`;
  }
}

export interface RunningRow {
  readonly task: string;
  readonly running: number;
}

/**
 * Comes after the lock of the gates, in a statement of its own: it must see what their earlier holders committed. No rows if
 * neither the queue nor a task in it is limited.
 */
export function runningByTask(engine: Engine, name: string): Sql {
  const { from, queue, lane } = engine.dialect.sparse.leases;
  return sql`
    select l.task, count(*) as running
      from ${from}
     where ${queue} = ${name}
       and ${lane} is not null
       and exists (select 1 from holdfast.queue_rule where queue = ${name} and kind in ('queue', 'task'))
     group by l.task`;
}

/** How many gates the queue and its tasks have. One that is made meanwhile looks like one that another claim holds. */
export function gatesOf(queue: string): Sql {
  return sql`(select count(*) from holdfast.gate where queue = ${queue} and kind in ('queue', 'task'))`;
}

function byBareName(rows: readonly RunningRow[]): Map<string, number> {
  const running = new Map<string, number>();
  for (const { task, running: count } of rows) {
    running.set(bareName(task), (running.get(bareName(task)) ?? 0) + count);
  }
  return running;
}

/** Whether claims must look closer. If so, leases that were taken without a look count from now on. */
export async function govern(engine: Engine, tx: Transaction, queue: string): Promise<void> {
  await tx.run(sql`
    update holdfast.queue
       set governed = case when paused_at is not null or lanes = 1
                             or exists (select 1 from holdfast.queue_rule r where r.queue = ${queue})
                           then 1 else 0 end
     where name = ${queue}`);
  const [governed] = await tx.all(
    sql`select name from holdfast.queue where name = ${queue} and governed = 1`,
  );
  if (governed !== undefined) await countLeasesOf(engine, tx, [queue]);
}

/** Leases that were taken without a look at the rules count from now on. Returns how many. */
export async function countLeasesOf(
  engine: Engine,
  tx: Transaction,
  queues: readonly string[],
): Promise<number> {
  const leases = await tx.all<{ id: string }>(sql`
    select id from holdfast.lease where lane is null and ${engine.among(sql`queue`, queues)}`);
  const ids = leases.map(({ id }) => id);
  const isUncounted = sql`lane is null and ${engine.among(sql`id`, ids)}`;
  const counted =
    ids.length === 0
      ? 0
      : await tx.run(
          sql`update holdfast.lease ${engine.byPrimaryKey()} set lane = '' where ${isUncounted}`,
        );
  await engine.dialect.sparse.enterLeases(tx, queues);
  return counted;
}
