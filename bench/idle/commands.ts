/**
 * The commands of the package while idle, before any job and after a thousand, and with a job every second: what the system
 * says about their processes.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type * as index from "../../src/index.ts";
import { compileCommand } from "../compiled.ts";
import { printTable, progress, whole } from "../figures.ts";

/** Linux counts a process's time in these. */
const TICK_MS = 10;

const COMMANDS = [
  { args: ["work"], aim: "70, then 75 MB" },
  { args: ["start", "--port", "0"], aim: "then 95 MB" },
] as const;

const JOBS = 1_000;
const JOBS_MS_MAX = 120_000;
const LOOK_MS = 250;
const JOB_EVERY_MS = 1_000;

interface Span {
  readonly seconds: number;
  readonly settleMs: number;
}

export async function idleCommands(
  span: Span,
  launcher: Promise<string> = compileCommand(),
): Promise<void> {
  const command = await launcher;
  const folder = mkdtempSync(join(tmpdir(), "holdfast-idle-"));
  try {
    const tasks = join(folder, "tasks.mjs");
    const library = join(command, "../../dist/index.js");
    writeFileSync(
      tasks,
      `import { defineTask } from ${JSON.stringify(library)};\nexport const noop = defineTask({ name: "noop", run() {} });\n`,
    );
    progress(
      `idle for ${span.seconds} s, twice, then with a job a second: ${COMMANDS.map(({ args }) => args[0]).join(", ")}`,
    );
    const rows: string[][] = [];
    for (const { args, aim } of COMMANDS) {
      const program = [command, ...args, "--tasks", tasks];
      const { before, after, loaded } = await idle(program, folder, { library, ...span });
      const shares = [before, loaded].map(({ cpuShare }) => `${(cpuShare * 100).toFixed(2)} %`);
      const memory = [before, after].flatMap(({ rss, anonymous }) => [
        megabytes(rss),
        megabytes(anonymous),
      ]);
      rows.push([`holdfast ${args[0]}`, ...shares, ...memory, aim]);
    }
    console.log(`\nThe idle commands on SQLite, before any job and after ${whole(JOBS)}.\n`);
    printTable(
      [
        "command",
        "of a core",
        "60 jobs a minute",
        "resident",
        "its own",
        "after jobs",
        "its own",
        "aim",
      ],
      rows,
    );
    console.log("\nThe rest of what is resident is Node's program, which its processes share.");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Used {
  readonly cpuShare: number;
  readonly rss: number;
  /** Without files that are mapped. */
  readonly anonymous: number;
}

async function idle(
  args: readonly string[],
  folder: string,
  { library, seconds, settleMs }: Span & { library: string },
): Promise<{ before: Used; after: Used; loaded: Used }> {
  const url = `sqlite:${join(folder, `${args[1]}.db`)}`;
  const env = { ...process.env, HOLDFAST_URL: url, LOG_LEVEL: "silent" };
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const look = async (body: () => Promise<unknown>): Promise<Used> => {
    await pause(settleMs);
    const { pid, exitCode } = child;
    if (pid === undefined || exitCode !== null) throw new Error(`${args[1]} ended`);
    const cpuBefore = cpuMs(pid);
    const startedAt = performance.now();
    await body();
    const cpuShare = (cpuMs(pid) - cpuBefore) / (performance.now() - startedAt);
    return { cpuShare, ...memoryOf(pid) };
  };
  const wait = () => pause(seconds * 1_000);
  const before = await look(wait);
  await haveJobsDone(library, url);
  const after = await look(wait);
  const loaded = await look(() => enqueueFor(seconds, library, url));
  child.kill("SIGTERM");
  await once(child, "exit");
  return { before, after, loaded };
}

/** Enqueues from this process, and waits until the command has run them all. */
async function haveJobsDone(library: string, url: string): Promise<void> {
  const { openHoldfast } = (await import(library)) as typeof index;
  await using holdfast = await openHoldfast(url);
  const done = async (): Promise<number> => {
    const queues = await holdfast.stats();
    return queues.reduce((sum, { counts }) => sum + counts.done, 0);
  };
  const aim = (await done()) + JOBS;
  for (let job = 0; job < JOBS; job += 1) await holdfast.enqueue("noop", {});
  const until = performance.now() + JOBS_MS_MAX;
  while ((await done()) < aim) {
    if (performance.now() > until) throw new Error(`${JOBS} jobs were not done in time`);
    await pause(LOOK_MS);
  }
}

/** From this process, one at a time. */
async function enqueueFor(seconds: number, library: string, url: string): Promise<void> {
  const { openHoldfast } = (await import(library)) as typeof index;
  await using holdfast = await openHoldfast(url);
  for (let ms = 0; ms < seconds * 1_000; ms += JOB_EVERY_MS) {
    await holdfast.enqueue("noop", {});
    await pause(JOB_EVERY_MS);
  }
}

function memoryOf(pid: number): Pick<Used, "rss" | "anonymous"> {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kilobytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? Number.NaN);
  return { rss: kilobytes("VmRSS") * 1_024, anonymous: kilobytes("RssAnon") * 1_024 };
}

function cpuMs(pid: number): number {
  // The name in parentheses may hold blanks; the times are the 14th and 15th field.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

function megabytes(bytes: number): string {
  return `${whole(bytes / 1e6)} MB`;
}
