/** `holdfast retry` and `holdfast cancel` by filter: chunk by chunk, with progress, until all were looked at or Ctrl-C. */
import { InvalidArgumentError, Option, type Command } from "commander";
import { toMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import { statuses, type Status } from "../core/job.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import type { BulkChunk, BulkFilter } from "../queue/bulk.ts";
import { instant } from "./arguments.ts";
import { BadUsage, Interrupted, SomeFailed } from "./failure.ts";
import { exitCodeAfter, listenForSignals, type EndSignal } from "./signals.ts";
import { printable } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { count, counted } from "./words.ts";

export interface BulkCliOptions {
  readonly status?: Status;
  readonly queue?: string;
  readonly task?: string;
  readonly since?: Date;
  readonly until?: Date;
  readonly error?: string;
  readonly code?: string;
  readonly all?: true;
  readonly dryRun?: true;
}

/** No database has so many jobs: whatever goes on for longer goes round in circles. */
const CHUNKS_MAX = 1_000_000;
const HEAR_MS = 1;
/** So many that could not be changed are told with why. */
const REFUSED_SHOWN = 10;

export function bulkOptions(command: Command, { when }: { readonly when: string }): Command {
  return command
    .addOption(new Option("--status <status>", "only jobs that are this").choices(statuses))
    .option("--queue <name>", "only jobs of this queue")
    .option("--task <name>", "only jobs of this task")
    .option("--since <time>", `only jobs ${when} since then: 1h, or 2027-01-31T09:00:00Z`, ago)
    .option("--until <time>", `only jobs ${when} before then`, ago)
    .option("--error <text>", "only jobs whose last error contains this")
    .option("--code <code>", "only jobs whose last error has this code or name")
    .option("--all", "every job that it can be done to")
    .option("--dry-run", "count them, and change nothing");
}

/** `1h` ago, or an instant. */
function ago(text: string): Date {
  try {
    return new Date(systemRuntime.now() - toMs("duration", text));
  } catch {
    try {
      return instant(text);
    } catch {
      throw new InvalidArgumentError(
        "Write 15m, 2h or 7d ago, or a time such as 2027-01-31T09:00:00Z.",
      );
    }
  }
}

/** What is left of the options when those of the filter are taken out, and the filter; null: none was named. */
export function splitBulk<Options extends BulkCliOptions>(
  ids: readonly string[],
  { status, queue, task, since, until, error, code, all, dryRun, ...rest }: Options,
): { filter: BulkFilter | null; dryRun: boolean; rest: Omit<Options, keyof BulkCliOptions> } {
  const named = Object.entries({ status, queue, task, since, until, error, code, all });
  const filter = Object.fromEntries(named.filter(([, value]) => value !== undefined)) as BulkFilter;
  const isFilter = Object.keys(filter).length > 0;
  if (isFilter === ids.length > 0 || (dryRun === true && !isFilter)) {
    throw new BadUsage(
      "Name jobs by their ids, or a filter such as --task, --since or --all; not both.",
    );
  }
  return { filter: isFilter ? filter : null, dryRun: dryRun === true, rest };
}

export interface BulkRun {
  /** `Retried`, `Cancelled`. */
  readonly done: string;
  readonly dryRun: boolean;
  /** A sentence about names of the filter that are not known. */
  readonly unknownNames: () => Promise<string>;
  readonly next: (cursor: string | undefined) => Promise<BulkChunk>;
}

interface Totals {
  looked: number;
  matched: number;
  changed: number;
  refused: BulkChunk["refused"][number][];
  next: string | null;
}

export async function bulk(terminal: Terminal, run: BulkRun): Promise<void> {
  using signals = listenForSignals();
  const heard: { signal: EndSignal | null } = { signal: null };
  void signals.first.then((signal) => (heard.signal = signal));
  const totals: Totals = { looked: 0, matched: 0, changed: 0, refused: [], next: null };
  for (let chunks = 0; chunks < CHUNKS_MAX; chunks += 1) {
    const chunk = await run.next(totals.next ?? undefined);
    add(totals, chunk);
    terminal.progress(`${count(totals.looked)} looked at. ${sentence(run, totals)}`);
    // SQLite answers without giving way: a signal is heard only while nothing runs.
    await sleep(systemRuntime, HEAR_MS);
    if (chunk.next === null || heard.signal !== null) break;
  }
  terminal.progress("");
  await tell(terminal, run, totals);
  if (heard.signal !== null && totals.next !== null) {
    const left = `${sentence(run, totals)} Jobs that were not looked at yet are as they were: run it again to go on.`;
    throw new Interrupted({ signal: heard.signal, exitCode: exitCodeAfter(heard.signal), left });
  }
  const [first, ...more] = totals.refused
    .slice(0, REFUSED_SHOWN)
    .map(({ code, message }) => new HoldfastError(code, message));
  if (first !== undefined) throw new SomeFailed([first, ...more]);
}

function add(totals: Totals, chunk: BulkChunk): void {
  totals.looked += chunk.looked;
  totals.matched += chunk.matched;
  totals.changed += chunk.ids.length;
  totals.refused.push(...chunk.refused.slice(0, REFUSED_SHOWN));
  totals.next = chunk.next;
}

async function tell(terminal: Terminal, run: BulkRun, totals: Totals): Promise<void> {
  const { refused, ...counts } = totals;
  if (terminal.json) terminal.printJson({ ...counts, dryRun: run.dryRun, refused });
  else {
    const unknown = totals.matched === 0 ? await run.unknownNames() : "";
    terminal.print(printable(`${sentence(run, totals)}${unknown}`));
  }
}

function sentence({ done, dryRun }: BulkRun, { matched, changed }: Totals): string {
  if (dryRun) return `${counted(matched, "job")} would be ${done.toLowerCase()}.`;
  const others = matched - changed;
  const rest =
    others === 0 ? "" : ` ${counted(others, "job")} could not be, or had changed by then.`;
  return `${done} ${counted(changed, "job")}.${rest}`;
}
