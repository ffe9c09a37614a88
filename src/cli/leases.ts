/** `holdfast leases`: which worker holds which job, until when, and when it last sent a heartbeat. */
import { Command } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { isGone } from "../worker/process-trace.ts";
import { wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { counted, relative, span } from "./words.ts";

interface Options extends DatabaseOptions {
  readonly expired?: true;
  readonly worker?: string;
  readonly limit: number;
}

/** Fits a screen. */
const LIMIT_DEFAULT = 20;
const WORKERS_SEEN_MAX = 1_000;

type Leases = Awaited<ReturnType<Holdfast["leases"]["active"]>>;

export function leasesCommand(terminal: Terminal): Command {
  return new Command("leases")
    .description("list the jobs that workers hold, with their leases and heartbeats")
    .addOption(urlOption())
    .option("--expired", "only leases that have ended and were not taken back yet")
    .option("--worker <id>", "only leases of this worker")
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .action((options: Options) => list(terminal, options));
}

async function list(terminal: Terminal, options: Options): Promise<void> {
  await using holdfast = await openForLooking(options.url);
  const { worker, limit } = options;
  const filter = { limit, ...(worker === undefined ? {} : { worker }) };
  const found = await (options.expired === true
    ? holdfast.leases.expired(filter)
    : holdfast.leases.active(filter));
  if (terminal.json) {
    terminal.printJson({ leases: found });
    return;
  }
  if (found.length === 0) {
    terminal.print(options.expired === true ? "No expired leases." : "No active leases.");
    return;
  }
  const short = await holdfast.jobs.shortIds(found.map(({ id }) => id));
  const footer = terminal.colors.dim(counted(found.length, "lease"));
  const workers = await holdfast.workers.list({ limit: WORKERS_SEEN_MAX });
  const gone = new Set(workers.filter(isGone).map((each) => each.id));
  terminal.print(...leaseTable(found, { short, gone }, terminal), "", footer);
}

function leaseTable(
  found: Leases,
  { short, gone }: { short: ReadonlyMap<string, string>; gone: ReadonlySet<string> },
  { columns, colors }: Terminal,
): string[] {
  const now = systemRuntime.now();
  const ends = (lockedUntil: number): string | Cell =>
    lockedUntil > now
      ? `in ${span(lockedUntil - now)}`
      : { text: relative(lockedUntil, now), paint: colors.red };
  return table({
    columns: [
      { title: "JOB" },
      { title: "TASK", flexible: true },
      { title: "WORKER", flexible: true },
      { title: "ATTEMPT", align: "right" },
      { title: "CLAIMED", align: "right" },
      { title: "HEARTBEAT", align: "right" },
      { title: "ENDS", align: "right" },
    ],
    rows: found.map((lease) => [
      short.get(lease.id) ?? lease.id,
      lease.task,
      gone.has(lease.worker) ? `${lease.worker} (gone)` : lease.worker,
      String(lease.attempt),
      relative(lease.claimedAt, now),
      relative(lease.heartbeatAt, now),
      ends(lease.lockedUntil),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}
