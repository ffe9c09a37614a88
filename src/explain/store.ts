/**
 * Reads the facts of one job or queue. Each read goes by a key, or is cut off after a fixed number of rows, so it costs the
 * same however long a backlog is. The reads are not one snapshot: a job that moves meanwhile is explained as it was first seen.
 */
import { decodeError } from "../core/error-record.ts";
import type { AwaitedJob, Bounded, Holder, Limited } from "../core/explanation.ts";
import { bareName, isReserved, versionsOf } from "../core/name.ts";
import { JOB_ENDED } from "../core/task.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { FIRST_UNTIL } from "../jobs/rows.ts";
import { isLimited, type Rule, ruleOf, type RuleRow } from "../limits/gates.ts";
import { mayStart, nextStartMs } from "../limits/rates.ts";
import type { WorkersStore } from "../registry/store.ts";
import { activeStates } from "../registry/worker-record.ts";
import type {
  FleetWorker,
  JobFacts,
  JobState,
  LimitFacts,
  QueueFacts,
  QueueState,
  WaitFacts,
} from "./obstacles.ts";

/** Jobs, events and effects that an explanation names. */
const NAMED_MAX = 3;

/** More pending or running jobs are not counted. */
const COUNTED_MAX = 1_000;

const WORKERS_MAX = 1_000;

const NONE: Bounded = { count: 0, isMore: false };

/** Of one job in `ready`. */
interface ReadyPosition {
  readonly lane: string;
  readonly place: number;
}

type StateRow = JobState & { readonly now: number };

export type ExplainStore = Pick<SqlExplain, keyof SqlExplain>;

export class SqlExplain {
  readonly #engine: Engine;
  readonly #workers: Pick<WorkersStore, "list" | "unregistered">;

  constructor(engine: Engine, workers: Pick<WorkersStore, "list" | "unregistered">) {
    this.#engine = engine;
    this.#workers = workers;
  }

  /** Null: there is no such job. */
  async job(id: string): Promise<JobFacts | null> {
    const engine = this.#engine;
    if (!engine.mayBeId(id)) return null;
    const [row] = await engine.all<StateRow>(sql`
      select id, queue, task, lane, status, attempts, max_attempts as "maxAttempts", due_at as "dueAt",
             start_by as "startBy", locked_by as "lockedBy", locked_until as "lockedUntil",
             claimed_at as "claimedAt", cancel_requested_at as "cancelRequestedAt",
             finished_at as "finishedAt", error, ${engine.now()} as now
        from holdfast.job_state
       where id = ${id}`);
    if (row === undefined) return null;
    const { now, ...state } = row;
    const job = { ...state, error: readable(state.error) };
    const { status, dueAt } = job;
    const isDue = status !== "pending" && dueAt !== null && dueAt <= now;
    const facts: JobFacts = {
      now,
      job,
      lastError: status === "retry" || status === "waiting" ? await this.#lastError(id) : null,
      waits: status === "waiting" ? await this.#waits(id) : null,
      fleet: status === "pending" || isDue ? await this.#fleet(job.queue) : [],
      queue: null,
      limits: [],
      before: NONE,
    };
    return status === "pending" ? { ...facts, ...(await this.#pending(job, now)) } : facts;
  }

  async queue(name: string): Promise<QueueFacts> {
    const engine = this.#engine;
    const [clock] = await engine.all<{ now: number }>(sql`select ${engine.now()} as now`);
    const now = clock?.now ?? 0;
    const [first] = await engine.all<{ id: string }>(sql`
      select id
        from holdfast.ready ${engine.byPrimaryKey()}
       where queue = ${name}
       order by queue, lane, place, id
       limit 1`);
    const facts = first === undefined ? null : await this.job(first.id);
    return {
      now,
      name,
      queue: await this.#queueState(name),
      fleet: facts?.queue === null || facts === null ? await this.#fleet(name) : facts.fleet,
      limits: await this.#limits({ queue: name, lane: null, task: null }, now),
      running: await this.#bounded(sql`select 1 as one from holdfast.lease where queue = ${name}`),
      pending: await this.#bounded(sql`
        select 1 as one
          from holdfast.ready ${engine.byPrimaryKey()}
         where queue = ${name}
         order by queue, lane, place, id`),
      first: facts?.job.status === "pending" ? facts : null,
    };
  }

  async #pending(
    job: JobState,
    now: number,
  ): Promise<Pick<JobFacts, "queue" | "limits" | "before">> {
    const { id, queue } = job;
    const [place] = await this.#engine.all<ReadyPosition>(
      sql`select lane, place from holdfast.ready where id = ${id}`,
    );
    const isFirst = place !== undefined && place.place < FIRST_UNTIL;
    // A job that an operator runs now passes a pause of its queue, and none of its lane.
    const ofQueue = isFirst ? null : await this.#queueState(queue);
    const isOpen = job.lane !== null && (ofQueue?.pausedAt ?? null) === null;
    return {
      queue: (isOpen ? await this.#laneState(queue, job.lane ?? "") : null) ?? ofQueue,
      limits: await this.#limits(job, now),
      before: place === undefined ? NONE : await this.#before(job, place),
    };
  }

  /** How many jobs of the same lane are claimed first. */
  #before({ id, queue }: JobState, { lane, place }: ReadyPosition): Promise<Bounded> {
    const engine = this.#engine;
    return this.#bounded(sql`
      select 1 as one
        from holdfast.ready ${engine.byPrimaryKey()}
       where queue = ${queue}
         and lane = ${lane}
         and place <= ${engine.typed(place)}
         and (place < ${engine.typed(place)} or id < ${id})
       order by queue, lane, place, id`);
  }

  /** The number of rows, as far as they are counted. */
  async #bounded(rows: Sql): Promise<Bounded> {
    const [row] = await this.#engine.all<{ count: number }>(
      sql`select count(*) as count from (${rows} limit ${COUNTED_MAX + 1}) counted`,
    );
    const count = row?.count ?? 0;
    return { count: Math.min(count, COUNTED_MAX), isMore: count > COUNTED_MAX };
  }

  async #lastError(id: string): Promise<string | null> {
    const [row] = await this.#engine.all<{ error: string | null }>(
      sql`select error from holdfast.attempt where job_id = ${id} order by epoch desc limit 1`,
    );
    return readable(row?.error ?? null);
  }

  async #waits(id: string): Promise<WaitFacts> {
    const engine = this.#engine;
    const [row] = await engine.all<{ missing: number }>(
      sql`select missing from holdfast.waiting where id = ${id}`,
    );
    const after = await engine.all<{ id: string }>(sql`
      select on_id as id from holdfast.dep where job_id = ${id} order by on_id limit ${NAMED_MAX}`);
    const awaited = await engine.all<{ name: string; key: string }>(sql`
      select name, event_key as "key"
        from holdfast.wait
       where job_id = ${id}
       order by name, event_key
       limit ${COUNTED_MAX}`);
    const effects = await engine.all<WaitFacts["effects"][number]>(sql`
      select name, occurrence, begun_at as "begunAt"
        from holdfast.step
       where job_id = ${id}
         and status = 'doubt'
       order by position
       limit ${NAMED_MAX}`);
    const called = awaited.filter(({ name }) => name === JOB_ENDED).map(({ key }) => key);
    const ids = [...after.map((one) => one.id), ...called].slice(0, NAMED_MAX);
    return {
      missing: (row?.missing ?? 0) + called.length,
      jobs: await this.#awaited(ids),
      events: awaited.filter(({ name }) => name !== JOB_ENDED).slice(0, NAMED_MAX),
      effects,
    };
  }

  async #awaited(ids: readonly string[]): Promise<AwaitedJob[]> {
    if (ids.length === 0) return [];
    const rows = await this.#engine.all<AwaitedJob>(sql`
      select id, task, status from holdfast.job_state where ${this.#engine.among(sql`id`, ids)}`);
    const found = new Map(rows.map((row) => [row.id, row]));
    return ids.map((id) => found.get(id) ?? { id, task: null, status: null });
  }

  async #queueState(name: string): Promise<QueueState | null> {
    const [row] = await this.#engine.all<QueueState>(sql`
      select null as lane, paused_at as "pausedAt", paused_by as "pausedBy", pause_reason as "pauseReason"
        from holdfast.queue
       where name = ${name}`);
    return row ?? null;
  }

  /** Null: the lane is not paused. */
  async #laneState(queue: string, lane: string): Promise<QueueState | null> {
    const [row] = await this.#engine.all<QueueState>(sql`
      select name as lane, paused_at as "pausedAt", paused_by as "pausedBy", pause_reason as "pauseReason"
        from holdfast.queue_rule
       where queue = ${queue}
         and kind = 'lane'
         and name = ${lane}
         and paused_at is not null`);
    return row ?? null;
  }

  /** Registered workers, and programs that acquire leases. A monitor serves the reserved queues, and is not in the registry. */
  async #fleet(queue: string): Promise<FleetWorker[]> {
    const registered = await this.#workers.list({ alive: true, limit: WORKERS_MAX });
    const others = await this.#workers.unregistered();
    const unknown = { isLive: true, isPaused: false, concurrency: null, tasks: null };
    const monitor = { id: "monitor", queues: [queue], heartbeatAt: 0, leases: 0, ...unknown };
    return [
      ...registered.map((worker) => ({
        id: worker.id,
        queues: worker.queues,
        tasks: worker.tasks,
        isLive:
          worker.liveness === "alive" && activeStates.some((state) => state === worker.status),
        isPaused: worker.desiredState !== "run",
        heartbeatAt: worker.heartbeatAt,
        concurrency: worker.concurrency,
        leases: worker.leases,
      })),
      ...others
        .filter(({ kind }) => kind === "leases")
        .map(({ id, queues, tasks, heartbeatAt, leases }) => {
          return { ...unknown, id, queues, tasks, heartbeatAt, leases };
        }),
      ...(isReserved(queue) ? [monitor] : []),
    ];
  }

  /** The limits that apply to the job, or to the queue as a whole, in the order in which a claim asks them. */
  async #limits(
    { queue, lane, task }: { queue: string; lane: string | null; task: string | null },
    now: number,
  ): Promise<LimitFacts[]> {
    const names = [
      "",
      ...(lane === null ? [] : [lane]),
      ...(task === null ? [] : [bareName(task)]),
    ];
    const rows = await this.#engine.all<RuleRow>(sql`
      select kind, name, concurrency, rate_count, rate_ms, rate_burst, weight
        from holdfast.queue_rule
       where queue = ${queue}
         and ${this.#engine.among(sql`name`, names)}`);
    const rules = rows.map(ruleOf);
    const found: { rule: Pick<Rule, "concurrency" | "rate">; limited: Limited }[] = [];
    const ofQueue = rules.find(({ kind }) => kind === "queue");
    if (ofQueue !== undefined) {
      found.push({ rule: ofQueue, limited: { queue, of: "queue", name: null } });
    }
    const bare = task === null ? null : bareName(task);
    const ofTask = rules.find(({ kind, name }) => kind === "task" && name === bare);
    if (ofTask !== undefined) {
      found.push({ rule: ofTask, limited: { queue, of: "task", name: bare } });
    }
    if (lane !== null) {
      const each = rules.find(({ kind }) => kind === "lanes");
      const own = rules.find(({ kind, name }) => kind === "lane" && name === lane);
      const concurrency = own?.concurrency ?? each?.concurrency ?? null;
      const rule = { concurrency, rate: own?.rate ?? each?.rate ?? null };
      found.push({ rule, limited: { queue, of: "lane", name: lane } });
    }
    const used: LimitFacts[] = [];
    for (const { rule, limited } of found.filter((one) => isLimited(one.rule))) {
      used.push(await this.#used(rule, limited, now));
    }
    return used;
  }

  async #used(
    { concurrency, rate }: Pick<Rule, "concurrency" | "rate">,
    limited: Limited,
    now: number,
  ): Promise<LimitFacts> {
    const leases = concurrency === null ? null : await this.#leases(limited);
    const { running = 0, longest = null } = leases ?? {};
    const facts = { ...limited, concurrency, running, longest, rate, rateFreeAt: null };
    if (rate === null) return facts;
    const [gate] = await this.#engine.all<{ allowedAt: number }>(sql`
      select allowed_at as "allowedAt"
        from holdfast.gate
       where queue = ${limited.queue}
         and kind = ${limited.of}
         and name = ${limited.name ?? ""}`);
    const allowedAt = gate?.allowedAt ?? 0;
    if (mayStart(rate, allowedAt, now * 1_000) > 0) return facts;
    return { ...facts, rateFreeAt: now + nextStartMs(rate, allowedAt, now * 1_000) };
  }

  /** As a claim counts them: those that were claimed under the rules of the queue. */
  async #leases({ queue, of, name }: Limited): Promise<{
    readonly running: number;
    readonly longest: Holder | null;
  }> {
    const { from, queue: ofQueue, lane } = this.#engine.dialect.sparse.leases;
    const held = sql`${ofQueue} = ${queue} and ${of === "lane" ? sql`${lane} = ${name}` : sql`${lane} is not null`}
         ${of === "task" ? sql`and ${isOfTask(name ?? "")}` : sql``}`;
    const [row] = await this.#engine.all<{ running: number }>(
      sql`select count(*) as running from ${from} where ${held}`,
    );
    const [longest] = await this.#engine.all<Holder>(sql`
      select l.id as job, l.task, l.locked_by as worker, l.claimed_at as "claimedAt"
        from ${from}
       where ${held}
       order by l.claimed_at, l.id
       limit 1`);
    return { running: row?.running ?? 0, longest: longest ?? null };
  }
}

/** In any version. */
function isOfTask(bare: string): Sql {
  const { after, before } = versionsOf(bare) ?? { after: bare, before: bare };
  return sql`(task = ${bare} or (task > ${after} and task < ${before}))`;
}

/** Our own errors, which have a code, are sentences; of others the name says more. */
function readable(error: string | null): string | null {
  if (error === null) return null;
  const { name, message, code } = decodeError(error);
  return code === undefined && name !== "Error" ? `${name}: ${message}` : message;
}
