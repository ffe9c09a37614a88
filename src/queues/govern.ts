import type { Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";

/** Whether claims must look closer. If so, leases that were taken without a look count from now on. */
export async function govern(tx: Transaction, queue: string): Promise<void> {
  await tx.run(sql`
    update holdfast.queue
       set governed = case when paused_at is not null or lanes = 1
                             or exists (select 1 from holdfast.queue_rule r where r.queue = ${queue})
                           then 1 else 0 end
     where name = ${queue}`);
  await tx.run(sql`
    update holdfast.lease
       set lane = ''
     where queue = ${queue}
       and lane is null
       and exists (select 1 from holdfast.queue q where q.name = ${queue} and q.governed = 1)`);
}
