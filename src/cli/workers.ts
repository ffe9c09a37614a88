/** `holdfast workers`: who works, and what they shall do. */
import { Command } from "commander";
import type { Drifts, WorkerTarget } from "../queue/workers.ts";
import type { UnregisteredWorker } from "../store/registry.ts";
import type { Stranded } from "../store/store.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { BadUsage } from "./failure.ts";
import { workerId, WorkerNotFound } from "./id.ts";
import { printable } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { limitCommand } from "./worker-limit.ts";
import { portrait, portraitOfUnregistered, workerTable } from "./worker-table.ts";
import { counted, span } from "./words.ts";

interface ListOptions extends DatabaseOptions {
  readonly type?: string;
  readonly all?: boolean;
  readonly limit: number;
}

interface TellOptions extends DatabaseOptions, ReasonOptions {
  readonly type?: string;
  readonly all?: boolean;
}

const LIMIT_DEFAULT = 50;

/** What somebody can want of workers. */
const ORDERS = {
  stop: ["end workers; their jobs have the time their settings give them", "stops"],
  drain: ["end workers when their last job has ended", "finishes what it runs, then stops"],
  pause: ["have workers take nothing new", "takes nothing new"],
  resume: ["have paused workers go on", "goes on"],
} as const;

export function workersCommand(terminal: Terminal): Command {
  const command = new Command("workers").description("list workers, and tell them what to do");
  command.addCommand(listCommand(terminal), { isDefault: true });
  command.addCommand(showCommand(terminal));
  for (const order of Object.keys(ORDERS) as (keyof typeof ORDERS)[]) {
    command.addCommand(orderCommand(terminal, order));
  }
  command.addCommand(limitCommand(terminal));
  return command;
}

function listCommand(terminal: Terminal): Command {
  return new Command("list")
    .description("list workers, those that started last first")
    .addOption(urlOption())
    .option("--type <name>", "only workers of this name")
    .option("--all", "also those that stopped")
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(terminal, options));
}

function showCommand(terminal: Terminal): Command {
  return new Command("show")
    .description("show everything about one worker")
    .argument("<id>", "the worker's id, or the beginning of it")
    .addOption(urlOption())
    .action((id: string, options: DatabaseOptions) => show(terminal, id, options));
}

function orderCommand(terminal: Terminal, order: keyof typeof ORDERS): Command {
  return new Command(order)
    .description(ORDERS[order][0])
    .argument("[id]", "the worker's id, or the beginning of it")
    .addOption(urlOption())
    .option("--type <name>", "all workers of this name")
    .option("--all", "all workers")
    .addOption(reasonOption())
    .action((id: string | undefined, options: TellOptions) => tell(terminal, order, id, options));
}

async function list(terminal: Terminal, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const workers = await holdfast.workers.list(filter);
  const others = await holdfast.workers.unregistered();
  const unregistered = others.filter(
    ({ type }) => filter.type === undefined || type === filter.type,
  );
  const troubles = {
    drift: await holdfast.workers.drift(),
    stranded: await holdfast.jobs.stranded(),
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
  readonly stranded: readonly Stranded[];
}

/** What somebody should know who looks at workers. */
function remarks({ drift, stranded }: Troubles, { colors }: Terminal): string[] {
  return [
    ...drift.workers.map(
      ({ type, versions }) => `Workers '${type}' run different versions: ${versions.join(", ")}.`,
    ),
    ...drift.enqueuers.map(
      ({ version, silentMs }) =>
        `Version ${version} enqueued ${span(silentMs)} ago, and no running worker has it.`,
    ),
    ...stranded.map(
      ({ queue, task, jobs, waitedMs }) =>
        `No live worker runs ${task} (queue ${queue}): ${counted(jobs, "job")}, waiting for ${span(waitedMs)}.`,
    ),
  ].map((line) => colors.yellow(printable(line)));
}

async function show(terminal: Terminal, id: string, { url }: DatabaseOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const whole = await workerId(holdfast, id);
  const worker = await holdfast.workers.find(whole);
  if (worker === null) {
    await showUnregistered(terminal, holdfast, whole);
    return;
  }
  if (terminal.json) terminal.printJson({ worker });
  else terminal.print(...portrait(worker, terminal));
}

async function showUnregistered(terminal: Terminal, holdfast: Holdfast, id: string): Promise<void> {
  const unregistered = (await holdfast.workers.unregistered()).find((each) => each.id === id);
  if (unregistered === undefined)
    throw new WorkerNotFound(`There is no worker ${id}. See: holdfast workers`);
  if (terminal.json) terminal.printJson({ unregistered });
  else terminal.print(...portraitOfUnregistered(unregistered, terminal));
}

async function tell(
  terminal: Terminal,
  order: keyof typeof ORDERS,
  id: string | undefined,
  { url, type, all = false, ...reason }: TellOptions,
): Promise<void> {
  const named = targetOf(order, { id, type, all });
  await using holdfast = await openForLooking(url);
  const target =
    named === "all" || "type" in named ? named : { id: await workerId(holdfast, named.id) };
  const told = await give(holdfast, { order, target, reason });
  if (told.length === 0) throw new WorkerNotFound(await whyNobody(holdfast, target));
  if (terminal.json) terminal.printJson({ order, workers: told });
  else terminal.print(...told.map((worker) => `${worker} ${ORDERS[order][1]}`));
}

function give(
  { workers }: Holdfast,
  told: { order: keyof typeof ORDERS; target: WorkerTarget; reason: ReasonOptions },
): Promise<string[]> {
  const { order, target, reason } = told;
  const options = { actor: actorName(), ...reason };
  switch (order) {
    case "stop":
      return workers.stop(target, options);
    case "drain":
      return workers.drain(target, options);
    case "pause":
      return workers.pause(target, options);
    case "resume":
      return workers.resume(target, options);
  }
}

function targetOf(
  order: string,
  { id, type, all }: { id: string | undefined; type: string | undefined; all: boolean },
): WorkerTarget {
  const named = [id, type, all || undefined].filter((each) => each !== undefined);
  if (named.length !== 1) {
    throw new BadUsage(`Name one: holdfast workers ${order} <id>, or --type <name>, or --all.`);
  }
  if (id !== undefined) return { id };
  return type === undefined ? "all" : { type };
}

/** A worker without a row cannot be told anything. */
async function whyNobody(holdfast: Holdfast, target: WorkerTarget): Promise<string> {
  if (target === "all" || "type" in target) return nobody(target);
  const others = await holdfast.workers.unregistered();
  const other = others.find(({ id }) => id === target.id);
  if (other === undefined) return nobody(target);
  const where = other.hostname === null ? "" : ` (process ${other.pid} on ${other.hostname})`;
  return `${other.id} is in no registry and cannot be told anything. End its process${where}.`;
}

function nobody(target: WorkerTarget): string {
  if (target === "all") return "No worker is there to hear it.";
  return "id" in target
    ? `There is no worker ${target.id}, or it has stopped. See: holdfast workers`
    : `No worker called '${target.type}' is there to hear it. See: holdfast workers`;
}
