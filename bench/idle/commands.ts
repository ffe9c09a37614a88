/** The commands of the package at rest: what the system says about their processes, of which the memory that belongs to them alone. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { compileCommand } from "../compiled.ts";
import { printTable, progress, whole } from "../figures.ts";

/** Linux counts a process's time in these. */
const TICK_MS = 10;

const COMMANDS = [
  { args: ["work"], mbMax: 75 },
  { args: ["start", "--port", "0"], mbMax: 110 },
] as const;

export async function idleCommands(seconds: number, settleMs: number): Promise<void> {
  const launcher = compileCommand();
  const folder = mkdtempSync(join(tmpdir(), "holdfast-idle-"));
  try {
    const tasks = join(folder, "tasks.mjs");
    const library = join(launcher, "../../dist/index.js");
    writeFileSync(
      tasks,
      `import { defineTask } from ${JSON.stringify(library)};\nexport const noop = defineTask({ name: "noop", run() {} });\n`,
    );
    progress(`idle for ${seconds} s: ${COMMANDS.map(({ args }) => args[0]).join(", ")}`);
    const rows: string[][] = [];
    for (const { args, mbMax } of COMMANDS) {
      const used = await idle([launcher, ...args, "--tasks", tasks], folder, { seconds, settleMs });
      const share = `${(used.cpuShare * 100).toFixed(2)} %`;
      rows.push([
        `holdfast ${args[0]}`,
        share,
        megabytes(used.rss),
        megabytes(used.anonymous),
        `${mbMax} MB`,
      ]);
    }
    console.log("\nThe commands at rest, on SQLite.\n");
    printTable(["command", "of a core", "resident", "its own", "aim"], rows);
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
  cwd: string,
  { seconds, settleMs }: { seconds: number; settleMs: number },
): Promise<Used> {
  const env = { ...process.env, HOLDFAST_URL: "sqlite:idle.db", LOG_LEVEL: "silent" };
  const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "ignore", "inherit"] });
  await pause(settleMs);
  const { pid, exitCode } = child;
  if (pid === undefined || exitCode !== null) throw new Error(`${args[1]} ended`);
  const before = cpuMs(pid);
  const startedAt = performance.now();
  await pause(seconds * 1_000);
  const cpuShare = (cpuMs(pid) - before) / (performance.now() - startedAt);
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const kilobytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? Number.NaN);
  child.kill("SIGTERM");
  await once(child, "exit");
  return { cpuShare, rss: kilobytes("VmRSS") * 1_024, anonymous: kilobytes("RssAnon") * 1_024 };
}

function cpuMs(pid: number): number {
  // The name in parentheses may hold blanks; the times are the 14th and 15th field.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

function megabytes(bytes: number): string {
  return `${whole(bytes / 1e6)} MB`;
}
