/** `holdfast schedules`: lists, creates, edits, pauses, runs and deletes schedules. */
import { Command, InvalidArgumentError, Option } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import {
  actorName,
  duration,
  parseJson,
  reasonOption,
  type ReasonOptions,
  wholeNumber,
} from "../terminal/arguments.ts";
import {
  type Cell,
  counted,
  dataJson,
  moment,
  printable,
  relative,
  table,
} from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import {
  defineSchedule,
  type MissedOption,
  type Overlap,
  overlaps,
  type ScheduleChanges,
  ScheduleNotFoundError,
} from "./schedule.ts";
import type { ScheduleDetails, Schedules, ScheduleView } from "./schedules.ts";
import { checkTiming, nextTicks, timingOf } from "./timing.ts";
import { inWords } from "./words.ts";

type Kit = CommandKit<{ readonly schedules: Schedules }>;

interface ListOptions extends DatabaseOptions {
  readonly task?: string;
  readonly paused?: boolean;
  readonly after?: string;
  readonly limit: number;
}

interface TimingFlags {
  readonly cron?: string;
  readonly timeZone?: string;
  readonly every?: string;
  readonly offset?: string;
}

interface ChangeFlags extends TimingFlags {
  readonly input?: string;
  readonly queue?: string;
  readonly priority?: number;
  readonly maxAttempts?: number;
  readonly key?: string;
  readonly missed?: MissedOption;
  readonly overlap?: Overlap;
  readonly description?: string;
}

interface CreateOptions extends ChangeFlags, DatabaseOptions, ReasonOptions {
  readonly task: string;
  readonly paused?: boolean;
}

interface EditOptions extends ChangeFlags, DatabaseOptions, ReasonOptions {
  readonly revision?: number;
}

interface DeleteOptions extends DatabaseOptions, ReasonOptions {
  readonly force?: boolean;
}

const LIMIT_DEFAULT = 50;
const RUNS_DEFAULT = 20;
const NEXT_DEFAULT = 5;
const NEXT_MAX = 100;

export function schedulesCommand(kit: Kit): Command {
  const command = new Command("schedules").description("list and change schedules");
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(showCommand(kit));
  command.addCommand(runsCommand(kit));
  command.addCommand(nextCommand(kit.terminal));
  command.addCommand(createCommand(kit));
  command.addCommand(editCommand(kit));
  command.addCommand(
    stateCommand(kit, "pause", "pause a schedule: it enqueues nothing until it is resumed"),
  );
  command.addCommand(stateCommand(kit, "resume", "resume enqueueing from the next tick on"));
  command.addCommand(runCommand(kit));
  command.addCommand(deleteCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list schedules, by name")
    .addOption(urlOption())
    .option("--task <name>", "only schedules of this task")
    .option("--paused", "only paused schedules")
    .option("--after <name>", "only names after this one (next page)")
    .option("--limit <n>", "maximum number of schedules", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function showCommand(kit: Kit): Command {
  return named("show", "show a schedule, its next five runs and its last ones")
    .addOption(urlOption())
    .action((name: string, options: DatabaseOptions) => show(kit, name, options));
}

function runsCommand(kit: Kit): Command {
  return named("runs", "show what happened at each tick, newest first")
    .addOption(urlOption())
    .option(
      "--before <tick>",
      "only ticks before this one, in milliseconds (next page)",
      wholeNumber,
    )
    .option("--limit <n>", "maximum number of runs", wholeNumber, RUNS_DEFAULT)
    .action((name: string, options: DatabaseOptions & { limit: number; before?: number }) =>
      runs(kit, name, options),
    );
}

function nextCommand(terminal: Terminal): Command {
  return new Command("next")
    .description("describe a cron expression in words and show when it would run; stores nothing")
    .argument("<cron>", "five fields, or six with seconds first, such as '30 2 * * *'")
    .option("--time-zone <name>", "the time zone, such as Europe/Berlin (default: UTC)")
    .option("--count <n>", "number of runs", wholeNumber, NEXT_DEFAULT)
    .action((cron: string, options: TimingFlags & { count: number }) =>
      next(terminal, cron, options),
    );
}

function createCommand(kit: Kit): Command {
  return withChanges(named("create", "create a schedule"))
    .requiredOption("--task <name>", "the task of its jobs")
    .option("--paused", "create it paused")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((name: string, options: CreateOptions) => create(kit, name, options));
}

function editCommand(kit: Kit): Command {
  return withChanges(named("edit", "change a schedule; options that you omit keep their values"))
    .option(
      "--revision <n>",
      "refuse the change if the schedule has a different revision",
      wholeNumber,
    )
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((name: string, options: EditOptions) => edit(kit, name, options));
}

function stateCommand(kit: Kit, verb: "pause" | "resume", what: string): Command {
  return named(verb, what)
    .addOption(urlOption())
    .addOption(reasonOption())
    .action(async (name: string, { url, ...reason }: DatabaseOptions & ReasonOptions) => {
      await using holdfast = await kit.open(url);
      const view = await holdfast.schedules[verb](name, { actor: actorName(), ...reason });
      say(kit.terminal, view, verb === "pause" ? "Paused" : "Resumed");
    });
}

function runCommand(kit: Kit): Command {
  return named("run", "enqueue one job now, even if the schedule is paused or a job is running")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action(async (name: string, { url, ...reason }: DatabaseOptions & ReasonOptions) => {
      await using holdfast = await kit.open(url);
      const job = await holdfast.schedules.run(name, { actor: actorName(), ...reason });
      if (kit.terminal.json) kit.terminal.printJson({ job });
      else kit.terminal.print(`${kit.terminal.colors.green("Enqueued")} job ${job}`);
    });
}

function deleteCommand(kit: Kit): Command {
  return named("delete", "delete a schedule, but not its jobs")
    .option("--force", "delete it even if workers declare it in code; it may come back")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action(async (name: string, { url, force = false, ...reason }: DeleteOptions) => {
      await using holdfast = await kit.open(url);
      await holdfast.schedules.remove(name, { actor: actorName(), force, ...reason });
      if (kit.terminal.json) kit.terminal.printJson({ deleted: name });
      else kit.terminal.print(`Deleted schedule '${printable(name)}'.`);
    });
}

function named(verb: string, what: string): Command {
  return new Command(verb).description(what).argument("<name>", "the schedule's name");
}

function withChanges(command: Command): Command {
  return command
    .option("--cron <text>", "five fields, or six with seconds first, such as '30 2 * * *'")
    .option("--time-zone <name>", "the time zone of --cron, such as Europe/Berlin (default: UTC)")
    .option("--every <duration>", "an interval instead of --cron, such as 10m", duration)
    .option("--offset <duration>", "shift the runs of --every", duration)
    .option("--input <json>", "the input of its jobs (default: null)")
    .option("--queue <name>", "the queue of its jobs (default: 'default')")
    .option("--priority <n>", "the priority of its jobs; higher numbers run first", wholeNumber)
    .option("--max-attempts <n>", "maximum number of attempts of its jobs", wholeNumber)
    .option("--key <key>", "the key of its jobs: only one of them can be live at a time")
    .option(
      "--missed <what>",
      "what to do about missed runs: skip, once or all:<n> (default: once)",
      missed,
    )
    .addOption(
      new Option(
        "--overlap <what>",
        "what to do at a tick if an earlier job has not ended (default: allow)",
      ).choices(overlaps),
    )
    .option("--description <text>", "what it is for");
}

function missed(text: string): MissedOption {
  if (text === "skip" || text === "once") return text;
  const [, count] = /^all:(\d{1,4})$/.exec(text) ?? [];
  if (count !== undefined) return { all: Number(count) };
  throw new InvalidArgumentError("Write skip, once or all:<n>, such as all:10.");
}

/** The flags as changes. Flags of jobs are one option. */
function changesOf(flags: ChangeFlags): ScheduleChanges {
  const { queue, priority, maxAttempts, key, input, ...rest } = flags;
  const options = Object.entries({ queue, priority, maxAttempts, key });
  const given = options.filter(([, value]) => value !== undefined);
  return {
    ...rest,
    ...(input === undefined ? {} : { input: parseJson(input, "--input") }),
    ...(given.length === 0 ? {} : { options: Object.fromEntries(given) }),
  };
}

async function create({ terminal, openForWork }: Kit, name: string, options: CreateOptions) {
  const { url, reason, task, paused = false, ...flags } = options;
  // What is wrong with the arguments is said before that the database is missing.
  const schedule = defineSchedule({ name, task, ...changesOf(flags) });
  const by = { actor: actorName(), paused, ...(reason === undefined ? {} : { reason }) };
  const notes: string[] = [];
  await using holdfast = await openForWork(url, (line) => notes.push(line));
  const view = await holdfast.schedules.create(schedule, by);
  if (!terminal.json) terminal.complain(...notes);
  say(terminal, view, "Created");
}

async function edit({ terminal, open }: Kit, name: string, options: EditOptions): Promise<void> {
  const { url, reason, revision, ...flags } = options;
  await using holdfast = await open(url);
  const changes = changesOf(flags);
  const { options: before = {} } = (await holdfast.schedules.get(name)) ?? {};
  const jobs = changes.options === undefined ? {} : { options: { ...before, ...changes.options } };
  const view = await holdfast.schedules.edit(
    name,
    { ...changes, ...jobs },
    {
      actor: actorName(),
      ...(reason === undefined ? {} : { reason }),
      ...(revision === undefined ? {} : { revision }),
    },
  );
  say(terminal, view, "Changed");
}

function say(terminal: Terminal, view: ScheduleView, done: string): void {
  if (terminal.json) return terminal.printJson(view);
  const now = systemRuntime.now();
  const when = view.nextAt === null ? "" : ` Next run: ${moment(view.nextAt, now)}.`;
  terminal.print(`${done} schedule '${printable(view.name)}': ${printable(view.words)}.${when}`);
}

async function list({ terminal, open }: Kit, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
  const schedules = await holdfast.schedules.list(filter);
  if (terminal.json) {
    terminal.printJson({ schedules });
    return;
  }
  const lines = schedules.length === 0 ? [] : [...scheduleTable(schedules, terminal), ""];
  const words = schedules.length === 0 ? "No schedules." : counted(schedules.length, "schedule");
  terminal.print(...lines, terminal.colors.dim(words));
}

function scheduleTable(schedules: readonly ScheduleView[], terminal: Terminal): string[] {
  const { columns, colors } = terminal;
  const now = systemRuntime.now();
  return table({
    columns: [
      { title: "NAME", flexible: true },
      { title: "WHEN", flexible: true },
      { title: "TASK", flexible: true },
      { title: "LAST", align: "right" },
      { title: "NEXT", align: "right" },
    ],
    rows: schedules.map((view): (string | Cell)[] => [
      view.name,
      view.words,
      view.task,
      view.lastAt === null ? "" : relative(view.lastAt, now),
      standing(view, now, terminal),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

function standing(view: ScheduleView, now: number, { colors }: Terminal): string | Cell {
  if (view.pausedAt !== null) return { text: "paused", paint: colors.yellow };
  if (view.error !== null) return { text: "failing", paint: colors.red };
  return view.nextAt === null ? { text: "never", paint: colors.dim } : relative(view.nextAt, now);
}

async function show({ terminal, open }: Kit, name: string, { url }: DatabaseOptions) {
  await using holdfast = await open(url);
  const details = await holdfast.schedules.get(name);
  if (details === null) throw new ScheduleNotFoundError({ schedule: name });
  const last = await holdfast.schedules.runs(name, { limit: NEXT_DEFAULT });
  if (terminal.json) {
    terminal.printJson({ ...details, runs: last });
    return;
  }
  terminal.print(...facts(details), "", ...last.map((run) => runLine(run, terminal)));
}

function facts(details: ScheduleDetails): string[] {
  const now = systemRuntime.now();
  const { pausedAt, pausedBy, missed: policy, error, description, declaredBy } = details;
  const known: readonly (readonly [string, string | null])[] = [
    ["Schedule", details.name],
    ["What for", description],
    ["When", details.words],
    ["Cron", details.cron],
    ["Task", details.task],
    ["Input", dataJson(details.input)],
    ["Options", JSON.stringify(details.options)],
    ["Missed", typeof policy === "string" ? policy : `all, at most ${policy.all}`],
    ["Overlap", details.overlap],
    ["Declared by", declaredBy === null ? null : `the code of workers named ${declaredBy}`],
    ["Paused", pausedAt === null ? null : `${moment(pausedAt, now)}, by ${pausedBy ?? ""}`],
    ["Missed runs", details.missedCount === 0 ? null : String(details.missedCount)],
    ["Waiting runs", details.queuedCount === 0 ? null : String(details.queuedCount)],
    ["Error", error],
    ...details.nextRuns.map(
      (at, index) => [index === 0 ? "Next runs" : "", moment(at, now)] as const,
    ),
  ];
  const shown = known.filter((line): line is readonly [string, string] => line[1] !== null);
  return shown.map(([title, text]) => `${title.padEnd(13)}${printable(text)}`);
}

async function runs(
  { terminal, open }: Kit,
  name: string,
  { url, ...filter }: DatabaseOptions & { limit: number; before?: number },
): Promise<void> {
  await using holdfast = await open(url);
  const found = await holdfast.schedules.runs(name, filter);
  if (terminal.json) {
    terminal.printJson({ runs: found });
    return;
  }
  const none = terminal.colors.dim("No runs yet.");
  terminal.print(...(found.length === 0 ? [none] : found.map((run) => runLine(run, terminal))));
}

function runLine(
  { tick, manual, outcome, job }: Awaited<ReturnType<Schedules["runs"]>>[number],
  { colors }: Terminal,
): string {
  const paint = outcome === "enqueued" ? colors.green : colors.yellow;
  const how = manual ? " by hand" : "";
  return `${moment(tick, systemRuntime.now())}  ${paint(outcome)}${how}  ${job ?? ""}`.trimEnd();
}

function next(terminal: Terminal, cron: string, options: TimingFlags & { count: number }): void {
  const { count, timeZone } = options;
  const row = checkTiming({ cron, ...(timeZone === undefined ? {} : { timeZone }) });
  const now = systemRuntime.now();
  const nextRuns = nextTicks(timingOf(row), now, Math.min(Math.max(1, count), NEXT_MAX));
  if (terminal.json) return terminal.printJson({ words: inWords(row), nextRuns });
  const lines = nextRuns.map((at) => `  ${moment(at, now)}`);
  terminal.print(inWords(row), ...(lines.length === 0 ? ["  It never runs."] : lines));
}
