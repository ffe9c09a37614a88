import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

/** Whether claims must look closer. If so, leases that were taken without a look count from now on. */
export async function govern(engine: Engine, tx: Transaction, queue: string): Promise<void> {
  await tx.run(sql`
    update holdfast.queue
       set governed = case when paused_at is not null or lanes = 1
                             or exists (select 1 from holdfast.queue_rule r where r.queue = ${queue})
                           then 1 else 0 end
     where name = ${queue}`);
  const [governed] = await tx.all(
    sql`select name from holdfast.queue where name = ${queue} and governed = 1`,
  );
  if (governed !== undefined) await countLeasesOf(engine, tx, [queue]);
}

/** Leases that were taken without a look at the rules count from now on. Returns how many. */
export async function countLeasesOf(
  engine: Engine,
  tx: Transaction,
  queues: readonly string[],
): Promise<number> {
  const leases = await tx.all<{ id: string }>(sql`
    select id from holdfast.lease where lane is null and ${engine.among(sql`queue`, queues)}`);
  const ids = leases.map(({ id }) => id);
  const isUncounted = sql`lane is null and ${engine.among(sql`id`, ids)}`;
  const counted =
    ids.length === 0
      ? 0
      : await tx.run(
          sql`update holdfast.lease ${engine.byPrimaryKey()} set lane = '' where ${isUncounted}`,
        );
  await engine.introspection.sparse.enterLeases(tx, queues);
  return counted;
}
