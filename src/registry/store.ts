/**
 * The registry of workers: one row for each, from its start until a while after its end.
 *
 * The databases themselves refuse a second active row for a slot, and a change of status that a worker's life does not
 * have. What is written here only finds a free slot, and closes the rows of those who gave no sign of life.
 */
import { subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { StoreBusyError, WorkerRefusedError } from "../core/errors.ts";
import type { Database } from "../database/database.ts";
import { asRow, type Engine, readNow, type Row, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { enqueuers, noteEnqueuer, pruneEnqueuers } from "./builds.ts";
import { beat, figures } from "./heartbeat.ts";
import { outsideQueues, unclaimable } from "./unclaimable.ts";
import * as unregistered from "./unregistered.ts";
import {
  activeStates,
  type ChangedLimit,
  type ClosedWorker,
  type Command,
  type DesiredState,
  type Ending,
  type EnqueuerRecord,
  type HeartbeatWrite,
  type LimitChange,
  type Liveness,
  type NewUnregistered,
  type NewWorker,
  type Registered,
  type Silence,
  type UnregisteredWorker,
  type WorkerFilter,
  type WorkerMove,
  workerMoves,
  type WorkerRecord,
  type WorkerState,
  workerStates,
  type WorkerType,
  type WorkerVitals,
} from "./worker-record.ts";
import * as types from "./worker-types.ts";
import { countStart, declareType } from "./worker-types.ts";

/** Said twice: some databases find the index by the one, others by the other. */
const ALIVE = sql`status in ('starting', 'running', 'stopping') and status <> 'stopped'`;

const columns = (engine: Engine): Sql => sql`
       id, type, slot, instance, status, reason, desired_state as "desiredState", hostname, pid, host_boot as "hostBoot",
       process_start as "processStart", version, node_version as "nodeVersion", platform, arch, queues, tasks,
       concurrency, started_at as "startedAt", heartbeat_at as "heartbeatAt", ${engine.now()} - heartbeat_at as "silentMs",
       stale_ms as "staleMs", hung_ms as "hungMs", stopped_at as "stoppedAt", heartbeats,
       gap_ms_max as "gapMsMax", claimed, done, failed, retried, leases_lost as "leasesLost", running,
       loop_delay_ms as "loopDelayMs", memory_bytes as "memoryBytes"`;

type WorkerRow = Omit<WorkerRecord, "queues" | "tasks" | "leases" | "liveness"> & {
  queues: string;
  tasks: string;
};

type ListedRow = WorkerRow & { leases: number };

/** With the leases that each worker holds at this moment. */
const listed = (engine: Engine): Sql => sql`
    select ${columns(engine)}, coalesce(held.leases, 0) as leases
      from holdfast.worker
      left join (select locked_by, count(*) as leases from holdfast.lease group by locked_by) held
        on held.locked_by = id`;

/**
 * One transaction: whoever is silent is closed, a free slot is looked for, the row is inserted. The type's row is locked
 * first, so those who start at once go one after the other.
 */
async function register(engine: Engine, worker: NewWorker): Promise<Registered> {
  const startedAt = engine.runtime.monotonic();
  const registered = await registerOnce(engine, worker, startedAt);
  if (registered !== null) return registered;
  await declareType(engine, worker);
  return (await registerOnce(engine, worker, startedAt)) as Registered;
}

/** Null: nobody has declared the type yet. */
function registerOnce(
  engine: Engine,
  worker: NewWorker,
  startedAt: number,
): Promise<Registered | null> {
  const { type, slots, silence, patience } = worker;
  return engine.transaction(async (tx) => {
    const instance = await countStart(tx, worker);
    if (instance === null) return null;
    const { others, closed } = await closeSilent(engine, tx, {
      rows: await aliveOf(engine, tx, type),
      silence,
    });
    const slot = slots === null ? null : freeSlot(type, slots, others);
    const now = await readNow(engine, tx);
    const times = { started_at: now, heartbeat_at: now };
    await tx.insert("worker", [asRow({ ...rowOf(worker), slot, instance, ...times })]);
    const waitedMs = engine.runtime.monotonic() - startedAt;
    if (waitedMs > patience.allMs) throw new StoreBusyError({ store: engine.name, waitedMs });
    return { slot, instance, closed };
  }, patience);
}

function aliveOf(engine: Engine, tx: Transaction, type: string): Promise<WorkerRow[]> {
  return tx.all<WorkerRow>(sql`
    select ${columns(engine)}
      from holdfast.worker
     where type = ${type}
       and ${ALIVE}
     order by id`);
}

function freeSlot(type: string, slots: number, others: readonly WorkerRow[]): number {
  const active = others.filter(isActive);
  const taken = new Set(active.map(({ slot }) => slot));
  for (let slot = 1; slot <= slots; slot += 1) if (!taken.has(slot)) return slot;
  const { id, hostname, pid } = active[0] as WorkerRow;
  throw new WorkerRefusedError({ type, slots, active: id, hostname, pid });
}

function isActive({ status }: { status: WorkerState }): boolean {
  return activeStates.some((state) => state === status);
}

function rowOf(worker: NewWorker): Row {
  return {
    id: worker.id,
    type: worker.type,
    status: "starting",
    desired_state: "run",
    hostname: worker.hostname,
    pid: worker.pid,
    host_boot: worker.hostBoot,
    process_start: worker.processStart,
    version: worker.version,
    node_version: worker.nodeVersion,
    platform: worker.platform,
    arch: worker.arch,
    queues: JSON.stringify(worker.queues),
    tasks: JSON.stringify(worker.tasks),
    concurrency: worker.concurrency,
    stale_ms: worker.silence.staleMs,
    hung_ms: worker.silence.hungMs,
  };
}

/** Closes those of the rows whose workers are dead. */
async function closeSilent(
  engine: Engine,
  tx: Transaction,
  { rows, silence }: { rows: readonly WorkerRow[]; silence: Silence },
): Promise<{ others: WorkerRow[]; closed: ClosedWorker[] }> {
  const others: WorkerRow[] = [];
  const closed: ClosedWorker[] = [];
  for (const row of rows) {
    const ending = endingOf(row, silence);
    if (ending === null || !(await close(engine, tx, { row, ending }))) others.push(row);
    else closed.push({ id: row.id, type: row.type, ending });
  }
  return { others, closed };
}

/** How a worker ended that cannot say so any more; null: it is alive, as far as anybody knows. */
export function endingOf(
  { id, status, silentMs }: Pick<WorkerRow, "id" | "status" | "silentMs">,
  { staleMs, hungMs, gone }: Silence,
): Ending | null {
  if (gone.includes(id)) return "gone";
  if (status === "stopping") return silentMs > hungMs ? "hung" : null;
  return silentMs > staleMs ? "stale" : null;
}

/** Only if it still is as we saw it: it may have given a sign of life, or have stopped by itself. */
async function close(
  engine: Engine,
  tx: Transaction,
  { row, ending }: { row: WorkerRow; ending: Ending },
): Promise<boolean> {
  const closed = await tx.run(sql`
    update holdfast.worker
       set status = 'stopped', reason = ${ending}, stopped_at = ${engine.now()}
     where id = ${row.id}
       and status = ${row.status}
       and heartbeat_at = ${row.heartbeatAt}`);
  return closed > 0;
}

function closeDead(engine: Engine, silence: Silence): Promise<ClosedWorker[]> {
  return engine.transaction(async (tx) => {
    const rows = await tx.all<WorkerRow>(sql`
      select ${columns(engine)}
        from holdfast.worker
       where ${ALIVE}
       order by id`);
    return (await closeSilent(engine, tx, { rows, silence })).closed;
  });
}

async function desiredStateOf(engine: Engine, id: string): Promise<DesiredState | null> {
  const [row] = await engine.all<{ desiredState: DesiredState }>(
    sql`select desired_state as "desiredState" from holdfast.worker where id = ${id} and status <> 'stopped'`,
  );
  return row?.desiredState ?? null;
}

async function moveWorker(
  engine: Engine,
  id: string,
  { state, reason, vitals }: WorkerMove,
): Promise<boolean> {
  const from = workerStates.filter((other) => workerMoves[other].includes(state));
  const moved = await engine.transaction((tx) =>
    tx.run(sql`
      update holdfast.worker
         set status = ${state}, reason = ${reason},
             stopped_at = ${state === "stopped" ? engine.now() : sql`null`}
             ${vitals === undefined ? nothing : sql`, ${figures(vitals)}`}
       where id = ${id}
         and ${engine.among(sql`status`, from)}`),
  );
  return moved > 0;
}

/** Of more workers than these the audit does not say who they were. */
const NOTED_MAX = 500;

/** Sets the desired state of workers. Returns the ids of those it reaches; the audit names the actor. */
function sendCommand(engine: Engine, order: Command): Promise<string[]> {
  const { desiredState, target } = order;
  return engine.transaction(async (tx) => {
    const rows = await tx.all<{ id: string; desiredState: DesiredState }>(sql`
      select id, desired_state as "desiredState" from holdfast.worker where status <> 'stopped' ${targeted(target)} order by id`);
    if (rows.length === 0) return [];
    const ids = rows.map((row) => row.id);
    await tx.run(sql`
      update holdfast.worker set desired_state = ${desiredState}
       where ${engine.among(sql`id`, ids)} and status <> 'stopped'`);
    await noteAction(engine, tx, order, {
      action: `worker.${desiredState}`,
      subject: subjectOf(target),
      ...("worker" in target
        ? { oldStatus: rows[0]?.desiredState ?? null, newStatus: desiredState }
        : {}),
      detail: JSON.stringify(ids.slice(0, NOTED_MAX)),
    });
    return ids;
  });
}

function targeted(target: Command["target"]): Sql {
  if ("worker" in target) return sql`and id = ${target.worker}`;
  return "type" in target ? sql`and type = ${target.type}` : nothing;
}

function subjectOf(target: Command["target"]): string {
  if ("worker" in target) return subjects.worker(target.worker);
  return "type" in target ? subjects.type(target.type) : subjects.workers;
}

async function listWorkers(engine: Engine, filter: WorkerFilter): Promise<WorkerRecord[]> {
  const { type, alive, prefix, limit } = filter;
  const rows = await engine.all<ListedRow>(sql`
    ${listed(engine)}
     where ${alive === true ? ALIVE : sql`id > ''`}
           ${type === undefined ? nothing : sql`and type = ${type}`}
           ${prefix === undefined ? nothing : sql`and ${beginsWith(prefix)}`}
     order by started_at desc, id desc
     limit ${limit}`);
  return rows.map(recordOf);
}

/** A week of workers is few rows, so no index is needed. */
function beginsWith(prefix: string): Sql {
  return sql`substr(id, 1, length(${prefix})) = ${prefix}`;
}

async function findWorker(engine: Engine, id: string): Promise<WorkerRecord | null> {
  const [row] = await engine.all<ListedRow>(sql`${listed(engine)} where id = ${id}`);
  return row === undefined ? null : recordOf(row);
}

function recordOf(row: ListedRow): WorkerRecord {
  const { queues, tasks } = row;
  return { ...row, queues: namesIn(queues), tasks: namesIn(tasks), liveness: livenessOf(row) };
}

/** By its own settings: others may have closed its row sooner, or may do so later. */
function livenessOf(row: WorkerRow): Liveness {
  if (row.status === "stopped") return "stopped";
  const { staleMs, hungMs } = row;
  return (endingOf(row, { staleMs, hungMs, gone: [] }) as "stale" | "hung" | null) ?? "alive";
}

function namesIn(text: string): string[] {
  return JSON.parse(text) as string[];
}

/** Rows of workers that stopped longer ago than this are let go. */
function pruneWorkers(engine: Engine, stoppedForMs: number): Promise<number> {
  return engine.transaction((tx) =>
    tx.run(sql`
      delete from holdfast.worker
       where status = 'stopped'
         and stopped_at < ${engine.now()} - ${stoppedForMs}`),
  );
}

// The verbs about workers.

export interface WorkersStore {
  /**
   * Enters a worker as `starting`, in one transaction with closing those of its type that are dead. Throws WorkerRefusedError
   * when all slots of its type are taken, and WorkerLimitMismatchError when its type has another limit.
   */
  register(worker: NewWorker): Promise<Registered>;

  /**
   * A sign of life of a worker on these queues, and what it should know. Null: its row was closed or is gone, so it is
   * nobody.
   */
  beat(id: string, vitals: WorkerVitals, queues: readonly string[]): Promise<HeartbeatWrite | null>;

  /** What is wanted of a worker, without a sign of life. Null: as above. */
  desiredStateOf(id: string): Promise<DesiredState | null>;

  /** False: the row was closed or is gone. A worker that is stopping has let go of its slot. */
  move(id: string, to: WorkerMove): Promise<boolean>;

  /** Closes the rows of workers that are dead, of any type. */
  closeDead(silence: Silence): Promise<ClosedWorker[]>;

  /** Says what workers shall do from now on. Returns the ids of those that are there to hear it. */
  command(command: Command): Promise<string[]>;

  /** The types that were declared, with their limits. */
  types(): Promise<WorkerType[]>;
  /** Changes how many workers of a type may be active at once. */
  changeLimit(change: LimitChange): Promise<ChangedLimit>;

  /** Workers, those that started last first. */
  list(filter: WorkerFilter): Promise<WorkerRecord[]>;
  find(id: string): Promise<WorkerRecord | null>;

  /** Notes a standby, or a program that acquires leases, so that people can see it. It is to be called every 20 s. */
  noteUnregistered(worker: NewUnregistered): Promise<void>;
  forgetUnregistered(id: string): Promise<void>;
  /** Those that were noted within the last minute, and owners of leases that no registry knows. */
  unregistered(): Promise<UnregisteredWorker[]>;

  /** The queues that somebody works on who is in no registry: over HTTP, or with the lease verbs. */
  outsideQueues(): Promise<string[]>;

  /** Pending jobs that no live worker can run, by queue and task, those that wait longest first; of one queue, if named. */
  unclaimable(filter?: { readonly queue?: string }): Promise<Unclaimable[]>;

  /** Deletes the rows of workers that stopped, and of builds that enqueued, longer ago than this. Returns how many. */
  prune(forMs: number): Promise<number>;

  /** Notes that a build of the application enqueues jobs. */
  noteEnqueuer(version: string): Promise<void>;
  /** The builds that enqueued jobs within this time, those that did so last first. */
  enqueuers(withinMs: number): Promise<EnqueuerRecord[]>;
}

export class SqlWorkers implements WorkersStore {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  register(worker: NewWorker): Promise<Registered> {
    return register(this.#engine, worker);
  }

  beat(
    id: string,
    vitals: WorkerVitals,
    queues: readonly string[],
  ): Promise<HeartbeatWrite | null> {
    return beat(this.#engine, id, { vitals, queues });
  }

  noteUnregistered(worker: NewUnregistered): Promise<void> {
    return unregistered.noteUnregistered(this.#engine, worker);
  }

  forgetUnregistered(id: string): Promise<void> {
    return unregistered.forgetUnregistered(this.#engine, id);
  }

  unregistered(): Promise<UnregisteredWorker[]> {
    return unregistered.unregistered(this.#engine);
  }

  async outsideQueues(): Promise<string[]> {
    return [...(await outsideQueues(this.#engine))];
  }

  desiredStateOf(id: string): Promise<DesiredState | null> {
    return desiredStateOf(this.#engine, id);
  }

  async move(id: string, to: WorkerMove): Promise<boolean> {
    const moved = await moveWorker(this.#engine, id, to);
    // A slot is free.
    if (moved && to.state !== "running") this.#db.announce({ kind: "workers" });
    return moved;
  }

  async closeDead(silence: Silence): Promise<ClosedWorker[]> {
    const closed = await closeDead(this.#engine, silence);
    if (closed.length > 0) this.#db.announce({ kind: "workers" });
    return closed;
  }

  async command(command: Command): Promise<string[]> {
    const told = await actOrLookUp(
      this.#db,
      command,
      () => sendCommand(this.#engine, command),
      async ({ detail }) => JSON.parse(detail ?? "[]") as string[],
    );
    if (told.length > 0) this.#db.announce({ kind: "workers" });
    return told;
  }

  types(): Promise<WorkerType[]> {
    return types.workerTypes(this.#engine);
  }

  async changeLimit(change: LimitChange): Promise<ChangedLimit> {
    const changed = await actOrLookUp(
      this.#db,
      change,
      () => types.changeLimit(this.#engine, change),
      async ({ detail }) => ({
        type: change.type,
        ...(JSON.parse(detail ?? "{}") as Pick<ChangedLimit, "from" | "to">),
      }),
    );
    // A standby may have a slot now.
    if (changed.from !== changed.to) this.#db.announce({ kind: "workers" });
    return changed;
  }

  list(filter: WorkerFilter): Promise<WorkerRecord[]> {
    return listWorkers(this.#engine, filter);
  }

  find(id: string): Promise<WorkerRecord | null> {
    return findWorker(this.#engine, id);
  }

  unclaimable({ queue }: { readonly queue?: string } = {}): Promise<Unclaimable[]> {
    return unclaimable(this.#engine, queue);
  }

  async prune(forMs: number): Promise<number> {
    const gone = await pruneWorkers(this.#engine, forMs);
    return gone + (await pruneEnqueuers(this.#engine, forMs));
  }

  noteEnqueuer(version: string): Promise<void> {
    return noteEnqueuer(this.#engine, version);
  }

  enqueuers(withinMs: number): Promise<EnqueuerRecord[]> {
    return enqueuers(this.#engine, withinMs);
  }
}
