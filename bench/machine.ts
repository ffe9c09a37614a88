/** What the figures were measured on, and whether it had anything else to do. */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { median, milliseconds } from "./figures.ts";

/** Above this, others use the machine, too. (The load average also counts who waits for a disk, somewhere.) */
const BUSY_QUIET_MAX = 0.1;
const LOOK_MS = 3_000;

const SYNCS = 40;
const PAGE_BYTES = 4_096;

export interface Machine {
  readonly words: string;
  readonly load: number;
  /** The share of all cores that was in use for a moment before the bench began. */
  readonly busy: number;
  readonly quiet: boolean;
}

export async function lookAtMachine(): Promise<Machine> {
  const [load = 0] = loadavg();
  const busy = await busyShare();
  const quiet = busy <= BUSY_QUIET_MAX;
  return { words: describe(), load, busy, quiet };
}

export function sayHowQuiet({ load, busy, quiet }: Machine): void {
  const state = `load average ${load.toFixed(2)}, ${Math.round(busy * 100)} % of the cores in use`;
  console.log(`Before the start: ${state}.`);
  if (!quiet) {
    console.log("WARNING: THIS MACHINE IS NOT QUIET. Do not quote these figures; compare ratios.");
  }
}

function describe(): string {
  const memory = Math.round(totalmem() / 2 ** 30);
  const model = cpus()[0]?.model ?? "unknown";
  const today = new Date().toISOString().slice(0, 10);
  return (
    `${cpus().length} cores (${model}), ${memory} GiB, ${process.platform} ${process.arch}, ` +
    `Node ${process.versions.node}, ${milliseconds(syncMs())} to have a page on disk, ${today}`
  );
}

async function busyShare(): Promise<number> {
  const before = coreTimes();
  await pause(LOOK_MS);
  const after = coreTimes();
  return 1 - (after.idle - before.idle) / Math.max(1, after.all - before.all);
}

function coreTimes(): { idle: number; all: number } {
  let idle = 0;
  let all = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    all += Object.values(times).reduce((sum, each) => sum + each, 0);
  }
  return { idle, all };
}

/** What a commit costs at least, in the folder where all databases of a bench stand. */
function syncMs(): number {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  const file = openSync(join(folder, "page"), "w");
  const page = Buffer.alloc(PAGE_BYTES, 1);
  const spans = Array.from({ length: SYNCS }, () => {
    const startedAt = performance.now();
    writeSync(file, page);
    fdatasyncSync(file);
    return performance.now() - startedAt;
  });
  closeSync(file);
  rmSync(folder, { recursive: true, force: true });
  return median(spans);
}
