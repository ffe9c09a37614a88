/** `holdfast flows`: lists flows and batches, shows one with its jobs, enqueues, cancels and retries one. */
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { Command } from "commander";
import { InvalidArgumentError } from "../core/errors.ts";
import {
  actorName,
  parseJson,
  reasonOption,
  type ReasonOptions,
  wholeNumber,
} from "../terminal/arguments.ts";
import { counted, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { FlowJobSpec } from "./builder.ts";
import { FlowNotFoundError } from "./errors.ts";
import type { Flows, FlowView } from "./flows.ts";
import type { FlowJobRecord, FlowKind } from "./store.ts";

type Kit = CommandKit<{ readonly flows: Flows }>;

interface ListOptions extends DatabaseOptions {
  readonly kind?: FlowKind;
  readonly before?: string;
  readonly limit: number;
}

interface ShowOptions extends DatabaseOptions {
  readonly after?: string;
  readonly limit: number;
}

const LIMIT_DEFAULT = 20;

export function flowsCommand(kit: Kit): Command {
  const command = new Command("flows").description(
    "list flows and batches; enqueue, show, cancel or retry one",
  );
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(showCommand(kit));
  command.addCommand(enqueueCommand(kit));
  command.addCommand(cancelCommand(kit));
  command.addCommand(retryCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list flows and batches, newest first")
    .addOption(urlOption())
    .option("--kind <kind>", "only flows (flow) or batches (batch)")
    .option("--before <id>", "only flows older than this one (next page)")
    .option("--limit <n>", "maximum number of flows", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function showCommand(kit: Kit): Command {
  return new Command("show")
    .description("show a flow or batch, and its jobs")
    .argument("<id>", "the flow's id")
    .addOption(urlOption())
    .option("--after <id>", "only jobs after this one (next page)")
    .option("--limit <n>", "maximum number of jobs", wholeNumber, LIMIT_DEFAULT)
    .action((id: string, options: ShowOptions) => show(kit, id, options));
}

function enqueueCommand(kit: Kit): Command {
  return new Command("enqueue")
    .description("enqueue a flow from a JSON file: a list of { name, task, input, after, options }")
    .argument("<name>", "the flow's name")
    .argument("<file>", "the file, or - to read from stdin")
    .addOption(urlOption())
    .action((name: string, file: string, options: DatabaseOptions) =>
      enqueue(kit, { name, file }, options),
    );
}

function cancelCommand(kit: Kit): Command {
  return new Command("cancel")
    .description("cancel the jobs of a flow that have not ended")
    .argument("<id>", "the flow's id")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((id: string, options: DatabaseOptions & ReasonOptions) => cancel(kit, id, options));
}

function retryCommand(kit: Kit): Command {
  return new Command("retry")
    .description("retry the failed and cancelled jobs of a flow")
    .argument("<id>", "the flow's id")
    .addOption(urlOption())
    .addOption(reasonOption())
    .option("--attempts <n>", "additional attempts for each job (default: 3)", wholeNumber)
    .action((id: string, options: DatabaseOptions & ReasonOptions & { attempts?: number }) =>
      retry(kit, id, options),
    );
}

async function list({ terminal, open }: Kit, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
  const rows = await holdfast.flows.list(filter);
  const flows = await Promise.all(rows.map(({ id }) => holdfast.flows.get(id)));
  const found = flows.filter((flow) => flow !== null);
  if (terminal.json) {
    terminal.printJson({ flows: found });
    return;
  }
  const lines = found.length === 0 ? [] : [...flowTable(found, terminal), ""];
  const words = found.length === 0 ? "No flows." : counted(found.length, "flow");
  terminal.print(...lines, terminal.colors.dim(words));
}

function flowTable(flows: readonly FlowView[], { columns, colors }: Terminal): string[] {
  return table({
    columns: [
      { title: "ID" },
      { title: "KIND" },
      { title: "NAME", flexible: true },
      { title: "STATUS" },
      { title: "DONE", align: "right" },
      { title: "FAILED", align: "right" },
      { title: "CANCELLED", align: "right" },
      { title: "LEFT", align: "right" },
    ],
    rows: flows.map(({ id, kind, name, status, done, failed, cancelled, live }) => [
      id,
      kind,
      name,
      status,
      ...[done, failed, cancelled, live].map(String),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

async function show(
  { terminal, open }: Kit,
  id: string,
  { url, ...page }: ShowOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const flow = await holdfast.flows.get(id);
  if (flow === null) throw new FlowNotFoundError({ id });
  const jobs = await holdfast.flows.jobs(id, page);
  if (terminal.json) {
    terminal.printJson({ ...flow, jobs });
    return;
  }
  const { kind, name, status, total, done, failed, cancelled, live } = flow;
  terminal.print(
    `${kind} ${name}: ${status}`,
    `${done} done, ${failed} failed, ${cancelled} cancelled, ${live} left of ${counted(total, "job")}`,
    ...(flow.callback === null ? [] : [`callback: job ${flow.callback}`]),
    "",
    ...jobTable(jobs, terminal),
  );
}

function jobTable(jobs: readonly FlowJobRecord[], { columns, colors }: Terminal): string[] {
  return table({
    columns: [
      { title: "ID" },
      { title: "NAME", flexible: true },
      { title: "TASK", flexible: true },
      { title: "STATUS" },
      { title: "WAITS FOR", align: "right" },
    ],
    rows: jobs.map(({ id, name, task, status, missing }) => [
      id,
      name ?? "",
      task,
      status,
      missing === 0 ? "" : String(missing),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

async function enqueue(
  { terminal, openForWork }: Kit,
  { name, file }: { readonly name: string; readonly file: string },
  { url }: DatabaseOptions,
): Promise<void> {
  const source = file === "-" ? "stdin" : file;
  const given = parseJson(
    file === "-" ? await text(process.stdin) : readFileSync(file, "utf8"),
    source,
  );
  if (!Array.isArray(given)) {
    const problem = `${source} must contain a list of { name, task, input, after, options }.`;
    throw new InvalidArgumentError({ field: "file", problem });
  }
  const notes: string[] = [];
  await using holdfast = await openForWork(url, (line) => notes.push(line));
  const flow = await holdfast.flows.enqueue(name, given as FlowJobSpec[]);
  const jobs = flow.jobs.map(({ id, task, added }) => ({ id, task, added }));
  if (terminal.json) {
    terminal.printJson({ id: flow.id, jobs });
    return;
  }
  terminal.complain(...notes);
  terminal.print(`Enqueued flow ${flow.id} with ${counted(jobs.length, "job")}.`);
}

async function cancel(
  { terminal, open }: Kit,
  id: string,
  { url, reason }: DatabaseOptions & ReasonOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const cancelled = await holdfast.flows.cancel(id, by(reason));
  if (terminal.json) terminal.printJson({ id, cancelled });
  else terminal.print(`Cancelled ${counted(cancelled, "job")} of flow ${id}.`);
}

async function retry(
  { terminal, open }: Kit,
  id: string,
  { url, reason, attempts }: DatabaseOptions & ReasonOptions & { readonly attempts?: number },
): Promise<void> {
  await using holdfast = await open(url);
  const terms = attempts === undefined ? {} : { attempts };
  const retried = await holdfast.flows.retry(id, { ...by(reason), ...terms });
  if (terminal.json) terminal.printJson({ id, retried });
  else terminal.print(`Retried ${counted(retried, "job")} of flow ${id}.`);
}

function by(reason: string | undefined): { actor: string; reason?: string } {
  return { actor: actorName(), ...(reason === undefined ? {} : { reason }) };
}
