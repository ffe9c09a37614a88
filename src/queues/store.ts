/** The settings of queues: pauses, limits and ageing. */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { HoldfastError, invalid } from "../core/errors.ts";
import { knownNames } from "../core/text.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import {
  countLeasesOf,
  govern,
  isLimited,
  type Pause,
  type Rule,
  ruleOf,
  type RuleRow,
} from "../limits/gates.ts";
import { type LaneFigures, type Lanes, lanesOf } from "./lanes.ts";
import { knownQueues, pauseAll, RESUMED, resumeAll } from "./pause-all.ts";

/** A rule to set, or to remove if it limits nothing and has no weight. A pause stays as it is. */
export interface RuleChange extends Omit<Rule, "weight" | "paused"> {
  readonly weight: number | null;
}

export interface QueueChange {
  readonly queue: string;
  readonly rules: readonly RuleChange[];
  /** Null: strict priorities; undefined: as it is. */
  readonly ageingMs?: number | null | undefined;
}

/** The pause of a whole queue. */
export interface QueuePause extends Pause {
  /** It was paused together with all others, and is resumed with them. */
  readonly isOfAll: boolean;
}

export interface QueueRecord {
  readonly name: string;
  readonly paused: QueuePause | null;
  readonly ageingMs: number | null;
  readonly rules: readonly Rule[];
}

/** Rules of one queue. */
const RULES_MAX = 1_000;

const LISTED_QUEUES_MAX = 10_000;

/** Rules of all queues that a list returns. */
const LISTED_RULES_MAX = 10_000;

export type QueuesStore = Pick<SqlQueues, keyof SqlQueues>;

export class SqlQueues {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /**
   * From now on no claim that begins takes a job from the queue, or from the lane. Returns false if it was already paused. A
   * queue may be paused before its first job.
   */
  pause(queue: string, operator: OperatorEntry, lane: string | null = null): Promise<boolean> {
    const { actor, reason = null } = operator;
    const pausing = (now: number): Sql =>
      sql`paused_at = ${now}, paused_by = ${actor}, pause_reason = ${reason}`;
    if (lane !== null) {
      const action = { queue, action: "lane.pause", detail: lane };
      return this.#act(action, operator, (tx, now) =>
        this.#pauseLane(tx, { queue, lane }, pausing(now)),
      );
    }
    return this.#act({ queue, action: "queue.pause" }, operator, async (tx, now) => {
      const changed = await tx.run(sql`
        update holdfast.queue
           set ${pausing(now)}, governed = 1, revision = revision + 1, updated_at = ${now}
         where name = ${queue}
           and paused_at is null`);
      return changed > 0;
    });
  }

  /** Returns false if it was not paused. Throws QueueNotFoundError for a queue without jobs and settings. */
  async resume(
    queue: string,
    operator: OperatorEntry,
    lane: string | null = null,
  ): Promise<boolean> {
    if ((await this.find(queue)) === null) {
      const known = await knownQueues(this.#engine);
      if (known.includes(queue)) return false;
      throw new QueueNotFoundError(queue, known);
    }
    const what = lane === null ? "queue" : "lane";
    const action = { queue, action: `${what}.resume`, detail: lane };
    const resumed = await this.#act(action, operator, (tx, now) =>
      lane === null ? this.#resumeQueue(tx, queue, now) : this.#resumeLane(tx, { queue, lane }),
    );
    this.#db.announce({ kind: "pending", queue });
    return resumed;
  }

  /** Pauses all queues that are not paused, in one transaction. Returns them, by name. */
  pauseAll(operator: OperatorEntry): Promise<string[]> {
    return pauseAll(this.#db, operator);
  }

  /** Resumes the queues that `pauseAll` paused; one that was paused by itself stays paused. Returns them, by name. */
  resumeAll(operator: OperatorEntry): Promise<string[]> {
    return resumeAll(this.#db, operator);
  }

  /** A new limit binds every claim that begins after this; what runs above it goes on. */
  async change({ queue, rules, ageingMs }: QueueChange, operator: OperatorEntry): Promise<void> {
    const detail = JSON.stringify({ rules: rules.map(briefly), ageingMs });
    await this.#act({ queue, action: "queue.change", detail }, operator, async (tx, now) => {
      for (const rule of rules) await this.#writeRule(tx, queue, rule);
      await refuseTooMany(tx, queue);
      await tx.run(sql`
        update holdfast.queue
           set revision = revision + 1, updated_at = ${now}
         where name = ${queue}`);
      if (ageingMs !== undefined) {
        await tx.run(sql`update holdfast.queue set ageing_ms = ${ageingMs} where name = ${queue}`);
      }
      await govern(this.#engine, tx, queue);
      return true;
    });
    this.#db.announce({ kind: "pending", queue });
  }

  /** Leases of claims that began before their queue had rules count from now on. Returns how many. */
  async countLeases(): Promise<number> {
    const engine = this.#engine;
    const governed = sql`select name from holdfast.queue where governed = 1`;
    const queues = await engine.all<{ name: string }>(governed);
    if (queues.length === 0) return 0;
    const names = queues.map(({ name }) => name);
    return engine.transaction((tx) => countLeasesOf(engine, tx, names));
  }

  /** Deletes gates of lanes that were not in use for a while; the next claim makes them again. Returns how many. */
  async pruneGates({ forMs, limit }: { forMs: number; limit: number }): Promise<number> {
    const engine = this.#engine;
    const { from, queue: ofQueue, lane } = engine.dialect.sparse.leases;
    const isOld = sql`
             kind = 'lane'
         and allowed_at < (${engine.now()} - ${forMs}) * 1000
         and not exists (select 1 from ${from} where ${ofQueue} = g.queue and ${lane} = g.name)
         and not exists (select 1 from holdfast.ready r where r.queue = g.queue and r.lane = g.name)`;
    const gates = await engine.all<{ queue: string; name: string }>(
      sql`select g.queue, g.name from holdfast.gate g where ${isOld} limit ${limit}`,
    );
    for (const { queue, name } of gates) {
      await engine.run(
        sql`delete from holdfast.gate where queue = ${queue} and kind = 'lane' and name = ${name}`,
      );
    }
    return Math.max(gates.length, await engine.dialect.sparse.forgetLeases(engine, limit));
  }

  /** Reads up to two million pending jobs. Those of these names are in the answer, whatever they have. */
  lanes(queue: string, named: readonly string[]): Promise<Lanes<LaneFigures>> {
    return lanesOf(this.#engine, queue, named);
  }

  /** Those with settings, by name. */
  list(): Promise<QueueRecord[]> {
    return this.#read(nothing, nothing);
  }

  async find(queue: string): Promise<QueueRecord | null> {
    const [found] = await this.#read(sql`where name = ${queue}`, sql`where queue = ${queue}`);
    return found ?? null;
  }

  async #read(ofQueue: Sql, ofRule: Sql): Promise<QueueRecord[]> {
    const queues = await this.#engine.all<QueueRow>(sql`
      select name, paused_at as "pausedAt", paused_by as "pausedBy", pause_reason as "pauseReason",
             paused_all as "pausedAll", ageing_ms as "ageingMs"
        from holdfast.queue
             ${ofQueue}
       order by name
       limit ${LISTED_QUEUES_MAX}`);
    const rules = await this.#engine.all<RuleRow & { queue: string }>(sql`
      select queue, kind, name, concurrency, rate_count, rate_ms, rate_burst, weight, paused_at, paused_by,
             pause_reason
        from holdfast.queue_rule
             ${ofRule}
       order by queue, kind, name
       limit ${LISTED_RULES_MAX}`);
    const byQueue = Map.groupBy(rules, ({ queue }) => queue);
    return queues.map(
      ({ name, ageingMs, pausedAt: at, pausedBy, pauseReason: reason, pausedAll }) => ({
        name,
        ageingMs,
        paused: at === null ? null : { at, by: pausedBy ?? "", reason, isOfAll: pausedAll === 1 },
        rules: (byQueue.get(name) ?? []).map(ruleOf),
      }),
    );
  }

  /** One audited change, under the lock of the queue's row. It locks no gate: claims hold leases while they wait for one. */
  #act(
    { queue, action, detail = null }: Action,
    operator: OperatorEntry,
    change: (tx: Transaction, now: number) => Promise<boolean>,
  ): Promise<boolean> {
    const engine = this.#engine;
    const act = (): Promise<boolean> =>
      engine.transaction(async (tx) => {
        const now = await readNow(engine, tx);
        await tx.run(
          engine.insertOrIgnore(
            sql`holdfast.queue (name, governed, updated_at) values (${queue}, 0, ${engine.typed(now)})`,
          ),
        );
        await tx.all(
          sql`select name from holdfast.queue where name = ${queue} ${engine.lockRows()}`,
        );
        const isChanged = await change(tx, now);
        if (!isChanged) return false;
        await noteAction(engine, tx, operator, { action, subject: subjects.queue(queue), detail });
        return true;
      });
    return actOrLookUp(this.#db, operator, act, async () => true);
  }

  async #pauseLane(tx: Transaction, { queue, lane }: LaneTarget, pausing: Sql): Promise<boolean> {
    await this.#addRule(tx, { queue, kind: "lane", name: lane });
    const changed = await tx.run(sql`
      update holdfast.queue_rule
         set ${pausing}
       where ${isRule({ queue, kind: "lane", name: lane })}
         and paused_at is null`);
    if (changed === 0) return false;
    await refuseTooMany(tx, queue);
    await govern(this.#engine, tx, queue);
    return true;
  }

  async #resumeQueue(tx: Transaction, queue: string, now: number): Promise<boolean> {
    const changed = await tx.run(sql`
      update holdfast.queue
         set ${RESUMED}, revision = revision + 1, updated_at = ${now}
       where name = ${queue}
         and paused_at is not null`);
    if (changed > 0) await govern(this.#engine, tx, queue);
    return changed > 0;
  }

  async #resumeLane(tx: Transaction, { queue, lane }: LaneTarget): Promise<boolean> {
    const rule = { queue, kind: "lane", name: lane } as const;
    const changed = await tx.run(sql`
      update holdfast.queue_rule
         set paused_at = null, paused_by = null, pause_reason = null
       where ${isRule(rule)}
         and paused_at is not null`);
    if (changed === 0) return false;
    await forgetEmptyRule(tx, rule);
    await govern(this.#engine, tx, queue);
    return true;
  }

  async #writeRule(tx: Transaction, queue: string, rule: RuleChange): Promise<void> {
    const { kind, name, concurrency, rate, weight } = rule;
    const which = { queue, kind, name };
    await this.#addRule(tx, which);
    const { count = null, periodMs = null, burst = null } = rate ?? {};
    await tx.run(sql`
      update holdfast.queue_rule
         set concurrency = ${concurrency}, rate_count = ${count}, rate_ms = ${periodMs},
             rate_burst = ${burst}, weight = ${weight}
       where ${isRule(which)}`);
    await forgetEmptyRule(tx, which);
    if (!isLimited(rule) && weight === null) {
      if (kind !== "lanes") await tx.run(sql`delete from holdfast.gate where ${isRule(which)}`);
      return;
    }
    if (kind !== "queue" && kind !== "task") return; // a claim makes the gates of lanes
    await tx.run(
      this.#engine.insertOrIgnore(
        sql`holdfast.gate (queue, kind, name) values (${queue}, ${kind}, ${name})`,
      ),
    );
  }

  async #addRule(tx: Transaction, { queue, kind, name }: RuleKey): Promise<void> {
    const into = sql`holdfast.queue_rule (queue, kind, name) values (${queue}, ${kind}, ${name})`;
    await tx.run(this.#engine.insertOrIgnore(into));
  }
}

interface LaneTarget {
  readonly queue: string;
  readonly lane: string;
}

interface RuleKey extends Pick<Rule, "kind" | "name"> {
  readonly queue: string;
}

/** What an audited change is, and of which queue. */
interface Action {
  readonly queue: string;
  readonly action: string;
  readonly detail?: string | null;
}

interface QueueRow {
  readonly name: string;
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  readonly pauseReason: string | null;
  readonly pausedAll: number;
  readonly ageingMs: number | null;
}

/** No queue of this name has jobs or settings. */
export class QueueNotFoundError extends HoldfastError {
  constructor(name: string, known: readonly string[]) {
    super(
      "QUEUE_NOT_FOUND",
      `Queue '${name}' has neither jobs nor settings.${knownNames(name, known)} To list queues: holdfast queues`,
    );
  }
}

function isRule({ queue, kind, name }: RuleKey): Sql {
  return sql`queue = ${queue} and kind = ${kind} and name = ${name}`;
}

async function forgetEmptyRule(tx: Transaction, rule: RuleKey): Promise<void> {
  await tx.run(sql`
    delete from holdfast.queue_rule
     where ${isRule(rule)}
       and concurrency is null and rate_count is null and weight is null and paused_at is null`);
}

function briefly({ kind, name, concurrency, rate, weight }: RuleChange): object {
  return { kind, ...(name === "" ? {} : { name }), concurrency, rate, weight };
}

async function refuseTooMany(tx: Transaction, queue: string): Promise<void> {
  const [row] = await tx.all<{ rules: number }>(
    sql`select count(*) as rules from holdfast.queue_rule where queue = ${queue}`,
  );
  if (row === undefined || row.rules <= RULES_MAX) return;
  const problem = `queue ${queue} would have ${row.rules} rules; at most ${RULES_MAX} are allowed.`;
  throw invalid("lanes", problem);
}
