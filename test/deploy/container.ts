/** Runs what an image would run, in the folder that stands for it; where the machine lets us, as the first process of a namespace. */
import { spawn, spawnSync, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import type { Image } from "./replay.ts";

const LIMIT_MS = 30_000;
const LOOK_EVERY_MS = 20;

export interface Said {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Given {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** As the engine runs it: process 1 of its namespace. */
  readonly first?: boolean;
}

/** Whether this machine lets us make a namespace of processes: Linux, as root. */
export function canBeFirst(): boolean {
  return spawnSync("unshare", ["--pid", "--fork", "--mount-proc", "true"]).status === 0;
}

export class Container implements AsyncDisposable {
  readonly ended: Promise<Said>;
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  readonly #first: boolean;
  #stdout = "";
  #stderr = "";

  constructor(image: Image, { args = image.cmd, env = {}, first = false }: Given = {}) {
    const own = [...image.entrypoint, ...args].map((part) =>
      part === "node" ? process.execPath : part,
    );
    const outer = first ? ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"] : [];
    const [program = "", ...rest] = [...outer, ...own];
    this.#first = first;
    this.#child = spawn(program, rest, {
      cwd: image.workdir,
      env: { PATH: process.env["PATH"], TMPDIR: image.workdir, ...image.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: LIMIT_MS,
      killSignal: "SIGKILL",
    });
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => (this.#stdout += text));
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    this.ended = once(this.#child, "close").then(() => ({
      code: this.#child.exitCode,
      stdout: this.#stdout,
      stderr: this.#stderr,
    }));
  }

  /** Until it has said this on either stream. */
  async says(what: RegExp): Promise<void> {
    while (!what.test(this.#stdout + this.#stderr)) {
      const over = this.#child.exitCode !== null || this.#child.signalCode !== null;
      if (over) throw new Error(`it ended without saying ${String(what)}:\n${this.#stderr}`);
      await pause(LOOK_EVERY_MS);
    }
  }

  /** What the engine does when a container is to end. */
  stop(): void {
    process.kill(this.#innerPid(), "SIGTERM");
  }

  #innerPid(): number {
    const pid = this.#child.pid ?? 0;
    if (!this.#first) return pid;
    const [inner = ""] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ");
    return Number(inner);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
  }
}

/** Runs one command of the image to its end. */
export async function runIn(image: Image, given: Given): Promise<Said> {
  await using container = new Container(image, given);
  return await container.ended;
}
