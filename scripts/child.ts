/**
 * Child processes of the scripts.
 *
 * Each child leads its own process group, so that a test runner can be ended together with
 * everything it started: on Ctrl-C, on a polite kill, and when a limit is reached.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setPriority } from "node:os";

/** As a process is told that others come first. */
const LOW_PRIORITY = 10;

/** Long enough for a test to stop the servers it started. */
const STOP_GRACE_MS = 5_000;

/** The exit codes a shell gives to a command that was ended by this signal. */
const SIGNAL_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

export interface Ended {
  readonly code: number;
  readonly ms: number;
  /** Everything the child printed; empty when its output went straight to ours. */
  readonly output: string;
}

interface How {
  readonly output: "show" | "keep";
  readonly beside?: boolean;
  /** After this long the child and everything it started are ended, and it has failed. */
  readonly limitMs?: number;
}

const running = new Set<ChildProcess>();
let stopping = false;

/** Runs a script or an npm tool on the Node that runs us, and waits for its end. */
export async function runNode(
  args: readonly string[],
  { output, beside = false, limitMs }: How,
): Promise<Ended> {
  const startedAt = performance.now();
  const stdio = output === "show" ? "inherit" : "pipe";
  const child = spawn(process.execPath, args, { stdio: ["ignore", stdio, stdio], detached: true });
  running.add(child);
  if (beside && child.pid !== undefined) setPriority(child.pid, LOW_PRIORITY);
  const chunks: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  }
  const onLimit = (): void => {
    const said = `\nStopped after its limit of ${(limitMs ?? 0) / 1_000} s.\n`;
    if (output === "keep") chunks.push(said);
    else console.error(said);
    void stop(child);
  };
  const limit = limitMs === undefined ? undefined : setTimeout(onLimit, limitMs);
  await once(child, "close");
  clearTimeout(limit);
  running.delete(child);
  // A caller that waits for us would start the next child, which would never be ended.
  if (stopping) await new Promise<never>(() => {});
  return { code: child.exitCode ?? 1, ms: performance.now() - startedAt, output: chunks.join("") };
}

/** From here on, no child outlives us: not on a signal, and not past the limit. */
export function endChildrenWithUs({ limit, limitMs }: { limit: string; limitMs: number }): void {
  for (const [signal, code] of Object.entries(SIGNAL_CODES)) {
    process.once(signal, () => void stopAll(code));
  }
  const onLimit = (): void => {
    console.error(`Stopped: ${limit} (${limitMs / 1_000} s) was reached.`);
    void stopAll(1);
  };
  setTimeout(onLimit, limitMs).unref();
}

/** Ends all children and this process. */
export async function stopAll(code: number): Promise<never> {
  stopping = true;
  await Promise.all([...running].map(stop));
  process.exit(code);
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = child.exitCode === null ? once(child, "exit") : Promise.resolve();
  signalGroup(child, "SIGTERM");
  const impatience = setTimeout(() => signalGroup(child, "SIGKILL"), STOP_GRACE_MS);
  await ended;
  clearTimeout(impatience);
  // The leader is gone; processes of its group that ignored the first signal go now.
  signalGroup(child, "SIGKILL");
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    const alreadyGone = error instanceof Error && "code" in error && error.code === "ESRCH";
    if (!alreadyGone) throw error;
  }
}
