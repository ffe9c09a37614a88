/**
 * Alerts as rows. They are read without a lock, and every change compares the status that it was decided by: of several
 * processes that make the same change at once, one succeeds.
 */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { formatMs } from "../core/duration.ts";
import { StoreRefusedError } from "../core/errors.ts";
import { idRange, isId, makeIds } from "../core/id.ts";
import { ALERT_QUEUE } from "../core/name.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { cancelUnclaimed } from "../jobs/cancel.ts";
import { enqueueIn } from "../jobs/enqueue-policy.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import {
  type AlertChange,
  type AlertFilter,
  type AlertRecord,
  type AlertStatus,
  type Cleared,
  type Clearing,
  DELIVERY_ATTEMPTS_MAX,
  type DeliveryInput,
  deliveryKey,
  deliveryTask,
  isSilenced,
  type Noted,
  type OpenAlerts,
  raisedKeys,
  type Sighting,
} from "./alert.ts";

/** When the index refuses a second alert, the next try finds the first, unless it is gone again. */
const NOTE_TRIES_MAX = 5;

const ALERT_COLUMNS = sql`
       a.id, a.rule, a.subject, a.severity, a.status, a.message, a.facts, a.since_at as "sinceAt", a.seen_at as "seenAt",
       a.raised_at as "raisedAt", a.resolved_at as "resolvedAt", a.notified_at as "notifiedAt",
       a.acknowledged_at as "acknowledgedAt", a.acknowledged_by as "acknowledgedBy",
       a.silenced_until as "silencedUntil", a.silenced_by as "silencedBy", a.note`;

/** A literal in the statement, so that the planner uses the partial index of open alerts. */
const OPEN = sql`status <> 'resolved'`;

interface Known {
  readonly id: string;
  readonly status: Exclude<AlertStatus, "resolved">;
  readonly sinceAt: number;
  readonly changeId: string;
  readonly acknowledgedAt: number | null;
  readonly silencedUntil: number | null;
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
    select id, status, since_at as "sinceAt", change_id as "changeId", acknowledged_at as "acknowledgedAt",
           silenced_until as "silencedUntil"
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
  if (await comeBack(context, tx, known, { sighting, now }))
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
  const silence = await silenceOf(tx, sighting, now);
  const isTold = change === "raised" && silence === undefined;
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
      notified_at: isTold ? now : null,
      silenced_until: silence?.until ?? null,
      silenced_by: silence?.by ?? null,
      note: silence?.note ?? null,
    },
  ]);
  if (isTold) await deliver(context, tx, { alert: id, event: "raised" }, targets);
  return { change, id };
}

interface Silence {
  readonly until: number;
  readonly by: string | null;
  readonly note: string | null;
}

/** A silence outlives its alert: a condition that comes and goes stays silent until the time is over. */
async function silenceOf(
  tx: Transaction,
  { rule, subject }: Sighting,
  now: number,
): Promise<Silence | undefined> {
  const [last] = await tx.all<Silence>(sql`
    select silenced_until as "until", silenced_by as "by", note
      from holdfast.alert
     where silenced_until > ${now}
       and rule = ${rule}
       and subject = ${subject}
     order by silenced_until desc
     limit 1`);
  return last;
}

interface Seen {
  readonly sighting: Sighting;
  readonly now: number;
}

/** False: another process raised or cleared it. */
async function raise(
  context: MoveContext,
  tx: Transaction,
  known: Known,
  { sighting, now }: Seen,
): Promise<boolean> {
  const { id } = known;
  const isTold = !isSilenced(known, now) && known.acknowledgedAt === null;
  const raised = await tx.run(sql`
    update holdfast.alert
       set status = 'raised', raised_at = ${now}, change_id = ${sighting.id}, notified_at = ${isTold ? now : null},
           ${asSeen(sighting, now)}
     where id = ${id}
       and status = 'pending'`);
  if (raised > 0 && isTold)
    await deliver(context, tx, { alert: id, event: "raised" }, sighting.targets);
  return raised > 0;
}

/** Its silence is over, and it still holds: the targets are notified again, unless an operator acknowledged it. */
async function comeBack(
  context: MoveContext,
  tx: Transaction,
  { id, status, silencedUntil, acknowledgedAt }: Known,
  { sighting, now }: Seen,
): Promise<boolean> {
  if (status !== "raised" || silencedUntil === null || silencedUntil > now) return false;
  const isTold = acknowledgedAt === null;
  const over = await tx.run(sql`
    update holdfast.alert
       set silenced_until = null, silenced_by = null, change_id = ${sighting.id}, ${asSeen(sighting, now)}
           ${isTold ? sql`, note = null, notified_at = ${now}` : nothing}
     where id = ${id}
       and status = 'raised'
       and silenced_until = ${silencedUntil}`);
  if (over === 0 || !isTold) return false;
  await deliver(context, tx, { alert: id, event: "raised", again: now }, sighting.targets);
  return true;
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
  const [told] = await tx.all<{ at: number | null }>(
    sql`select notified_at as "at" from holdfast.alert where id = ${alert}`,
  );
  const resolved = await tx.run(sql`
    update holdfast.alert
       set status = 'resolved', resolved_at = ${now}, change_id = ${id}
     where id = ${alert}
       and status = 'raised'
       and seen_at <= ${now - quietMs}`);
  // Targets that were not notified of it are not notified of its end.
  if (resolved > 0 && typeof told?.at === "number")
    await deliver(context, tx, { alert, event: "resolved" }, targets);
  return resolved > 0;
}

const which: Readonly<Record<AlertFilter["which"], Sql>> = {
  raised: sql`a.status = 'raised'`,
  open: sql`a.status <> 'resolved'`,
  all: sql`1 = 1`,
};

/** The worst first: critical, warning, info. */
const RANK = sql`case a.severity when 'critical' then 0 when 'warning' then 1 else 2 end`;

/** Open alerts are few, and stand in the order in which to look at them: the worst first, then the oldest. */
function openAfter(before: string | undefined): Sql {
  if (before === undefined) return nothing;
  return sql`
         and exists (
           select 1
             from (select a.id, a.since_at, ${RANK} as place from holdfast.alert a where a.id = ${before}) b
            where ${RANK} > b.place
               or ${RANK} = b.place and (a.since_at > b.since_at or a.since_at = b.since_at and a.id > b.id))`;
}

/** Of alerts that are about to be deleted: no process knows the targets of these any more. */
async function cancelDeliveries(
  context: MoveContext,
  tx: Transaction,
  alerts: readonly Pick<AlertRecord, "id" | "notifiedAt">[],
): Promise<void> {
  const { engine } = context;
  const keys = alerts.flatMap((one) => [
    ...raisedKeys(one),
    deliveryKey({ alert: one.id, event: "resolved" }),
  ]);
  const live = await tx.all<{ id: string }>(sql`
    select j.id
      from holdfast.job j
      join holdfast.job_key k on k.task = j.task and k.job_key = j.job_key and k.job_id = j.id
     where ${engine.among(sql`j.job_key`, keys)}
       and j.queue = ${ALERT_QUEUE}`);
  const now = await readNow(engine, tx);
  for (const { id } of live) await cancelUnclaimed(context, tx, id, { now, error: null });
}

/** How many alerts are open. */
export interface AlertCounts {
  /** The raised ones, silenced or not. */
  readonly raised: number;
  /** Those whose condition has not held for long enough. */
  readonly pending: number;
  /** The raised ones that are silenced. */
  readonly silenced: number;
}

interface Changing {
  readonly id: string;
  readonly change: AlertChange;
  readonly operator: OperatorEntry;
}

async function changeAlert(
  engine: Engine,
  tx: Transaction,
  { id, change, operator }: Changing,
): Promise<boolean> {
  const now = await readNow(engine, tx);
  const { actor, reason = null } = operator;
  const set =
    change.kind === "acknowledge"
      ? sql`acknowledged_at = ${now}, acknowledged_by = ${actor}`
      : sql`silenced_until = ${now + change.forMs}, silenced_by = ${actor}`;
  const changed = await tx.run(sql`
    update holdfast.alert set ${set}, note = ${reason} where id = ${id} and ${OPEN}`);
  if (changed === 0) return false;
  await noteAction(engine, tx, operator, {
    action: `alert.${change.kind}`,
    subject: subjects.alert(id),
    detail: change.kind === "silence" ? `for ${formatMs(change.forMs)}` : null,
  });
  return true;
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

  /** Open alerts: the worst first, then the oldest. All: the newest first. */
  async list(filter: AlertFilter): Promise<AlertRecord[]> {
    const { before, limit, id } = filter;
    if (before !== undefined && !isId(before)) return [];
    const range = id === undefined ? undefined : idRange(id);
    if (range === null) return [];
    const isAll = filter.which === "all";
    const older = before === undefined ? nothing : sql`and a.id < ${before}`;
    return this.#engine.all<AlertRecord>(sql`
      select ${ALERT_COLUMNS}
        from holdfast.alert a
       where ${which[filter.which]}
             ${range === undefined ? nothing : sql`and a.id between ${range.from} and ${range.to}`}
             ${isAll ? older : openAfter(before)}
       order by ${isAll ? sql`a.id desc` : sql`${RANK}, a.since_at, a.id`}
       limit ${limit}`);
  }

  /** How many are open, by the database's time. */
  async count(): Promise<AlertCounts> {
    const [counts] = await this.#engine.all<AlertCounts>(sql`
      select count(case when status = 'raised' then 1 end) as raised,
             count(case when status = 'pending' then 1 end) as pending,
             count(case when status = 'raised' and silenced_until > ${this.#engine.now()} then 1 end) as silenced
        from holdfast.alert
       where ${OPEN}`);
    return counts as AlertCounts;
  }

  /** False: there is no such open alert. */
  change(id: string, change: AlertChange, operator: OperatorEntry): Promise<boolean> {
    const act = (): Promise<boolean> =>
      this.#engine.transaction((tx) => changeAlert(this.#engine, tx, { id, change, operator }));
    return actOrLookUp(this.#db, operator, act, () => Promise.resolve(true));
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
    const old = await engine.all<Pick<AlertRecord, "id" | "notifiedAt">>(sql`
      select id, notified_at as "notifiedAt" from holdfast.alert where resolved_at < ${engine.now()} - ${forMs} order by resolved_at limit ${limit}`);
    if (old.length === 0) return 0;
    const ids = old.map(({ id }) => id);
    return engine.transaction(async (tx) => {
      await cancelDeliveries(this.#context, tx, old);
      return tx.run(sql`delete from holdfast.alert where ${engine.among(sql`id`, ids)}`);
    });
  }

  #twice<T>(write: () => Promise<T>): Promise<T> {
    return this.#db.write(write, write);
  }
}
