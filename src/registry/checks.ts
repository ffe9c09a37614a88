/** Workers: whether they are alive, whether there are too many, and which builds they run. */
import { subjects } from "../audit/entry.ts";
import { formatMs } from "../core/duration.ts";
import { asking, type Check, type Look, type Offender } from "../database/check.ts";
import { byBuild, isKnownVersion, isSameBuild } from "../core/version.ts";
import { type Engine, readNow } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { unclaimable } from "./unclaimable.ts";

/** A row still open this long after the last heartbeat should have been closed. A worker's settings may allow longer. */
const STALE_MS = 60_000;
const HUNG_MS = 120_000;

/** How long a dead worker is reported after its row was closed. */
const FOUND_DEAD_FOR_MS = 10 * 60_000;

/** A build that last enqueued longer ago may have been replaced. */
const ENQUEUED_WITHIN_MS = 5 * 60_000;

/** How many builds are read. */
const VERSIONS_MAX = 1_000;

interface SilentRow {
  id: string;
  status: string;
  hostname: string;
  pid: number;
  at: number;
  closedAt: number | null;
}

const SILENT = sql`
        select id, status, hostname, pid, heartbeat_at as at, stopped_at as "closedAt"
          from holdfast.worker`;

/** Workers without a heartbeat, and those whose rows were recently closed for that reason. */
function findSilent(
  ending: "stale" | "hung",
  open: (engine: Engine) => Sql,
): (engine: Engine, look: Look) => Promise<Offender[]> {
  return async (engine, { limit }) => {
    const silent = await engine.all<SilentRow>(
      sql`${SILENT} where ${open(engine)} order by heartbeat_at limit ${limit}`,
    );
    const closed = await engine.all<SilentRow>(sql`
      ${SILENT}
         where status = 'stopped'
           and stopped_at >= ${engine.now()} - ${FOUND_DEAD_FOR_MS}
           and reason = ${ending}
         order by stopped_at desc
         limit ${limit}`);
    return [...silent, ...closed].slice(0, limit).map((row) => offenderOf(row, ending));
  };
}

function offenderOf(row: SilentRow, ending: "stale" | "hung"): Offender {
  const { id, status, hostname, pid, at, closedAt } = row;
  const where = `on ${hostname}, process ${pid}`;
  const subject = subjects.worker(id);
  if (closedAt === null) {
    return { subject, detail: `is ${status} ${where} but sends no heartbeat`, sinceAt: at };
  }
  const silence = formatMs(closedAt - at);
  const detail = `was found ${ending} ${where}: its row was closed ${silence} after its last heartbeat`;
  return { subject, detail, sinceAt: at, happened: true };
}

/** At least as long as the worker itself may be silent. */
const longest = (column: Sql, ms: number): Sql =>
  sql`case when ${column} > ${ms} then ${column} else ${ms} end`;

export const workerChecks: readonly Check[] = [
  {
    name: "worker-stale",
    severity: "warning",
    problem: "Workers died: they send no heartbeat, or their rows were closed for that reason.",
    remedy:
      "Check whether their processes are alive. If they are not, find out why. Any live worker closes such rows; their jobs are retried when their leases expire.",
    cost: "quick",
    find: findSilent(
      "stale",
      (engine) => sql`
        status in ('starting', 'running')
           and status <> 'stopped'
           and heartbeat_at < ${engine.now()} - ${longest(sql`stale_ms`, STALE_MS)}`,
    ),
  },
  {
    name: "worker-hung",
    severity: "warning",
    problem: "Workers hang while stopping, or their rows were closed for that reason.",
    remedy:
      "Kill their processes (kill -9) if they still exist. Their jobs are retried when their leases expire.",
    cost: "quick",
    find: findSilent(
      "hung",
      (engine) => sql`
        status = 'stopping'
           and heartbeat_at < ${engine.now()} - ${longest(sql`hung_ms`, HUNG_MS)}`,
    ),
  },
  {
    name: "worker-too-many",
    severity: "critical",
    problem:
      "More workers of a type are active than it has slots, so work meant for one may run in several.",
    remedy:
      "Stop the surplus workers (holdfast workers stop <id>). See schema-missing: an index or a trigger is missing. If more may be active, raise the limit: holdfast workers limit <type> <n>.",
    cost: "quick",
    find: asking<{ type: string; slots: number; active: number; one: string; at: number }>(
      (_engine, { limit }) => sql`
        select t.name as type, t.slots, count(*) as active, max(w.id) as one, max(w.started_at) as at
          from holdfast.worker w
          join holdfast.worker_type t on t.name = w.type
         where w.status in ('starting', 'running')
           and w.status <> 'stopped'
           and t.slots is not null
         group by t.name, t.slots
        having count(*) > t.slots
         limit ${limit}`,
      ({ type, slots, active, one, at }) => ({
        subject: subjects.type(type),
        detail: `has ${active} active workers but ${slots === 1 ? "one slot" : `${slots} slots`}; the last is ${one}`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "worker-version-drift",
    severity: "info",
    problem: "Workers of one type run different builds.",
    remedy: "Normal during a rollout. Afterwards, stop the workers of the old build.",
    cost: "quick",
    find: async (engine, { limit }) => {
      const rows = await engine.all<{ type: string; version: string; at: number }>(sql`
        select type, version, min(started_at) as at
          from holdfast.worker
         where status = 'running'
           and status <> 'stopped'
         group by type, version
         order by type, min(started_at)
         limit ${VERSIONS_MAX}`);
      const known = rows.filter(({ version }) => isKnownVersion(version));
      return [...Map.groupBy(known, ({ type }) => type)]
        .map(([type, some]) => ({ type, builds: byBuild(some) }))
        .filter(({ builds }) => builds.length > 1)
        .slice(0, limit)
        .map(({ type, builds }) => ({
          subject: subjects.type(type),
          detail: `runs ${builds.map(({ version }) => version).join(" and ")}`,
          sinceAt: builds.at(-1)?.some[0]?.at ?? null,
        }));
    },
  },
  {
    name: "enqueuer-version-drift",
    severity: "info",
    problem: "Jobs are enqueued by builds that no worker runs.",
    remedy: "Deploy the workers too, or check whether an old process still enqueues.",
    cost: "quick",
    find: async (engine, { limit }) => {
      const rows = await engine.all<{ version: string; at: number }>(sql`
        select version, first_at as at
          from holdfast.enqueuer
         where last_at >= ${engine.now()} - ${ENQUEUED_WITHIN_MS}
         order by last_at desc
         limit ${VERSIONS_MAX}`);
      const running = await engine.all<{ version: string }>(sql`
        select distinct version
          from holdfast.worker
         where status = 'running'
           and status <> 'stopped'
         limit ${VERSIONS_MAX}`);
      if (running.length === 0) return [];
      return rows
        .filter(({ version }) => isKnownVersion(version))
        .filter(({ version }) => !running.some((one) => isSameBuild(one.version, version)))
        .slice(0, limit)
        .map(({ version, at }) => ({
          subject: `build ${version}`,
          detail: "enqueues jobs but has no running worker",
          sinceAt: at,
        }));
    },
  },
];

/** Workers may be about to start. */
const UNCLAIMABLE_MS = 60_000;

export const unclaimableChecks: readonly Check[] = [
  {
    name: "job-unclaimable",
    severity: "warning",
    problem: "No live worker can run some pending jobs.",
    remedy: "Start a worker that serves the queue and knows the task in that version.",
    cost: "quick",
    find: async (engine, { limit }) => {
      const now = await readNow(engine);
      return (await unclaimable(engine))
        .filter(({ waitedMs }) => waitedMs > UNCLAIMABLE_MS)
        .slice(0, limit)
        .map(({ queue, task, jobs, waitedMs }) => ({
          subject: `queue ${queue}`,
          detail: `has ${jobs} pending ${jobs === 1 ? "job" : "jobs"} of ${task}, which no live worker of the queue runs`,
          sinceAt: now - waitedMs,
        }));
    },
  },
];
