/** `holdfast leases`: which worker leases which job, until when, and its last heartbeat. */
import { Command } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Leases } from "../jobs/leases.ts";
import { wholeNumber } from "../terminal/arguments.ts";
import { counted, relative, span } from "../terminal/format.ts";
import { type CommandKit, type DatabaseOptions, urlOption } from "../terminal/kit.ts";
import { type Cell, table } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { isGone } from "./process-identity.ts";
import type { Workers } from "./workers.ts";

type Kit = CommandKit<{
  readonly jobs: Jobs;
  readonly leases: Leases;
  readonly workers: Workers;
}>;

interface Options extends DatabaseOptions {
  readonly expired?: true;
  readonly worker?: string;
  readonly limit: number;
}

/** Fits a screen. */
const LIMIT_DEFAULT = 20;

const WORKERS_SEEN_MAX = 1_000;

export function leasesCommand(kit: Kit): Command {
  return new Command("leases")
    .description("list leased jobs with their workers and heartbeats")
    .addOption(urlOption())
    .option("--expired", "only leases that have expired and whose jobs are not yet reclaimed")
    .option("--worker <id>", "only leases of this worker")
    .option("--limit <n>", "maximum number of leases", wholeNumber, LIMIT_DEFAULT)
    .action((options: Options) => list(kit, options));
}

async function list({ terminal, open }: Kit, options: Options): Promise<void> {
  await using holdfast = await open(options.url);
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
  found: Awaited<ReturnType<Leases["active"]>>,
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
      { title: "EXPIRES", align: "right" },
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
