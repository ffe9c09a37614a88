/** `holdfast audit`: lists what operators did, and verifies that the audit log and the histories of items are unchanged. */
import { Command, InvalidArgumentError } from "commander";
import { HoldfastError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import {
  actorName,
  duration,
  reasonOption,
  type ReasonOptions,
  wholeNumber,
} from "../terminal/arguments.ts";
import { abortOnSignal } from "../terminal/failure.ts";
import { type Cell, count, counted, printable, relative, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  progressLine,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { Audit } from "./audit.ts";
import type { AuditEntry } from "./entry.ts";
import type { Pruned, Verification, VerifyProgress, Witness } from "./verify.ts";

type Kit = CommandKit<{ readonly audit: Audit }>;

interface ListOptions extends DatabaseOptions {
  readonly subject?: string;
  readonly actor?: string;
  readonly after?: number;
  readonly before?: number;
  readonly limit: number;
}

interface VerifyOptions extends DatabaseOptions {
  readonly witness?: Witness;
}

interface PruneOptions extends DatabaseOptions, ReasonOptions {
  readonly keep: string;
}

/** Fits a screen. */
const LIMIT_DEFAULT = 20;

/** From this width on, the table also shows the change and the reason. */
const WIDE = 120;

const BREAKS_SHOWN = 20;

class AuditBrokenError extends HoldfastError {
  constructor({ breaksFound }: { breaksFound: number }) {
    super(
      "AUDIT_BROKEN",
      `The audit log was tampered with: ${counted(breaksFound, "violation")}, listed above.`,
    );
  }
}

export function auditCommand(kit: Kit): Command {
  const command = new Command("audit").description(
    "list operator actions, and verify that the audit log is unchanged",
  );
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(verifyCommand(kit));
  command.addCommand(pruneCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list operator actions, newest last")
    .addOption(urlOption())
    .option(
      "--subject <subject>",
      "only lines about this: 'job <id>', 'worker <id>', 'lock <key>', …",
    )
    .option("--actor <name>", "only lines of this actor")
    .option("--before <number>", "only lines before this one (previous page)", wholeNumber)
    .option("--after <number>", "only lines after this one (next page)", wholeNumber)
    .option("--limit <n>", "maximum number of lines", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function verifyCommand(kit: Kit): Command {
  return new Command("verify")
    .description(
      "verify the audit lines of operators and items; exit code 1 if one was tampered with",
    )
    .addOption(urlOption())
    .option("--witness <number:hash>", "the witness that an earlier run printed", witness)
    .addHelpText(
      "after",
      `
An administrator of the database can rewrite the whole hash chain. To detect
that, store the printed witness outside the database and pass it to the next run
with --witness.`,
    )
    .action((options: VerifyOptions) => verify(kit, options));
}

function pruneCommand(kit: Kit): Command {
  return new Command("prune")
    .description("delete old audit lines of operators; the audit log records this")
    .addOption(urlOption())
    .requiredOption("--keep <duration>", "keep lines younger than this, such as 400d", duration)
    .addOption(reasonOption())
    .action((options: PruneOptions) => prune(kit, options));
}

function witness(text: string): Witness {
  const [, seq, hash] = /^(\d+):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq !== undefined && hash !== undefined) return { seq: Number(seq), hash };
  throw new InvalidArgumentError("Write <number>:<hash>, as 'holdfast audit verify' prints it.");
}

async function list({ terminal, open }: Kit, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
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

/** "failed → pending", or "1 → 2" for the limit of a worker type. */
function changeOf({ action, oldStatus, newStatus, detail }: AuditEntry): string {
  if (action === "worker.limit" && detail !== null) {
    const { from, to } = JSON.parse(detail) as { from: number | null; to: number | null };
    return `${from ?? "none"} → ${to ?? "none"}`;
  }
  return [oldStatus, newStatus].filter((status) => status !== null).join(" → ");
}

function footerOf(
  lines: readonly AuditEntry[],
  { after, limit }: Pick<ListOptions, "after" | "limit">,
): string[] {
  const shown = counted(lines.length, "line");
  if (lines.length < limit) return [shown];
  return after === undefined
    ? [shown, `Older: --before ${lines[0]?.seq}`]
    : [shown, `Newer: --after ${lines.at(-1)?.seq}`];
}

async function verify({ terminal, open }: Kit, { url, ...options }: VerifyOptions): Promise<void> {
  using ending = abortOnSignal();
  await using holdfast = await open(url);
  const progress = progressLine(terminal);
  const verified = await holdfast.audit.verify({
    ...options,
    signal: AbortSignal.any([ending.signal, terminal.gone]),
    onProgress: (seen) => progress.show(seenSoFar(seen)),
  });
  progress.clear();
  if (terminal.json) terminal.printJson(verified);
  else terminal.print(...verdict(verified, terminal, options));
  if (!verified.held) throw new AuditBrokenError(verified);
}

function seenSoFar({ items, lines, actions }: VerifyProgress): string {
  return `  ${counted(actions, "operator action")}, ${counted(lines, "line")} of ${counted(items, "item")} …`;
}

function verdict(
  verified: Verification,
  { colors }: Terminal,
  options: { readonly witness?: Witness },
): string[] {
  const { bold, green, red, dim } = colors;
  const { breaks, breaksFound, pruned, head } = verified;
  const shown = breaks.slice(0, BREAKS_SHOWN).map(({ kind, item, seq, problem }) => {
    const chain = item === null ? "operators" : `item ${item}`;
    return red(printable(`${kind}  ${chain}, line ${seq}: ${problem}`));
  });
  const more = breaksFound - shown.length;
  return [
    ...shown,
    ...(more > 0 ? [dim(`… and ${count(more)} more; --json prints the first thousand.`)] : []),
    seenSoFar(verified).trim().replace(" …", ""),
    ...(pruned === null ? [] : [prunedLine(pruned, options)]),
    ...(verified.held ? [bold(green("No line was removed, added or changed."))] : []),
    dim(`For the next run: --witness ${head.seq}:${head.hash}`),
  ];
}

/** Pruned lines cannot be verified: the reader must judge whether the pruning was intended. */
function prunedLine(
  { upTo, at, actor }: Pruned,
  { witness: seen }: { readonly witness?: Witness },
): string {
  const gone = upTo === 1 ? "Line 1 was" : `Lines 1 to ${count(upTo)} were`;
  const pruned = `${gone} pruned by ${printable(actor)} at ${new Date(at).toISOString()}.`;
  if (seen === undefined || seen.seq >= upTo) return pruned;
  return `${pruned} The witness is among them, so it could not be compared.`;
}

async function prune(
  { terminal, open }: Kit,
  { url, keep, ...reason }: PruneOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const gone = await holdfast.audit.prune({ keep, actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson({ pruned: gone });
  else terminal.print(gone === 0 ? "No line is that old." : `Deleted ${counted(gone, "line")}.`);
}
