/**
 * The registry of workers: one row for each, from its start until a while after its end.
 *
 * The databases themselves refuse a second active row for a slot, and a change of status that a worker's life does not
 * have. What is written here only finds a free slot, and closes the rows of those who gave no sign of life.
 */
import { subjects } from "../core/audit.ts";
import { StoreBusy, WorkerRefused } from "../core/errors.ts";
import {
  activeStates,
  workerMoves,
  workerStates,
  type Ending,
  type Wish,
  type WorkerState,
} from "../core/worker-state.ts";
import { noteAction } from "./audit.ts";
import type { Engine, Row, Transaction } from "./engine.ts";
import { figures } from "./keeper-store.ts";
import { asRow, readNow } from "./moving.ts";
import { nothing, sql, type Sql } from "./sql.ts";
import { countStart, declareType } from "./worker-types.ts";
import type {
  ClosedWorker,
  Command,
  Liveness,
  NewWorker,
  Registered,
  Silence,
  WorkerFilter,
  WorkerMove,
  WorkerRecord,
} from "./registry.ts";

/** Said twice: some databases find the index by the one, others by the other. */
const ALIVE = sql`status in ('starting', 'running', 'stopping') and status <> 'stopped'`;

const columns = (engine: Engine): Sql => sql`
       id, type, slot, instance, status, reason, wish, hostname, pid, host_boot as "hostBoot",
       process_start as "processStart", version, node_version as "nodeVersion", platform, arch, queues, tasks,
       concurrency, started_at as "startedAt", heartbeat_at as "heartbeatAt", ${engine.now()} - heartbeat_at as "silentMs",
       stale_ms as "staleMs", hung_ms as "hungMs", stopped_at as "stoppedAt", beats,
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
export async function register(engine: Engine, worker: NewWorker): Promise<Registered> {
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
    if (waitedMs > patience.allMs) throw new StoreBusy({ store: engine.name, waitedMs });
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
  throw new WorkerRefused({ type, slots, active: id, hostname, pid });
}

function isActive({ status }: { status: WorkerState }): boolean {
  return activeStates.some((state) => state === status);
}

function rowOf(worker: NewWorker): Row {
  return {
    id: worker.id,
    type: worker.type,
    status: "starting",
    wish: "run",
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

export function closeDead(engine: Engine, silence: Silence): Promise<ClosedWorker[]> {
  return engine.transaction(async (tx) => {
    const rows = await tx.all<WorkerRow>(sql`
      select ${columns(engine)}
        from holdfast.worker
       where ${ALIVE}
       order by id`);
    return (await closeSilent(engine, tx, { rows, silence })).closed;
  });
}

export async function wishOf(engine: Engine, id: string): Promise<Wish | null> {
  const [row] = await engine.all<{ wish: Wish }>(
    sql`select wish from holdfast.worker where id = ${id} and status <> 'stopped'`,
  );
  return row?.wish ?? null;
}

export async function moveWorker(
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

/** What somebody wants workers to do. Returns the ids of those that will be told; the wish is kept with its actor. */
export function command(engine: Engine, order: Command): Promise<string[]> {
  const { wish, target } = order;
  return engine.transaction(async (tx) => {
    const rows = await tx.all<{ id: string; wish: Wish }>(sql`
      select id, wish from holdfast.worker where status <> 'stopped' ${targeted(target)} order by id`);
    if (rows.length === 0) return [];
    const ids = rows.map((row) => row.id);
    await tx.run(sql`
      update holdfast.worker set wish = ${wish}
       where ${engine.among(sql`id`, ids)} and status <> 'stopped'`);
    await noteAction(engine, tx, order, {
      action: `worker.${wish}`,
      subject: subjectOf(target),
      ...("worker" in target ? { oldStatus: rows[0]?.wish ?? null, newStatus: wish } : {}),
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

export async function listWorkers(engine: Engine, filter: WorkerFilter): Promise<WorkerRecord[]> {
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

export async function findWorker(engine: Engine, id: string): Promise<WorkerRecord | null> {
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
export function pruneWorkers(engine: Engine, stoppedForMs: number): Promise<number> {
  return engine.transaction((tx) =>
    tx.run(sql`
      delete from holdfast.worker
       where status = 'stopped'
         and stopped_at < ${engine.now()} - ${stoppedForMs}`),
  );
}
