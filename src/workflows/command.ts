/** `holdfast items`: shows items of workflows from the database, without the workflow's code. */
import { Command } from "commander";
import { knownNames } from "../core/text.ts";
import { formatMs } from "../core/duration.ts";
import { isId, shortIds } from "../core/id.ts";
import type { ChildrenIn } from "../core/item.ts";
import { decode } from "../core/json.ts";
import { checkWhole } from "../core/options.ts";
import { systemRuntime } from "../core/runtime.ts";
import { wholeNumber } from "../terminal/arguments.ts";
import { wholeId } from "../terminal/ids.ts";
import { BadUsageError } from "../terminal/failure.ts";
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
import { ItemNotFoundError } from "./errors.ts";
import type { HistoryEntry } from "./history.ts";
import type { ItemJob, StoredItem } from "./item-record.ts";
import type { ItemsStore } from "./store.ts";
import type { Workflows } from "./workflows.ts";

interface App {
  readonly workflows: Workflows;
  readonly store: { readonly items: ItemsStore };
}

type Kit = CommandKit<App>;

interface ListOptions extends DatabaseOptions {
  readonly workflow?: string;
  readonly status?: string;
  readonly tenant?: string;
  readonly identifier?: string;
  readonly parent?: string;
  readonly before?: string;
  readonly limit: number;
}

interface HistoryOptions extends DatabaseOptions {
  readonly after: number;
  readonly limit: number;
}

/** Fits a screen. */
const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 1_000;
const HISTORY_DEFAULT = 50;
const WORKFLOWS_LISTED_MAX = 200;

/** Shorter waits for a lock are not shown. */
const WAIT_SHOWN_MS = 1;

export function itemsCommand(kit: Kit): Command {
  const command = new Command("items").description("list workflow items and show their history");
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(showCommand(kit));
  command.addCommand(historyCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list items, newest first")
    .addOption(urlOption())
    .option("--workflow <name>", "only items of this workflow")
    .option("--status <status>", "only items with this status")
    .option("--tenant <name>", "only items of this tenant")
    .option("--identifier <text>", "only items with this identifier")
    .option("--parent <id>", "only children of this item")
    .option("--limit <n>", "maximum number of items", wholeNumber, LIMIT_DEFAULT)
    .option("--before <id>", "only items older than this one (next page)")
    .action((options: ListOptions) => list(kit, options));
}

function showCommand(kit: Kit): Command {
  return new Command("show")
    .description("show all details of an item")
    .argument("<id>", "the item's id, or an unambiguous prefix")
    .addOption(urlOption())
    .action((id: string, options: DatabaseOptions) => show(kit, id, options));
}

function historyCommand(kit: Kit): Command {
  return new Command("history")
    .description("show the history of an item and of its jobs")
    .argument("<id>", "the item's id, or an unambiguous prefix")
    .addOption(urlOption())
    .option("--after <number>", "only lines after this one (next page)", wholeNumber, 0)
    .option("--limit <n>", "maximum number of lines of the item", wholeNumber, HISTORY_DEFAULT)
    .action((id: string, options: HistoryOptions) => history(kit, id, options));
}

async function list({ terminal, open }: Kit, { url, ...asked }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
  const filter = await withWholeIds(holdfast, asked);
  checkWhole("--limit", filter.limit, { least: 1, most: LIMIT_MAX });
  if (filter.workflow === undefined && (filter.status ?? filter.tenant) !== undefined) {
    throw new BadUsageError("--status and --tenant require --workflow <name>.");
  }
  const items = await holdfast.store.items.list(filter);
  // Only `items show` shows the data.
  if (terminal.json) terminal.printJson({ items: items.map(({ data: _data, ...item }) => item) });
  else if (items.length === 0) {
    terminal.print(printable(`No items.${await unknownNames(holdfast, filter)}`));
  } else {
    const ids = items.map(({ id }) => id);
    const isPiped = terminal.columns === null;
    const short = shortIds(ids, isPiped ? [] : await holdfast.store.items.neighbours(ids));
    const idOf = (id: string): string => (isPiped ? id : (short.get(id) ?? id));
    const lines = itemTable(items, idOf, terminal);
    terminal.print(...lines, "", ...footer(items, filter, terminal));
  }
}

async function withWholeIds<Filter extends Pick<ListOptions, "parent" | "before">>(
  holdfast: App,
  filter: Filter,
): Promise<Filter> {
  const { parent, before } = filter;
  return {
    ...filter,
    ...(parent === undefined ? {} : { parent: await itemId(holdfast, parent) }),
    ...(before === undefined ? {} : { before: await itemId(holdfast, before) }),
  };
}

function itemTable(
  items: readonly StoredItem[],
  idOf: (id: string) => string,
  { columns, colors }: Terminal,
): string[] {
  const now = systemRuntime.now();
  const oneTenant = items.every(({ tenant }) => tenant === items[0]?.tenant);
  return table({
    columns: [
      { title: "ID" },
      { title: "STATUS" },
      { title: "SINCE", align: "right" },
      { title: "WORKFLOW", flexible: true },
      { title: "IDENTIFIER", flexible: true },
      ...(oneTenant ? [] : [{ title: "TENANT", flexible: true }]),
    ],
    rows: items.map((item) => [
      idOf(item.id),
      item.status,
      relative(item.enteredAt, now),
      item.workflow,
      item.identifier === item.id ? "" : item.identifier,
      ...(oneTenant ? [] : [item.tenant]),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

function footer(
  items: readonly StoredItem[],
  { limit }: { readonly limit: number },
  { colors }: Terminal,
): string[] {
  const older = items.length === limit ? [`Older: --before ${items.at(-1)?.id}`] : [];
  return [counted(items.length, "item"), ...older].map(colors.dim);
}

async function show(
  { terminal, open }: Kit,
  typed: string,
  { url }: DatabaseOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const id = await itemId(holdfast, typed);
  const item = await mustFind(holdfast, id);
  const children = await holdfast.store.items.progressOf(id);
  const jobs = await holdfast.store.items.jobsOf(id);
  const data = decode(item.data);
  if (terminal.json) terminal.printJson({ item: { ...item, data }, children, jobs });
  else terminal.print(...portrait(terminal, { item, data, children, jobs }));
}

async function mustFind({ store }: App, id: string): Promise<StoredItem> {
  const item = await store.items.find(id);
  if (item === null) throw new ItemNotFoundError({ id });
  return item;
}

interface Portrait {
  readonly item: StoredItem;
  readonly data: unknown;
  readonly children: readonly ChildrenIn[];
  /** Jobs that its state enqueued and waits for. */
  readonly jobs: readonly ItemJob[];
}

function portrait({ colors }: Terminal, { item, data, children, jobs }: Portrait): string[] {
  const now = systemRuntime.now();
  const lines: Record<string, string | null> = {
    status: `${item.status}, since ${moment(item.enteredAt, now)}`,
    type: item.type === item.workflow ? null : item.type,
    tenant: item.tenant,
    identifier: item.identifier === item.id ? null : item.identifier,
    parent: item.parent,
    root: item.parent === null ? null : item.root,
    started: moment(item.createdAt, now),
    changed: `${moment(item.updatedAt, now)}, revision ${item.revision}`,
    history: `${counted(item.auditSeq, "line")}: holdfast items history ${item.id}`,
    children:
      children.map((one) => `${one.children} ${one.workflow} ${one.status}`).join(", ") || null,
    jobs: jobs.map(({ job, status }) => `${job} ${status ?? "unfinished"}`).join(", ") || null,
  };
  return [
    `${colors.bold(printable(item.workflow))} ${item.id}`,
    ...Object.entries(lines).flatMap(([name, text]) =>
      text === null ? [] : [`  ${colors.dim(name.padEnd(10))}  ${printable(text)}`],
    ),
    "",
    colors.bold("data"),
    ...printable(dataJson(data, 2), { lines: true })
      .split("\n")
      .map((line) => `  ${line}`),
  ];
}

async function history(
  { terminal, open }: Kit,
  typed: string,
  { url, after, limit }: HistoryOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const id = await itemId(holdfast, typed);
  const trail = await holdfast.workflows.trail(id, { after, limit });
  if (trail.length === 0) await mustFind(holdfast, id);
  if (terminal.json) terminal.printJson({ trail });
  else terminal.print(...trailTable(trail, terminal), ...moreOf(trail, limit, terminal));
}

function trailTable(trail: readonly HistoryEntry[], { columns, colors }: Terminal): string[] {
  const now = systemRuntime.now();
  return table({
    columns: [
      { title: "LINE", align: "right" },
      { title: "WHEN", align: "right" },
      { title: "WHAT", flexible: true },
      { title: "BY", flexible: true },
      { title: "REMARKS", flexible: true },
    ],
    rows: trail.map((entry): (string | Cell)[] => [
      entry.kind === "line" ? String(entry.line.seq) : "",
      relative(entry.at, now),
      ...describe(entry).map((text) =>
        entry.kind === "line" ? text : { text, paint: colors.dim },
      ),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

/** What happened, who did it, and remarks. */
function describe(entry: HistoryEntry): [what: string, by: string, remarks: string] {
  switch (entry.kind) {
    case "line": {
      const { action, move, oldStatus, newStatus, actor, reason, lockWaitMs } = entry.line;
      const from = oldStatus === null || oldStatus === newStatus ? "" : `${oldStatus} → `;
      const waited =
        lockWaitMs === null || lockWaitMs < WAIT_SHOWN_MS
          ? []
          : [`waited ${formatMs(Math.round(lockWaitMs))} for the lock`];
      const remarks = [...(reason === null ? [] : [reason]), ...waited].join("; ");
      return [`${move ?? action}: ${from}${newStatus}`, actor, remarks];
    }
    case "enqueued":
      return [`${entry.task} enqueued`, "", `job ${entry.job}`];
    case "attempt": {
      const { attempt, outcome, worker } = entry.attempt;
      return [`attempt ${attempt}: ${outcome}`, worker, `job ${entry.job}`];
    }
    case "ended":
      return [`ended: ${entry.status}`, "", `job ${entry.job}`];
    case "action": {
      const { action, actor, reason } = entry.action;
      const why = reason === null ? "" : `; ${reason}`;
      return [action, actor, `job ${entry.job}${why}`];
    }
  }
}

function moreOf(trail: readonly HistoryEntry[], limit: number, { colors }: Terminal): string[] {
  const lines = trail.flatMap((entry) => (entry.kind === "line" ? [entry.line.seq] : []));
  if (lines.length < limit) return [];
  return ["", colors.dim(`Newer: --after ${lines.at(-1)}`)];
}

async function itemId({ store }: App, typed: string): Promise<string> {
  if (isId(typed)) return typed;
  return wholeId(typed, {
    what: "item",
    find: async (prefix, limit) => {
      const found = await store.items.list({ prefix, limit });
      return found.map(({ id, status, workflow, identifier }) => ({
        id,
        about: `${status} ${workflow}${identifier === id ? "" : ` ${identifier}`}`,
      }));
    },
    notFound: (id) => new ItemNotFoundError({ id }),
  });
}

/** Explains an empty result whose filter contains an unknown name. */
async function unknownNames(
  { store }: App,
  { workflow: name, status }: Pick<ListOptions, "workflow" | "status">,
): Promise<string> {
  if (name === undefined) return "";
  const workflow = await store.items.findWorkflow(name);
  if (workflow === null) {
    const names = await store.items.workflowNames({ limit: WORKFLOWS_LISTED_MAX });
    return ` Unknown workflow '${name}'.${knownNames(name, names)}`;
  }
  const states = workflow.states.map((state) => state.name);
  if (status === undefined || states.includes(status)) return "";
  return ` Workflow '${name}' has no state '${status}'.${knownNames(status, states)}`;
}
