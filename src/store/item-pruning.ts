/** The end of items: a tree goes as a whole, when its workflow does not keep it any longer. */
import type { Engine, Transaction } from "./engine.ts";
import { sql } from "./sql.ts";

/** How many rows one statement deletes. */
const DELETED_MAX = 500;

interface Kept {
  readonly workflow: string;
  readonly status: string;
  readonly keepMs: number;
}

/** Deletes trees whose top is ended for longer than kept, and that have nobody living in them. Returns how many. */
export async function pruneItems(engine: Engine, limit: number): Promise<number> {
  let pruned = 0;
  for (const kept of await keptFor(engine)) {
    for (const root of await over(engine, kept, limit - pruned)) {
      if (await engine.transaction((tx) => pruneTree(engine, tx, { root, kept }))) pruned += 1;
    }
    if (pruned >= limit) break;
  }
  return pruned;
}

/** The states in which items end that are not kept for ever. */
function keptFor(engine: Engine): Promise<Kept[]> {
  return engine.all<Kept>(sql`
    select s.workflow, s.name as status, w.keep_ms as "keepMs"
      from holdfast.workflow w
      join holdfast.workflow_state s on s.workflow = w.name
     where w.keep_ms is not null
       and s.is_final = 1
     order by s.workflow, s.name`);
}

/** Whatever happens below the one at the top changes it too. */
async function over(
  engine: Engine,
  { workflow, status, keepMs }: Kept,
  limit: number,
): Promise<string[]> {
  const rows = await engine.all<{ id: string }>(sql`
    select i.id
      from holdfast.item i
     where i.workflow = ${workflow}
       and i.status = ${status}
       and i.depth = 0
       and i.updated_at < ${engine.now()} - ${keepMs}
       and not exists (select 1
                         from holdfast.item below
                         join holdfast.workflow_state t on t.workflow = below.workflow and t.name = below.status
                        where below.root_id = i.id and t.is_final = 0)
     order by i.updated_at
     limit ${limit}`);
  return rows.map(({ id }) => id);
}

/** Nobody changes anything in a tree whose top is locked; false: somebody did before. */
async function pruneTree(
  engine: Engine,
  tx: Transaction,
  { root, kept }: { root: string; kept: Kept },
): Promise<boolean> {
  const locked = sql`i.updated_at < ${engine.now()} - ${kept.keepMs} ${engine.lockRows()}`;
  const top = await tx.all(sql`
    select i.id from holdfast.item i where i.id = ${root} and i.status = ${kept.status} and ${locked}`);
  if (top.length === 0) return false;
  const rows = await tx.all<{ id: string; depth: number; living: number }>(sql`
    select i.id, i.depth, 1 - s.is_final as living
      from holdfast.item i
      join holdfast.workflow_state s on s.workflow = i.workflow and s.name = i.status
     where i.root_id = ${root}`);
  if (rows.some(({ living }) => living === 1)) return false;
  // Children before their parents.
  const depths = [...new Set(rows.map(({ depth }) => depth))].toSorted((a, b) => b - a);
  for (const depth of depths) {
    const ids = rows.filter((row) => row.depth === depth).map(({ id }) => id);
    for (let at = 0; at < ids.length; at += DELETED_MAX) {
      await deleteItems(engine, tx, ids.slice(at, at + DELETED_MAX));
    }
  }
  return true;
}

async function deleteItems(engine: Engine, tx: Transaction, ids: readonly string[]): Promise<void> {
  const those = engine.among(sql`item_id`, ids);
  await tx.insert(
    "item_pruning",
    ids.map((id) => ({ item_id: id })),
  );
  await tx.run(sql`delete from holdfast.item_audit where ${those}`);
  await tx.run(sql`delete from holdfast.item_due where ${those}`);
  await tx.run(sql`delete from holdfast.item_job where ${those}`);
  await tx.run(sql`delete from holdfast.item where ${engine.among(sql`id`, ids)}`);
  await tx.run(sql`delete from holdfast.item_progress where ${those}`);
  await tx.run(sql`delete from holdfast.item_pruning where ${those}`);
}
