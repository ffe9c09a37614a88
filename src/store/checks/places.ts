/** Where jobs stand: a job has one row in `job` and one in exactly one of the tables that are its state. */
import { subjects } from "../../core/audit.ts";
import { absentByJoin } from "../anatomy.ts";
import type { Engine } from "../engine.ts";
import { sql, type Sql } from "../sql.ts";
import { asking, type Check, type Look } from "./check.ts";

const JOB = sql`holdfast.job`;
const READY = sql`holdfast.ready`;
const WAITING = sql`holdfast.waiting`;
const LEASE = sql`holdfast.lease`;
const FINISHED = sql`holdfast.finished`;

export const placeChecks: readonly Check[] = [
  {
    name: "job-in-two-tables",
    severity: "critical",
    problem: "Jobs stand in two states at once: they may be done twice, or after they have ended.",
    remedy:
      "Stop the workers, look at both rows, and delete the one that does not fit the job's attempts (holdfast job <id>).",
    cost: "full",
    find: asking<{ id: string; one: string; other: string }>(
      // From the tables that are small, whatever has finished.
      (_engine, { limit }) => sql`
        select id, one, other
          from (select r.id, 'pending' as one, 'waiting' as other
                  from holdfast.ready r
                 where exists (select 1 from holdfast.waiting w where w.id = r.id)
                 union all
                select r.id, 'pending', 'finished'
                  from holdfast.ready r
                 where exists (select 1 from holdfast.finished f where f.id = r.id)
                 union all
                select w.id, 'waiting', 'finished'
                  from holdfast.waiting w
                 where exists (select 1 from holdfast.finished f where f.id = w.id)) twice
         limit ${limit}`,
      ({ id, one, other }) => ({
        subject: subjects.job(id),
        detail: `is ${one} and ${other}`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "job-nowhere",
    severity: "critical",
    problem: "Jobs stand in no state at all: nobody will ever run them.",
    remedy: "Somebody deleted rows by hand. Enqueue them again with what `job` has of them.",
    cost: "full",
    find: asking<{ id: string }>(
      ({ anatomy }, { limit }) => anatomy.absent(JOB, [FINISHED, READY, WAITING, LEASE], limit),
      ({ id }) => ({
        subject: subjects.job(id),
        detail: "is in none of ready, waiting, lease and finished",
        sinceAt: null,
      }),
    ),
  },
  {
    name: "state-without-job",
    severity: "critical",
    problem: "There are states of jobs that do not exist: nobody knows what they are to do.",
    remedy: "Somebody deleted rows of `job` by hand. Delete these states, too.",
    cost: "full",
    find: asking<{ id: string; place: string }>(withoutJob, ({ id, place }) => ({
      subject: subjects.job(id),
      detail: `has a row in ${place} and none in job`,
      sinceAt: null,
    })),
  },
];

/** Those that live are few beside all jobs, so each is looked up. */
function withoutJob({ anatomy }: Engine, { limit }: Look): Sql {
  const strays = (table: Sql): Sql => absentByJoin(table, [JOB], limit);
  return sql`
    select id, 'ready' as place from (${strays(READY)}) pending
     union all
    select id, 'waiting' from (${strays(WAITING)}) later
     union all
    select id, 'lease' from (${strays(LEASE)}) held
     union all
    select id, 'finished' from (${anatomy.absent(FINISHED, [JOB], limit)}) ended
     limit ${limit}`;
}
