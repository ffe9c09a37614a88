/**
 * Alerts as rows. What is there is read without a lock, and every change compares the status that it was decided by: of those
 * who make the same change at once, one does.
 */
import type { AlertEvent, AlertStatus } from "../core/alert.ts";
import { StoreRefused } from "../core/errors.ts";
import type {
  AlertFilter,
  AlertRecord,
  Cleared,
  Clearing,
  Noted,
  OpenAlerts,
  Sighting,
} from "./alerts.ts";
import type { Engine, Transaction } from "./engine.ts";
import { readNow } from "./moving.ts";
import { nothing, sql, type Sql } from "./sql.ts";

/** Whoever was refused a second one finds the first; unless that is gone already, and again, and again. */
const NOTE_TRIES_MAX = 5;

export const ALERT_COLUMNS = sql`
       a.id, a.rule, a.subject, a.severity, a.status, a.message, a.facts, a.since_at as "sinceAt", a.seen_at as "seenAt",
       a.raised_at as "raisedAt", a.resolved_at as "resolvedAt"`;

/** Said in the text, so that the index of open ones is found by it. */
const OPEN = sql`status <> 'resolved'`;

interface Known {
  readonly id: string;
  readonly status: Exclude<AlertStatus, "resolved">;
  readonly sinceAt: number;
  readonly changeId: string;
}

export async function noteAlert(engine: Engine, sighting: Sighting): Promise<Noted> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await engine.transaction((tx) => noteOnce(engine, tx, sighting));
    } catch (error) {
      // Somebody else was first, and the index refused a second one.
      if (!(error instanceof StoreRefused) || tries === NOTE_TRIES_MAX) throw error;
    }
  }
}

async function noteOnce(engine: Engine, tx: Transaction, sighting: Sighting): Promise<Noted> {
  const now = await readNow(engine, tx);
  const known = await find(tx, sighting);
  if (known === null) return begin(tx, sighting, now);
  // The answer was lost, and this is the second time.
  if (known.changeId === sighting.id) return { change: known.status, id: known.id };
  const isDue = known.status === "pending" && now - known.sinceAt >= sighting.holdMs;
  if (isDue && (await raise(tx, known, { sighting, now })))
    return { change: "raised", id: known.id };
  await see(tx, known, { sighting, now });
  return { change: "seen", id: known.id };
}

async function find(tx: Transaction, { rule, subject }: Sighting): Promise<Known | null> {
  const [row] = await tx.all<Known>(sql`
    select id, status, since_at as "sinceAt", change_id as "changeId"
      from holdfast.alert
     where rule = ${rule}
       and subject = ${subject}
       and ${OPEN}`);
  return row ?? null;
}

async function begin(tx: Transaction, sighting: Sighting, now: number): Promise<Noted> {
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
  if (change === "raised") await tell(tx, { id, event: "raised", targets, now });
  return { change, id };
}

interface Seen {
  readonly sighting: Sighting;
  readonly now: number;
}

/** False: somebody else did, or has cleared it. */
async function raise(tx: Transaction, { id }: Known, { sighting, now }: Seen): Promise<boolean> {
  const raised = await tx.run(sql`
    update holdfast.alert
       set status = 'raised', raised_at = ${now}, change_id = ${sighting.id}, ${asSeen(sighting, now)}
     where id = ${id}
       and status = 'pending'`);
  if (raised > 0) await tell(tx, { id, event: "raised", targets: sighting.targets, now });
  return raised > 0;
}

/** One that was cleared in this moment is left alone: it is noted anew with the next look. */
async function see(tx: Transaction, { id }: Known, { sighting, now }: Seen): Promise<void> {
  await tx.run(sql`
    update holdfast.alert
       set ${asSeen(sighting, now)}
     where id = ${id}
       and ${OPEN}`);
}

function asSeen({ severity, message, facts }: Sighting, now: number): Sql {
  return sql`severity = ${severity}, message = ${message}, facts = ${facts}, seen_at = ${now}`;
}

interface News {
  readonly id: string;
  readonly event: AlertEvent;
  readonly targets: readonly string[];
  readonly now: number;
}

/** In the transaction of what it tells of. */
async function tell(tx: Transaction, { id, event, targets, now }: News): Promise<void> {
  if (targets.length === 0) return;
  await tx.insert(
    "alert_delivery",
    targets.map((target) => ({
      alert_id: id,
      event,
      target,
      tries: 0,
      due_at: now,
      delivered_at: null,
      error: null,
    })),
  );
}

export async function clearAlert(engine: Engine, clearing: Clearing): Promise<Cleared | null> {
  const cleared = await engine.transaction(async (tx): Promise<Cleared | null> => {
    if (await drop(tx, clearing)) return "dropped";
    return (await resolve(tx, clearing, await readNow(engine, tx))) ? "resolved" : null;
  });
  return cleared ?? ((await wasResolvedBy(engine, clearing)) ? "resolved" : null);
}

async function drop(tx: Transaction, { alert, seenAt }: Clearing): Promise<boolean> {
  const dropped = await tx.run(sql`
    delete from holdfast.alert where id = ${alert} and status = 'pending' and seen_at = ${seenAt}`);
  return dropped > 0;
}

async function resolve(tx: Transaction, clearing: Clearing, now: number): Promise<boolean> {
  const { alert, id, quietMs, targets } = clearing;
  const resolved = await tx.run(sql`
    update holdfast.alert
       set status = 'resolved', resolved_at = ${now}, change_id = ${id}
     where id = ${alert}
       and status = 'raised'
       and seen_at <= ${now - quietMs}`);
  if (resolved > 0) await tell(tx, { id: alert, event: "resolved", targets, now });
  return resolved > 0;
}

/** The answer was lost, and this is the second time. */
async function wasResolvedBy(engine: Engine, { alert, id }: Clearing): Promise<boolean> {
  const rows = await engine.all(sql`
    select id from holdfast.alert where id = ${alert} and status = 'resolved' and change_id = ${id}`);
  return rows.length > 0;
}

export async function openAlerts(engine: Engine, limit: number): Promise<OpenAlerts> {
  const alerts = await listAlerts(engine, { which: "open", limit });
  const [clock] = await engine.all<{ now: number }>(sql`select ${engine.now()} as now`);
  return { now: (clock as { now: number }).now, alerts };
}

const which: Readonly<Record<AlertFilter["which"], Sql>> = {
  raised: sql`a.status = 'raised'`,
  open: sql`a.status <> 'resolved'`,
  all: sql`a.status <> 'pending'`,
};

export function listAlerts(engine: Engine, filter: AlertFilter): Promise<AlertRecord[]> {
  const { before, limit } = filter;
  return engine.all<AlertRecord>(sql`
    select ${ALERT_COLUMNS}
      from holdfast.alert a
     where ${which[filter.which]}
           ${before === undefined ? nothing : sql`and a.id < ${before}`}
     order by a.id desc
     limit ${limit}`);
}

/** What was to be told about them goes with them. */
export async function pruneAlerts(
  engine: Engine,
  { forMs, limit }: { forMs: number; limit: number },
): Promise<number> {
  const old = await engine.all<{ id: string }>(sql`
    select id from holdfast.alert where resolved_at < ${engine.now()} - ${forMs} order by resolved_at limit ${limit}`);
  if (old.length === 0) return 0;
  const ids = old.map(({ id }) => id);
  return engine.transaction(async (tx) => {
    await tx.run(
      sql`delete from holdfast.alert_delivery where ${engine.among(sql`alert_id`, ids)}`,
    );
    return tx.run(sql`delete from holdfast.alert where ${engine.among(sql`id`, ids)}`);
  });
}
