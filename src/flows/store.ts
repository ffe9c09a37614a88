/** Flows, batches and the jobs that wait for others, in the database. */
import type { FinalStatus, Status } from "../core/job.ts";
import { decodeError } from "../core/error-record.ts";
import { JobNotFoundError, StoreRefusedError } from "../core/errors.ts";
import type { IdRange } from "../core/id.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { asBusy, enqueueIn } from "../jobs/enqueue-policy.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import { confirmed } from "../jobs/recovery.ts";
import { hintPending } from "../jobs/rows.ts";
import { moveWithHooks } from "../jobs/settle.ts";
import type { DependencyPolicy, Enqueued, NewJob } from "../jobs/store.ts";
import { FlowNotFoundError } from "./errors.ts";
import { repair, releaseEnded } from "./release.ts";
import { inGroups } from "./waits.ts";

export const flowKinds = ["flow", "batch"] as const;
/** A flow, or a batch. */
export type FlowKind = (typeof flowKinds)[number];

export interface NewFlow {
  readonly id: string;
  readonly kind: FlowKind;
  readonly name: string;
  /** The job of a batch that runs when all others have ended. */
  readonly callback: string | null;
}

/** What a flow or batch is. */
export interface FlowFacts {
  /** Its id. */
  readonly id: string;
  /** A batch has a callback, and its jobs need not wait for each other. */
  readonly kind: FlowKind;
  /** The name that it was enqueued with. */
  readonly name: string;
  /** The id of the job that runs when all others have ended; null: none. */
  readonly callback: string | null;
  /** When it was enqueued (ms since 1970). */
  readonly createdAt: number;
}

export interface FlowRow extends FlowFacts {
  /** How many jobs were added, without the callback of a batch. */
  readonly size: number;
}

/** How many jobs of a flow ended as what; `live`: have not ended. The others were pruned. */
export type FlowCounts = Partial<Record<FinalStatus | "live", number>>;

export interface FlowRecord extends FlowRow {
  readonly counts: FlowCounts;
}

/** Which flows and batches to list, and how many. */
export interface FlowsFilter {
  /** Only flows, or only batches. Default: both. */
  readonly kind?: FlowKind;
  /** The last id of the page before. Default: the first page. */
  readonly before?: string;
  /** The most rows of the page. Default 50, at most 1,000. */
  readonly limit?: number;
}

/** A job of a flow, and how many jobs it still waits for. */
export interface FlowJobRecord {
  /** The id of the job. */
  readonly id: string;
  /** Its name within the flow; null: none. */
  readonly name: string | null;
  /** The name of its task. */
  readonly task: string;
  /** The queue of the job. */
  readonly queue: string;
  /** Its state now. */
  readonly status: Status;
  /** How many jobs it still waits for. */
  readonly missing: number;
  /** The job that it waited for and whose end ended it; null: it ended by itself, or has not ended. */
  readonly endedBy: string | null;
  /** Name and message of its last error; null: none. */
  readonly error: string | null;
}

export const jobStates = ["failed", "done", "live"] as const;

/** `failed`: ended, and not done; `live`: has not ended. */
export type FlowJobState = (typeof jobStates)[number];

/** A line of a flow's graph. */
export interface FlowEdge {
  /** The job that waits or waited. */
  readonly job: string;
  /** The job that it waits for: of this flow, or another one. */
  readonly on: string;
}

/** A job that another one waits for, or waited for. */
export interface DependencyRecord {
  readonly position: number;
  readonly id: string;
  readonly name: string | null;
  /** Null: its record was deleted. */
  readonly task: string | null;
  readonly status: Status | null;
  readonly result: string | null;
  readonly error: string | null;
  readonly onFailed: DependencyPolicy;
  readonly onCancelled: DependencyPolicy;
}

type EdgeRow = Omit<DependencyRecord, "task" | "status" | "result" | "error">;

interface StateRow {
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  readonly status: Status;
  readonly result: string | null;
  readonly error: string | null;
}

interface FlowJobsPage {
  readonly after?: string;
  readonly limit: number;
  /** Only jobs in this state. Default: all. */
  readonly state?: FlowJobState;
}

const END = sql`select f.status from holdfast.finished f where f.id = m.job_id`;

/** The jobs of one flow are read in their order until the page is full. */
const IN_STATE: Readonly<Record<FlowJobState, Sql>> = {
  live: sql`and not exists (${END})`,
  done: sql`and (${END}) = 'done'`,
  failed: sql`and (${END}) <> 'done'`,
};

const ERROR_LENGTH_MAX = 500;

/** "CarrierTimeout: no answer". */
function errorText(error: string): string {
  const { name, message } = decodeError(error);
  return `${name}: ${message}`.slice(0, ERROR_LENGTH_MAX);
}

/** Transactions that fail because another one took the same key at the same moment. */
const TRIES_MAX = 10;

/** The public methods of the class, for other implementations. */
export type FlowsStore = Pick<SqlFlows, keyof SqlFlows>;

interface Accepted {
  readonly enqueued: Enqueued[];
  readonly hints: readonly Hint[];
}

export class SqlFlows {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #context: MoveContext;

  constructor(db: Database, hooks: readonly JobHooks[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#context = { engine: db.engine, hooks };
  }

  /** Accepts a flow with all its jobs, or nothing. Repeated with the same ids, it changes nothing. */
  enqueue(flow: NewFlow, jobs: readonly NewJob[]): Promise<Enqueued[]> {
    return this.#write(jobs, (tx) => enqueueFlow(this.#context, tx, flow, jobs));
  }

  /** Adds jobs to a flow, all or none. Throws FlowNotFoundError. */
  add(flow: string, jobs: readonly NewJob[]): Promise<Enqueued[]> {
    return this.#write(jobs, (tx) => addToFlow(this.#context, tx, flow, jobs));
  }

  async #write(
    jobs: readonly NewJob[],
    write: (tx: Transaction) => Promise<Accepted>,
  ): Promise<Enqueued[]> {
    const engine = this.#engine;
    const once = (): Promise<Accepted> =>
      engine.transaction(async (tx) => {
        const accepted = await write(tx);
        await engine.notifyInTx(tx, accepted.hints);
        return accepted;
      });
    const act = async (): Promise<Accepted> => {
      for (let tries = 1; ; tries += 1) {
        try {
          return await once();
        } catch (error) {
          // Another process took one of the keys since we looked; the next look sees it.
          const mayHelp = jobs.some(({ key }) => key !== null) && tries < TRIES_MAX;
          if (!(error instanceof StoreRefusedError) || !mayHelp) throw error;
        }
      }
    };
    const { enqueued, hints } = await this.#db.write(act, async () => {
      const { enqueued: found, hints: known } = await act();
      const queues = new Set(jobs.map(({ queue }) => queue));
      const pending = [...queues].map((queue): Hint => ({ kind: "pending", queue }));
      const added = found.map(({ id }, index) => ({ id, added: id === jobs[index]?.id }));
      return { enqueued: added, hints: [...known, ...pending] };
    });
    for (const hint of hints) this.#db.announce(hint);
    return confirmed(this.#db, enqueued);
  }

  /** Null: there is none. */
  async find(id: string): Promise<FlowRecord | null> {
    const engine = this.#engine;
    if (!engine.mayBeId(id)) return null;
    const [row] = await engine.all<FlowRow>(sql`${SELECT_FLOW} where id = ${id}`);
    return row === undefined ? null : ((await this.#counted([row]))[0] ?? null);
  }

  async #counted(flows: readonly FlowRow[]): Promise<FlowRecord[]> {
    const engine = this.#engine;
    const rows = await inGroups(
      flows.map(({ id }) => id),
      (some) =>
        engine.all<{ flow: string; status: FinalStatus | "live"; jobs: number }>(sql`
          select flow, status, count(*) as jobs
            from (select m.flow_id as flow,
                         coalesce((select f.status from holdfast.finished f where f.id = m.job_id), 'live') as status
                    from holdfast.flow_job m
                   where ${engine.among(sql`m.flow_id`, some)}) members
           group by flow, status`),
    );
    const byFlow = Map.groupBy(rows, ({ flow }) => flow);
    return flows.map((flow) => {
      const counts = (byFlow.get(flow.id) ?? []).map(({ status, jobs }) => [status, jobs] as const);
      return { ...flow, counts: Object.fromEntries(counts) };
    });
  }

  /** A page of flows, newest first: pass the last id of one page as `before` of the next. */
  async list(
    filter: FlowsFilter & { readonly limit: number; readonly id?: IdRange },
  ): Promise<FlowRecord[]> {
    const { kind, before, limit, id } = filter;
    const conditions = [
      ...(id === undefined ? [] : [sql`id between ${id.from} and ${id.to}`]),
      ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
      ...(before === undefined ? [] : [sql`id < ${before}`]),
    ];
    const where = conditions.reduce((all, one) => sql`${all} and ${one}`, sql`where 1 = 1`);
    return this.#counted(
      await this.#engine.all<FlowRow>(sql`${SELECT_FLOW} ${where} order by id desc limit ${limit}`),
    );
  }

  /** A page of the jobs of a flow, in the order of their ids. */
  async jobs(
    flow: string,
    { after, limit, state: wanted }: FlowJobsPage,
  ): Promise<FlowJobRecord[]> {
    const engine = this.#engine;
    const behind = after === undefined ? sql`` : sql`and m.job_id > ${after}`;
    const members = await engine.all<{
      id: string;
      name: string | null;
      missing: number | null;
      endedBy: string | null;
    }>(sql`
      select m.job_id as id, m.name, w.missing, m.ended_by as "endedBy"
        from holdfast.flow_job m
        left join holdfast.waiting w on w.id = m.job_id
       where m.flow_id = ${flow} ${behind} ${wanted === undefined ? sql`` : IN_STATE[wanted]}
       order by m.job_id
       limit ${limit}`);
    const states = await this.#states(members.map(({ id }) => id));
    return members.flatMap(({ id, name, missing, endedBy }) => {
      const state = states.get(id);
      if (state === undefined) return [];
      const { task, queue, status, error } = state;
      const job = { id, name, task, queue, status, missing: missing ?? 0 };
      return [{ ...job, endedBy, error: error === null ? null : errorText(error) }];
    });
  }

  /** The first lines of its graph, by the jobs that wait. */
  async edges(flow: string, { limit }: { readonly limit: number }): Promise<FlowEdge[]> {
    if (!this.#engine.mayBeId(flow)) return [];
    return this.#engine.all<FlowEdge>(sql`
      select a.job_id as job, a.on_id as "on"
        from holdfast.flow_job m
        join holdfast.job_after a on a.job_id = m.job_id
       where m.flow_id = ${flow}
       order by a.job_id, a.position
       limit ${limit}`);
  }

  /** Looked up by id: joined to another table, some optimizers would first build the view of all jobs. */
  async #states(ids: readonly string[]): Promise<Map<string, StateRow>> {
    const engine = this.#engine;
    const rows = await inGroups(ids, (some) =>
      engine.all<StateRow>(sql`
        select id, task, queue, status, result, error
          from holdfast.job_state
         where ${engine.among(sql`id`, some)}`),
    );
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** The ids of its jobs that have the given name. */
  async named(flow: string, names: readonly string[]): Promise<Map<string, string>> {
    const engine = this.#engine;
    const rows = await inGroups(names, (some) =>
      engine.all<{ name: string; id: string }>(sql`
        select name, job_id as id
          from holdfast.flow_job
         where flow_id = ${flow} and ${engine.among(sql`name`, some)}`),
    );
    return new Map(rows.map(({ name, id }) => [name, id]));
  }

  /** The flow of a job; null: it belongs to none. */
  async flowOf(job: string): Promise<string | null> {
    if (!this.#engine.mayBeId(job)) return null;
    const [row] = await this.#engine.all<{ flow: string | null }>(
      sql`select flow_id as flow from holdfast.flow_job where job_id = ${job}`,
    );
    return row?.flow ?? null;
  }

  /** A page of the jobs that a job waits or waited for, in their order. */
  async dependencies(
    job: string,
    { after, limit }: { readonly after: number; readonly limit: number },
  ): Promise<DependencyRecord[]> {
    if (!this.#engine.mayBeId(job)) return [];
    const edges = await this.#engine.all<EdgeRow>(sql`
      select a.position, a.on_id as id, m.name, a.on_failed as "onFailed", a.on_cancelled as "onCancelled"
        from holdfast.job_after a
        left join holdfast.flow_job m on m.job_id = a.on_id
       where a.job_id = ${job}
         and a.position > ${after}
       order by a.position
       limit ${limit}`);
    const states = await this.#states(edges.map(({ id }) => id));
    return edges.map((edge) => {
      const { task = null, status = null, result = null, error = null } = states.get(edge.id) ?? {};
      return { ...edge, task, status, result, error };
    });
  }

  /** The first ids, in order, of the jobs that wait or waited for this one. */
  async dependents(job: string, { limit }: { readonly limit: number }): Promise<string[]> {
    if (!this.#engine.mayBeId(job)) return [];
    const rows = await this.#engine.all<{ id: string }>(sql`
      select job_id as id from holdfast.job_after where on_id = ${job} order by job_id limit ${limit}`);
    return rows.map(({ id }) => id);
  }

  /** The first ids, in order, of the jobs that a job still waits for. */
  async waitsFor(job: string, { limit }: { readonly limit: number }): Promise<string[]> {
    if (!this.#engine.mayBeId(job)) return [];
    const rows = await this.#engine.all<{ id: string }>(sql`
      select on_id as id from holdfast.dep where job_id = ${job} order by on_id limit ${limit}`);
    return rows.map(({ id }) => id);
  }

  /**
   * Releases the jobs that wait for jobs that have ended, for ends that do not do that by themselves; with `all`, for any.
   * Looks at one page of awaited jobs. Returns how many have ended, and where the next page begins; null: this was the last.
   */
  async sweep(page: {
    readonly after: string | null;
    readonly limit: number;
    readonly all: boolean;
  }) {
    const engine = this.#engine;
    const behind = page.after === null ? sql`` : sql`and on_id > ${page.after}`;
    const rows = await engine.all<{ id: string }>(sql`
      select distinct on_id as id
        from holdfast.dep
       where ${page.all ? sql`1 = 1` : sql`look = 1`} ${behind}
       order by on_id
       limit ${page.limit}`);
    const ids = rows.map(({ id }) => id);
    const next = ids.length < page.limit ? null : (ids.at(-1) ?? null);
    let ended = 0;
    if (ids.length > 0 && (await this.#haveEnded(ids))) ended = await this.#release(ids);
    return { looked: ids.length, ended, next };
  }

  async #haveEnded(ids: readonly string[]): Promise<boolean> {
    const engine = this.#engine;
    const rows = await inGroups(ids, (some) =>
      engine.all<{ live: number }>(sql`
        select count(*) as live
          from holdfast.job j
         where ${engine.among(sql`j.id`, some)}
           and not exists (select 1 from holdfast.finished f where f.id = j.id)`),
    );
    return rows.reduce((sum, { live }) => sum + live, 0) < ids.length;
  }

  async #release(ids: readonly string[]): Promise<number> {
    const { engine } = this.#context;
    const done = await engine.transaction(async (tx) => {
      const now = await readNow(engine, tx);
      const { ended, released } = await releaseEnded(engine, tx, { ids, now });
      const destinations = released.ended.map((row) => ({ table: "finished", row }) as const);
      const queues = await moveWithHooks(this.#context, tx, destinations);
      const all = [...new Set([...released.queues, ...queues])];
      return { ended, hints: await hintPending(engine, tx, all) };
    });
    for (const hint of done.hints) this.#db.announce(hint);
    if (done.ended > 0) this.#db.announce({ kind: "finished" });
    return done.ended;
  }

  /**
   * Corrects `missing` of waiting jobs that disagrees with their rows of `dep`, and releases those that wait for nothing. No
   * operation leaves such a job. Looks at one page of waiting jobs. Returns where the next begins; null: this was the last.
   */
  async repair(page: { readonly after: string | null; readonly limit: number }) {
    const { engine } = this.#context;
    const behind = page.after === null ? sql`` : sql`where id > ${page.after}`;
    const rows = await engine.all<{ id: string; missing: number; waits: number }>(sql`
      select w.id, w.missing, (select count(*) from holdfast.dep d where d.job_id = w.id) as waits
        from (select id, missing from holdfast.waiting ${behind} order by id limit ${page.limit}) w`);
    const wrong = rows.filter(({ missing, waits }) => missing !== waits);
    const next = rows.length < page.limit ? null : (rows.at(-1)?.id ?? null);
    if (wrong.length === 0) return { repaired: 0, next };
    const done = await engine.transaction(async (tx) => {
      const ids = wrong.map(({ id }) => id);
      const { repaired, queues } = await repair(engine, tx, {
        ids,
        now: await readNow(engine, tx),
      });
      return { repaired, hints: await hintPending(engine, tx, queues) };
    });
    for (const hint of done.hints) this.#db.announce(hint);
    return { repaired: done.repaired.length, next };
  }

  /** Its writes take effect if and when the user commits. */
  in({ tx, notify }: JoinedTransaction): Pick<SqlFlows, "enqueue" | "add"> {
    const context = { ...this.#context, isUsers: true };
    const write = async (act: () => Promise<Accepted>): Promise<Enqueued[]> => {
      try {
        const { enqueued, hints } = await act();
        for (const hint of hints) await notify(hint);
        return enqueued;
      } catch (error) {
        throw asBusy(this.#engine, error);
      }
    };
    return {
      enqueue: (flow, jobs) => write(() => enqueueFlow(context, tx, flow, jobs)),
      add: (flow, jobs) => write(() => addToFlow(context, tx, flow, jobs)),
    };
  }
}

const SELECT_FLOW = sql`
      select id, kind, name, size, callback_id as callback, created_at as "createdAt"
        from holdfast.flow`;

async function enqueueFlow(
  context: MoveContext,
  tx: Transaction,
  { id, kind, name, callback }: NewFlow,
  jobs: readonly NewJob[],
): Promise<Accepted> {
  const { engine } = context;
  const [known] = await tx.all(sql`select id from holdfast.flow where id = ${id}`);
  if (known === undefined) {
    const created_at = await readNow(engine, tx);
    const row = { id, kind, name, size: 0, callback_id: callback, created_at };
    await tx.insert("flow", [asRow(row)]);
  }
  return accept(context, tx, id, jobs);
}

async function addToFlow(
  context: MoveContext,
  tx: Transaction,
  flow: string,
  jobs: readonly NewJob[],
): Promise<Accepted> {
  const { engine } = context;
  if (!engine.mayBeId(flow)) throw new FlowNotFoundError({ id: flow });
  const [known] = await tx.all(
    sql`select id from holdfast.flow where id = ${flow} ${engine.lockRows()}`,
  );
  if (known === undefined) throw new FlowNotFoundError({ id: flow });
  return accept(context, tx, flow, jobs);
}

async function accept(
  context: MoveContext,
  tx: Transaction,
  flow: string,
  jobs: readonly NewJob[],
): Promise<Accepted> {
  const { engine } = context;
  const unknown = jobs
    .flatMap(({ member }) => member?.after ?? [])
    .find(({ id }) => !engine.mayBeId(id));
  if (unknown !== undefined) throw new JobNotFoundError({ id: unknown.id });
  const rows = await inGroups(
    jobs.map(({ id }) => id),
    (some) =>
      tx.all<{ id: string }>(sql`select id from holdfast.job where ${engine.among(sql`id`, some)}`),
  );
  const accepted = await enqueueIn(context, tx, jobs, new Set(rows.map(({ id }) => id)));
  const added = accepted.enqueued.filter(
    ({ added: isNew }, index) => isNew && jobs[index]?.member?.flow === flow,
  );
  if (added.length > 0) await tx.run(sizeOf(flow, added.length));
  return accepted;
}

function sizeOf(flow: string, more: number): Sql {
  return sql`update holdfast.flow set size = size + ${more} where id = ${flow}`;
}
