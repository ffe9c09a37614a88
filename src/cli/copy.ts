/** `holdfast copy`: everything from one database to another, of whatever kind they are. */
import { Command } from "commander";
import { makeIds } from "../core/id.ts";
import { systemRuntime } from "../core/runtime.ts";
import { copyDatabase, type Copied, type CopyProgress } from "../ops/copy.ts";
import type { Engine } from "../store/engine.ts";
import { openEngine } from "../store/open.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { Interrupted } from "./failure.ts";
import { exitCodeAfter, listenForSignals } from "./signals.ts";
import type { Terminal } from "./terminal.ts";
import { count, counted } from "./words.ts";

const BACK_AND_CLEAR = "\r\u001B[K";
const LINE_EVERY_MS = 5_000;
const LEFT = "The target is incomplete; run the same command again to go on.";

export function copyCommand(terminal: Terminal): Command {
  return new Command("copy")
    .description("copy all jobs, items and records into another, empty database")
    .argument("<from-url>", "the database to copy, which no process may use meanwhile")
    .argument("<to-url>", "an empty database, or the target of the same copy that was interrupted")
    .addOption(reasonOption())
    .addHelpText(
      "after",
      `
Stop every worker and every program that uses the source first. A copy that was interrupted goes on
when the same command runs again. Until it is complete, no process can open the target.

  holdfast copy sqlite:holdfast.db postgres://shop@db.internal/shop`,
    )
    .action((from: string, to: string, options: ReasonOptions) =>
      copy(terminal, { from, to, ...options }),
    );
}

async function copy(
  terminal: Terminal,
  { from, to, reason }: ReasonOptions & { from: string; to: string },
): Promise<void> {
  const ending = new AbortController();
  using signals = listenForSignals();
  void signals.first.then((signal) =>
    ending.abort(new Interrupted({ signal, exitCode: exitCodeAfter(signal), left: LEFT })),
  );
  const source = await openEngine(from, { create: false });
  let target: Engine | null = null;
  try {
    target = await openEngine(to);
    const copied = await copyDatabase({
      from: source,
      to: target,
      signature: {
        id: makeIds(systemRuntime)(),
        actor: actorName(),
        ...(reason === undefined ? {} : { reason }),
      },
      signal: ending.signal,
      onProgress: progressOn(terminal),
    });
    if (terminal.live) terminal.write(BACK_AND_CLEAR);
    if (terminal.json) terminal.printJson(copied);
    else terminal.print(...verdict(copied, terminal));
  } finally {
    await target?.close();
    await source.close();
  }
}

/** A line that moves on a terminal, a line now and then elsewhere. */
function progressOn(terminal: Terminal): (progress: CopyProgress) => void {
  let nextAt = systemRuntime.monotonic() + LINE_EVERY_MS;
  return (progress) => {
    if (terminal.json) return;
    if (terminal.live) return terminal.write(BACK_AND_CLEAR + soFar(progress));
    if (systemRuntime.monotonic() < nextAt) return;
    nextAt = systemRuntime.monotonic() + LINE_EVERY_MS;
    terminal.print(soFar(progress));
  };
}

function soFar({ phase, table, rows, rowsAll }: CopyProgress): string {
  const what = phase === "copy" ? "copied" : "checked";
  return `  ${count(rows)} of ${counted(rowsAll, "row")} ${what} (${table}) …`;
}

function verdict({ source, target, run, rows, tables }: Copied, { colors }: Terminal): string[] {
  const filled = tables.filter((table) => table.rows > 0);
  const what = {
    new: `Copied ${source} to ${target}`,
    resumed: `Finished the interrupted copy of ${source} to ${target}`,
    before: `${target} was filled from ${source} before, and nothing was done now`,
  }[run];
  return [
    `${what}: ${counted(rows, "row")} in ${counted(filled.length, "table")}.`,
    ...filled.map(({ table, rows: of }) => colors.dim(`  ${table}: ${count(of)}`)),
    ...(run === "before"
      ? []
      : [colors.bold(colors.green("Every table was read again on both sides and is the same."))]),
  ];
}
