/**
 * The registry of workers: one row for each, from its start until a while after its end.
 *
 * The databases themselves refuse a second active row for a slot and an invalid change of status. The code here finds a free
 * slot, and closes the rows of workers without a heartbeat.
 */
import { subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { StoreBusyError, WorkerRefusedError } from "../core/errors.ts";
import type { Database } from "../database/database.ts";
import {
  asRow,
  type Engine,
  insertIfMissing,
  readNow,
  type Row,
  type Transaction,
} from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { heartbeat, noteBlocked, vitalsColumns } from "./heartbeat.ts";
import { outsideQueues, unclaimable } from "./unclaimable.ts";
import * as unregistered from "./unclaimable.ts";
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
  workerStates,
  type WorkerType,
  type WorkerVitals,
} from "./worker-record.ts";
import * as types from "./worker-types.ts";

/** The redundant condition is for the planner: some databases match the index by the first, others by the second. */
const ALIVE = sql`status in ('starting', 'running', 'stopping') and status <> 'stopped'`;

/** Lost workers are listed for this long. */
const LOST_MS = 3_600_000;

const lostLately = (engine: Engine): Sql => sql`
               and status = 'stopped'
               and stopped_at >= ${engine.now()} - ${LOST_MS}
               and reason in ('gone', 'stale', 'hung')`;

/** The audit names at most this many workers of one command. */
const NOTED_MAX = 500;

/** More builds than this are not listed. */
const BUILDS_MAX = 100;

const columns = (engine: Engine): Sql => sql`
       id, type, slot, instance, status, reason, desired_state as "desiredState", hostname, pid, host_boot as "hostBoot",
       process_start as "processStart", version, node_version as "nodeVersion", platform, arch, queues, tasks,
       concurrency, started_at as "startedAt", heartbeat_at as "heartbeatAt", ${engine.now()} - heartbeat_at as "silentMs",
       stale_ms as "staleMs", hung_ms as "hungMs", stopped_at as "stoppedAt", heartbeats,
       gap_ms_max as "gapMsMax", claimed, done, failed, retried, leases_lost as "leasesLost", running,
       loop_delay_ms as "loopDelayMs", memory_bytes as "memoryBytes", blocked_ms as "blockedMs",
       blocked_stack as "blockedStack"`;

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

/** The public methods of the class, for other implementations. */
export type WorkersStore = Pick<SqlWorkers, keyof SqlWorkers>;

export class SqlWorkers {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /**
   * Inserts a worker as `starting` and closes dead workers of its type, in one transaction. It locks the type's row first, so
   * workers that start at once register one after the other. Throws WorkerRefusedError when all slots of its type are taken,
   * and WorkerLimitMismatchError when its type has another limit.
   */
  async register(worker: NewWorker): Promise<Registered> {
    const startedAt = this.#engine.runtime.monotonic();
    const registered = await this.#registerOnce(worker, startedAt);
    if (registered !== null) return registered;
    await types.declareType(this.#engine, worker);
    return (await this.#registerOnce(worker, startedAt)) as Registered;
  }

  /** Null: the type is not declared yet. */
  #registerOnce(worker: NewWorker, startedAt: number): Promise<Registered | null> {
    const engine = this.#engine;
    const { type, slots, silence, waitLimits } = worker;
    return engine.transaction(async (tx) => {
      const instance = await types.countStart(tx, worker);
      if (instance === null) return null;
      const alive = await tx.all<WorkerRow>(sql`
        select ${columns(engine)}
          from holdfast.worker
         where type = ${type}
           and ${ALIVE}
         order by id`);
      const { others, closed } = await closeSilent(engine, tx, { rows: alive, silence });
      const slot = slots === null ? null : freeSlot(type, slots, others);
      const now = await readNow(engine, tx);
      const times = { started_at: now, heartbeat_at: now };
      await tx.insert("worker", [asRow({ ...rowOf(worker), slot, instance, ...times })]);
      const waitedMs = engine.runtime.monotonic() - startedAt;
      if (waitedMs > waitLimits.allMs) throw new StoreBusyError({ store: engine.name, waitedMs });
      return { slot, instance, closed };
    }, waitLimits);
  }

  /** Writes a heartbeat of a worker on these queues, and returns what it should know. Null: its row is closed or deleted. */
  heartbeat(
    id: string,
    vitals: WorkerVitals,
    queues: readonly string[],
  ): Promise<HeartbeatWrite | null> {
    return heartbeat(this.#engine, id, { vitals, queues });
  }

  /** A task blocks the event loop of a worker; null: not any more. The worker's lease renewer notes it. */
  noteBlocked(id: string, blocked: { ms: number; stack: string } | null): Promise<number> {
    return noteBlocked(this.#engine, id, blocked);
  }

  /** Reads the desired state of a worker without a heartbeat. Null: its row is closed or deleted. */
  async desiredStateOf(id: string): Promise<DesiredState | null> {
    const [row] = await this.#engine.all<{ desiredState: DesiredState }>(
      sql`select desired_state as "desiredState" from holdfast.worker where id = ${id} and status <> 'stopped'`,
    );
    return row?.desiredState ?? null;
  }

  /** False: the row is closed or deleted. A stopping worker has released its slot. */
  async move(id: string, { state, reason, vitals }: WorkerMove): Promise<boolean> {
    const engine = this.#engine;
    const from = workerStates.filter((other) => workerMoves[other].includes(state));
    const moved = await engine.transaction((tx) =>
      tx.run(sql`
        update holdfast.worker
           set status = ${state}, reason = ${reason},
               stopped_at = ${state === "stopped" ? engine.now() : sql`null`}
               ${vitals === undefined ? nothing : sql`, ${vitalsColumns(vitals)}`}
         where id = ${id}
           and ${engine.among(sql`status`, from)}`),
    );
    // A slot is free.
    if (moved > 0 && state !== "running") this.#db.announce({ kind: "workers" });
    return moved > 0;
  }

  /** Closes the rows of dead workers of any type. */
  async closeDead(silence: Silence): Promise<ClosedWorker[]> {
    const engine = this.#engine;
    const { closed } = await engine.transaction(async (tx) => {
      const rows = await tx.all<WorkerRow>(sql`
        select ${columns(engine)}
          from holdfast.worker
         where ${ALIVE}
         order by id`);
      return closeSilent(engine, tx, { rows, silence });
    });
    if (closed.length > 0) this.#db.announce({ kind: "workers" });
    return closed;
  }

  /** Sets the desired state of workers. Returns the ids of the live ones. */
  async command(command: Command): Promise<string[]> {
    const ids = await actOrLookUp(
      this.#db,
      command,
      () => sendCommand(this.#engine, command),
      async ({ detail }) => JSON.parse(detail ?? "[]") as string[],
    );
    if (ids.length > 0) this.#db.announce({ kind: "workers" });
    return ids;
  }

  /** The declared types with their limits. */
  types(): Promise<WorkerType[]> {
    return types.workerTypes(this.#engine);
  }

  /** Changes how many workers of a type may be active at once. */
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

  /** Most recently started first. */
  async list({ type, alive, lost, prefix, limit }: WorkerFilter): Promise<WorkerRecord[]> {
    // A week of workers is few rows, so a search by prefix needs no index.
    const rows = await this.#engine.all<ListedRow>(sql`
      ${listed(this.#engine)}
       where ${alive === true ? ALIVE : sql`id > ''`}
             ${lost === true ? lostLately(this.#engine) : nothing}
             ${type === undefined ? nothing : sql`and type = ${type}`}
             ${prefix === undefined ? nothing : sql`and substr(id, 1, length(${prefix})) = ${prefix}`}
       order by started_at desc, id desc
       limit ${limit}`);
    return rows.map(recordOf);
  }

  async find(id: string): Promise<WorkerRecord | null> {
    const [row] = await this.#engine.all<ListedRow>(sql`${listed(this.#engine)} where id = ${id}`);
    return row === undefined ? null : recordOf(row);
  }

  /** Records a standby, or a program that acquires leases, so that operators see it. Call it every 20 s. */
  noteUnregistered(worker: NewUnregistered): Promise<void> {
    return unregistered.noteUnregistered(this.#engine, worker);
  }

  async forgetUnregistered(id: string): Promise<void> {
    await this.#engine.transaction((tx) =>
      tx.run(sql`delete from holdfast.unregistered_worker where id = ${id}`),
    );
  }

  /** Workers recorded within the last minute, and lease owners that are not in the registry. */
  unregistered(): Promise<UnregisteredWorker[]> {
    return unregistered.unregistered(this.#engine);
  }

  /** The queues that unregistered workers serve, over HTTP or with the lease methods. */
  async outsideQueues(): Promise<string[]> {
    return [...(await outsideQueues(this.#engine))];
  }

  /** Pending jobs that no live worker can run, by queue and task, longest wait first; of one queue, if named. */
  unclaimable({ queue }: { readonly queue?: string } = {}): Promise<Unclaimable[]> {
    return unclaimable(this.#engine, queue);
  }

  /** Deletes the rows of workers that stopped, and of builds that last enqueued, longer ago than this. Returns how many. */
  async prune(forMs: number): Promise<number> {
    const engine = this.#engine;
    const workers = await engine.transaction((tx) =>
      tx.run(sql`
        delete from holdfast.worker
         where status = 'stopped'
           and stopped_at < ${engine.now()} - ${forMs}`),
    );
    const builds = await engine.transaction((tx) =>
      tx.run(sql`delete from holdfast.enqueuer where last_at < ${engine.now()} - ${forMs}`),
    );
    return workers + builds;
  }

  /**
   * Records that a build of the application enqueues jobs. One row for each build shows that no worker runs a build, and costs
   * an enqueuing process one statement a minute.
   */
  async noteEnqueuer(version: string): Promise<void> {
    const engine = this.#engine;
    const known = await engine.transaction((tx) =>
      tx.run(
        sql`update holdfast.enqueuer set last_at = ${engine.now()} where version = ${version}`,
      ),
    );
    if (known > 0) return;
    await insertIfMissing(engine, (tx) =>
      tx.run(sql`
        insert into holdfast.enqueuer (version, first_at, last_at)
        values (${version}, ${engine.now()}, ${engine.now()})`),
    );
  }

  /** The tasks that workers have had, by name. */
  async taskNames(limit: number): Promise<string[]> {
    const rows = await this.#engine.all<{ name: string }>(sql`
      select name from holdfast.task order by name limit ${limit}`);
    return rows.map(({ name }) => name);
  }

  /** The builds that enqueued jobs within this time, most recent first. */
  enqueuers(withinMs: number): Promise<EnqueuerRecord[]> {
    const now = this.#engine.now();
    return this.#engine.all<EnqueuerRecord>(sql`
      select version, first_at as "firstAt", last_at as "lastAt", ${now} - last_at as "silentMs"
        from holdfast.enqueuer
       where last_at >= ${now} - ${withinMs}
       order by last_at desc, version
       limit ${BUILDS_MAX}`);
  }
}

function freeSlot(type: string, slots: number, others: readonly WorkerRow[]): number {
  const active = others.filter(({ status }) => activeStates.some((state) => state === status));
  const taken = new Set(active.map(({ slot }) => slot));
  for (let slot = 1; slot <= slots; slot += 1) if (!taken.has(slot)) return slot;
  const { id, hostname, pid } = active[0] as WorkerRow;
  throw new WorkerRefusedError({ type, slots, active: id, hostname, pid });
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

/** Closes the rows of dead workers among these. */
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

/** How a worker ended that did not record its end; null: it is alive, as far as its heartbeats show. */
export function endingOf(
  { id, status, silentMs }: Pick<WorkerRow, "id" | "status" | "silentMs">,
  { staleMs, hungMs, gone }: Silence,
): Ending | null {
  if (gone.includes(id)) return "gone";
  if (status === "stopping") return silentMs > hungMs ? "hung" : null;
  return silentMs > staleMs ? "stale" : null;
}

/** Only if the row is unchanged: the worker may have sent a heartbeat or stopped. */
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

function recordOf(row: ListedRow): WorkerRecord {
  const { queues, tasks } = row;
  return {
    ...row,
    queues: unregistered.namesIn(queues),
    tasks: unregistered.namesIn(tasks),
    liveness: livenessOf(row),
  };
}

/** By its own settings: other workers may use shorter or longer limits. */
function livenessOf(row: WorkerRow): Liveness {
  if (row.status === "stopped") return "stopped";
  const { staleMs, hungMs } = row;
  return (endingOf(row, { staleMs, hungMs, gone: [] }) as "stale" | "hung" | null) ?? "alive";
}
