/** Finds missing lines of the audit log. `holdfast audit verify` finds changed ones. */
import { asking, type Check } from "../database/check.ts";
import { sql } from "../database/sql.ts";
import { subjects } from "./entry.ts";
import { PRUNE } from "./store.ts";

export const auditChecks: readonly Check[] = [
  {
    name: "item-audit-gap",
    severity: "critical",
    problem: "The audit log of items has missing lines, or lines of items that do not exist.",
    remedy: "Run holdfast audit verify. Deleted lines can only be restored from a backup.",
    cost: "full",
    find: asking<{ id: string; counted: number; found: number }>(
      (_engine, { limit }) => sql`
        select i.id, i.audit_seq as counted, count(a.seq) as found
          from holdfast.item i
          left join holdfast.item_audit a on a.item_id = i.id
         group by i.id, i.audit_seq
        having count(a.seq) <> i.audit_seq
            or max(a.seq) <> i.audit_seq
         union all
        select a.item_id, 0, count(*)
          from holdfast.item_audit a
         where not exists (select 1 from holdfast.item i where i.id = a.item_id)
         group by a.item_id
         limit ${limit}`,
      ({ id, counted, found }) => ({
        subject: `item ${id}`,
        detail: `should have ${counted} lines and has ${found}`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "operator-audit-gap",
    severity: "critical",
    problem: "The audit log of operators has missing or additional lines.",
    remedy: "Run holdfast audit verify. Deleted lines can only be restored from a backup.",
    cost: "full",
    find: asking<{ counted: number; found: number; last: number; seq: number; unsaid: number }>(
      (_engine, { limit }) => sql`
        select counted, found, last, seq, unsaid
          from (select h.seq - h.pruned_seq as counted, h.seq,
                       case when h.pruned_seq > 0 and not exists (
                              select 1 from holdfast.audit p where p.action = ${PRUNE} and p.seq > h.pruned_seq)
                            then 1 else 0 end as unsaid,
                       (select count(*) from holdfast.audit a where a.seq > h.pruned_seq) as found,
                       (select coalesce(max(a.seq), h.pruned_seq) from holdfast.audit a) as last
                  from holdfast.audit_head h) heads
         where counted <> found
            or last <> seq
            or unsaid = 1
         limit ${limit}`,
      ({ counted, found, last, seq, unsaid }) => ({
        subject: subjects.audit,
        detail:
          `should have ${counted} lines up to ${seq} and has ${found} up to ${last}` +
          (unsaid === 1 ? "; lines were pruned without a record" : ""),
        sinceAt: null,
      }),
    ),
  },
];
