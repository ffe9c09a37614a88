/** The format of ids, and whether the traces of audit lines belong to the owners of the jobs. */
import { subjects } from "../audit/entry.ts";
import type { Offender } from "../core/finding.ts";
import { isId } from "../core/id.ts";
import { asking, type Check, type Look } from "../database/check.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { aboutJob } from "./checks.ts";

/** How many of the newest rows are read, except in a deep check. */
const HISTORY_MAX = 10_000;

const EVERYTHING = 1_000_000_000;

const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/** How many audit lines, of items and of operators each, are compared with the attempts. */
const LINES_MAX = 1_000;

const TRACE = /^(?<worker>.+)-(?<job>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(?<attempt>\d+)$/;

export const formatChecks: readonly Check[] = [
  {
    name: "job-id-format",
    severity: "info",
    problem:
      "Jobs have ids that are not UUIDv7: they are listed out of order and, on PostgreSQL, stored in a separate partition.",
    remedy: "Let the library generate ids, or generate lower-case UUIDv7 ids.",
    cost: "full",
    find: async (engine, look) => {
      const found: string[] = [];
      for await (const ids of pagesOfIds(engine, look)) {
        found.push(...ids.filter((id) => !isId(id)));
        if (found.length >= look.limit) break;
      }
      return found.slice(0, look.limit).map((id) => aboutJob(id, "has an id that is not a UUIDv7"));
    },
  },
  {
    name: "worker-id-format",
    severity: "info",
    problem:
      "Jobs are or were owned by workers whose ids are not <name>-<uuid>: two starts of the same worker cannot be distinguished.",
    remedy:
      "Give a worker a new id at every start. With --since <date>, rows older than that date are skipped.",
    cost: "full",
    find: asking<{ worker: string; place: string; at: number }>(
      oddOwners,
      ({ worker, place, at }) => ({
        subject: subjects.worker(worker),
        detail: `${place}, but its id is not <name>-<uuid>`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "trace-of-another-owner",
    severity: "warning",
    problem: "Audit lines carry traces of attempts that another worker made, or that do not exist.",
    remedy:
      "They were written manually, or with another attempt's trace. Run holdfast audit verify. With --since <date>, lines older than that date are skipped.",
    cost: "full",
    find: strangeTraces,
  },
];

/** Only the newest: ids start with a time, so malformed ids sort last. */
async function* pagesOfIds(engine: Engine, { deep }: Look): AsyncGenerator<string[]> {
  let before: string | null = LAST_ID;
  do {
    const rows: { id: string }[] = await engine.all<{ id: string }>(sql`
      select id from holdfast.job where id < ${before} order by id desc limit ${HISTORY_MAX}`);
    yield rows.map(({ id }) => id);
    before = rows.length === HISTORY_MAX ? (rows.at(-1)?.id ?? null) : null;
    if (!deep) return;
  } while (before !== null);
}

function oddOwners(_engine: Engine, { limit, deep, sinceAt }: Look): Sql {
  const most = deep ? EVERYTHING : HISTORY_MAX;
  return sql`
    select worker, min(place) as place, max(at) as at
      from (select id as worker, 'is a worker' as place, started_at as at
              from holdfast.worker
             union all
            select locked_by, 'holds a job', claimed_at
              from holdfast.lease
             union all
            select worker, 'made an attempt', started_at
              from (select worker, started_at from holdfast.attempt order by job_id desc limit ${most}) a
             union all
            select worker, 'made an attempt', started_at
              from (select worker, started_at from holdfast.finished order by id desc limit ${most}) f) owners
     where worker not like '%-________-____-____-____-____________'
       and at >= ${sinceAt ?? 0}
     group by worker
     limit ${limit}`;
}

interface Line {
  readonly subject: string;
  readonly at: number;
  readonly worker: string;
  readonly job: string;
  readonly attempt: number;
}

/** By job, the workers of each attempt. A released attempt is repeated under the same number. */
type Owners = Map<string, Map<number, string[]>>;

async function strangeTraces(engine: Engine, { limit, sinceAt }: Look): Promise<Offender[]> {
  const lines = await tracedLines(engine, sinceAt ?? 0);
  const jobs = [...new Set(lines.map(({ job }) => job))];
  const owners: Owners = new Map();
  for (let from = 0; from < jobs.length; from += LINES_MAX) {
    await readOwners(engine, jobs.slice(from, from + LINES_MAX), owners);
  }
  return lines.flatMap((line) => strangeness(line, owners)).slice(0, limit);
}

/** The owners of a pruned job are unknown. */
function strangeness({ subject, at, worker, job, attempt }: Line, owners: Owners): Offender[] {
  const attempts = owners.get(job);
  if (attempts === undefined) return [];
  const makers = attempts.get(attempt) ?? [];
  if (makers.includes(worker)) return [];
  const whose = makers.length === 0 ? "which does not exist" : `which ${makers.join(" and ")} made`;
  const detail = `names ${worker} for attempt ${attempt} of job ${job}, ${whose}`;
  return [{ subject, detail, sinceAt: at }];
}

async function tracedLines(engine: Engine, sinceAt: number): Promise<Line[]> {
  const rows = await engine.all<{
    item: string | null;
    seq: number;
    at: number;
    trace: string;
  }>(sql`
    select item, seq, at, trace
      from (select item_id as item, seq, at, trace_id as trace
              from holdfast.item_audit
             order by change_id desc
             limit ${LINES_MAX}) i
     where trace is not null
       and at >= ${sinceAt}
     union all
    select null, seq, at, trace
      from (select seq, at, trace_id as trace from holdfast.audit order by seq desc limit ${LINES_MAX}) o
     where trace is not null
       and at >= ${sinceAt}`);
  return rows.flatMap(({ item, seq, at, trace }) => {
    const parts = TRACE.exec(trace)?.groups;
    if (parts === undefined) return [];
    const { worker = "", job = "", attempt = "" } = parts;
    const subject = item === null ? `line ${seq} of operators` : `line ${seq} of item ${item}`;
    return [{ subject, at, worker, job, attempt: Number(attempt) }];
  });
}

/** Adds the existing jobs and the workers of their attempts. */
async function readOwners(engine: Engine, jobs: readonly string[], owners: Owners): Promise<void> {
  const rows = await engine.all<{ id: string; attempt: number; worker: string | null }>(sql`
    select id, 0 as attempt, null as worker from holdfast.job where ${engine.among(sql`id`, jobs)}
     union all
    select job_id, attempt, worker from holdfast.attempt where ${engine.among(sql`job_id`, jobs)}
     union all
    select id, attempts, worker from holdfast.finished where ${engine.among(sql`id`, jobs)}
     union all
    select id, attempts, locked_by from holdfast.lease where ${engine.among(sql`id`, jobs)}`);
  for (const { id, attempt, worker } of rows) {
    const attempts = owners.get(id) ?? new Map<number, string[]>();
    owners.set(id, attempts);
    if (worker !== null) attempts.set(attempt, [...(attempts.get(attempt) ?? []), worker]);
  }
}
