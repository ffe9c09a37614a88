/** Checks of items: their trees, their counts, and their waits. */
import { asking, type Check, deleting, type Offender } from "../database/check.ts";
import { sql, type Sql } from "../database/sql.ts";

const item = (id: string): string => `item ${id}`;

interface DueRow {
  id: string;
  reason: string;
  at: number;
}

export const itemChecks: readonly Check[] = [
  {
    name: "item-behind-child",
    severity: "critical",
    problem: "Items have children with a later change than their own: an update was lost.",
    remedy:
      "Change the parent once more through the library: the parent then gets the time of the last change below it.",
    cost: "full",
    find: asking<{ id: string; child: string; at: number }>(
      (_engine, { limit }) => sql`
        select above.id, below.id as child, below.updated_at as at
          from holdfast.item below
          join holdfast.item above on above.id = below.parent_id
         where above.updated_at < below.updated_at
         limit ${limit}`,
      ({ id, child, at }) => ({
        subject: item(id),
        detail: `was changed before its child ${child}`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "item-progress",
    severity: "critical",
    problem: "The counts of items' children are wrong.",
    remedy:
      "Items were written while triggers were missing. Set the rows of `item_progress` to the values reported here.",
    cost: "full",
    find: asking<{ id: string; workflow: string; status: string; counted: number; there: number }>(
      (_engine, { limit }) => sql`
        select c.parent_id as id, c.workflow, c.status, coalesce(p.children, 0) as counted, c.there
          from (select parent_id, workflow, status, count(*) as there
                  from holdfast.item
                 where parent_id is not null
                 group by parent_id, workflow, status) c
          left join holdfast.item_progress p
            on p.item_id = c.parent_id and p.workflow = c.workflow and p.status = c.status
         where coalesce(p.children, 0) <> c.there
         union all
        select p.item_id, p.workflow, p.status, p.children, 0
          from holdfast.item_progress p
         where p.children > 0
           and not exists (select 1
                             from holdfast.item i
                            where i.parent_id = p.item_id and i.workflow = p.workflow and i.status = p.status)
         limit ${limit}`,
      ({ id, workflow, status, counted, there }) => ({
        subject: item(id),
        detail: `has ${there} children of ${workflow} in '${status}', but the count is ${counted}`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "item-undeclared",
    severity: "critical",
    problem:
      "Items have states or types that their workflows do not declare: no move leads out of them.",
    remedy: "Declare the state or type again, move the items, then remove the declaration.",
    cost: "full",
    find: asking<{ id: string; workflow: string; status: string; type: string; at: number }>(
      (_engine, { limit }) => sql`
        select i.id, i.workflow, i.status, i.type, i.entered_at as at
          from holdfast.item i
         where not exists (select 1
                             from holdfast.workflow_state s
                            where s.workflow = i.workflow and s.name = i.status)
            or not exists (select 1
                             from holdfast.workflow_type t
                            where t.workflow = i.workflow and t.name = i.type)
         limit ${limit}`,
      ({ id, workflow, status, type, at }) => ({
        subject: item(id),
        detail: `is '${status}' of type '${type}', which ${workflow} does not declare`,
        sinceAt: at,
      }),
    ),
  },
  {
    name: "item-tree",
    severity: "critical",
    problem:
      "Items refer to a missing parent, or their position in the tree does not match that of their parent.",
    remedy:
      "Items were deleted or changed while triggers were missing. Restore the parent from a backup.",
    cost: "full",
    find: asking<{ id: string; parent: string; above: string | null }>(
      (_engine, { limit }) => sql`
        select i.id, i.parent_id as parent, p.id as above
          from holdfast.item i
          left join holdfast.item p on p.id = i.parent_id
         where i.parent_id is not null
           and (p.id is null or p.root_id <> i.root_id or p.depth + 1 <> i.depth)
         limit ${limit}`,
      ({ id, parent, above }): Offender => ({
        subject: item(id),
        detail:
          above === null
            ? `belongs to ${parent}, which does not exist`
            : `is not below its parent ${parent}`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "item-due-orphaned",
    severity: "warning",
    problem: "Scheduled moves belong to items that are gone or have left the state.",
    remedy: "Delete these rows (--fix).",
    cost: "full",
    find: asking<DueRow>(
      (_engine, { limit }) => orphanedDues(limit),
      ({ id, at }) => ({
        subject: item(id),
        detail: "is gone, or is no longer in that state",
        sinceAt: at,
      }),
    ),
    fix: deleting<DueRow>({
      find: (limit) => orphanedDues(limit),
      remove: ({ id, reason }) => sql`
        delete from holdfast.item_due
         where item_id = ${id} and reason = ${reason}
           and ${IS_PAST}`,
      subject: ({ id }) => item(id),
    }),
  },
  {
    name: "item-waits-for-missing-job",
    severity: "warning",
    problem: "Items wait for jobs that do not exist, so they wait forever.",
    remedy: "Move the items manually (holdfast items show <id>).",
    cost: "full",
    find: asking<{ id: string; job: string }>(
      (_engine, { limit }) => sql`
        select w.item_id as id, w.job_id as job
          from holdfast.item_job w
         where w.status is null
           and not exists (select 1 from holdfast.job j where j.id = w.job_id)
         limit ${limit}`,
      ({ id, job }) => ({
        subject: item(id),
        detail: `waits for job ${job}, which does not exist`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "item-job-orphaned",
    severity: "info",
    problem: "Jobs are registered for items that do not exist.",
    remedy: "Delete these rows (--fix).",
    cost: "full",
    find: asking<{ id: string; job: string }>(
      (_engine, { limit }) => orphanedJobs(limit),
      ({ id, job }) => ({
        subject: item(id),
        detail: `does not exist, but job ${job} is registered for it`,
        sinceAt: null,
      }),
    ),
    fix: deleting<{ id: string; job: string }>({
      find: (limit) => orphanedJobs(limit),
      remove: ({ job }) =>
        sql`delete from holdfast.item_job where job_id = ${job} and ${HAS_NO_ITEM}`,
      subject: ({ id }) => item(id),
    }),
  },
];

/** Without table aliases: not every database accepts them in a delete. */
const IS_PAST = sql`not exists (
            select 1
              from holdfast.item i
             where i.id = holdfast.item_due.item_id and i.entered_at = holdfast.item_due.entered_at)`;

const HAS_NO_ITEM = sql`not exists (select 1 from holdfast.item i where i.id = holdfast.item_job.item_id)`;

function orphanedDues(limit: number): Sql {
  return sql`
    select item_id as id, reason, entered_at as at from holdfast.item_due where ${IS_PAST} limit ${limit}`;
}

function orphanedJobs(limit: number): Sql {
  return sql`
    select item_id as id, job_id as job from holdfast.item_job where ${HAS_NO_ITEM} limit ${limit}`;
}
