/**
 * By what a process can be told from another that has its number today, as far as the host tells: on Linux, by the boot, by
 * the namespace that the number is from, and by the moment the process started.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { ProcessTrace } from "./worker-record.ts";

/** In /proc/<pid>/stat, counted after the name, which may contain anything. */
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

/** True only when it is certain: the process ran on this very host, and is not there any more. */
export function isGone({ hostBoot: boot, pid, processStart }: ProcessTrace): boolean {
  const here = ownTrace();
  if (boot === null || processStart === null || boot !== here.hostBoot) return false;
  if (!hasProcess(pid)) return true;
  const start = startOf(pid);
  return start !== null && start !== processStart;
}

/** Signal 0 only asks. One that we may not signal is there. */
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

/** When a process started, in ticks since the boot; null: the host does not tell. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A zombie runs no more; its parent has not asked for it yet.
    return fields[0] === "Z" ? "ended" : (fields[START_TIME] ?? null);
  } catch {
    return null;
  }
}
