/** `holdfast retry` and `holdfast cancel` by filter: in chunks, with progress, until all jobs are processed or Ctrl-C. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { toMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import { type Status, statuses } from "../core/job.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import { instant } from "../terminal/arguments.ts";
import { BadUsageError, InterruptedError, SomeFailed } from "../terminal/failure.ts";
import { count, counted } from "../terminal/format.ts";
import { printable } from "../terminal/table.ts";
import { type EndSignal, listenForSignals, type Terminal } from "../terminal/terminal.ts";
import type { BulkChunk, BulkFilter } from "./bulk.ts";

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

/** No database has this many jobs: beyond it, the loop must be a bug. */
const CHUNKS_MAX = 1_000_000;

const HEAR_MS = 1;

/** The reason is printed for at most this many jobs. */
const REFUSED_SHOWN = 10;

export function bulkOptions(command: Command, { when }: { readonly when: string }): Command {
  return command
    .addOption(new Option("--status <status>", "only jobs with this status").choices(statuses))
    .option("--queue <name>", "only jobs of this queue")
    .option("--task <name>", "only jobs of this task")
    .option(
      "--since <time>",
      `only jobs ${when} since this time: 1h (ago), or 2027-01-31T09:00:00Z`,
      ago,
    )
    .option("--until <time>", `only jobs ${when} before this time`, ago)
    .option("--error <text>", "only jobs whose last error contains this text")
    .option("--code <code>", "only jobs whose last error has this code or name")
    .option("--all", "all eligible jobs")
    .option("--dry-run", "count the jobs without changing them");
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
        "Write a duration (15m, 2h or 7d ago) or a time such as 2027-01-31T09:00:00Z.",
      );
    }
  }
}

/** Splits the options into the filter and the rest. A null filter: none was given. */
export function splitBulk<Options extends BulkCliOptions>(
  ids: readonly string[],
  { status, queue, task, since, until, error, code, all, dryRun, ...rest }: Options,
): { filter: BulkFilter | null; dryRun: boolean; rest: Omit<Options, keyof BulkCliOptions> } {
  const named = Object.entries({ status, queue, task, since, until, error, code, all });
  const filter = Object.fromEntries(named.filter(([, value]) => value !== undefined)) as BulkFilter;
  const isFilter = Object.keys(filter).length > 0;
  if (isFilter === ids.length > 0 || (dryRun === true && !isFilter)) {
    throw new BadUsageError(
      "Give either job ids or a filter such as --task, --since or --all, but not both.",
    );
  }
  return { filter: isFilter ? filter : null, dryRun: dryRun === true, rest };
}

interface BulkRun {
  /** `Retried`, `Cancelled`. */
  readonly done: string;
  readonly dryRun: boolean;
  /** A sentence about unknown names in the filter. */
  readonly unknownNames: () => Promise<string>;
  readonly next: (chunk: { dryRun: boolean; cursor?: string }) => Promise<BulkChunk>;
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
    const cursor = totals.next === null ? {} : { cursor: totals.next };
    const chunk = await run.next({ dryRun: run.dryRun, ...cursor });
    add(totals, chunk);
    terminal.progress(`${count(totals.looked)} checked. ${sentence(run, totals)}`);
    // SQLite never yields to the event loop: without a pause, no signal would be received.
    await sleep(systemRuntime, HEAR_MS);
    if (chunk.next === null || heard.signal !== null) break;
  }
  terminal.progress("");
  await tell(terminal, run, totals);
  if (heard.signal !== null && totals.next !== null) {
    const left = `${sentence(run, totals)} The remaining jobs are unchanged. Run the command again to continue.`;
    throw new InterruptedError(heard.signal, left);
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
    others === 0 ? "" : ` ${counted(others, "job")} could not be, or changed in the meantime.`;
  return `${done} ${counted(changed, "job")}.${rest}`;
}
