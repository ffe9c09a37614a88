/** `holdfast audit`, and its verification, which shows how far it is. */
import { Command, InvalidArgumentError } from "commander";
import { HoldfastError } from "../core/errors.ts";
import { abortOnSignal } from "../terminal/failure.ts";
import { count, counted, printable } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  progressLine,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { Audit } from "./audit.ts";
import { auditOperations } from "./operations.ts";
import type { Pruned, Verification, VerifyProgress, Witness } from "./verify.ts";

type Kit = CommandKit<{ readonly audit: Audit }>;

interface VerifyOptions extends DatabaseOptions {
  readonly witness?: Witness;
}

const BREAKS_SHOWN = 20;

class AuditBrokenError extends HoldfastError {
  constructor({ breaksFound }: { breaksFound: number }) {
    super(
      "AUDIT_BROKEN",
      `The audit log was tampered with: ${counted(breaksFound, "violation")}, listed above.`,
    );
  }
}

const { list, prune } = auditOperations;

export const auditCommands = {
  name: "audit",
  about: "list operator actions, and verify that the audit log is unchanged",
  parts: [list, verifyCommand, prune],
};

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

function witness(text: string): Witness {
  const [, seq, hash] = /^(\d+):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq !== undefined && hash !== undefined) return { seq: Number(seq), hash };
  throw new InvalidArgumentError("Write <number>:<hash>, as 'holdfast audit verify' prints it.");
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
