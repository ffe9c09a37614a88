/** One server process, from its start to the removal of its folder. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { environment, type Place, type Recipe } from "./recipe.ts";

/** A server starts in a second; recovering from a kill may take it longer. */
const START_LIMIT_MS = 60_000;
/** After this long, a server that was asked to end is killed. */
const STOP_LIMIT_MS = 10_000;
const GONE_CHECK_MS = 5;
/** So much of what it printed is told when it did not start. */
const LAST_LINES = 15;

export const LOG_FILE = "server.log";

export class Server {
  readonly #recipe: Recipe;
  readonly #place: Place;
  readonly #onDeath: (how: string) => void;
  #process: ChildProcess | null = null;
  version = "";

  constructor(recipe: Recipe, place: Place, onDeath: (how: string) => void) {
    this.#recipe = recipe;
    this.#place = place;
    this.#onDeath = onDeath;
  }

  get url(): string {
    return this.#recipe.url(this.#place);
  }

  /** Its process; 0 while there is none. */
  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  async start(): Promise<void> {
    const { folder, account } = this.#place;
    const [command, ...args] = this.#recipe.command(this.#place);
    const child = spawn(command, args, {
      cwd: folder,
      env: environment(folder),
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      ...account,
    });
    this.#process = child;
    child.once("exit", (code, signal) => this.#exited(child, code ?? signal));
    try {
      this.version = await untilReady(child, this.#recipe.ready, join(folder, LOG_FILE));
    } catch (error) {
      await this.#end("SIGKILL");
      throw error;
    }
  }

  /** Ends it in order. Its data stay, for `start`. */
  async stop(): Promise<void> {
    await this.#end(this.#recipe.stopSignal);
  }

  /** Ends it as a crash would. Its data stay, for `start`. */
  async kill(): Promise<void> {
    await this.#end(this.#recipe.killSignal);
  }

  /** Ends it, and removes everything it had. */
  async discard(): Promise<void> {
    await this.#end(this.#recipe.dropSignal);
    await this.#recipe.sweep?.(this.#place);
    rmSync(this.#place.folder, { recursive: true, force: true, maxRetries: 3 });
  }

  #exited(child: ChildProcess, how: string | number | null): void {
    if (this.#process !== child) return;
    this.#process = null;
    this.#onDeath(String(how));
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const { pid } = child;
    const exit = once(child, "exit");
    const orphans: number[] = [];
    const force = (): unknown => orphans.push(...killFamily(pid));
    if (signal === "SIGKILL") force();
    else child.kill(signal);
    const impatience = setTimeout(force, STOP_LIMIT_MS);
    await exit;
    clearTimeout(impatience);
    while (orphans.some(isAlive)) await pause(GONE_CHECK_MS);
  }
}

/** Waits until it says that it takes connections, and gives its version. Its log goes on after that. */
async function untilReady(child: ChildProcess, ready: RegExp, file: string): Promise<string> {
  const log = createWriteStream(file, { flags: "a" });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let heard: string | null = "";
  const hear = (text: string): void => {
    log.write(text);
    if (heard === null) return;
    heard += text;
    const found = ready.exec(heard);
    if (found === null) return;
    heard = null;
    resolve(found.groups?.["version"] ?? "");
  };
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", hear);
  const fail = (what: string): void => reject(new Error(`${what}: ${lastLines(heard ?? "")}`));
  child.once("error", reject);
  child.once("close", () => {
    log.end();
    fail("it ended while it started");
  });
  const late = setTimeout(
    () => fail(`it was not ready after ${START_LIMIT_MS} ms`),
    START_LIMIT_MS,
  );
  return promise.finally(() => clearTimeout(late));
}

function lastLines(text: string): string {
  return text.trim().split("\n").slice(-LAST_LINES).join("\n");
}

/**
 * Kills a process and its children, and gives the children. PostgreSQL has one for each connection,
 * which would keep the next server from starting; stopped, the parent makes no more of them.
 */
function killFamily(pid: number): number[] {
  process.kill(pid, "SIGSTOP");
  const children = childrenOf(pid);
  for (const each of [pid, ...children]) process.kill(each, "SIGKILL");
  return children;
}

function childrenOf(pid: number): number[] {
  if (process.platform !== "linux") return [];
  const all = readdirSync("/proc").map(Number).filter(Number.isInteger);
  return all.filter((each) => statusOf(each)?.parent === pid);
}

function isAlive(pid: number): boolean {
  const status = statusOf(pid);
  return status !== null && status.state !== "Z" && status.state !== "X";
}

function statusOf(pid: number): { state: string; parent: number } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The program's name stands in brackets before it, and may contain anything.
    const [state = "", parent = ""] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { state, parent: Number(parent) };
  } catch {
    return null; // It is gone.
  }
}
