/** Queues as an operator sees them: pauses, limits and the order of jobs. */
import {
  anyOperator,
  AUDITED_OPTIONS,
  OPERATOR_OPTIONS,
  type OperatorOptions,
} from "../audit/entry.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import type { QueueExplanation } from "../core/explanation.ts";
import { bareName, checkKey, checkName, checkQueue, checkTaskName } from "../core/name.ts";
import { checkKnown, checkWhole } from "../core/options.ts";
import { defaultBurst, type Rate, type Rule } from "../limits/gates.ts";
import type { QueueRecord, QueuesStore, RuleChange } from "./store.ts";

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
  readonly paused: {
    /** When it was paused (ms since 1970). */
    readonly at: number;
    /** Who paused it. */
    readonly by: string;
    /** Why, as given; null: no reason was given. */
    readonly reason: string | null;
  } | null;
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
      }
    >
  >;
  /** Those of single tasks, by name. */
  readonly tasks: Readonly<Record<string, Limits>>;
}

const LIMIT_OPTIONS = new Set(["concurrency", "rate"]);
const LANE_OPTIONS = new Set(["concurrency", "rate", "weight"]);
const RATE_OPTIONS = new Set(["count", "per", "burst"]);
const QUEUE_OPTIONS = new Set<string>([
  ...LIMIT_OPTIONS,
  "eachLane",
  "lanes",
  "tasks",
  "ageing",
  ...OPERATOR_OPTIONS,
]);

const CONCURRENCY_MAX = 1_000_000;
const RATE_MAX = 1_000_000;
const PERIOD_MS_MAX = 31 * 24 * 3_600_000;
const WEIGHT_MAX = 1_000;

/** Rules in one call. */
const RULES_MAX = 100;

interface Explainer {
  queue(name: string): Promise<QueueExplanation>;
}

/** Pauses and limits queues: `holdfast.queues`. */
export class Queues {
  readonly #store: QueuesStore;
  readonly #newId: () => string;
  readonly #explainer: Explainer;

  /** @internal Applications get it from a Holdfast. */
  constructor(store: QueuesStore, newId: () => string, explainer: Explainer) {
    this.#store = store;
    this.#newId = newId;
    this.#explainer = explainer;
  }

  /** Why its pending jobs do not start, in one sentence with the facts; or that they do. */
  async explain(queue: string): Promise<QueueExplanation> {
    return this.#explainer.queue(checkName("queue", queue));
  }

  /** No worker takes a job from a paused queue. Jobs that run go on. Returns false if it was already paused. */
  pause(queue: string, options: OperatorOptions = {}): Promise<boolean> {
    checkKnown(options, AUDITED_OPTIONS);
    return this.#store.pause(checkQueue("queue", queue), anyOperator(options, this.#newId));
  }

  /** Returns false if it was not paused. */
  resume(queue: string, options: OperatorOptions = {}): Promise<boolean> {
    checkKnown(options, AUDITED_OPTIONS);
    return this.#store.resume(checkQueue("queue", queue), anyOperator(options, this.#newId));
  }

  /**
   * Pauses every queue that is not paused, in one transaction. Returns them, by name. A queue that is used for the first time
   * later is not paused.
   */
  pauseAll(
    options: OperatorOptions = {},
    {
      id,
      also = [],
    }: {
      /** The id of the audit line: a repeated call with it changes nothing. Default: a new one. */
      id?: string;
      /** Names of queues that are paused even if they hold no jobs. Default: none. */
      also?: readonly string[];
    } = {},
  ): Promise<string[]> {
    checkKnown(options, AUDITED_OPTIONS);
    return this.#store.pauseAll(
      anyOperator(options, () => id ?? this.#newId()),
      also,
    );
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
    checkKnown(options, AUDITED_OPTIONS);
    return this.#store.resumeAll(anyOperator(options, () => id ?? this.#newId()));
  }

  /** Sets limits, weights and ageing. Every claim that begins afterwards obeys them, in all processes. */
  async set(queue: string, options: QueueOptions & OperatorOptions): Promise<Queue> {
    checkKnown(options, QUEUE_OPTIONS);
    const { ageing, actor, reason, trace } = options;
    const given = { actor, reason, trace };
    const operator = anyOperator(
      Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
      this.#newId,
    );
    const name = checkQueue("queue", queue);
    const current = await this.get(name);
    const rules = rulesOf(options, current);
    if (rules.length > RULES_MAX) {
      const problem = `${rules.length} rules in one call; at most ${RULES_MAX} are allowed.`;
      throw new InvalidArgumentError({ field: "lanes", problem });
    }
    const ageingMs =
      ageing === undefined || ageing === null ? ageing : toMs("ageing", ageing, { min: 1 });
    await this.#store.change({ queue: name, rules, ageingMs }, operator);
    return this.get(name);
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
}

const NOTHING_SET: Omit<QueueRecord, "name"> = {
  pausedAt: null,
  pausedBy: null,
  pauseReason: null,
  ageingMs: null,
  rules: [],
};

const NO_LIMITS: Limits = { concurrency: null, rate: null };

function limitsOf({ concurrency, rate }: Rule): Limits {
  return { concurrency, rate };
}

function describe({ name, pausedAt, pausedBy, pauseReason, ageingMs, rules }: QueueRecord): Queue {
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
    paused: pausedAt === null ? null : { at: pausedAt, by: pausedBy ?? "", reason: pauseReason },
    ageingMs,
    limits: one("queue"),
    eachLane: one("lanes"),
    lanes: named("lane", (rule) => ({ ...limitsOf(rule), weight: rule.weight })),
    tasks: named("task", limitsOf),
  };
}

function rulesOf(options: QueueOptions, current: Queue): RuleChange[] {
  const { eachLane, lanes = {}, tasks = {} } = options;
  const rules: RuleChange[] = [];
  if (options.concurrency !== undefined || options.rate !== undefined) {
    rules.push({ kind: "queue", name: "", weight: null, ...limitOf("", options, current.limits) });
  }
  if (eachLane !== undefined) {
    const limit = limitOf("eachLane", checked("eachLane", eachLane), current.eachLane);
    rules.push({ kind: "lanes", name: "", weight: null, ...limit });
  }
  for (const [name, lane] of Object.entries(lanes)) {
    const field = `lanes.${name}`;
    const given = checked(field, lane, LANE_OPTIONS) as LaneOptions;
    const now = current.lanes[name];
    const limit = limitOf(field, given, lane === null ? undefined : now);
    const weight = weightOf(field, given.weight, lane === null ? undefined : now?.weight);
    rules.push({ kind: "lane", name: checkKey(field, name), weight, ...limit });
  }
  for (const [name, task] of Object.entries(tasks)) {
    const field = `tasks.${name}`;
    if (bareName(name) !== name) {
      throw new InvalidArgumentError({
        field,
        problem: "a limit applies to all versions: omit the version.",
      });
    }
    const now = task === null ? undefined : current.tasks[name];
    const limit = limitOf(field, checked(field, task), now);
    rules.push({ kind: "task", name: checkTaskName(field, name), weight: null, ...limit });
  }
  return rules;
}

/** Null removes all of it. */
function checked(
  field: string,
  given: LimitOptions | null,
  known: ReadonlySet<string> = LIMIT_OPTIONS,
): LimitOptions {
  if (given === null) return { concurrency: null, rate: null };
  checkKnown(given, known, { field });
  return given;
}

function limitOf(field: string, given: LimitOptions, now: Limits | undefined): Limits {
  const at = (name: string): string => (field === "" ? name : `${field}.${name}`);
  const { concurrency = now?.concurrency ?? null, rate } = given;
  return {
    concurrency:
      concurrency === null
        ? null
        : checkWhole(at("concurrency"), concurrency, { least: 0, most: CONCURRENCY_MAX }),
    rate:
      rate === undefined ? (now?.rate ?? null) : rate === null ? null : rateOf(at("rate"), rate),
  };
}

function weightOf(
  field: string,
  weight: number | null | undefined,
  now: number | undefined,
): number | null {
  if (weight === undefined) return now ?? null;
  return weight === null
    ? null
    : checkWhole(`${field}.weight`, weight, { least: 1, most: WEIGHT_MAX });
}

function rateOf(field: string, rate: RateOptions): Rate {
  checkKnown(rate, RATE_OPTIONS, { field });
  const count = checkWhole(`${field}.count`, rate.count, { least: 1, most: RATE_MAX });
  const periodMs = toMs(`${field}.per`, rate.per, { min: 1, max: PERIOD_MS_MAX });
  const burst =
    rate.burst === undefined
      ? defaultBurst(count, periodMs)
      : checkWhole(`${field}.burst`, rate.burst, { least: 1, most: RATE_MAX });
  return { count, periodMs, burst };
}
