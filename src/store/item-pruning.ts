/** The end of items: a tree goes as a whole, when its workflow does not keep it any longer. */
import type { Engine, Transaction } from "./engine.ts";
import { sql } from "./sql.ts";

/** Deletes trees whose top is ended for longer than kept, and that have nobody living in them. Returns how many. */
export function pruneItems(engine: Engine, limit: number): Promise<number> {
  return engine.transaction(async (tx) => {
    const roots = await tx.all<{ id: string }>(sql`
      select i.id
        from holdfast.workflow w
        join holdfast.workflow_state s on s.workflow = w.name and s.is_final = 1
        join holdfast.item i on i.workflow = s.workflow and i.status = s.name
       where w.keep_ms is not null
         and i.depth = 0
         and i.updated_at < ${engine.now()} - w.keep_ms
         and not exists (select 1
                           from holdfast.item below
                           join holdfast.workflow_state t on t.workflow = below.workflow and t.name = below.status
                          where below.root_id = i.id and t.is_final = 0)
       order by i.id
       limit ${limit}`);
    for (const { id } of roots) await pruneTree(engine, tx, id);
    return roots.length;
  });
}

async function pruneTree(engine: Engine, tx: Transaction, root: string): Promise<void> {
  const inOrder = sql`depth desc, id ${engine.lockRows()}`;
  const rows = await tx.all<{ id: string }>(sql`
    select id from holdfast.item where root_id = ${root} order by ${inOrder}`);
  const ids = rows.map(({ id }) => id);
  const those = engine.among(sql`item_id`, ids);
  await tx.insert(
    "item_pruning",
    ids.map((id) => ({ item_id: id })),
  );
  await tx.run(sql`delete from holdfast.item_audit where ${those}`);
  await tx.run(sql`delete from holdfast.item_due where ${those}`);
  await tx.run(sql`delete from holdfast.item_job where ${those}`);
  // Children before their parents.
  for (const id of ids) await tx.run(sql`delete from holdfast.item where id = ${id}`);
  await tx.run(sql`delete from holdfast.item_progress where ${those}`);
  await tx.run(sql`delete from holdfast.item_pruning where ${those}`);
}
