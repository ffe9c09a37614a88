/** Who still has to be told of an alert. What one process sends is kept from the others by moving the time it is due at. */
import { ALERT_COLUMNS } from "./alert-rows.ts";
import type {
  AlertRecord,
  Delivery,
  DeliveryFailed,
  DeliveryKey,
  DeliveryOutcome,
  WantedDeliveries,
} from "./alerts.ts";
import type { Engine, Transaction } from "./engine.ts";
import { readNow } from "./moving.ts";
import { nothing, sql, type Sql } from "./sql.ts";

type DueRow = DeliveryKey & AlertRecord & { readonly tries: number; readonly dueAt: number };

/** When its answer is lost, whatever was taken is due again after `holdMs`: it is told later, and counted as tried. */
export function takeDeliveries(engine: Engine, wanted: WantedDeliveries): Promise<Delivery[]> {
  const { holdMs } = wanted;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const taken: Delivery[] = [];
    for (const row of await due(engine, tx, { ...wanted, now })) {
      const { alert, event, target, tries, dueAt, ...record } = row;
      const isOurs = await tx.run(sql`
        update holdfast.alert_delivery
           set due_at = ${now + holdMs}, tries = tries + 1
         where alert_id = ${alert}
           and event = ${event}
           and target = ${target}
           and due_at = ${dueAt}`);
      if (isOurs > 0) taken.push({ alert, event, target, tries: tries + 1, record });
    }
    return taken;
  });
}

function due(
  engine: Engine,
  tx: Transaction,
  { targets, limit, now }: WantedDeliveries & { now: number },
): Promise<DueRow[]> {
  return tx.all<DueRow>(sql`
    select d.alert_id as "alert", d.event, d.target, d.tries, d.due_at as "dueAt", ${ALERT_COLUMNS}
      from holdfast.alert_delivery d
      join holdfast.alert a on a.id = d.alert_id
     where d.due_at <= ${now}
       and ${engine.among(sql`d.target`, targets)}
       and (d.event = 'raised'
            or not exists (
              select 1
                from holdfast.alert_delivery r
               where r.alert_id = d.alert_id
                 and r.event = 'raised'
                 and r.target = d.target
                 and r.due_at is not null))
     order by d.due_at, d.alert_id, d.event, d.target
     limit ${limit}`);
}

/** What was delivered stays so, whoever says otherwise. A failure counts only if nobody has tried again since. */
export async function settleDelivery(
  engine: Engine,
  { alert, event, target, tries }: Delivery,
  outcome: DeliveryOutcome,
): Promise<void> {
  const failed = outcome.kind === "failed";
  await engine.run(sql`
    update holdfast.alert_delivery
       set ${failed ? asFailed(engine, outcome) : asDelivered(engine)}
     where alert_id = ${alert}
       and event = ${event}
       and target = ${target}
       and delivered_at is null
           ${failed ? sql`and tries = ${tries}` : nothing}`);
}

function asDelivered(engine: Engine): Sql {
  return sql`delivered_at = ${engine.now()}, due_at = null, error = null`;
}

function asFailed(engine: Engine, { error, retryInMs }: DeliveryFailed): Sql {
  return retryInMs === null
    ? sql`due_at = null, error = ${error}`
    : sql`due_at = ${engine.now()} + ${retryInMs}, error = ${error}`;
}
