/** Items for tests of plans, as SQL that every database understands. */
import { NUMBERS, ROWS } from "./many-rows.ts";

/** Tables that are found by the id of an item alone have enough with these. */
const SOME = ROWS / 10;
export const AT = 1_700_000_000_000;
const HASH = "a".repeat(64);

/**
 * Orders and lines, half and half. The first hundred orders, which are the oldest, are of a tenant of their own, shipped,
 * and the first of them has the first thousand lines.
 */
export function fill(
  t: (table: string) => string,
  id: (n: string) => string,
  numbers = NUMBERS,
): string[] {
  const isRare = "n % 2 = 0 and n < 200";
  const top = `case when n < 2000 then ${id("0")} else ${id("n - 1")} end`;
  return [
    `insert into ${t("item")} (id, workflow, type, tenant, identifier, parent_id, root_id, depth, status, data, revision,
                     created_at, updated_at, entered_at, audit_seq, audit_hash, change_id, actor, action, jobs, data_hash)
     select ${id("n")}, case when n % 2 = 0 then 'order' else 'line' end, case when n % 2 = 0 then 'order' else 'line' end,
            case when ${isRare} then 'rare' else 'default' end, concat('item ', n / 4),
            case when n % 2 = 0 then null else ${top} end, case when n % 2 = 0 then ${id("n")} else ${top} end,
            n % 2, case when ${isRare} then 'shipped' when n % 2 = 0 then 'open' else 'new' end, '{}', 1,
            ${AT}, ${AT} + n, ${AT}, 1, '${HASH}', ${id("n")}, 'ada', 'start', '[]', '${HASH}'
       from ${numbers}`,
    `insert into ${t("item_due")} (item_id, reason, workflow, entered_at, due_at)
     select ${id("n")}, 'limit', case when n % 2 = 0 then 'order' else 'line' end, ${AT}, 2 * ${AT} - n from ${numbers}`,
    `insert into ${t("item_job")} (job_id, item_id) select ${id("n")}, ${id("n")} from ${numbers} where n < ${SOME}`,
    `insert into ${t("item_progress")} (item_id, workflow, status, children)
     select ${id("n")}, 'line', 'new', 1 from ${numbers} where n % 2 = 0 and n < ${SOME}`,
    `insert into ${t("item_audit")} (item_id, seq, change_id, at, actor, action, new_status, revision, jobs, data_hash,
                           previous_hash, hash)
     select ${id("n")}, 1, ${id("n")}, ${AT}, 'ada', 'start', 'open', 1, '[]', '${HASH}', '${HASH}', '${HASH}'
       from ${numbers} where n < ${SOME}`,
  ];
}

export function idOf(n: number): string {
  const hex = n.toString(16);
  return `${hex.padStart(8, "0")}-aaaa-7000-8000-${hex.padStart(12, "0")}`;
}
