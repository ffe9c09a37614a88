/** The verbs of queues. */
import { invalid } from "../core/errors.ts";
import { type Status, statuses } from "../core/job.ts";
import type { QueueStats, Unclaimable } from "../jobs/store.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, listOf, plain, right } from "../operations/show.ts";
import { LANES_SHOWN, LANES_SHOWN_MAX } from "./lanes.ts";
import { unclaimable } from "../stats/shapes.ts";
import { count, counted, printable, span } from "../terminal/table.ts";
import type { LimitOptions, QueueOptions, Queues } from "./queues.ts";
import {
  all,
  changed,
  lanes as laneList,
  laneInput,
  limitInput,
  limitInUse,
  queue,
  settings,
  type View,
} from "./shapes.ts";
import { QueueNotFoundError } from "./store.ts";
import { ago, atLeast, factsOf, stateOf, totalOf } from "./words.ts";

interface Counted {
  readonly countedAt: number;
  readonly queues: readonly QueueStats[];
}

export interface QueuesApp {
  readonly queues: Queues;
  /** Counts now. */
  stats(): Promise<readonly QueueStats[]>;
  readonly store: {
    readonly db: { clock(): Promise<number> };
    readonly workers: {
      unclaimable(filter: { readonly queue: string }): Promise<readonly Unclaimable[]>;
    };
  };
  /** A server keeps what many ask. */
  readonly kept?: {
    counts(): Promise<Counted>;
    unclaimable(queue: string): Promise<readonly Unclaimable[] | null>;
  };
}

const operation = operationsOf<QueuesApp>("queues");

const QUEUES: Columns<View> = [
  flexible("QUEUE", (one) => one.queue),
  right("PENDING", ({ counts }) => count(counts.pending)),
  right("RUNNING", ({ counts }) => count(counts.processing)),
  right("FAILED", ({ counts }) => count(counts.failed)),
  right("OLDEST", ({ oldestPendingAt }) => ago(oldestPendingAt)),
  flexible("PAUSE AND LIMITS", (one) => (one.settings === null ? "" : stateOf(one.settings))),
];

const LIMITS: Columns<s.TypeOf<typeof limitInUse>> = [
  flexible("QUEUE", (one) => one.queue),
  flexible("OF", ({ kind, name }) => OF[kind](name ?? "")),
  right("RUNNING", ({ inUse, concurrency: most }, { colors }) => {
    if (most === null) return count(inUse);
    const text = `${count(inUse)} of ${count(most)}`;
    return inUse < most ? text : { text, paint: colors.yellow };
  }),
  plain("STARTS", (one) =>
    one.rate === null ? "" : `${one.rate.count} per ${span(one.rate.periodMs)}`,
  ),
];

type LaneView = s.TypeOf<typeof laneList>["lanes"][number];

const LANES: Columns<LaneView> = [
  flexible("LANE", ({ lane }) => lane ?? "(none)"),
  right("PENDING", ({ pending, isMore }) => atLeast(pending, isMore)),
  right("OLDEST", ({ oldestPendingAt }) => ago(oldestPendingAt)),
  right("RUNNING", ({ running }) => count(running)),
  right("STARTS/MIN", ({ startsPerMinute: starts }) => (starts === null ? "?" : count(starts))),
  right("WEIGHT", ({ weight }) => count(weight)),
  flexible("PAUSED", ({ paused }, { colors }) =>
    paused === null ? "" : { text: `by ${paused.by} ${ago(paused.at)}`, paint: colors.yellow },
  ),
];

const OF = {
  queue: () => "the whole queue",
  lanes: () => "each lane",
  lane: (name: string) => `lane ${name}`,
  task: (name: string) => `task ${name}`,
} as const;

const itsName = { name: "the queue's name" };
const itself = { name: s.name };
const itsLane = {
  ...itself,
  lane: s.key.optional().about("One lane of the queue; default: the whole queue."),
};
const laneFlag = {
  lane: { value: "<name>", about: "one lane, such as a customer, instead of the whole queue" },
};

const setFlags = {
  eachLane: s.boolean().optional(),
  lane: s.text().optional(),
  task: s.text().optional(),
  weight: s.text().optional(),
};

export const queueOperations = {
  list: operation({
    name: "listQueues",
    summary: "List queues with their job counts, pauses and limits",
    access: "viewer",
    returns: "The last counts, by name.",
    result: s.object({ countedAt: s.instant, queues: s.list(queue) }),
    run: viewsOf,
    http: { method: "GET", path: "/api/v1/queues" },
    cli: {
      command: "queues list",
      about: "list queues with their jobs, pauses and limits",
      examples: ["queues list"],
      show: listOf({
        rows: ({ queues }) => queues,
        columns: QUEUES,
        none: "0 queues",
        unit: "queue",
      }),
    },
    agent: "All queues: how many jobs each has by status, and how it is paused or limited.",
  }),

  get: operation({
    name: "getQueue",
    summary: "One queue: its job counts, its settings and its unclaimable jobs",
    access: "viewer",
    input: itself,
    returns: "The last counts.",
    result: s.object({ countedAt: s.instant, queue, unclaimable }),
    run: async (app, { name }) => {
      const { countedAt, queues } = await viewsOf(app);
      const found = queues.find((one) => one.queue === name);
      const names = queues.map((one) => one.queue);
      if (found === undefined) throw new QueueNotFoundError(name, names);
      const { kept, store } = app;
      const stuck = await (kept?.unclaimable(name) ?? store.workers.unclaimable({ queue: name }));
      return { countedAt, queue: found, unclaimable: stuck };
    },
    http: { method: "GET", path: "/api/v1/queues/{name}" },
    cli: {
      command: "queues show",
      about: "show a queue: its jobs, pause and limits, and jobs that no worker can run",
      arguments: itsName,
      examples: ["queues show mail"],
      show: (found, { terminal: { colors } }) => [
        ...factsOf(found.queue),
        ...(found.unclaimable ?? []).map((one) =>
          colors.yellow(
            `No live worker runs ${printable(one.task)}: ${counted(one.jobs, "job")}, waiting for ${span(one.waitedMs)}.`,
          ),
        ),
      ],
    },
    agent: "One queue: its job counts, pause and limits, and pending jobs that no worker can run.",
  }),

  lanes: operation({
    name: "listLanes",
    summary: "The lanes of a queue: which customer has how many jobs waiting",
    access: "viewer",
    input: {
      ...itself,
      limit: s
        .integer({ min: 1, max: LANES_SHOWN_MAX })
        .about("Maximum number of lanes; those that are paused come after them.")
        .optional(),
    },
    returns: "Those with the most pending jobs first.",
    result: laneList,
    run: ({ queues }, { name, ...options }) => queues.lanes(name, options),
    http: { method: "GET", path: "/api/v1/queues/{name}/lanes" },
    cli: {
      command: "queues lanes",
      about: "show which lanes of a queue, often customers, have the most jobs waiting",
      arguments: itsName,
      flags: { limit: { about: "maximum number of lanes", initial: LANES_SHOWN } },
      examples: ["queues lanes mail"],
      show: (found, shown) => [
        ...(listOf<LaneView, { name: string }, typeof found>({
          rows: (result) => result.lanes,
          columns: LANES,
          none: ({ name }) => `No job of queue ${name} waits or runs.`,
        })(found, shown as never) as string[]),
        ...(found.lanes.length === 0 ? [] : ["", shown.terminal.colors.dim(totalOf(found))]),
      ],
    },
    agent:
      "Which lanes (often customers) of a queue have the most jobs waiting, since when, how many run, and which are paused.",
  }),

  settings: operation({
    name: "getQueueSettings",
    summary: "Get the settings of a queue",
    access: "viewer",
    input: itself,
    returns: "The settings of the queue.",
    result: settings,
    run: ({ queues }, { name }) => queues.get(name),
    http: { method: "GET", path: "/api/v1/queues/{name}/settings" },
  }),

  limits: operation({
    name: "listLimits",
    summary: "All limits of queues, and how much of each is in use",
    access: "viewer",
    returns: "Counted from the leases of this moment.",
    result: s.object({ limits: s.list(limitInUse) }),
    run: async ({ queues }) => ({ limits: await queues.limits() }),
    http: { method: "GET", path: "/api/v1/limits" },
    cli: {
      command: "queues limits",
      about: "list the limits of all queues, and how much of each is in use",
      examples: ["queues limits"],
      show: listOf({
        rows: (found) => found.limits,
        columns: LIMITS,
        none: "No limits.",
        unit: "limit",
      }),
    },
    agent: "Which limits hold jobs back now: every limit of a queue, lane or task, and its use.",
  }),

  pause: operation({
    name: "pauseQueue",
    summary: "Pause a queue, or one lane of it: workers claim none of its jobs",
    access: "operator",
    input: itsLane,
    isAudited: true,
    returns: "The settings of the queue.",
    result: changed,
    run: async ({ queues }, { name, ...lane }, { by }) => ({
      changed: await queues.pause(name, { ...lane, ...by }),
      ...(await queues.get(name)),
    }),
    http: { method: "POST", path: "/api/v1/queues/{name}/pause" },
    cli: {
      command: "queues pause",
      arguments: itsName,
      flags: laneFlag,
      examples: [
        "queues pause mail --reason 'mail server is down'",
        "queues pause mail --lane acme --reason 'too many jobs'",
      ],
      show: (done, { input }) => [`${named(input)} ${done.changed ? "is" : "was already"} paused`],
    },
    agent:
      "Pause a queue, or one lane of it (often a customer): workers claim none of its jobs until it is resumed. Running jobs go on.",
  }),

  resume: operation({
    name: "resumeQueue",
    summary: "Resume a paused queue, or one lane of it",
    access: "operator",
    input: itsLane,
    isAudited: true,
    returns: "The settings of the queue.",
    result: changed,
    run: async ({ queues }, { name, ...lane }, { by }) => ({
      changed: await queues.resume(name, { ...lane, ...by }),
      ...(await queues.get(name)),
    }),
    http: { method: "POST", path: "/api/v1/queues/{name}/resume" },
    cli: {
      command: "queues resume",
      arguments: itsName,
      flags: laneFlag,
      examples: ["queues resume mail", "queues resume mail --lane acme"],
      show: (done, { input }) => [
        `${named(input)} ${done.changed ? "is resumed" : "was not paused"}`,
      ],
    },
    agent: "Resume a paused queue, or one lane of it.",
  }),

  pauseAll: operation({
    name: "pauseAllQueues",
    summary: "Pause all queues, in one transaction: workers claim no job",
    access: "operator",
    isAudited: true,
    returns: "The queues that were changed, and those that are paused now.",
    result: all,
    run: async ({ queues }, _input, { by, ids: [id] }) => ({
      queues: await queues.pauseAll(by, id === undefined ? {} : { id }),
      paused: await pausedOf(queues),
    }),
    http: { method: "POST", path: "/api/v1/pause-all", repeatable: true },
    cli: {
      command: "queues pause --all",
      about: "pause all queues, in one transaction",
      examples: ["queues pause --all --reason 'database upgrade'"],
      show: (done) => [`${counted(done.queues.length, "queue")} paused. ${stillPaused(done)}`],
    },
  }),

  resumeAll: operation({
    name: "resumeAllQueues",
    summary: "Resume the queues that pause-all paused; others stay paused",
    access: "operator",
    isAudited: true,
    returns: "The queues that were changed, and those that are paused now.",
    result: all,
    run: async ({ queues }, _input, { by, ids: [id] }) => ({
      queues: await queues.resumeAll(by, id === undefined ? {} : { id }),
      paused: await pausedOf(queues),
    }),
    http: { method: "POST", path: "/api/v1/resume-all", repeatable: true },
    cli: {
      command: "queues resume --all",
      about: "resume the queues that 'pause --all' paused",
      examples: ["queues resume --all"],
      show: (done) => [`${counted(done.queues.length, "queue")} resumed. ${stillPaused(done)}`],
    },
  }),

  set: operation({
    name: "setQueue",
    summary: "Set limits, weights and ageing; omitted fields do not change, null removes a setting",
    access: "operator",
    input: {
      name: s.name,
      ...limitInput,
      eachLane: s.strict(limitInput).nullable().optional(),
      lanes: s.map(s.key, laneInput.nullable()).optional(),
      tasks: s.map(s.name, s.strict(limitInput).nullable()).optional(),
      ageing: s.duration.nullable().optional(),
    },
    isAudited: true,
    returns: "The settings of the queue.",
    result: settings,
    run: ({ queues }, { name, ...change }, { by }) => queues.set(name, { ...change, ...by }),
    http: { method: "POST", path: "/api/v1/queues/{name}/settings" },
    cli: {
      command: "queues set",
      about: "set limits of a queue; 'none' removes one",
      arguments: itsName,
      flags: {
        concurrency: {
          value: "<n>",
          about: "maximum number of running jobs, in all processes together",
          read: wholeOrNone,
        },
        rate: {
          value: "<n/duration>",
          about: "how many jobs may start in a period, such as 5/1s",
          read: rateOrNone,
        },
        eachLane: { about: "set the limits of each lane instead of the whole queue" },
        lane: { value: "<name>", about: "set the limits of one lane" },
        task: { value: "<name>", about: "set the limits of one task in this queue" },
        weight: {
          value: "<n>",
          about: "the share of a lane when lanes take turns",
          read: wholeOrNone,
        },
        ageing: {
          value: "<duration>",
          about: "how much longer a job may wait for each step that its priority is lower",
          read: (text) => (text === "none" ? null : text),
        },
      },
      typed: setFlags,
      inputOf: changeOf,
      examples: [
        "queues set mail --concurrency 5 --rate 100/1m",
        "queues set api --each-lane --rate 5/1s --concurrency 2",
        "queues set mail --concurrency none",
      ],
      show: (set) => [`Queue ${set.name}: ${stateOf(set) || "no limits"}`],
    },
    agent:
      "Limit how many jobs of a queue, a lane or a task run at once or start in a period. Null removes a limit.",
  }),
};

export const queueCommands = {
  name: "queues",
  about: "show, pause, resume and limit queues",
  parts: Object.values(queueOperations),
};

/** "Queue mail", "Lane acme of queue mail". */
function named({ name, lane }: { readonly name: string; readonly lane?: string }): string {
  return lane === undefined ? `Queue ${name}` : `Lane ${lane} of queue ${name}`;
}

/** Every queue with jobs or settings, by name. */
async function viewsOf(app: QueuesApp): Promise<{ countedAt: number; queues: View[] }> {
  const { queues, stats, countedAt } = await lookedAt(app);
  const settingsBy = new Map(queues.map((one) => [one.name, one]));
  const statsBy = new Map(stats.map((one) => [one.queue, one]));
  const names = [...new Set([...statsBy.keys(), ...settingsBy.keys()])].toSorted();
  return {
    countedAt,
    queues: names.map((name) => ({
      ...(statsBy.get(name) ?? { queue: name, counts: NO_JOBS, oldestPendingAt: null }),
      settings: settingsBy.get(name) ?? null,
    })),
  };
}

const NO_JOBS = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>;

async function lookedAt(app: QueuesApp) {
  const { kept, store } = app;
  const queues = await app.queues.list();
  if (kept === undefined) {
    return { queues, stats: await app.stats(), countedAt: await store.db.clock() };
  }
  const counts = await kept.counts();
  return { queues, stats: counts.queues, countedAt: counts.countedAt };
}

async function pausedOf(queues: Queues): Promise<string[]> {
  return (await queues.list()).filter(({ paused }) => paused !== null).map(({ name }) => name);
}

function stillPaused({ paused }: s.TypeOf<typeof all>): string {
  return paused.length === 0 ? "No queue is paused." : `Paused: ${paused.join(", ")}.`;
}

interface Typed extends LimitOptions, Pick<QueueOptions, "ageing"> {
  readonly name: string;
  readonly eachLane?: boolean;
  readonly lane?: string;
  readonly task?: string;
  readonly weight?: number | null;
}

/** On the command line, a flag says whose limits they are. */
function changeOf({ name, ageing, eachLane, lane, task, weight, ...limit }: Typed) {
  if ([eachLane, lane, task].filter((one) => one !== undefined).length > 1) {
    throw invalid("--lane", "pass only one of --each-lane, --lane and --task.");
  }
  if (weight !== undefined && lane === undefined) {
    throw invalid("--weight", "it requires --lane.");
  }
  const given = { name, ...(ageing === undefined ? {} : { ageing }) };
  if (eachLane === true) return { ...given, eachLane: limit };
  if (task !== undefined) return { ...given, tasks: { [task]: limit } };
  if (lane === undefined) return { ...given, ...limit };
  return { ...given, lanes: { [lane]: weight === undefined ? limit : { ...limit, weight } } };
}

function wholeOrNone(text: string): number | null {
  if (text === "none") return null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Error("Write a whole number, or 'none' to remove the limit.");
}

function rateOrNone(text: string): { count: number; per: string } | null {
  if (text === "none") return null;
  const [, starts, per] = /^(\d{1,9})\/(\w[\w.]*)$/.exec(text) ?? [];
  if (starts !== undefined && per !== undefined) return { count: Number(starts), per };
  throw new Error("Write a rate such as 5/1s or 100/1m, or 'none' to remove the limit.");
}
