/**
 * Distinguishes a process from a later one with the same process id. On Linux, by the boot, the namespace of process ids,
 * and the start time of the process.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { ProcessTrace } from "./worker-record.ts";

/** The index in /proc/<pid>/stat, after the name, which may contain any character. */
const START_TIME = 19;

let own: ProcessTrace | null = null;

export function ownTrace(): ProcessTrace {
  own ??= {
    hostname: hostname(),
    pid: process.pid,
    hostBoot: hostBoot(),
    processStart: startOf(process.pid),
  };
  return own;
}

/** True only when it is certain: the process ran on this host and no longer exists. */
export function isGone({ hostBoot: boot, pid, processStart }: ProcessTrace): boolean {
  const here = ownTrace();
  if (boot === null || processStart === null || boot !== here.hostBoot) return false;
  if (!hasProcess(pid)) return true;
  const start = startOf(pid);
  return start !== null && start !== processStart;
}

/** Signal 0 only tests. A process that we may not signal exists. */
function hasProcess(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function hostBoot(): string | null {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return null;
  }
}

/** When a process started, in ticks since the boot; null: unknown. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A zombie has ended; its parent has not collected it yet.
    return fields[0] === "Z" ? "ended" : (fields[START_TIME] ?? null);
  } catch {
    return null;
  }
}
