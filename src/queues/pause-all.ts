/**
 * Pauses all queues together, and takes it back.
 *
 * Every queue has its own line in the audit log, with the same reason, after one line for all of them. A queue that was
 * paused before keeps its pause, and who paused it and why; so it stays paused when the others are resumed.
 */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, noteActions } from "../audit/store.ts";
import { makeIds } from "../core/id.ts";
import { isReserved, OTHER_QUEUES } from "../core/name.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { govern } from "../limits/gates.ts";
import { outsideQueues } from "../registry/unclaimable.ts";

/** Queues of one call. */
const QUEUES_MAX = 10_000;

const WORKERS_MAX = 10_000;

/** What ends a pause. */
export const RESUMED = sql`
  paused_at = null, paused_by = null, pause_reason = null, paused_all = 0, let_through = null`;

/** In the line of a queue: it was paused with all others. */
const TOGETHER = subjects.queues;

/** Returns the queues that were not paused before, by name. */
export async function pauseAll(db: Database, operator: OperatorEntry): Promise<string[]> {
  // Reads whole tables, so it happens before the transaction, which holds locks.
  const names = await knownQueues(db.engine);
  return actOnAll(db, operator, "pause", async (tx, now) => {
    const { engine } = db;
    const { actor, reason = null } = operator;
    for (const name of names) {
      await tx.run(
        engine.insertOrIgnore(
          sql`holdfast.queue (name, governed, updated_at) values (${name}, 0, ${engine.typed(now)})`,
        ),
      );
    }
    const open = await tx.all<{ name: string }>(sql`
      select name
        from holdfast.queue
       where ${engine.among(sql`name`, names)}
         and paused_at is null
       order by name
       ${engine.lockRows()}`);
    const paused = open.map(({ name }) => name);
    if (paused.length > 0) {
      await tx.run(sql`
        update holdfast.queue
           set paused_at = ${now}, paused_by = ${actor}, pause_reason = ${reason}, paused_all = 1, governed = 1,
               revision = revision + 1, updated_at = ${now}
         where ${engine.among(sql`name`, paused)}
           and paused_at is null`);
    }
    return paused;
  });
}

/** Returns the queues that were resumed, by name: those whose pause is of `pauseAll`. */
export async function resumeAll(db: Database, operator: OperatorEntry): Promise<string[]> {
  const { engine } = db;
  const resumed = await actOnAll(db, operator, "resume", async (tx, now) => {
    const rows = await tx.all<{ name: string }>(sql`
      select name
        from holdfast.queue
       where paused_all = 1
       order by name
       limit ${QUEUES_MAX}
       ${engine.lockRows()}`);
    for (const { name } of rows) {
      await tx.run(sql`
        update holdfast.queue
           set ${RESUMED}, revision = revision + 1, updated_at = ${now}
         where name = ${name}`);
      await govern(engine, tx, name);
    }
    return rows.map(({ name }) => name);
  });
  for (const queue of resumed) db.announce({ kind: "pending", queue });
  return resumed;
}

async function actOnAll(
  db: Database,
  operator: OperatorEntry,
  action: "pause" | "resume",
  act: (tx: Transaction, now: number) => Promise<string[]>,
): Promise<string[]> {
  const { engine } = db;
  const newId = makeIds(engine.runtime);
  const changed = (): Promise<string[]> =>
    engine.transaction(async (tx) => {
      const names = await act(tx, await readNow(engine, tx));
      if (names.length === 0) return names;
      const detail = `${names.length}`;
      await noteActions(engine, tx, [
        { operator, action: { action: `queue.${action}-all`, subject: subjects.queues, detail } },
        ...names.map((name) => ({
          operator: { ...operator, id: newId() },
          action: {
            action: `queue.${action}`,
            subject: subjects.queue(name),
            detail: TOGETHER,
          },
        })),
      ]);
      return names;
    });
  return actOrLookUp(db, operator, changed, ({ seq, detail }) =>
    namesAfter(engine, seq, Number(detail)),
  );
}

/** The queues of an action that was done before: their lines follow its own. */
async function namesAfter(engine: Engine, seq: number, count: number): Promise<string[]> {
  const lines = await engine.all<{ subject: string }>(sql`
    select subject from holdfast.audit where seq > ${seq} and seq <= ${seq + count} order by seq`);
  return lines.map(({ subject }) => subject.slice(subjects.queue("").length));
}

/** Those with settings, those of live workers, registered or not, and those with jobs, even if they ended within the last days. */
export async function knownQueues(engine: Engine): Promise<string[]> {
  const rows = await engine.all<{ name: string }>(sql`
    select name from holdfast.queue
     union
    select queue from holdfast.waiting
     union
    select queue from holdfast.lease
     union
    select queue from holdfast.minute_total
     limit ${QUEUES_MAX}`);
  // Goes from one queue to the next by the index: there may be a million jobs in one.
  const pending = await engine.all<{ name: string }>(sql`
    with recursive q (name, n) as (
      select min(queue), 1 from holdfast.ready
       union all
      select (select min(r.queue) from holdfast.ready r where r.queue > q.name), q.n + 1
        from q
       where q.name is not null
         and q.n < ${QUEUES_MAX}
    )
    select name from q where name is not null`);
  const workers = await engine.all<{ queues: string }>(
    sql`select queues from holdfast.worker where status <> 'stopped' limit ${WORKERS_MAX}`,
  );
  const served = workers.flatMap(({ queues }) => JSON.parse(queues) as string[]);
  // A program that takes jobs over HTTP would start the next one that is enqueued.
  const outside = await outsideQueues(engine);
  const names = new Set([...[...rows, ...pending].map(({ name }) => name), ...served, ...outside]);
  return [...names]
    .filter((name) => !isReserved(name) && name !== OTHER_QUEUES)
    .toSorted()
    .slice(0, QUEUES_MAX);
}
