/** `holdfast workers`: lists and controls workers. */
import { Command } from "commander";
import { HoldfastError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Leases } from "../jobs/leases.ts";
import type { Unclaimable } from "../jobs/store.ts";
import {
  actorName,
  reasonOption,
  type ReasonOptions,
  wholeId,
  wholeNumber,
} from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/failure.ts";
import { type Cell, counted, printable, relative, span, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import { isGone } from "./heartbeat.ts";
import type { WorkersStore } from "./store.ts";
import { portrait, portraitOfUnregistered, workerTable } from "./table.ts";
import {
  type ChangedLimit,
  SLOTS_MAX,
  type UnregisteredWorker,
  type WorkerType,
} from "./worker-record.ts";
import { slotsText, WorkerTypeNotFoundError } from "./worker-types.ts";
import type { Drifts, Workers, WorkerTarget } from "./workers.ts";

interface App {
  readonly jobs: Jobs;
  readonly workers: Workers;
  readonly store: { readonly workers: WorkersStore };
}

type Kit = CommandKit<App>;

interface ListOptions extends DatabaseOptions {
  readonly type?: string;
  readonly all?: boolean;
  readonly limit: number;
}

interface OrderOptions extends DatabaseOptions, ReasonOptions {
  readonly type?: string;
  readonly all?: boolean;
}

const LIMIT_DEFAULT = 50;

/** Description and confirmation of each command. */
const ORDERS = {
  stop: ["stop workers; running jobs get the shutdown timeout", "is stopping"],
  drain: ["stop workers after their running jobs have finished", "is draining, then stops"],
  pause: ["pause workers: they claim no new jobs", "is paused"],
  resume: ["resume paused workers", "is running again"],
} as const;

export function workersCommand(kit: Kit): Command {
  const command = new Command("workers").description("list and control workers");
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(showCommand(kit));
  for (const order of Object.keys(ORDERS) as (keyof typeof ORDERS)[]) {
    command.addCommand(orderCommand(kit, order));
  }
  command.addCommand(limitCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list workers, newest first")
    .addOption(urlOption())
    .option("--type <name>", "only workers of this type")
    .option("--all", "also list stopped workers")
    .option("--limit <n>", "maximum number of workers", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function showCommand(kit: Kit): Command {
  return new Command("show")
    .description("show all details of a worker")
    .argument("<id>", "the worker's id, or an unambiguous prefix")
    .addOption(urlOption())
    .action((id: string, options: DatabaseOptions) => show(kit, id, options));
}

function orderCommand(kit: Kit, order: keyof typeof ORDERS): Command {
  return new Command(order)
    .description(ORDERS[order][0])
    .argument("[id]", "the worker's id, or an unambiguous prefix")
    .addOption(urlOption())
    .option("--type <name>", "all workers of this type")
    .option("--all", "all workers")
    .addOption(reasonOption())
    .action((id: string | undefined, options: OrderOptions) => giveOrder(kit, order, id, options));
}

async function list({ terminal, open }: Kit, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
  const workers = await holdfast.workers.list(filter);
  const others = await holdfast.workers.unregistered();
  const unregistered = others.filter(
    ({ type }) => filter.type === undefined || type === filter.type,
  );
  const troubles = {
    drift: await holdfast.workers.drift(),
    unclaimable: await holdfast.jobs.unclaimable(),
  };
  if (terminal.json) {
    terminal.printJson({ workers, unregistered, ...troubles });
    return;
  }
  const all = workers.length + unregistered.length;
  const lines = all === 0 ? [] : [...workerTable(workers, unregistered, terminal), ""];
  const count = all === 0 ? "No workers." : countOf(workers.length, unregistered);
  terminal.print(...lines, ...remarks(troubles, terminal), terminal.colors.dim(count));
}

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

/** Warnings shown with the list. */
function remarks({ drift, unclaimable }: Troubles, { colors }: Terminal): string[] {
  return [
    ...drift.workers.map(
      ({ type, versions }) => `Workers '${type}' run different versions: ${versions.join(", ")}.`,
    ),
    ...drift.enqueuers.map(
      ({ version, silentMs }) =>
        `Version ${version} enqueued jobs ${span(silentMs)} ago, but no worker runs this version.`,
    ),
    ...unclaimable.map(
      ({ queue, task, jobs, waitedMs }) =>
        `No live worker runs ${task} (queue ${queue}): ${counted(jobs, "job")}, waiting for ${span(waitedMs)}.`,
    ),
  ].map((line) => colors.yellow(printable(line)));
}

async function show({ terminal, open }: Kit, id: string, { url }: DatabaseOptions): Promise<void> {
  await using holdfast = await open(url);
  const whole = await workerId(holdfast, id);
  const worker = await holdfast.workers.find(whole);
  if (worker === null) {
    await showUnregistered(terminal, holdfast, whole);
    return;
  }
  if (terminal.json) terminal.printJson({ worker });
  else terminal.print(...portrait(worker, terminal));
}

async function showUnregistered(terminal: Terminal, holdfast: App, id: string): Promise<void> {
  const unregistered = (await holdfast.workers.unregistered()).find((each) => each.id === id);
  if (unregistered === undefined) throw notFound(id);
  if (terminal.json) terminal.printJson({ unregistered });
  else terminal.print(...portraitOfUnregistered(unregistered, terminal));
}

async function giveOrder(
  { terminal, open }: Kit,
  order: keyof typeof ORDERS,
  id: string | undefined,
  { url, type, all = false, ...reason }: OrderOptions,
): Promise<void> {
  const named = targetOf(order, { id, type, all });
  await using holdfast = await open(url);
  const target =
    named === "all" || "type" in named ? named : { id: await workerId(holdfast, named.id) };
  const ids = await holdfast.workers[order](target, { actor: actorName(), ...reason });
  if (ids.length === 0) throw new WorkerNotFoundError(await whyNone(holdfast, target));
  if (terminal.json) terminal.printJson({ order, workers: ids });
  else terminal.print(...ids.map((worker) => `${worker} ${ORDERS[order][1]}`));
}

function targetOf(
  order: string,
  { id, type, all }: { id: string | undefined; type: string | undefined; all: boolean },
): WorkerTarget {
  const named = [id, type, all || undefined].filter((each) => each !== undefined);
  if (named.length !== 1) {
    throw new BadUsageError(
      `Pass exactly one of <id>, --type <name> or --all, such as 'holdfast workers ${order} --all'.`,
    );
  }
  if (id !== undefined) return { id };
  return type === undefined ? "all" : { type };
}

/** An unregistered worker cannot be controlled. */
async function whyNone(holdfast: App, target: WorkerTarget): Promise<string> {
  if (target === "all" || "type" in target) return noWorker(target);
  const others = await holdfast.workers.unregistered();
  const other = others.find(({ id }) => id === target.id);
  if (other === undefined) return noWorker(target);
  const where = other.hostname === null ? "" : ` (process ${other.pid} on ${other.hostname})`;
  return `${other.id} is not registered and cannot be controlled. Stop its process${where} instead.`;
}

function noWorker(target: WorkerTarget): string {
  if (target === "all") return "No worker is running.";
  return "id" in target
    ? `Worker ${target.id} does not exist or has stopped. List workers with 'holdfast workers'.`
    : `No worker of type '${target.type}' is running. List workers with 'holdfast workers'.`;
}

/** A worker's id begins with its type: `mailer-01a1dee7-1d06`. */
async function workerId({ store }: App, typed: string): Promise<string> {
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

class WorkerNotFoundError extends HoldfastError {
  constructor(message: string) {
    super("WORKER_NOT_FOUND", message);
  }
}

function notFound(id: string): WorkerNotFoundError {
  return new WorkerNotFoundError(`Worker ${id} not found. List workers with 'holdfast workers'.`);
}

type LimitOptions = DatabaseOptions & ReasonOptions;

const NONE = "none";

function limitCommand(kit: Kit): Command {
  return new Command("limit")
    .description("show or change the maximum number of active workers of a type")
    .argument("[type]", "the worker type: the name that its workers share")
    .argument(
      "[slots]",
      `the new limit, 1 to ${SLOTS_MAX} or '${NONE}'; if omitted, show the limit`,
    )
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((type: string | undefined, slots: string | undefined, options: LimitOptions) =>
      slots === undefined
        ? showLimit(kit, type, options)
        : changeLimit(kit, { type: type as string, slots: slotsOf(slots), options }),
    );
}

function slotsOf(text: string): number | null {
  if (text === NONE) return null;
  const slots = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (slots >= 1 && slots <= SLOTS_MAX) return slots;
  throw new BadUsageError(
    `The limit must be a whole number from 1 to ${SLOTS_MAX}, or '${NONE}', not '${text}'.`,
  );
}

async function showLimit(
  { terminal, open }: Kit,
  type: string | undefined,
  { url }: LimitOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const types = (await holdfast.workers.types()).filter(
    (each) => type === undefined || each.type === type,
  );
  if (type !== undefined && types.length === 0) throw new WorkerTypeNotFoundError({ type });
  if (terminal.json) terminal.printJson({ types });
  else
    terminal.print(
      ...(types.length === 0 ? ["No worker has registered yet."] : typeTable(types, terminal)),
    );
}

function typeTable(types: readonly WorkerType[], { columns, colors }: Terminal): string[] {
  return table({
    columns: [
      { title: "TYPE", flexible: true },
      { title: "LIMIT", align: "right" },
      { title: "ACTIVE", align: "right" },
    ],
    rows: types.map(({ type, slots, active }) => [type, String(slots ?? NONE), String(active)]),
    width: columns,
    paintTitle: colors.bold,
  });
}

async function changeLimit(
  { terminal, open }: Kit,
  limit: { type: string; slots: number | null; options: LimitOptions },
): Promise<void> {
  const { type, slots, options } = limit;
  const { url, ...reason } = options;
  await using holdfast = await open(url);
  const changed = await holdfast.workers.setLimit(type, slots, { actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson(changed);
  else terminal.print(sentenceOf(changed));
}

function sentenceOf({ type, from, to }: ChangedLimit): string {
  if (from === to) return `The limit of '${type}' is already ${slotsText(to)}.`;
  return `The limit of '${type}' is now ${slotsText(to)}; it was ${slotsText(from)}.`;
}

// `holdfast leases`: which worker leases which job, until when, and its last heartbeat.

type LeasesKit = CommandKit<{
  readonly jobs: Jobs;
  readonly leases: Leases;
  readonly workers: Workers;
}>;

interface Options extends DatabaseOptions {
  readonly expired?: true;
  readonly worker?: string;
  readonly limit: number;
}

/** Fits a screen. */
const LEASES_DEFAULT = 20;

const WORKERS_SEEN_MAX = 1_000;

export function leasesCommand(kit: LeasesKit): Command {
  return new Command("leases")
    .description("list leased jobs with their workers and heartbeats")
    .addOption(urlOption())
    .option("--expired", "only leases that have expired and whose jobs are not yet reclaimed")
    .option("--worker <id>", "only leases of this worker")
    .option("--limit <n>", "maximum number of leases", wholeNumber, LEASES_DEFAULT)
    .action((options: Options) => listLeases(kit, options));
}

async function listLeases({ terminal, open }: LeasesKit, options: Options): Promise<void> {
  await using holdfast = await open(options.url);
  const { worker, limit } = options;
  const filter = { limit, ...(worker === undefined ? {} : { worker }) };
  const found = await (options.expired === true
    ? holdfast.leases.expired(filter)
    : holdfast.leases.active(filter));
  if (terminal.json) {
    terminal.printJson({ leases: found });
    return;
  }
  if (found.length === 0) {
    terminal.print(options.expired === true ? "No expired leases." : "No active leases.");
    return;
  }
  const short = await holdfast.jobs.shortIds(found.map(({ id }) => id));
  const footer = terminal.colors.dim(counted(found.length, "lease"));
  const workers = await holdfast.workers.list({ limit: WORKERS_SEEN_MAX });
  const gone = new Set(workers.filter(isGone).map((each) => each.id));
  terminal.print(...leaseTable(found, { short, gone }, terminal), "", footer);
}

function leaseTable(
  found: Awaited<ReturnType<Leases["active"]>>,
  { short, gone }: { short: ReadonlyMap<string, string>; gone: ReadonlySet<string> },
  { columns, colors }: Terminal,
): string[] {
  const now = systemRuntime.now();
  const ends = (lockedUntil: number): string | Cell =>
    lockedUntil > now
      ? `in ${span(lockedUntil - now)}`
      : { text: relative(lockedUntil, now), paint: colors.red };
  return table({
    columns: [
      { title: "JOB" },
      { title: "TASK", flexible: true },
      { title: "WORKER", flexible: true },
      { title: "ATTEMPT", align: "right" },
      { title: "CLAIMED", align: "right" },
      { title: "HEARTBEAT", align: "right" },
      { title: "EXPIRES", align: "right" },
    ],
    rows: found.map((lease) => [
      short.get(lease.id) ?? lease.id,
      lease.task,
      gone.has(lease.worker) ? `${lease.worker} (gone)` : lease.worker,
      String(lease.attempt),
      relative(lease.claimedAt, now),
      relative(lease.heartbeatAt, now),
      ends(lease.lockedUntil),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}
