/** The registry of workers: whether they live, whether there are too many, and which builds they run. */
import { subjects } from "../../core/audit.ts";
import { isKnownVersion } from "../../core/version.ts";
import { sql } from "../sql.ts";
import { asking, type Check } from "./check.ts";

const STALE_MS = 60_000;
const HUNG_MS = 120_000;
/** Longer ago than this somebody may have been replaced. */
const ENQUEUED_WITHIN_MS = 5 * 60_000;
/** How many builds are looked at. */
const VERSIONS_MAX = 1_000;

interface SilentRow {
  id: string;
  status: string;
  hostname: string;
  pid: number;
  at: number;
}

const silent = ({ id, status, hostname, pid, at }: SilentRow) => ({
  subject: subjects.worker(id),
  detail: `is ${status} on ${hostname}, process ${pid}, and gives no sign of life`,
  sinceAt: at,
});

export const workerChecks: readonly Check[] = [
  {
    name: "worker-stale",
    severity: "warning",
    problem: "Workers give no sign of life, and nobody has closed their rows.",
    remedy:
      "See whether their processes live. Any worker that starts closes the rows of those that are dead.",
    cost: "quick",
    find: asking<SilentRow>(
      (engine, { limit }) => sql`
        select id, status, hostname, pid, heartbeat_at as at
          from holdfast.worker
         where status in ('starting', 'running')
           and status <> 'stopped'
           and heartbeat_at < ${engine.now()} - ${STALE_MS}
         order by heartbeat_at
         limit ${limit}`,
      silent,
    ),
  },
  {
    name: "worker-hung",
    severity: "warning",
    problem: "Workers that were to stop hang.",
    remedy:
      "Kill their processes (kill -9). Their jobs are tried again when their leases have run out.",
    cost: "quick",
    find: asking<SilentRow>(
      (engine, { limit }) => sql`
        select id, status, hostname, pid, heartbeat_at as at
          from holdfast.worker
         where status = 'stopping'
           and heartbeat_at < ${engine.now()} - ${HUNG_MS}
         order by heartbeat_at
         limit ${limit}`,
      silent,
    ),
  },
  {
    name: "worker-too-many",
    severity: "critical",
    problem:
      "More workers of a type are active than it has slots: what only one may do, several do.",
    remedy:
      "Stop all but as many as there are slots (holdfast workers stop <id>). See schema-missing: an index or a trigger is gone. If more may be active, raise the limit: holdfast workers limit <type> <n>.",
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
        detail: `has ${active} active workers and ${slots === 1 ? "one slot" : `${slots} slots`}; the last is ${one}`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "worker-version-drift",
    severity: "info",
    problem: "Workers of one type run different builds.",
    remedy:
      "While a deployment rolls out that is as it should be. Afterwards, stop those of the old build.",
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
        .filter(([, builds]) => builds.length > 1)
        .slice(0, limit)
        .map(([type, builds]) => ({
          subject: subjects.type(type),
          detail: `runs ${builds.map(({ version }) => version).join(" and ")}`,
          sinceAt: builds.at(-1)?.at ?? null,
        }));
    },
  },
  {
    name: "enqueuer-version-drift",
    severity: "info",
    problem: "Jobs are enqueued by builds that no worker runs.",
    remedy: "Deploy the workers, too, or see whether an old process still enqueues.",
    cost: "quick",
    find: async (engine, { limit }) => {
      const rows = await engine.all<{ version: string; at: number; workers: number }>(sql`
        select e.version, e.first_at as at,
               (select count(*) from holdfast.worker w where w.status = 'running' and w.status <> 'stopped') as workers
          from holdfast.enqueuer e
         where e.last_at >= ${engine.now()} - ${ENQUEUED_WITHIN_MS}
           and not exists (select 1
                             from holdfast.worker w
                            where w.status = 'running' and w.status <> 'stopped' and w.version = e.version)
         order by e.last_at desc
         limit ${VERSIONS_MAX}`);
      return rows
        .filter(({ version, workers }) => workers > 0 && isKnownVersion(version))
        .slice(0, limit)
        .map(({ version, at }) => ({
          subject: `build ${version}`,
          detail: "enqueues jobs, and no running worker is of that build",
          sinceAt: at,
        }));
    },
  },
];
