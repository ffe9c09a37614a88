/** `holdfast audit`: what operators did, and whether anybody changed the record of it, or that of items, since. */
import { Command, InvalidArgumentError } from "commander";
import type { AuditBreak, AuditEntry } from "../core/audit.ts";
import { HoldfastError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Pruned, Verification, VerifyProgress, Witness } from "../queue/audit-walk.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { duration, wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { Interrupted } from "./failure.ts";
import { exitCodeAfter, listenForSignals } from "./signals.ts";
import { printable, table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { count, counted, relative } from "./words.ts";

interface ListOptions extends DatabaseOptions {
  readonly subject?: string;
  readonly actor?: string;
  readonly after?: number;
  readonly before?: number;
  readonly limit: number;
}

type Filter = Omit<ListOptions, "url">;

interface VerifyOptions extends DatabaseOptions {
  readonly witness?: Witness;
}

interface PruneOptions extends DatabaseOptions, ReasonOptions {
  readonly keep: string;
}

/** Fits a screen. */
const LIMIT_DEFAULT = 20;
/** Where there is room for it, a table also says what changed, and why. */
const WIDE = 120;
const BREAKS_SHOWN = 20;
const LINE_EVERY_MS = 5_000;
const BACK_AND_CLEAR = "\r\u001B[K";

class AuditBroken extends HoldfastError {
  constructor({ breaksFound }: { breaksFound: number }) {
    const what = breaksFound === 1 ? "In one place" : `In ${count(breaksFound)} places`;
    super("AUDIT_BROKEN", `${what} the audit is not what was written: see above.`);
  }
}

export function auditCommand(terminal: Terminal): Command {
  const command = new Command("audit").description(
    "list what operators did, and check that nobody changed the record",
  );
  command.addCommand(listCommand(terminal), { isDefault: true });
  command.addCommand(verifyCommand(terminal));
  command.addCommand(pruneCommand(terminal));
  return command;
}

function listCommand(terminal: Terminal): Command {
  return new Command("list")
    .description("list what operators did, the last of it last")
    .addOption(urlOption())
    .option("--subject <subject>", "only about this: 'job <id>', 'worker <id>', 'lock <key>', …")
    .option("--actor <name>", "only what they did")
    .option("--before <number>", "only lines before this one: the page before", wholeNumber)
    .option("--after <number>", "from the line behind this one on", wholeNumber)
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(terminal, options));
}

function verifyCommand(terminal: Terminal): Command {
  return new Command("verify")
    .description(
      "go through every line, of operators and of items; exit code 1 if one was tampered with",
    )
    .addOption(urlOption())
    .option("--witness <number:hash>", "the end of the chain that an earlier run told", witness)
    .addHelpText(
      "after",
      `
Whoever may do everything in the database can also write the whole chain anew. Keep the number and
the hash that it prints elsewhere, and give them the next time with --witness.`,
    )
    .action((options: VerifyOptions) => verify(terminal, options));
}

function pruneCommand(terminal: Terminal): Command {
  return new Command("prune")
    .description("delete the oldest lines of operators; the audit records it")
    .addOption(urlOption())
    .requiredOption("--keep <duration>", "lines younger than this stay, such as 400d", duration)
    .addOption(reasonOption())
    .action((options: PruneOptions) => prune(terminal, options));
}

function witness(text: string): Witness {
  const [, seq, hash] = /^(\d+):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq !== undefined && hash !== undefined) return { seq: Number(seq), hash };
  throw new InvalidArgumentError(
    "Write a number, a colon and a hash, as 'audit verify' prints it.",
  );
}

async function list(terminal: Terminal, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const lines = await holdfast.audit.list(filter);
  if (terminal.json) terminal.printJson({ lines });
  else if (lines.length === 0) terminal.print("No lines.");
  else {
    const footer = footerOf(lines, filter).map(terminal.colors.dim);
    terminal.print(...lineTable(lines, terminal), "", ...footer);
  }
}

function lineTable(lines: readonly AuditEntry[], { columns, colors }: Terminal): string[] {
  const now = systemRuntime.now();
  const wide = columns === null || columns >= WIDE;
  return table({
    columns: [
      { title: "LINE", align: "right" },
      { title: "WHEN", align: "right" },
      { title: "ACTOR", flexible: true },
      { title: "ACTION" },
      { title: "SUBJECT", flexible: true },
      ...(wide ? [{ title: "CHANGE" }, { title: "REASON", flexible: true }] : []),
    ],
    rows: lines.map((line): (string | Cell)[] => [
      String(line.seq),
      relative(line.at, now),
      line.actor,
      line.action,
      line.subject,
      ...(wide ? [changeOf(line), line.reason ?? ""] : []),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

/** "failed → pending", or "1 → 2" of the limit of a type. */
function changeOf({ action, oldStatus, newStatus, detail }: AuditEntry): string {
  if (action === "worker.limit" && detail !== null) {
    const { from, to } = JSON.parse(detail) as { from: number | null; to: number | null };
    return `${from ?? "none"} → ${to ?? "none"}`;
  }
  return [oldStatus, newStatus].filter((status) => status !== null).join(" → ");
}

function footerOf(lines: readonly AuditEntry[], { after, limit }: Filter): string[] {
  const told = counted(lines.length, "line");
  if (lines.length < limit) return [told];
  return after === undefined
    ? [told, `Older ones: --before ${lines[0]?.seq}`]
    : [told, `Newer ones: --after ${lines.at(-1)?.seq}`];
}

async function verify(terminal: Terminal, { url, ...options }: VerifyOptions): Promise<void> {
  const ending = new AbortController();
  using signals = listenForSignals();
  void signals.first.then((signal) =>
    ending.abort(new Interrupted({ signal, exitCode: exitCodeAfter(signal) })),
  );
  await using holdfast = await openForLooking(url);
  const verified = await holdfast.audit.verify({
    ...options,
    signal: AbortSignal.any([ending.signal, terminal.gone]),
    onProgress: progressOn(terminal),
  });
  if (terminal.live) terminal.write(BACK_AND_CLEAR);
  if (terminal.json) terminal.printJson(verified);
  else terminal.print(...verdict(verified, terminal, options));
  if (!verified.held) throw new AuditBroken(verified);
}

/** A line that moves on a terminal, a line now and then elsewhere. */
function progressOn(terminal: Terminal): (progress: VerifyProgress) => void {
  let nextAt = systemRuntime.monotonic() + LINE_EVERY_MS;
  return (progress) => {
    if (terminal.json) return;
    if (terminal.live) return terminal.write(BACK_AND_CLEAR + seenSoFar(progress));
    if (systemRuntime.monotonic() < nextAt) return;
    nextAt = systemRuntime.monotonic() + LINE_EVERY_MS;
    terminal.print(seenSoFar(progress));
  };
}

function seenSoFar({ items, lines, actions }: VerifyProgress): string {
  return `  ${counted(actions, "action")} of operators, ${counted(lines, "line")} of ${counted(items, "item")} …`;
}

function verdict(
  verified: Verification,
  { colors }: Terminal,
  options: { readonly witness?: Witness },
): string[] {
  const { bold, green, red, dim } = colors;
  const { breaks, breaksFound, withoutHash, pruned, head } = verified;
  const shown = breaks.slice(0, BREAKS_SHOWN).map((one) => red(printable(breakLine(one))));
  const more = breaksFound - shown.length;
  return [
    ...shown,
    ...(more > 0 ? [dim(`… and ${count(more)} more; --json has the first thousand.`)] : []),
    seenSoFar(verified).trim().replace(" …", ""),
    ...(withoutHash === 0
      ? []
      : [
          `${counted(withoutHash, "line")} from before there were hashes: only their numbers count.`,
        ]),
    ...(pruned === null ? [] : [prunedLine(pruned, options)]),
    ...(verified.held ? [bold(green("Nothing was removed, added or changed."))] : []),
    dim(`For the next run: --witness ${head.seq}:${head.hash}`),
  ];
}

/** What is gone cannot be compared: the reader judges whether this pruning was wanted. */
function prunedLine(
  { upTo, at, actor }: Pruned,
  { witness: seen }: { readonly witness?: Witness },
): string {
  const lines = upTo === 1 ? "Line 1 was" : `Lines 1 to ${count(upTo)} were`;
  const pruned = `${lines} pruned by ${printable(actor)} at ${new Date(at).toISOString()}.`;
  if (seen === undefined || seen.seq >= upTo) return pruned;
  return `${pruned} The witness is among them and could not be compared.`;
}

function breakLine({ kind, item, seq, problem }: AuditBreak): string {
  return `${kind}  ${item === null ? "operators" : `item ${item}`}, line ${seq}: ${problem}`;
}

async function prune(terminal: Terminal, { url, keep, ...reason }: PruneOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const gone = await holdfast.audit.prune({ keep, actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson({ pruned: gone });
  else terminal.print(gone === 0 ? "No line is so old." : `Let go of ${counted(gone, "line")}.`);
}
