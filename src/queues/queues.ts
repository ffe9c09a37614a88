/** Queues as an operator sees them: pauses, limits and the order of jobs. */
import {
  anyOperator,
  operatorFields,
  type OperatorOptions,
  operatorOptions,
} from "../audit/entry.ts";
import type { Duration } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import type { QueueExplanation } from "../core/explanation.ts";
import { bareName, checkKey, checkName, checkQueue, checkTaskName } from "../core/name.ts";
import {
  by,
  type Checked,
  duration,
  needed,
  nullable,
  type Option,
  optionsOf,
  whole,
} from "../core/options.ts";
import type { Pause, Rule } from "../limits/gates.ts";
import { defaultBurst, type Rate } from "../limits/rates.ts";
import { LANES_SHOWN, LANES_SHOWN_MAX, LaneLooks, type Lanes, shownLanes } from "./lanes.ts";
import { type LimitInUse, limitsInUse, type Running } from "./limits.ts";
import type { QueuePause, QueueRecord, QueuesStore, RuleChange } from "./store.ts";

/** How many jobs may start in a period. */
export interface RateOptions {
  /** How many jobs may start in each period. */
  readonly count: number;
  /** The period. */
  readonly per: Duration;
  /** How many may start at once after a pause. Default: what accrues in 50 ms, at least 1. */
  readonly burst?: number;
}

/** How many jobs may run at once, and how many may start in a period. */
export interface LimitOptions {
  /** How many jobs may run at once, in all processes together. */
  readonly concurrency?: number | null;
  /** How many jobs may start in a period; null: any number. */
  readonly rate?: RateOptions | null;
}

/** The limits of one lane of a queue, and its weight. */
export interface LaneOptions extends LimitOptions {
  /** The lane's share when lanes take turns: with 2, twice that of others. Default 1. */
  readonly weight?: number | null;
}

/** Who pauses or resumes a queue, or one of its lanes, and why. */
export interface PauseOptions extends OperatorOptions {
  /** One lane of it. Default: the whole queue. */
  readonly lane?: string;
}

/** What is omitted stays as it is; null removes it. */
export interface QueueOptions extends LimitOptions {
  /** A limit for each lane of the queue. */
  readonly eachLane?: LimitOptions | null;
  /** Limits and weights of single lanes, by name. */
  readonly lanes?: Readonly<Record<string, LaneOptions | null>>;
  /** Limits of single tasks in this queue, by name without a version. */
  readonly tasks?: Readonly<Record<string, LimitOptions | null>>;
  /**
   * How much longer a job waits for each step of priority below another. Null (the default): priorities are strict, and jobs
   * of a low one may wait for ever.
   */
  readonly ageing?: Duration | null;
}

/** The limits of a queue, as they are stored. */
export interface Limits {
  /** How many jobs may run at once, in all processes; null: any number. */
  readonly concurrency: number | null;
  /** How many may start in a period; null: any number. */
  readonly rate: Rate | null;
}

/** A queue with its limits, its lanes and its pause. */
export interface Queue {
  /** The name of the queue. */
  readonly name: string;
  /** Since when, by whom and why; null: it is not paused. */
  readonly paused: QueuePause | null;
  /** A pending job gains one priority per this time, in milliseconds; null: none. */
  readonly ageingMs: number | null;
  /** Those of the whole queue. */
  readonly limits: Limits;
  /** Those of every lane that has none of its own. */
  readonly eachLane: Limits;
  /** Those of single lanes, by name. */
  readonly lanes: Readonly<
    Record<
      string,
      Limits & {
        /** Its share when lanes take turns; that of other lanes is 1. */
        readonly weight: number;
        /** Since when, by whom and why; null: the lane is not paused. */
        readonly paused: Pause | null;
      }
    >
  >;
  /** Those of single tasks, by name. */
  readonly tasks: Readonly<Record<string, Limits>>;
}

const COUNT_MAX = 1_000_000;
const PERIOD_MS_MAX = 31 * 24 * 3_600_000;

const rateOptions = optionsOf<RateOptions>()({
  count: needed(whole(1, COUNT_MAX)),
  per: needed(duration({ least: 1, most: PERIOD_MS_MAX })),
  burst: whole(1, COUNT_MAX),
});

const limitFields = {
  concurrency: nullable(whole(0, COUNT_MAX)),
  rate: nullable(by(rateOf)),
};

const limitOptions = optionsOf<LimitOptions>()(limitFields);

const laneOptions = optionsOf<LaneOptions>()({ ...limitFields, weight: nullable(whole(1, 1_000)) });

const pauseOptions = optionsOf<PauseOptions>()({ lane: by(checkKey), ...operatorFields });

const queueOptions = optionsOf<QueueOptions & OperatorOptions>()({
  ...limitFields,
  eachLane: nullable(limitOptions.nested()),
  lanes: byName(checkKey, nullable(laneOptions.nested())),
  tasks: byName(checkLimitedTask, nullable(limitOptions.nested())),
  ageing: nullable(duration({ least: 1 })),
  ...operatorFields,
});

/** What is set for each of some lanes or tasks. */
function byName<Given, Value>(
  check: (field: string, name: string) => string,
  option: Option<Given, Value>,
) {
  return by((field, given: Readonly<Record<string, Given>>) => {
    return Object.entries(given).map(([name, one]): [string, Value] => {
      const at = `${field}.${name}`;
      return [check(at, name), option.check(at, one)];
    });
  }, {});
}

function checkLimitedTask(field: string, name: string): string {
  if (bareName(name) === name) return checkTaskName(field, name);
  throw invalid(field, "a limit applies to all versions: omit the version.");
}

function rateOf(field: string, given: RateOptions): Rate {
  const { count, perMs, burst = defaultBurst(count, perMs) } = rateOptions.read(given, { field });
  return { count, periodMs: perMs, burst };
}

/** Rules in one call. */
const RULES_MAX = 100;

const lanesOptions = optionsOf<{ readonly limit?: number }>()({
  limit: whole(1, LANES_SHOWN_MAX, LANES_SHOWN),
});

interface Facts {
  explain(queue: string): Promise<QueueExplanation>;
  running(): Promise<readonly Running[]>;
  readonly runtime: Runtime;
}

/** Pauses and limits queues: `holdfast.queues`. */
export class Queues {
  readonly #store: QueuesStore;
  readonly #newId: () => string;
  readonly #facts: Facts;
  readonly #lanes: LaneLooks;

  /** @internal Applications get it from a Holdfast. */
  constructor(store: QueuesStore, newId: () => string, facts: Facts) {
    this.#store = store;
    this.#newId = newId;
    this.#facts = facts;
    this.#lanes = new LaneLooks(store, facts.runtime);
  }

  /** Why its pending jobs do not start, in one sentence with the facts; or that they do. */
  async explain(queue: string): Promise<QueueExplanation> {
    return this.#facts.explain(checkName("queue", queue));
  }

  /**
   * No worker takes a job from a paused queue, or from a paused lane of it. Jobs that run go on. Returns false if it was
   * already paused. A queue may be paused before its first job.
   */
  pause(queue: string, options: PauseOptions = {}): Promise<boolean> {
    const { lane = null, ...operator } = pauseOptions.read(options);
    const name = checkQueue("queue", queue);
    return this.#store.pause(name, anyOperator(operator, this.#newId), lane);
  }

  /** Returns false if it was not paused. Throws for a queue that has neither jobs nor settings. */
  resume(queue: string, options: PauseOptions = {}): Promise<boolean> {
    const { lane = null, ...operator } = pauseOptions.read(options);
    const name = checkQueue("queue", queue);
    return this.#store.resume(name, anyOperator(operator, this.#newId), lane);
  }

  /**
   * Pauses every queue that is not paused and has jobs, settings or a worker, in one transaction. Returns them, by name. A
   * queue that is used for the first time later is not paused.
   */
  pauseAll(
    options: OperatorOptions = {},
    {
      id,
    }: {
      /** The id of the audit line: a repeated call with it changes nothing. Default: a new one. */
      id?: string;
    } = {},
  ): Promise<string[]> {
    return this.#store.pauseAll(this.#by(options, id));
  }

  /** Resumes the queues that `pauseAll` paused. Returns them, by name. Queues that were paused by themselves stay paused. */
  resumeAll(
    options: OperatorOptions = {},
    {
      id,
    }: {
      /** The id of the audit line: a repeated call with it changes nothing. Default: a new one. */
      id?: string;
    } = {},
  ): Promise<string[]> {
    return this.#store.resumeAll(this.#by(options, id));
  }

  /** Sets limits, weights and ageing. Every claim that begins afterwards obeys them, in all processes. */
  async set(queue: string, options: QueueOptions & OperatorOptions): Promise<Queue> {
    const checked = queueOptions.read(options);
    const operator = anyOperator(checked, this.#newId);
    const name = checkQueue("queue", queue);
    const current = await this.get(name);
    const rules = rulesOf(checked, current);
    if (rules.length > RULES_MAX) {
      const problem = `${rules.length} rules in one call; at most ${RULES_MAX} are allowed.`;
      throw invalid("lanes", problem);
    }
    const { ageingMs } = checked;
    await this.#store.change({ queue: name, rules, ageingMs }, operator);
    return this.get(name);
  }

  /**
   * Its lanes: those with the most pending jobs, and those that are paused. It reads up to two million pending jobs, and up to
   * 10,000 of a lane. If that takes long, later calls get the same answer for a while: see `countedAt`.
   */
  async lanes(
    queue: string,
    options: {
      /** The length of the list, without the paused ones. Default 20, at most 100. */
      readonly limit?: number;
    } = {},
  ): Promise<Lanes> {
    const { limit } = lanesOptions.read(options);
    const { name, lanes: set } = await this.get(queue);
    return shownLanes(await this.#lanes.of(name, Object.keys(set)), set, limit);
  }

  /** A queue without settings is not paused and has no limits. */
  async get(queue: string): Promise<Queue> {
    const name = checkQueue("queue", queue);
    return describe((await this.#store.find(name)) ?? { ...NOTHING_SET, name });
  }

  /** The queues that have settings, by name. */
  async list(): Promise<Queue[]> {
    return (await this.#store.list()).map(describe);
  }

  /** The limits of all queues, and how many jobs run under each now. */
  async limits(): Promise<LimitInUse[]> {
    const [queues, running] = await Promise.all([this.#store.list(), this.#facts.running()]);
    return limitsInUse(queues, running);
  }

  #by(options: OperatorOptions, id?: string) {
    return anyOperator(operatorOptions.read(options), () => id ?? this.#newId());
  }
}

const NOTHING_SET: Omit<QueueRecord, "name"> = {
  paused: null,
  ageingMs: null,
  rules: [],
};

const NO_LIMITS: Limits = { concurrency: null, rate: null };

function limitsOf({ concurrency, rate }: Limits): Limits {
  return { concurrency, rate };
}

function describe({ name, paused, ageingMs, rules }: QueueRecord): Queue {
  const one = (kind: Rule["kind"]): Limits => {
    const rule = rules.find((some) => some.kind === kind);
    return rule === undefined ? NO_LIMITS : limitsOf(rule);
  };
  const named = <T>(kind: Rule["kind"], of: (rule: Rule) => T): Record<string, T> =>
    Object.fromEntries(
      rules.filter((rule) => rule.kind === kind).map((rule) => [rule.name, of(rule)]),
    );
  return {
    name,
    paused,
    ageingMs,
    limits: one("queue"),
    eachLane: one("lanes"),
    lanes: named("lane", ({ weight, paused: since, ...rule }) => ({
      ...limitsOf(rule),
      weight,
      paused: since,
    })),
    tasks: named("task", limitsOf),
  };
}

type CheckedQueue = Checked<typeof queueOptions.table>;

function rulesOf(checked: CheckedQueue, current: Queue): RuleChange[] {
  const { concurrency, rate, eachLane, lanes, tasks } = checked;
  const rules: RuleChange[] = [];
  if (concurrency !== undefined || rate !== undefined) {
    rules.push({ kind: "queue", name: "", weight: null, ...limitOf(checked, current.limits) });
  }
  if (eachLane !== undefined) {
    rules.push({ kind: "lanes", name: "", weight: null, ...limitOf(eachLane, current.eachLane) });
  }
  for (const [name, lane] of lanes) {
    const now = current.lanes[name];
    const { weight = now?.weight ?? null } = lane ?? { weight: null };
    rules.push({ kind: "lane", name, weight, ...limitOf(lane, now) });
  }
  for (const [name, task] of tasks) {
    rules.push({ kind: "task", name, weight: null, ...limitOf(task, current.tasks[name]) });
  }
  return rules;
}

/** What is not given stays as it is. Null removes all of it. */
function limitOf(given: Partial<Limits> | null, now = NO_LIMITS): Limits {
  const { concurrency, rate } = { ...(given === null ? NO_LIMITS : now), ...given };
  return { concurrency, rate };
}
