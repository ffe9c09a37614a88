/** The verbs of workers and of the leases that they hold. */
import { systemRuntime } from "../core/runtime.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Leases } from "../jobs/leases.ts";
import type { Unclaimable } from "../jobs/store.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, plain, right, tableOf } from "../operations/show.ts";
import { wholeId } from "../terminal/ids.ts";
import { type Cell, counted, printable, relative, span } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { isGone } from "./heartbeat.ts";
import type { WorkersStore } from "./store.ts";
import { portrait, portraitOfUnregistered, type WorkerView, workerTable } from "./table.ts";
import {
  type DesiredState,
  desiredStates,
  livenesses,
  SLOTS_MAX,
  type UnregisteredWorker,
  type WorkerRecord,
  type WorkerType,
  workerStates,
} from "./worker-record.ts";
import { slotsText, WorkerTypeNotFoundError } from "./worker-types.ts";
import { type Drifts, notLive, WorkerNotFoundError, type Workers } from "./workers.ts";

export interface WorkersApp {
  readonly jobs: Pick<Jobs, "unclaimable" | "shortIds">;
  readonly leases: Pick<Leases, "list">;
  readonly workers: Workers;
  readonly store: { readonly workers: WorkersStore };
}

const operation = operationsOf<WorkersApp>("workers");

const workerType = s
  .object({
    type: s.text(),
    slots: s.integer().nullable().about("Maximum number of active workers; null: unlimited."),
    active: s.count,
  })
  .named("WorkerType", "The name that workers share, and how many of them may be active.");

const worker = s
  .object({
    id: s.text(),
    type: s.text(),
    slot: s.integer().nullable(),
    instance: s.count,
    status: s.choice(workerStates),
    reason: s.text().nullable(),
    desiredState: s.choice(desiredStates),
    version: s.text(),
    nodeVersion: s.text(),
    platform: s.text(),
    arch: s.text(),
    hostname: s.text(),
    pid: s.integer(),
    queues: s.list(s.text()),
    tasks: s.list(s.text()),
    concurrency: s.count,
    startedAt: s.instant,
    heartbeatAt: s.instant,
    silentMs: s.number(),
    staleMs: s.number(),
    hungMs: s.number(),
    liveness: s
      .choice(livenesses)
      .about(
        "Based on the last heartbeat and the database's clock. Stale and hung workers count as dead.",
      ),
    gone: s.boolean().about("Its process ran on this host, and exists no longer."),
    leases: s.count.about("Jobs it holds now."),
    stoppedAt: s.instant.nullable(),
    heartbeats: s.count,
    gapMsMax: s.number(),
    claimed: s.count,
    done: s.count,
    failed: s.count,
    retried: s.count,
    leasesLost: s.count,
    running: s.count.about("Jobs that were running at its last heartbeat."),
    loopDelayMs: s.number(),
    memoryBytes: s.number(),
    blockedMs: s
      .number()
      .about("How long a task had blocked the event loop when the stack was taken; 0: none."),
    blockedStack: s.text().nullable().about("Where it blocks it."),
  })
  .named("Worker", "A process that runs jobs.");

const unregisteredWorker = s
  .object({
    id: s.text(),
    kind: s
      .choice(["standby", "leases"])
      .about(
        "A standby worker, or a program that claims jobs over HTTP or with the SQL functions.",
      ),
    type: s.text().nullable(),
    hostname: s.text().nullable(),
    pid: s.integer().nullable(),
    version: s.text().nullable(),
    queues: s.list(s.text()),
    tasks: s.list(s.text()).nullable().about("Null: any task."),
    startedAt: s.instant,
    heartbeatAt: s.instant,
    silentMs: s.number(),
    leases: s.count.about("Jobs it holds now."),
  })
  .named("UnregisteredWorker", "A worker without a row in the registry.");

const drift = s
  .object({
    workers: s
      .list(s.object({ type: s.text(), versions: s.list(s.text()) }))
      .about("Worker types with running workers of different builds."),
    enqueuers: s
      .list(
        s.object({
          version: s.text(),
          firstAt: s.instant,
          lastAt: s.instant,
          silentMs: s.number().about("Time since it last enqueued a job; updated once a minute."),
        }),
      )
      .about("Builds that enqueued jobs within the last five minutes but have no running worker."),
  })
  .named("Drift", "Where builds differ.");

const slots = s
  .integer({ min: 1, max: SLOTS_MAX })
  .nullable()
  .about("Maximum number of active workers of the type; null: unlimited.");

function notFound(id: string): WorkerNotFoundError {
  return new WorkerNotFoundError(`Worker ${id} not found. List workers with 'holdfast workers'.`);
}

/** How a process is identified on its host is internal. */
function viewOf(record: WorkerRecord): WorkerView {
  const { hostBoot: _hostBoot, processStart: _processStart, ...view } = record;
  return { ...view, gone: record.stoppedAt === null && isGone(record) };
}

const workerReads = {
  list: operation({
    name: "listWorkers",
    summary: "List workers, most recently started first",
    access: "viewer",
    input: {
      type: s.name.optional(),
      all: s.boolean().optional().about("Include stopped workers."),
      lost: s.boolean().optional().about("Only workers that were found dead within the last hour."),
      limit: s.pageLimit.optional(),
    },
    returns: "The registered workers, and those without a registration.",
    result: s.object({ workers: s.list(worker), unregistered: s.list(unregisteredWorker) }),
    run: async ({ workers }, input) => {
      const listed = await workers.list(input);
      const others = await workers.unregistered();
      const { type: wanted } = input;
      return {
        workers: listed.map(viewOf),
        unregistered: others.filter(({ type }) => wanted === undefined || type === wanted),
      };
    },
    http: { method: "GET", path: "/api/v1/workers" },
    cli: {
      command: "workers list",
      about: "list workers, newest first",
      flags: {
        type: { value: "<name>", about: "only workers of this type" },
        all: { about: "also list stopped workers" },
        lost: { about: "only workers that were found dead within the last hour" },
        limit: { about: "maximum number of workers", initial: 50 },
      },
      examples: ["workers list --type mailer"],
      json: async (found, _input, app) => ({ ...found, ...(await troublesOf(app)) }),
      show: async ({ workers, unregistered }, { app, terminal }) => {
        const all = workers.length + unregistered.length;
        const lines = all === 0 ? [] : [...workerTable(workers, unregistered, terminal), ""];
        const count = all === 0 ? "No workers." : countOf(workers.length, unregistered);
        const remarks = remarksOf(await troublesOf(app), terminal);
        return [...lines, ...remarks, terminal.colors.dim(count)];
      },
    },
    agent: "Which workers there are, whether they are alive, and what they run.",
  }),

  show: operation({
    name: "getWorker",
    summary: "One worker",
    access: "viewer",
    input: { id: s.workerId },
    returns: "The worker, registered or unregistered.",
    result: s.union<{
      readonly worker?: s.TypeOf<typeof worker>;
      readonly unregistered?: s.TypeOf<typeof unregisteredWorker>;
    }>(s.object({ worker }), s.object({ unregistered: unregisteredWorker })),
    run: async ({ workers }, { id }) => {
      const found = await workers.find(id);
      if (found !== null) return { worker: viewOf(found) };
      const unregistered = (await workers.unregistered()).find((other) => other.id === id);
      if (unregistered === undefined) throw notFound(id);
      return { unregistered };
    },
    http: { method: "GET", path: "/api/v1/workers/{id}" },
    cli: {
      command: "workers show",
      about: "show all details of a worker",
      arguments: { id: "the worker's id, or an unambiguous prefix" },
      ids: { id: wholeWorkerId },
      examples: ["workers show mailer-01a1dee7"],
      show: ({ worker: one, unregistered }, { terminal }) => {
        if (one !== undefined) return portrait(one, terminal);
        return unregistered === undefined ? [] : portraitOfUnregistered(unregistered, terminal);
      },
    },
    agent: "Everything about one worker: its build, its jobs, and where a task blocks it.",
  }),
};

// Orders to one worker. The commands, which also take a type or all workers, are written by hand.

function orderOf(
  order: "pause" | "resume" | "drain" | "stop",
  desiredState: DesiredState,
  { summary, agent }: { readonly summary: string; readonly agent: string },
) {
  return operation({
    name: `${order}Worker`,
    summary,
    access: "operator",
    input: { id: s.workerId },
    isAudited: true,
    returns:
      "The desired state is stored; the worker applies it at its next heartbeat at the latest.",
    result: s.object({ id: s.text(), desiredState: s.choice(desiredStates) }),
    run: async ({ workers }, { id: wanted }, { by }) => {
      const [id] = await workers[order]({ id: wanted }, by);
      if (id === undefined) throw notLive(wanted);
      return { id, desiredState };
    },
    http: { method: "POST", path: `/api/v1/workers/{id}/${order}`, repeatable: true },
    agent,
  });
}

const orders = {
  pause: orderOf("pause", "pause", {
    summary: "Pause a worker: it finishes its jobs and claims no new ones",
    agent: "Pause a worker, so that it claims no new jobs. Reversible: resumeWorker.",
  }),
  resume: orderOf("resume", "run", {
    summary: "Resume a paused worker",
    agent: "Let a paused worker claim jobs again.",
  }),
  drain: orderOf("drain", "drain", {
    summary: "Drain a worker: it ends after its last job",
    agent: "End a worker after its last job. Without a supervisor it does not start again.",
  }),
  stop: orderOf("stop", "stop", {
    summary: "Stop a worker: it releases jobs that do not end in time",
    agent: "End a worker now. Jobs that do not end in time are released, and run elsewhere.",
  }),
};

const TYPES: Columns<WorkerType> = [
  flexible("TYPE", ({ type }) => type),
  right("LIMIT", ({ slots: limit }) => String(limit ?? "none")),
  right("ACTIVE", ({ active }) => String(active)),
];

const typeOperations = {
  types: operation({
    name: "listWorkerTypes",
    summary: "List worker types and their limits",
    access: "viewer",
    input: { type: s.name.optional().about("Only this type.") },
    returns: "The types, ordered by name.",
    result: s.object({ types: s.list(workerType) }),
    run: async ({ workers }, { type }) => {
      const all = await workers.types();
      const types = all.filter((each) => type === undefined || each.type === type);
      if (type !== undefined && types.length === 0) throw new WorkerTypeNotFoundError({ type });
      return { types };
    },
    http: { method: "GET", path: "/api/v1/worker-types" },
    cli: {
      command: "workers limit",
      examples: ["workers limit mailer 3"],
      show: ({ types }, { terminal }) =>
        types.length === 0 ? ["No worker has registered yet."] : tableOf(TYPES, types, terminal),
    },
    agent: "How many workers of each type may be active, and how many are.",
  }),

  setLimit: operation({
    name: "setWorkerLimit",
    summary: "Set the maximum number of active workers of a type",
    access: "operator",
    input: { type: s.name, slots },
    isAudited: true,
    returns: "The old and the new limit.",
    result: s.object({ type: s.text(), from: slots, to: slots }),
    run: ({ workers }, input, { by }) => workers.setLimit(input.type, input.slots, by),
    http: { method: "POST", path: "/api/v1/worker-types/{type}/limit", repeatable: true },
    cli: {
      command: "workers limit",
      examples: ["workers limit mailer 3"],
      show: ({ type, from, to }) => [
        from === to
          ? `The limit of '${type}' is already ${slotsText(to)}.`
          : `The limit of '${type}' is now ${slotsText(to)}; it was ${slotsText(from)}.`,
      ],
    },
  }),

  drift: operation({
    name: "getDrift",
    summary: "Build differences among workers, and between enqueuing processes and workers",
    access: "viewer",
    returns: "Empty lists if there are none.",
    result: drift,
    run: ({ workers }) => workers.drift(),
    http: { method: "GET", path: "/api/v1/drift" },
    cli: {
      command: "workers drift",
      about: "show where the builds of workers and of enqueuing processes differ",
      examples: ["workers drift"],
      show: (found, { terminal }) => {
        const lines = remarksOf({ drift: found, unclaimable: [] }, terminal);
        return lines.length === 0 ? ["No difference."] : lines;
      },
    },
    agent: "Whether workers, or processes that enqueue, run different builds of the application.",
  }),
};

export const workerOperations = { ...workerReads, ...orders, ...typeOperations };

function countOf(workers: number, others: readonly UnregisteredWorker[]): string {
  const standbys = others.filter(({ kind }) => kind === "standby").length;
  const external = others.length - standbys;
  return [
    counted(workers, "worker"),
    ...(standbys === 0 ? [] : [counted(standbys, "standby")]),
    ...(external === 0 ? [] : [`${external} external`]),
  ].join(", ");
}

interface Troubles {
  readonly drift: Drifts;
  readonly unclaimable: readonly Unclaimable[];
}

async function troublesOf({ workers, jobs }: WorkersApp): Promise<Troubles> {
  return { drift: await workers.drift(), unclaimable: await jobs.unclaimable() };
}

/** Warnings shown with the list. */
function remarksOf(
  { drift: { workers, enqueuers }, unclaimable }: Troubles,
  { colors }: Terminal,
): string[] {
  return [
    ...workers.map(
      ({ type, versions }) => `Workers '${type}' run different versions: ${versions.join(", ")}.`,
    ),
    ...enqueuers.map(
      ({ version, silentMs }) =>
        `Version ${version} enqueued jobs ${span(silentMs)} ago, but no worker runs this version.`,
    ),
    ...unclaimable.map(
      ({ queue, task, jobs, waitedMs }) =>
        `No live worker runs ${task} (queue ${queue}): ${counted(jobs, "job")}, waiting for ${span(waitedMs)}.`,
    ),
  ].map((line) => colors.yellow(printable(line)));
}

/** A worker's id begins with its type: `mailer-01a1dee7-1d06`. */
export async function wholeWorkerId({ store }: WorkersApp, typed: string): Promise<string> {
  return wholeId(typed, {
    what: "worker",
    find: async (prefix, limit) => {
      const exact = await store.workers.find(prefix);
      const found = exact === null ? await store.workers.list({ prefix, limit }) : [exact];
      const others = (await store.workers.unregistered()).filter(({ id }) => id.startsWith(prefix));
      return [
        ...found.map(({ id, status, hostname, pid }) => ({
          id,
          about: `${status} ${hostname}:${pid}`,
        })),
        ...others.map(({ id, kind }) => ({ id, about: kind })),
      ];
    },
    notFound,
  });
}

// Which worker leases which job, until when, and its last heartbeat.

const lease = s
  .object({
    id: s.id,
    worker: s.text(),
    epoch: s.count,
    queue: s.text(),
    task: s.text(),
    attempt: s.count,
    traceId: s.text(),
    claimedAt: s.instant,
    heartbeatAt: s.instant,
    lockedUntil: s.instant,
    cancelRequestedAt: s.instant.nullable(),
  })
  .named("LeaseRecord", "A claimed job, its worker, and when the lease expires.");

const WORKERS_SEEN_MAX = 1_000;

export const leaseOperations = {
  list: operationsOf<WorkersApp>("leases")({
    name: "listLeases",
    summary: "List leases and expired leases",
    access: "viewer",
    input: {
      state: s.choice(["active", "expired"]).optional(),
      worker: s.workerId.optional(),
      after: s.id.optional().about("`next` from the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "A page, ordered by job id.",
    result: s.object({ leases: s.list(lease), next: s.id.nullable() }),
    run: async ({ leases }, { limit = 100, ...filter }) => {
      const found = await leases.list({ ...filter, limit });
      const next = found.length === limit ? (found.at(-1)?.id ?? null) : null;
      return { leases: found, next };
    },
    http: { method: "GET", path: "/api/v1/leases" },
    cli: {
      command: "leases",
      about: "list leased jobs with their workers and heartbeats",
      flags: {
        state: {
          flag: "expired",
          means: "expired",
          about: "only leases that have expired and whose jobs are not yet reclaimed",
        },
        worker: { value: "<id>", about: "only leases of this worker" },
        limit: { about: "maximum number of leases", initial: 20 },
      },
      examples: ["leases --expired"],
      show: async ({ leases }, { app, terminal, input: { state = "active" } }) => {
        if (leases.length === 0) return [`No ${state} leases.`];
        const footer = terminal.colors.dim(counted(leases.length, "lease"));
        return [...tableOf(await leaseColumns(app, leases), leases, terminal), "", footer];
      },
    },
    agent: "Which worker holds which job now, and when its lease expires.",
  }),
};

type Lease = s.TypeOf<typeof lease>;

async function leaseColumns(
  { jobs, workers }: WorkersApp,
  leases: readonly Lease[],
): Promise<Columns<Lease>> {
  const now = systemRuntime.now();
  const short = await jobs.shortIds(leases.map(({ id }) => id));
  const seen = await workers.list({ limit: WORKERS_SEEN_MAX });
  const gone = new Set(seen.filter(isGone).map(({ id }) => id));
  return [
    plain("JOB", ({ id }) => short.get(id) ?? id),
    flexible("TASK", ({ task }) => task),
    flexible("WORKER", ({ worker: id }) => (gone.has(id) ? `${id} (gone)` : id)),
    right("ATTEMPT", ({ attempt }) => String(attempt)),
    right("CLAIMED", ({ claimedAt }) => relative(claimedAt, now)),
    right("HEARTBEAT", ({ heartbeatAt }) => relative(heartbeatAt, now)),
    right("EXPIRES", ({ lockedUntil: at }, { colors }): string | Cell =>
      at > now ? `in ${span(at - now)}` : { text: relative(at, now), paint: colors.red },
    ),
  ];
}
