/**
 * A temporary folder in memory, for test runs: most of what tests leave on a disk is waited for and thrown away.
 *
 * A killed process loses nothing there that it would not lose on a disk; only a machine without power would, and no test
 * switches one off.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { freemem } from "node:os";
import { join } from "node:path";

const SHARED_MEMORY = "/dev/shm";
/** As Linux calls a file system in memory. */
const TMPFS = 0x01_02_19_94;
/** A guess on the safe side: the shared servers alone take 0.3 GB, what a whole run takes was not measured. */
const ROOM_BYTES_MIN = 6 * 2 ** 30;
const NAME = /^holdfast-tests-(?<pid>\d+)$/;
/** As /tmp: the servers have an account of their own. */
const FOR_EVERYBODY = 0o1777;

/** A new folder in memory for this process; null: there is no room for one here. */
export function memoryFolder(parent = SHARED_MEMORY): string | null {
  try {
    if (!hasRoom(parent)) return null;
    sweep(parent);
    const folder = join(parent, `holdfast-tests-${process.pid}`);
    mkdirSync(folder);
    chmodSync(folder, FOR_EVERYBODY);
    if (mayRunPrograms(folder)) return folder;
    rmSync(folder, { recursive: true, force: true });
    return null;
  } catch {
    return null; // Not every system has it, or lets us write there.
  }
}

function hasRoom(parent: string): boolean {
  const { type, bavail, bsize } = statfsSync(parent);
  return type === TMPFS && Math.min(bavail * bsize, freemem()) >= ROOM_BYTES_MIN;
}

/** What killed runs left behind: nothing else would give that memory back. */
function sweep(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = Number(NAME.exec(name)?.groups?.["pid"] ?? process.pid);
    if (pid === process.pid || isThere(pid)) continue;
    rmSync(join(parent, name), { recursive: true, force: true });
  }
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Containers often forbid it. */
function mayRunPrograms(folder: string): boolean {
  const program = join(folder, "program");
  writeFileSync(program, "#!/bin/sh\nexit 7\n", { mode: 0o700 });
  const { status } = spawnSync(program);
  rmSync(program);
  return status === 7;
}
