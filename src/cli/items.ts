/** `holdfast items`: items of workflows, as the database has them; nothing of a workflow's code is needed. */
import { Command } from "commander";
import { checkWhole } from "../core/check.ts";
import type { ChildrenIn } from "../core/item.ts";
import { shortIds } from "../core/id-prefix.ts";
import { formatMs } from "../core/duration.ts";
import { decode } from "../core/json.ts";
import { systemRuntime } from "../core/runtime.ts";
import { ItemNotFound } from "../core/workflow-errors.ts";
import type { TrailEntry } from "../queue/item-trail.ts";
import type { ItemJob, StoredItem } from "../store/workflows.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { wholeNumber } from "./arguments.ts";
import { BadUsage } from "./failure.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { itemId } from "./id.ts";
import { unknownItemNames } from "./known-names.ts";
import { printable, table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { counted, moment, relative } from "./words.ts";

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
/** A shorter wait for a lock is not worth a word. */
const WAIT_SHOWN_MS = 1;

export function itemsCommand(terminal: Terminal): Command {
  const command = new Command("items").description(
    "list items of workflows, and show their history",
  );
  command.addCommand(listCommand(terminal), { isDefault: true });
  command.addCommand(showCommand(terminal));
  command.addCommand(historyCommand(terminal));
  return command;
}

function listCommand(terminal: Terminal): Command {
  return new Command("list")
    .description("list items, newest first")
    .addOption(urlOption())
    .option("--workflow <name>", "only items of this workflow")
    .option("--status <status>", "only items that are this")
    .option("--tenant <name>", "only items of this tenant")
    .option("--identifier <text>", "only items that the application calls so")
    .option("--parent <id>", "only items that belong to this one")
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .option("--before <id>", "only items older than this one: the next page")
    .action((options: ListOptions) => list(terminal, options));
}

function showCommand(terminal: Terminal): Command {
  return new Command("show")
    .description("show everything about one item")
    .argument("<id>", "the item's id, or how it begins")
    .addOption(urlOption())
    .action((id: string, options: DatabaseOptions) => show(terminal, id, options));
}

function historyCommand(terminal: Terminal): Command {
  return new Command("history")
    .description("show what was done to an item, and the jobs that have to do with it")
    .argument("<id>", "the item's id, or how it begins")
    .addOption(urlOption())
    .option("--after <number>", "from the line behind this one on", wholeNumber, 0)
    .option("--limit <n>", "how many lines of the item at most", wholeNumber, HISTORY_DEFAULT)
    .action((id: string, options: HistoryOptions) => history(terminal, id, options));
}

async function list(terminal: Terminal, { url, ...asked }: ListOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const filter = await withWholeIds(holdfast, asked);
  checkWhole("--limit", filter.limit, { least: 1, most: LIMIT_MAX });
  if (filter.workflow === undefined && (filter.status ?? filter.tenant) !== undefined) {
    throw new BadUsage("--status and --tenant go with a workflow: say --workflow <name>.");
  }
  const items = await holdfast.store.listItems(filter);
  if (terminal.json) terminal.printJson({ items: items.map(withoutData) });
  else if (items.length === 0) {
    terminal.print(printable(`No items.${await unknownItemNames(holdfast, filter)}`));
  } else {
    const ids = items.map(({ id }) => id);
    const isPiped = terminal.columns === null;
    const short = shortIds(ids, isPiped ? [] : await holdfast.store.neighbours("item", ids));
    const idOf = (id: string): string => (isPiped ? id : (short.get(id) ?? id));
    const lines = itemTable(items, idOf, terminal);
    terminal.print(...lines, "", ...footer(items, filter, terminal));
  }
}

async function withWholeIds<Filter extends Pick<ListOptions, "parent" | "before">>(
  holdfast: Holdfast,
  filter: Filter,
): Promise<Filter> {
  const { parent, before } = filter;
  return {
    ...filter,
    ...(parent === undefined ? {} : { parent: await itemId(holdfast, parent) }),
    ...(before === undefined ? {} : { before: await itemId(holdfast, before) }),
  };
}

/** What items carry is shown only to whoever asks for one of them. */
function withoutData({ data: _data, ...item }: StoredItem): Omit<StoredItem, "data"> {
  return item;
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
  const older = items.length === limit ? [`Older ones: --before ${items.at(-1)?.id}`] : [];
  return [counted(items.length, "item"), ...older].map(colors.dim);
}

async function show(terminal: Terminal, typed: string, { url }: DatabaseOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const id = await itemId(holdfast, typed);
  const item = await mustFind(holdfast, id);
  const children = await holdfast.store.progressOf(id);
  const jobs = await holdfast.store.itemJobs(id);
  const data = decode(item.data);
  if (terminal.json) terminal.printJson({ item: { ...item, data }, children, jobs });
  else terminal.print(...portrait(terminal, { item, data, children, jobs }));
}

async function mustFind({ store }: Holdfast, id: string): Promise<StoredItem> {
  const item = await store.findItem(id);
  if (item === null) throw new ItemNotFound({ id });
  return item;
}

interface Portrait {
  readonly item: StoredItem;
  readonly data: unknown;
  readonly children: readonly ChildrenIn[];
  /** Those that its state enqueued and waits for. */
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
    lines: `${item.auditSeq}: holdfast items history ${item.id}`,
    children: children.length === 0 ? null : children.map(childrenIn).join(", "),
    jobs: jobs.length === 0 ? null : jobs.map(jobIn).join(", "),
  };
  return [
    `${colors.bold(printable(item.workflow))} ${item.id}`,
    ...Object.entries(lines).flatMap(([name, text]) =>
      text === null ? [] : [`  ${colors.dim(name.padEnd(10))}  ${printable(text)}`],
    ),
    "",
    colors.bold("data"),
    ...printable(JSON.stringify(data, null, 2), { lines: true })
      .split("\n")
      .map((line) => `  ${line}`),
  ];
}

function childrenIn({ workflow, status, children }: ChildrenIn): string {
  return `${children} ${workflow} ${status}`;
}

function jobIn({ job, status }: ItemJob): string {
  return `${job} ${status ?? "not ended"}`;
}

async function history(
  terminal: Terminal,
  typed: string,
  { url, after, limit }: HistoryOptions,
): Promise<void> {
  await using holdfast = await openForLooking(url);
  const id = await itemId(holdfast, typed);
  const trail = await holdfast.audit.trail({ item: id, after, limit });
  if (trail.length === 0) await mustFind(holdfast, id);
  if (terminal.json) terminal.printJson({ trail });
  else terminal.print(...trailTable(trail, terminal), ...moreOf(trail, limit, terminal));
}

function trailTable(trail: readonly TrailEntry[], { columns, colors }: Terminal): string[] {
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
      ...told(entry).map((text) => (entry.kind === "line" ? text : { text, paint: colors.dim })),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

/** What happened, by whom, and what else there is to say. */
function told(entry: TrailEntry): [what: string, by: string, remarks: string] {
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

function moreOf(trail: readonly TrailEntry[], limit: number, { colors }: Terminal): string[] {
  const lines = trail.flatMap((entry) => (entry.kind === "line" ? [entry.line.seq] : []));
  if (lines.length < limit) return [];
  return ["", colors.dim(`What came after: --after ${lines.at(-1)}`)];
}
