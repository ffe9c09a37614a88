/**
 * Alerts as rows. They are read without a lock, and every change compares the status that it was decided by: of several
 * processes that make the same change at once, one succeeds.
 */
import { StoreRefusedError } from "../core/errors.ts";
import { isId, makeIds } from "../core/id.ts";
import { ALERT_QUEUE } from "../core/name.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { cancelUnclaimed } from "../jobs/cancel.ts";
import { enqueueIn } from "../jobs/enqueue-policy.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import {
  alertEvents,
  type AlertFilter,
  type AlertRecord,
  type AlertStatus,
  type Cleared,
  type Clearing,
  DELIVERY_ATTEMPTS_MAX,
  type DeliveryInput,
  deliveryKey,
  deliveryTask,
  type Noted,
  type OpenAlerts,
  type Sighting,
} from "./alert.ts";

/** When the index refuses a second alert, the next try finds the first, unless it is gone again. */
const NOTE_TRIES_MAX = 5;

const ALERT_COLUMNS = sql`
       a.id, a.rule, a.subject, a.severity, a.status, a.message, a.facts, a.since_at as "sinceAt", a.seen_at as "seenAt",
       a.raised_at as "raisedAt", a.resolved_at as "resolvedAt"`;

/** A literal in the statement, so that the planner uses the partial index of open alerts. */
const OPEN = sql`status <> 'resolved'`;

interface Known {
  readonly id: string;
  readonly status: Exclude<AlertStatus, "resolved">;
  readonly sinceAt: number;
  readonly changeId: string;
}

async function noteAlert(context: MoveContext, sighting: Sighting): Promise<Noted> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await context.engine.transaction((tx) => noteOnce(context, tx, sighting));
    } catch (error) {
      // Another process was first, and the index refused a second alert.
      if (!(error instanceof StoreRefusedError) || tries === NOTE_TRIES_MAX) throw error;
    }
  }
}

async function noteOnce(context: MoveContext, tx: Transaction, sighting: Sighting): Promise<Noted> {
  const now = await readNow(context.engine, tx);
  const [known] = await tx.all<Known>(sql`
    select id, status, since_at as "sinceAt", change_id as "changeId"
      from holdfast.alert
     where rule = ${sighting.rule}
       and subject = ${sighting.subject}
       and ${OPEN}`);
  if (known === undefined) return begin(context, tx, { sighting, now });
  // The answer was lost, and this is the second call.
  if (known.changeId === sighting.id) return { change: known.status, id: known.id };
  const isDue = known.status === "pending" && now - known.sinceAt >= sighting.holdMs;
  if (isDue && (await raise(context, tx, known, { sighting, now })))
    return { change: "raised", id: known.id };
  // An alert that was cleared at this moment is left alone: the next observation notes it again.
  await tx.run(sql`
    update holdfast.alert
       set ${asSeen(sighting, now)}
     where id = ${known.id}
       and ${OPEN}`);
  return { change: "seen", id: known.id };
}

async function begin(
  context: MoveContext,
  tx: Transaction,
  { sighting, now }: Seen,
): Promise<Noted> {
  const { id, rule, subject, severity, message, facts, holdMs, targets } = sighting;
  const sinceAt = Math.min(sighting.sinceAt ?? now, now);
  const change = now - sinceAt >= holdMs ? "raised" : "pending";
  await tx.insert("alert", [
    {
      id,
      rule,
      subject,
      severity,
      status: change,
      message,
      facts,
      change_id: id,
      since_at: sinceAt,
      seen_at: now,
      raised_at: change === "raised" ? now : null,
      resolved_at: null,
    },
  ]);
  if (change === "raised") await deliver(context, tx, { alert: id, event: "raised" }, targets);
  return { change, id };
}

interface Seen {
  readonly sighting: Sighting;
  readonly now: number;
}

/** False: another process raised or cleared it. */
async function raise(
  context: MoveContext,
  tx: Transaction,
  { id }: Known,
  { sighting, now }: Seen,
): Promise<boolean> {
  const raised = await tx.run(sql`
    update holdfast.alert
       set status = 'raised', raised_at = ${now}, change_id = ${sighting.id}, ${asSeen(sighting, now)}
     where id = ${id}
       and status = 'pending'`);
  if (raised > 0) await deliver(context, tx, { alert: id, event: "raised" }, sighting.targets);
  return raised > 0;
}

function asSeen({ severity, message, facts }: Sighting, now: number): Sql {
  return sql`severity = ${severity}, message = ${message}, facts = ${facts}, seen_at = ${now}`;
}

/** Enqueues a job for each target, in the transaction of the change. */
async function deliver(
  context: MoveContext,
  tx: Transaction,
  input: DeliveryInput,
  targets: readonly string[],
): Promise<void> {
  const { engine } = context;
  const newId = makeIds(engine.runtime);
  const jobs = targets.map((target) => ({
    id: newId(),
    queue: ALERT_QUEUE,
    task: deliveryTask(target),
    payload: JSON.stringify(input),
    priority: 0,
    maxAttempts: DELIVERY_ATTEMPTS_MAX,
    key: deliveryKey(input),
    start: null,
  }));
  if (jobs.length === 0) return;
  const { hints } = await enqueueIn(context, tx, jobs);
  await engine.notifyInTx(tx, hints);
}

async function clearAlert(context: MoveContext, clearing: Clearing): Promise<Cleared | null> {
  const { engine } = context;
  const { alert, seenAt } = clearing;
  const cleared = await engine.transaction(async (tx): Promise<Cleared | null> => {
    const dropped = await tx.run(sql`
      delete from holdfast.alert where id = ${alert} and status = 'pending' and seen_at = ${seenAt}`);
    if (dropped > 0) return "dropped";
    return (await resolve(context, tx, clearing)) ? "resolved" : null;
  });
  if (cleared !== null) return cleared;
  // If the answer was lost, this is the second call.
  const rows = await engine.all(sql`
    select id from holdfast.alert where id = ${alert} and status = 'resolved' and change_id = ${clearing.id}`);
  return rows.length > 0 ? "resolved" : null;
}

async function resolve(
  context: MoveContext,
  tx: Transaction,
  clearing: Clearing,
): Promise<boolean> {
  const { alert, id, quietMs, targets } = clearing;
  const now = await readNow(context.engine, tx);
  const resolved = await tx.run(sql`
    update holdfast.alert
       set status = 'resolved', resolved_at = ${now}, change_id = ${id}
     where id = ${alert}
       and status = 'raised'
       and seen_at <= ${now - quietMs}`);
  if (resolved > 0) await deliver(context, tx, { alert, event: "resolved" }, targets);
  return resolved > 0;
}

const which: Readonly<Record<AlertFilter["which"], Sql>> = {
  raised: sql`a.status = 'raised'`,
  open: sql`a.status <> 'resolved'`,
  all: sql`a.status <> 'pending'`,
};

/** Of alerts that are about to be deleted: no process knows the targets of these any more. */
async function cancelDeliveries(
  context: MoveContext,
  tx: Transaction,
  alerts: readonly string[],
): Promise<void> {
  const { engine } = context;
  const keys = alerts.flatMap((alert) => alertEvents.map((event) => deliveryKey({ alert, event })));
  const live = await tx.all<{ id: string }>(sql`
    select j.id
      from holdfast.job j
      join holdfast.job_key k on k.task = j.task and k.job_key = j.job_key and k.job_id = j.id
     where ${engine.among(sql`j.job_key`, keys)}
       and j.queue = ${ALERT_QUEUE}`);
  const now = await readNow(engine, tx);
  for (const { id } of live) await cancelUnclaimed(context, tx, id, { now, error: null });
}

export type AlertsStore = Pick<SqlAlerts, keyof SqlAlerts>;

/** A change has an id, by which it is found when its answer was lost. */
export class SqlAlerts {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #context: MoveContext;

  constructor(db: Database, hooks: readonly JobHooks[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#context = { engine: db.engine, hooks };
  }

  /** Records that a condition holds. */
  note(sighting: Sighting): Promise<Noted> {
    return this.#twice(() => noteAlert(this.#context, sighting));
  }

  /** Records that a condition no longer holds. Null: the alert did not change. */
  clear(clearing: Clearing): Promise<Cleared | null> {
    return this.#twice(() => clearAlert(this.#context, clearing));
  }

  /** All pending and raised alerts, and the database's time. */
  async open(limit: number): Promise<OpenAlerts> {
    const alerts = await this.list({ which: "open", limit });
    const [clock] = await this.#engine.all<{ now: number }>(
      sql`select ${this.#engine.now()} as now`,
    );
    return { now: (clock as { now: number }).now, alerts };
  }

  /** The newest first. */
  async list(filter: AlertFilter): Promise<AlertRecord[]> {
    const { before, limit } = filter;
    if (before !== undefined && !isId(before)) return [];
    return this.#engine.all<AlertRecord>(sql`
      select ${ALERT_COLUMNS}
        from holdfast.alert a
       where ${which[filter.which]}
             ${before === undefined ? nothing : sql`and a.id < ${before}`}
       order by a.id desc
       limit ${limit}`);
  }

  async find(id: string): Promise<AlertRecord | null> {
    if (!isId(id)) return null;
    const [alert] = await this.#engine.all<AlertRecord>(
      sql`select ${ALERT_COLUMNS} from holdfast.alert a where a.id = ${id}`,
    );
    return alert ?? null;
  }

  /**
   * Deletes alerts resolved longer ago than this, and cancels their remaining deliveries. Returns how many; call again
   * when it is `limit`.
   */
  async prune({ forMs, limit }: { forMs: number; limit: number }): Promise<number> {
    const engine = this.#engine;
    const old = await engine.all<{ id: string }>(sql`
      select id from holdfast.alert where resolved_at < ${engine.now()} - ${forMs} order by resolved_at limit ${limit}`);
    if (old.length === 0) return 0;
    const ids = old.map(({ id }) => id);
    return engine.transaction(async (tx) => {
      await cancelDeliveries(this.#context, tx, ids);
      return tx.run(sql`delete from holdfast.alert where ${engine.among(sql`id`, ids)}`);
    });
  }

  #twice<T>(write: () => Promise<T>): Promise<T> {
    return this.#db.write(write, write);
  }
}
