/**
 * The rows of bulk actions, and the transactions that carry them out.
 *
 * A chunk is one transaction: it locks the row of the action, compares the position, changes the jobs, writes their audit
 * lines and moves the position on. So any process can carry out the next chunk at any time, two processes cannot do the
 * same one, and a crash or a lost answer neither repeats nor skips a job. Locks: the action, jobs, the head of the audit.
 */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, type NewAction, noteAction, noteActions } from "../audit/store.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import { asking, type Check } from "../database/check.ts";
import type { Database } from "../database/database.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { cancelWhereItStands, relocate, type Relocation, reopenIn } from "../jobs/cancel.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import { deleteEnded } from "../jobs/maintenance.ts";
import { hintPending } from "../jobs/rows.ts";
import { walk, type Walked } from "../jobs/walk.ts";
import {
  type BulkAction,
  type BulkTerms,
  type CheckedRequest,
  statusesOf,
  type StoredFilter,
  type Walk,
} from "./request.ts";

export class BulkNotFoundError extends HoldfastError {
  constructor(facts: { id: string }) {
    super(
      "BULK_NOT_FOUND",
      `There is no bulk action ${facts.id}. It was never started here, or it ended long ago. To list actions: holdfast bulk`,
    );
  }
}

/** All jobs were looked at, so there is nothing to resume. */
class BulkEndedError extends HoldfastError {
  constructor(facts: { id: string }) {
    super(
      "BULK_ENDED",
      `Bulk action ${facts.id} is done. To change jobs that match now, start another with the same filter.`,
    );
  }
}

export const bulkStatuses = ["running", "done", "stopped", "failed"] as const;

/** How a bulk action stands. */
export type BulkStatus = (typeof bulkStatuses)[number];

/** A job that matches and could not be changed. */
export interface Refusal {
  /** The id of the job. */
  readonly id: string;
  /** The code of the error, such as `ILLEGAL_MOVE`. */
  readonly code: string;
  /** Why, in a sentence. */
  readonly message: string;
}

/** A bulk action, and how far it has come. */
export interface BulkRecord {
  /** Its id. */
  readonly id: string;
  /** What it does. */
  readonly action: BulkAction;
  /** Which jobs it matches. */
  readonly filter: StoredFilter;
  /** Further details of the action, such as the new queue. */
  readonly terms: BulkTerms;
  /** Whether it only counts the matching jobs. */
  readonly dryRun: boolean;
  /** Who started it. */
  readonly actor: string;
  /** Why, as given; null: no reason was given. */
  readonly reason: string | null;
  /** `running` until all jobs were looked at, an operator stops it, or an error that a repetition would not fix. */
  readonly status: BulkStatus;
  /** How many jobs were examined, how many of these match, and how many of these were changed or refused. */
  readonly looked: number;
  /** How many of the examined jobs match the filter. */
  readonly matched: number;
  /** How many were changed; in a dry run, how many would be. */
  readonly changed: number;
  /** How many match and could not be changed. */
  readonly refused: number;
  /** The first ids that matched. */
  readonly sample: readonly string[];
  /** The first jobs that match and could not be changed, and why. */
  readonly refusals: readonly Refusal[];
  /** Why it failed. */
  readonly error: string | null;
  /** The process that last carried out a part of it. */
  readonly carrier: string | null;
  /** When it was started (ms since 1970). */
  readonly createdAt: number;
  /** When it last made progress (ms since 1970). */
  readonly changedAt: number;
  /** When it ended (ms since 1970); null: it has not. */
  readonly endedAt: number | null;
}

/** The jobs before this id come next; null: the newest. */
export interface Position {
  readonly walk: Walk;
  readonly before: string | null;
}

/** With what a process needs to carry it out. */
export interface BulkRow extends BulkRecord {
  readonly traceId: string | null;
  readonly position: Position;
}

/** One transaction. The rest of the job's facts is read again in it. */
export interface BulkChunk {
  readonly id: string;
  readonly carrier: string;
  /** Where the action must stand. */
  readonly at: Position;
  /** Where it stands afterwards; null: it is done. */
  readonly next: Position | null;
  readonly looked: number;
  readonly matched: readonly string[];
  /** The jobs to change, each with the id of its audit line. */
  readonly change: readonly { readonly id: string; readonly line: string }[];
  readonly refusals: readonly Refusal[];
}

/** Ids and refusals that a row keeps. */
const SAMPLE_MAX = 10;

/** Any process may continue an action that no process has continued for this long. */
export const CARRIER_MS = 10_000;

interface Stored extends Omit<
  BulkRow,
  "filter" | "terms" | "dryRun" | "sample" | "refusals" | "position"
> {
  readonly filter: string;
  readonly terms: string;
  readonly dryRun: number;
  readonly sample: string;
  readonly refusals: string;
  readonly walk: Walk;
  readonly before: string | null;
}

const COLUMNS = sql`
       id, action, filter, terms, dry_run as "dryRun", actor, reason, trace_id as "traceId", status, walk,
       before_id as "before", looked, matched, changed, refused, sample, refusals, error, carrier,
       created_at as "createdAt", changed_at as "changedAt", ended_at as "endedAt"`;

export type BulkStore = Pick<SqlBulk, keyof SqlBulk>;

export class SqlBulk {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #context: MoveContext;

  constructor(db: Database, hooks: readonly JobHooks[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#context = { engine: db.engine, hooks };
  }

  /** Stores an action; its id is that of its audit line, so a repeated call finds it. */
  async create(request: CheckedRequest, operator: OperatorEntry): Promise<BulkRow> {
    const engine = this.#engine;
    const create = (): Promise<void> =>
      engine.transaction(async (tx) => {
        const now = await readNow(engine, tx);
        await tx.insert("bulk_action", [newRow(request, operator, now)]);
        const { action, filter, terms, dryRun } = request;
        const detail = JSON.stringify({ action, filter, ...terms, ...(dryRun ? { dryRun } : {}) });
        const subject = subjects.bulk(operator.id);
        await noteAction(engine, tx, operator, { action: "bulk.start", subject, detail });
      });
    await actOrLookUp(this.#db, operator, create, async () => {});
    // Maintenance of workers looks for actions too.
    this.#db.announce({ kind: "waiting" });
    return this.get(operator.id);
  }

  async find(id: string): Promise<BulkRow | null> {
    if (!this.#engine.mayBeId(id)) return null;
    const [row] = await this.#rows(sql`id = ${id}`, 1);
    return row ?? null;
  }

  async get(id: string): Promise<BulkRow> {
    const row = await this.find(id);
    if (row === null) throw new BulkNotFoundError({ id });
    return row;
  }

  /** A page, newest first. */
  list(filter: {
    readonly status?: BulkStatus;
    readonly before?: string;
    readonly limit: number;
  }): Promise<BulkRow[]> {
    const { status, before, limit } = filter;
    const where = sql`id is not null
             ${status === undefined ? nothing : sql`and status = ${status}`}
             ${before === undefined ? nothing : sql`and id < ${before}`}`;
    return this.#rows(where, limit);
  }

  /** The oldest running action that this process carries out, or that no process does; null: there is none. */
  async next(carrier: string): Promise<string | null> {
    const [row] = await this.#engine.all<{ id: string }>(sql`
      select id
        from holdfast.bulk_action
       where ended_at is null
         and (carrier = ${carrier} or ${isLeft(this.#engine)})
       order by id
       limit 1`);
    return row?.id ?? null;
  }

  /** The next page of an action: at most so many jobs are examined. */
  look({ action, position, filter }: BulkRow, limit: number): Promise<Walked> {
    const { all: _all, ...fields } = filter;
    const wanted = { ...fields, status: statusesOf(action, filter) };
    const withErrors = action === "retry";
    const how = { before: position.before, limit, examine: limit, withErrors };
    return walk(this.#engine, wanted, how);
  }

  /**
   * Carries out one chunk. False: the action stands elsewhere or has ended, and nothing was changed: another process, or
   * a call whose answer was lost, carried it out.
   */
  async carry(chunk: BulkChunk): Promise<boolean> {
    const carry = (): Promise<Carried> => carryOut(this.#context, chunk);
    const { isDone, hints } = await this.#db.write(carry, carry);
    for (const hint of hints) this.#db.announce(hint);
    return isDone;
  }

  /** Ends an action that cannot be carried on. */
  async fail(id: string, error: string): Promise<void> {
    const fail = async (): Promise<void> => {
      const now = this.#engine.now();
      await this.#engine.run(sql`
        update holdfast.bulk_action
           set status = 'failed', error = ${error}, changed_at = ${now}, ended_at = ${now}
         where id = ${id} and status = 'running'`);
    };
    await this.#db.write(fail, fail); // idempotent
  }

  /** Waits for the chunk that is being carried out. An action that has ended stays as it is. */
  async stop(id: string, operator: OperatorEntry): Promise<BulkRow> {
    await this.#turn(id, operator, {
      action: "bulk.stop",
      from: ["running"],
      set: sql`status = 'stopped', ended_at = ${this.#engine.now()}`,
      newStatus: "stopped",
    });
    return this.get(id);
  }

  /** Continues where it stood when it was stopped or failed. */
  async resume(id: string, operator: OperatorEntry): Promise<BulkRow> {
    const resumed = await this.#turn(id, operator, {
      action: "bulk.resume",
      from: ["stopped", "failed"],
      set: sql`status = 'running', ended_at = null, error = null, carrier = null`,
      newStatus: "running",
    });
    const row = await this.get(id);
    if (!resumed && row.status === "done") throw new BulkEndedError({ id });
    this.#db.announce({ kind: "waiting" });
    return row;
  }

  #turn(id: string, operator: OperatorEntry, turn: Turn): Promise<boolean> {
    const engine = this.#engine;
    if (!engine.mayBeId(id)) throw new BulkNotFoundError({ id });
    const act = (): Promise<boolean> =>
      engine.transaction(async (tx) => {
        const [row] = await tx.all<{ status: BulkStatus }>(
          sql`select status from holdfast.bulk_action where id = ${id} ${engine.lockRows()}`,
        );
        if (row === undefined) throw new BulkNotFoundError({ id });
        if (!turn.from.includes(row.status)) return false;
        await tx.run(sql`
          update holdfast.bulk_action set ${turn.set}, changed_at = ${engine.now()} where id = ${id}`);
        const statuses = { oldStatus: row.status, newStatus: turn.newStatus };
        const subject = subjects.bulk(id);
        await noteAction(engine, tx, operator, { action: turn.action, subject, ...statuses });
        return true;
      });
    return actOrLookUp(this.#db, operator, act, async () => true);
  }

  async #rows(where: Sql, limit: number): Promise<BulkRow[]> {
    const rows = await this.#engine.all<Stored>(sql`
      select ${COLUMNS} from holdfast.bulk_action where ${where} order by id desc limit ${limit}`);
    return rows.map(({ walk: name, before, ...row }) => ({
      ...row,
      filter: JSON.parse(row.filter) as StoredFilter,
      terms: JSON.parse(row.terms) as BulkTerms,
      dryRun: row.dryRun === 1,
      sample: JSON.parse(row.sample) as string[],
      refusals: JSON.parse(row.refusals) as Refusal[],
      position: { walk: name, before },
    }));
  }
}

/** No process carries it out, or the one that did has stopped. */
function isLeft(engine: Engine): Sql {
  const now = engine.now();
  return sql`(carrier is null or changed_at < ${now} - ${CARRIER_MS} or changed_at > ${now} + ${CARRIER_MS})`;
}

interface Turn {
  readonly action: string;
  readonly from: readonly BulkStatus[];
  readonly set: Sql;
  readonly newStatus: BulkStatus;
}

function newRow(
  { action, filter, terms, dryRun }: CheckedRequest,
  { id, actor, reason = null, traceId = null }: OperatorEntry,
  now: number,
) {
  return asRow({
    id,
    action,
    filter: JSON.stringify(filter),
    terms: JSON.stringify(terms),
    dry_run: dryRun ? 1 : 0,
    actor,
    reason,
    trace_id: traceId,
    status: "running",
    walk: "first" satisfies Walk,
    sample: "[]",
    refusals: "[]",
    created_at: now,
    changed_at: now,
  });
}

interface Carried {
  readonly isDone: boolean;
  readonly hints: readonly Hint[];
}

interface Locked extends Pick<
  Stored,
  "action" | "filter" | "terms" | "actor" | "reason" | "traceId"
> {
  readonly sample: string;
  readonly refusals: string;
  readonly walk: Walk;
  readonly before: string | null;
}

function carryOut(context: MoveContext, chunk: BulkChunk): Promise<Carried> {
  const { engine } = context;
  const { id, at, next, carrier } = chunk;
  return engine.transaction(async (tx) => {
    const [row] = await tx.all<Locked>(sql`
      select action, filter, terms, actor, reason, trace_id as "traceId", walk, before_id as "before", sample, refusals
        from holdfast.bulk_action
       where id = ${id} and status = 'running'
       ${engine.lockRows()}`);
    if (row === undefined || row.walk !== at.walk || row.before !== at.before) {
      return { isDone: false, hints: [] };
    }
    const now = await readNow(engine, tx);
    const changes =
      chunk.change.length === 0 ? [] : await changeAll(context, tx, { chunk, row, now });
    // The second walk meets the same jobs again: it counts only those that had returned.
    const isAgain = at.walk === "returned";
    const matched = isAgain ? changes.map((change) => change.id) : chunk.matched;
    const lines = new Map(chunk.change.map((one) => [one.id, one.line]));
    const { actor, reason, traceId } = row;
    const { sample, refusals } = row;
    await tx.run(sql`
      update holdfast.bulk_action
         set walk = ${(next ?? at).walk}, before_id = ${next === null ? at.before : next.before},
             looked = looked + ${isAgain ? 0 : chunk.looked}, matched = matched + ${matched.length},
             changed = changed + ${changes.length}, refused = refused + ${chunk.refusals.length},
             sample = ${grown(sample, matched)}, refusals = ${grown(refusals, chunk.refusals)},
             carrier = ${carrier}, changed_at = ${now},
             status = ${next === null ? "done" : "running"}, ended_at = ${next === null ? now : null}
       where id = ${id}`);
    // After all jobs: the head of the audit log must be the last row that is locked.
    await noteActions(
      engine,
      tx,
      changes.map((change) => ({
        operator: { id: lines.get(change.id) ?? "", actor, reason, traceId },
        action: actionOf(change, row.action, id),
      })),
    );
    const queues = [...new Set(changes.flatMap((change) => change.queues))];
    const hints = await hintPending(engine, tx, queues);
    const others = row.action === "cancel" ? (["cancel", "finished"] as const) : [];
    return { isDone: true, hints: [...hints, ...others.map((kind): Hint => ({ kind }))] };
  });
}

/** The first of them. */
function grown(stored: string, more: readonly unknown[]): string {
  if (more.length === 0) return stored;
  return JSON.stringify([...(JSON.parse(stored) as unknown[]), ...more].slice(0, SAMPLE_MAX));
}

interface Change {
  readonly id: string;
  readonly oldStatus: Status;
  readonly newStatus: Status | null;
  /** Such as `queue mail to slow`. */
  readonly detail?: string;
  /** Queues that have pending jobs now. */
  readonly queues: readonly string[];
}

function actionOf(change: Change, action: BulkAction, bulk: string): NewAction {
  const { id, oldStatus, newStatus, detail } = change;
  const subject = subjects.job(id);
  const by = subjects.bulk(bulk);
  const told = detail === undefined ? by : `${detail}, ${by}`;
  return { action: `job.${action}`, subject, oldStatus, newStatus, detail: told };
}

/** The jobs that were changed; the others changed in the meantime. Throws if one of them must not be. */
async function changeAll(
  context: MoveContext,
  tx: Transaction,
  { chunk, row, now }: { chunk: BulkChunk; row: Locked; now: number },
): Promise<Change[]> {
  const ids = chunk.change.map(({ id }) => id);
  const terms = JSON.parse(row.terms) as BulkTerms;
  const changes: Change[] = [];
  switch (row.action) {
    case "retry":
      for (const id of ids) {
        const ended = await reopenIn(context, tx, { id, attempts: terms.attempts ?? 1, now });
        if (ended === null) continue;
        changes.push({ id, oldStatus: ended.status, newStatus: "pending", queues: [ended.queue] });
      }
      return changes;
    case "cancel":
      for (const id of ids) {
        const { status, from, queues } = await cancelWhereItStands(context, tx, id);
        if (from !== null) changes.push({ id, oldStatus: from, newStatus: status, queues });
      }
      return changes;
    case "delete": {
      const { status: ended = [] } = JSON.parse(row.filter) as StoredFilter;
      const deleted = await deleteEnded(context, tx, { ids, statuses: ended });
      return deleted.map(({ id, status }) => ({
        id,
        oldStatus: status,
        newStatus: null,
        queues: [],
      }));
    }
    case "move":
    case "priority": {
      const { queue, priority = 0 } = terms;
      const to: Relocation = queue === undefined ? { priority } : { queue };
      const moved = await relocate(context.engine, tx, ids, to);
      return moved.map(({ id, status, queue: now_in, before }) => ({
        id,
        oldStatus: status,
        newStatus: status,
        detail: queue === undefined ? `${before} to ${priority}` : `${before} to ${queue}`,
        queues: status === "pending" ? [now_in] : [],
      }));
    }
  }
}

/** Ended actions are kept as long as the jobs that are kept longest. */
export const bulkHooks: JobHooks = {
  upcoming: (engine) => sql`
           (select 0 from holdfast.bulk_action where ended_at is null and ${isLeft(engine)} limit 1) as "bulkInMs"`,

  async beforePrune(engine, tx, olderThanMs) {
    await tx.run(
      sql`delete from holdfast.bulk_action where ended_at < ${engine.now()} - ${olderThanMs}`,
    );
  },
};

// Bulk actions that no process carries out.

/** Workers and servers look for actions every half minute, and take over one that stands still after ten seconds. */
const STALLED_MS = 5 * 60_000;

export const bulkChecks: readonly Check[] = [
  {
    name: "bulk-stalled",
    severity: "warning",
    problem: "Bulk actions make no progress: no process carries them out.",
    remedy: "Start a worker or a server, or run them here: holdfast bulk resume <id>.",
    cost: "quick",
    find: asking<{ id: string; action: string; at: number }>(
      (engine, { limit }) => sql`
        select id, action, changed_at as at
          from holdfast.bulk_action
         where ended_at is null
           and changed_at < ${engine.now()} - ${STALLED_MS}
         order by id
         limit ${limit}`,
      ({ id, action, at }) => ({
        subject: subjects.bulk(id),
        detail: `(${action}) has not made progress`,
        sinceAt: at,
      }),
    ),
  },
];
