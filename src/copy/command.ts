/** `holdfast copy`: copies everything to another database, of the same or another kind. */
import { Command } from "commander";
import { makeIds } from "../core/id.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Engine } from "../database/engine.ts";
import { openEngine } from "../database/open.ts";
import { actorName, reasonOption, type ReasonOptions } from "../terminal/arguments.ts";
import { abortOnSignal } from "../terminal/failure.ts";
import { count, counted } from "../terminal/table.ts";
import { type CommandKit, progressLine, type Terminal } from "../terminal/terminal.ts";
import { type Copied, copyDatabase, type CopyProgress } from "./copy.ts";

const LEFT = "The target is incomplete. Run the same command again to continue.";

export function copyCommand({ terminal }: CommandKit<unknown>): Command {
  return new Command("copy")
    .description("copy everything to another, empty database")
    .argument("<from-url>", "the database to copy; no process may use it during the copy")
    .argument(
      "<to-url>",
      "an empty database, or the target of the same copy, if it was interrupted",
    )
    .addOption(reasonOption())
    .addHelpText(
      "after",
      `
First stop every worker and every program that uses the source. To resume an
interrupted copy, run the same command again. Until the copy is complete, no
process can open the target.`,
    )
    .action((from: string, to: string, options: ReasonOptions) =>
      copy(terminal, { from, to, ...options }),
    );
}

async function copy(
  terminal: Terminal,
  { from, to, reason }: ReasonOptions & { from: string; to: string },
): Promise<void> {
  using ending = abortOnSignal(LEFT);
  const progress = progressLine(terminal);
  const source = await openEngine(from, { create: false });
  let target: Engine | null = null;
  try {
    target = await openEngine(to);
    const copied = await copyDatabase({
      from: source,
      to: target,
      operator: { id: makeIds(systemRuntime)(), actor: actorName(), reason: reason ?? null },
      signal: ending.signal,
      onProgress: (seen) => progress.show(soFar(seen)),
    });
    progress.clear();
    if (terminal.json) terminal.printJson(copied);
    else terminal.print(...verdict(copied, terminal));
  } finally {
    await target?.close();
    await source.close();
  }
}

function soFar({ phase, table, rows, rowsAll }: CopyProgress): string {
  const what = phase === "copy" ? "copied" : "verified";
  return `  ${count(rows)} of ${counted(rowsAll, "row")} ${what} (${table}) …`;
}

function verdict({ source, target, run, rows, tables }: Copied, { colors }: Terminal): string[] {
  const filled = tables.filter((table) => table.rows > 0);
  const what = {
    new: `Copied ${source} to ${target}`,
    resumed: `Finished the interrupted copy of ${source} to ${target}`,
    before: `Nothing to do: ${target} is already a complete copy of ${source}`,
  }[run];
  return [
    `${what}: ${counted(rows, "row")} in ${counted(filled.length, "table")}.`,
    ...filled.map(({ table, rows: of }) => colors.dim(`  ${table}: ${count(of)}`)),
    ...(run === "before"
      ? []
      : [colors.bold(colors.green("Verified: every table is identical in both databases."))]),
  ];
}
