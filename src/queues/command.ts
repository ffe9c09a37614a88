/** `holdfast queues`: shows queues, pauses and resumes them, and sets their limits. */
import { Command } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import type { QueueStats } from "../jobs/store.ts";
import { actorName, reasonOption, type ReasonOptions } from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/failure.ts";
import { count, counted, relative, span, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { LimitOptions, Limits, Queue, QueueOptions, Queues } from "./queues.ts";

interface Parts {
  readonly queues: Queues;
  stats(): Promise<QueueStats[]>;
}

type Kit = CommandKit<Parts>;

interface SetOptions extends DatabaseOptions, ReasonOptions {
  readonly concurrency?: string;
  readonly rate?: string;
  readonly eachLane?: boolean;
  readonly lane?: string;
  readonly task?: string;
  readonly weight?: string;
  readonly ageing?: string;
}

interface ActOptions extends DatabaseOptions, ReasonOptions {
  readonly all?: boolean;
}

export function queuesCommand(kit: Kit): Command {
  const command = new Command("queues").description("show, pause, resume and limit queues");
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(actCommand(kit, "pause"));
  command.addCommand(actCommand(kit, "resume"));
  command.addCommand(setCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list queues with their jobs, pauses and limits")
    .addOption(urlOption())
    .action((options: DatabaseOptions) => list(kit, options));
}

function actCommand(kit: Kit, action: "pause" | "resume"): Command {
  return new Command(action)
    .description(
      action === "pause"
        ? "pause a queue: workers claim none of its jobs"
        : "resume a paused queue",
    )
    .argument("[queue]", "the queue's name")
    .option(
      "--all",
      action === "pause"
        ? "pause all queues, in one transaction"
        : "resume the queues that 'pause --all' paused",
    )
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((queue: string | undefined, { all = false, ...options }: ActOptions) => {
      if (all === (queue !== undefined)) {
        throw new BadUsageError("Pass the name of a queue, or --all, but not both.");
      }
      return queue === undefined
        ? actOnAll(kit, action, options)
        : act(kit, action, queue, options);
    });
}

function setCommand(kit: Kit): Command {
  return new Command("set")
    .description("set limits of a queue; 'none' removes one")
    .argument("<queue>", "the queue's name")
    .addOption(urlOption())
    .option("--concurrency <n>", "maximum number of running jobs, in all processes together")
    .option("--rate <n/duration>", "how many jobs may start in a period, such as 5/1s")
    .option("--each-lane", "set the limits of each lane instead of the whole queue")
    .option("--lane <name>", "set the limits of one lane")
    .option("--task <name>", "set the limits of one task in this queue")
    .option("--weight <n>", "the share of a lane when lanes take turns")
    .option(
      "--ageing <duration>",
      "how much longer a job may wait for each step that its priority is lower",
    )
    .addOption(reasonOption())
    .action((queue: string, options: SetOptions) => set(kit, queue, options));
}

async function list({ terminal, open }: Kit, { url }: DatabaseOptions): Promise<void> {
  await using holdfast = await open(url);
  const settings = new Map((await holdfast.queues.list()).map((queue) => [queue.name, queue]));
  const stats = new Map((await holdfast.stats()).map((queue) => [queue.queue, queue]));
  const names = [...new Set([...settings.keys(), ...stats.keys()])].toSorted();
  if (terminal.json) {
    const queues = names.map((name) => ({
      name,
      ...settings.get(name),
      counts: stats.get(name)?.counts ?? null,
      oldestPendingAt: stats.get(name)?.oldestPendingAt ?? null,
    }));
    terminal.printJson({ queues });
    return;
  }
  const rows = names.map((name) => row(name, settings.get(name), stats.get(name)));
  const lines = names.length === 0 ? [] : [...queueTable(rows, terminal), ""];
  terminal.print(...lines, terminal.colors.dim(counted(names.length, "queue")));
}

function row(name: string, queue: Queue | undefined, stats: QueueStats | undefined): string[] {
  const { pending = 0, processing = 0, failed = 0 } = stats?.counts ?? {};
  const oldest = stats?.oldestPendingAt ?? null;
  return [
    name,
    count(pending),
    count(processing),
    count(failed),
    oldest === null ? "" : relative(oldest, systemRuntime.now()),
    queue === undefined ? "" : stateOf(queue),
  ];
}

function queueTable(rows: readonly string[][], { columns, colors }: Terminal): string[] {
  return table({
    columns: [
      { title: "QUEUE", flexible: true },
      { title: "PENDING", align: "right" },
      { title: "RUNNING", align: "right" },
      { title: "FAILED", align: "right" },
      { title: "OLDEST", align: "right" },
      { title: "PAUSE AND LIMITS", flexible: true },
    ],
    rows,
    width: columns,
    paintTitle: colors.bold,
  });
}

/** In words, such as `paused by ada; at most 5 at once; each lane: 10 per 1s`. */
function stateOf({ paused, limits, eachLane, lanes, tasks, ageingMs }: Queue): string {
  const named = (what: string, some: Readonly<Record<string, Limits>>): string[] =>
    Object.entries(some).map(([name, limit]) => `${what} ${name}: ${limitWords(limit)}`);
  return [
    paused === null ? "" : `paused by ${paused.by} ${relative(paused.at, systemRuntime.now())}`,
    limitWords(limits),
    isSet(eachLane) ? `each lane: ${limitWords(eachLane)}` : "",
    ...named("lane", lanes),
    ...named("task", tasks),
    ageingMs === null ? "" : `ageing ${span(ageingMs)}`,
  ]
    .filter((part) => part !== "")
    .join("; ");
}

function isSet({ concurrency, rate }: Limits): boolean {
  return concurrency !== null || rate !== null;
}

function limitWords(limit: Limits & { readonly weight?: number }): string {
  const { concurrency, rate, weight = 1 } = limit;
  return [
    concurrency === null ? "" : `at most ${concurrency} running`,
    rate === null ? "" : `${rate.count} per ${span(rate.periodMs)}`,
    weight === 1 ? "" : `weight ${weight}`,
  ]
    .filter((part) => part !== "")
    .join(", ");
}

const WORDS = {
  pause: { changed: "is paused", same: "was already paused" },
  resume: { changed: "is resumed", same: "was not paused" },
} as const;

async function act(
  { terminal, open }: Kit,
  action: "pause" | "resume",
  queue: string,
  { url, ...reason }: DatabaseOptions & ReasonOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const changed = await holdfast.queues[action](queue, { actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson({ changed, queue: await holdfast.queues.get(queue) });
  else terminal.print(`Queue ${queue} ${WORDS[action][changed ? "changed" : "same"]}`);
}

async function actOnAll(
  { terminal, open }: Kit,
  action: "pause" | "resume",
  { url, ...reason }: DatabaseOptions & ReasonOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const by = { actor: actorName(), ...reason };
  const changed =
    action === "pause" ? await holdfast.queues.pauseAll(by) : await holdfast.queues.resumeAll(by);
  const paused = (await holdfast.queues.list()).flatMap((queue) =>
    queue.paused === null ? [] : queue.name,
  );
  if (terminal.json) {
    terminal.printJson({ changed, paused });
    return;
  }
  const still = paused.length === 0 ? "No queue is paused." : `Paused: ${paused.join(", ")}.`;
  const past = action === "pause" ? "paused" : "resumed";
  terminal.print(`${counted(changed.length, "queue")} ${past}. ${still}`);
}

async function set(
  { terminal, open }: Kit,
  queue: string,
  { url, reason, ...options }: SetOptions,
): Promise<void> {
  const settings = settingsOf(options);
  await using holdfast = await open(url);
  const audited = { actor: actorName(), ...(reason === undefined ? {} : { reason }) };
  const changed = await holdfast.queues.set(queue, { ...settings, ...audited });
  const words = stateOf(changed);
  if (terminal.json) terminal.printJson({ queue: changed });
  else terminal.print(`Queue ${queue}: ${words === "" ? "no limits" : words}`);
}

type SetWords = Omit<SetOptions, "url" | "reason">;

function settingsOf({ concurrency, rate, weight, ageing, ...of }: SetWords): QueueOptions {
  const { eachLane, lane, task } = of;
  if ([eachLane, lane, task].filter((one) => one !== undefined).length > 1) {
    throw new BadUsageError("Pass only one of --each-lane, --lane and --task.");
  }
  if (weight !== undefined && lane === undefined) {
    throw new BadUsageError("--weight requires --lane.");
  }
  const limit: LimitOptions = {
    ...(concurrency === undefined
      ? {}
      : { concurrency: wholeOrNone("--concurrency", concurrency) }),
    ...(rate === undefined ? {} : { rate: rateOrNone(rate) }),
  };
  const aged = ageing === undefined ? {} : { ageing: ageing === "none" ? null : ageing };
  if (eachLane === true) return { ...aged, eachLane: limit };
  if (task !== undefined) return { ...aged, tasks: { [task]: limit } };
  if (lane === undefined) return { ...aged, ...limit };
  const share = weight === undefined ? {} : { weight: wholeOrNone("--weight", weight) };
  return { ...aged, lanes: { [lane]: { ...limit, ...share } } };
}

function wholeOrNone(option: string, text: string): number | null {
  if (text === "none") return null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new BadUsageError(`${option} must be a whole number, or 'none' to remove the limit.`);
}

function rateOrNone(text: string): { count: number; per: string } | null {
  if (text === "none") return null;
  const [, starts, per] = /^(\d{1,9})\/(\w[\w.]*)$/.exec(text) ?? [];
  if (starts !== undefined && per !== undefined) return { count: Number(starts), per };
  throw new BadUsageError(
    "--rate must be a rate such as 5/1s or 100/1m, or 'none' to remove the limit.",
  );
}
