/**
 * The command line as a user has it: real processes, started through bin/holdfast.js in a folder of their own. What has
 * been run so once in a test file, and only looks or writes, is run again by a process that is up already.
 */
import assert from "node:assert/strict";
import {
  fork,
  spawn,
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
} from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { commandMain, launcher, library, sourceLauncher } from "../support/package.ts";
import type { Done, Errand } from "./clerk.ts";

const CLERK = join(import.meta.dirname, "clerk.ts");

/** A hundred starts of the same sources: stripping their types once is enough. */
const compileCache = join(import.meta.dirname, "../../node_modules/.cache/holdfast-cli-tests");

/** A command that takes so long hangs, also on a machine that is busy. */
const LIMIT_MS = 60_000;
const LOOK_EVERY_MS = 10;

export interface Said {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Given {
  readonly env?: Record<string, string>;
  /** Runs the sources, for modules of the checkout that import "holdfast". */
  readonly fromSources?: boolean;
  /** What comes from stdin; nothing by default. */
  readonly input?: string;
}

/** A folder with a command line in it. Whatever was started here ends with it. */
export class TestCli implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
  readonly #running = new Set<Started>();

  /** Runs `holdfast` with these arguments to its end. */
  async holdfast(args: readonly string[], given: Given = {}): Promise<Said> {
    if (isErrand(args, given)) {
      return office.send({ folder: this.folder, args, env: given.env ?? {} });
    }
    const started = this.start(args, given);
    started.child.stdin.end(given.input ?? "");
    return started.ended;
  }

  /** Runs it and expects that it went well; the value is the document it printed. */
  async json(args: readonly string[], given: Given = {}): Promise<any> {
    const said = await this.holdfast([...args, "--json"], given);
    assert.deepEqual([said.code, said.stderr], [0, ""]);
    assert.equal(said.stdout.trimEnd().split("\n").length, 1, "one document, on one line");
    return JSON.parse(said.stdout);
  }

  start(args: readonly string[], { env = {}, fromSources = false }: Given = {}): Started {
    const program = fromSources ? sourceLauncher : launcher;
    return this.spawn(process.execPath, [program, ...args], env);
  }

  spawn(command: string, args: readonly string[], env: Record<string, string> = {}): Started {
    const started = new Started(
      spawn(command, args, { cwd: this.folder, env: { ...plainEnvironment(), ...env } }),
    );
    this.#running.add(started);
    return started;
  }

  /** Writes a module of tasks. `defineTask` and the rest of the library are imported for it. */
  tasks(name: string, source: string): string {
    const imports = `import { defineTask, GiveUpError } from ${JSON.stringify(library)};\n`;
    return this.file(name, imports + source);
  }

  file(name: string, content: string): string {
    const path = this.path(name);
    writeFileSync(path, content);
    return path;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** With an empty file as the default database, which no command makes for itself. */
  withDatabase(): this {
    this.file("holdfast.db", "");
    return this;
  }

  get url(): string {
    return `sqlite:${this.path("holdfast.db")}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const started of this.#running) {
      if (started.child.exitCode === null) started.child.kill("SIGKILL");
      await started.ended;
    }
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Started {
  readonly child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<Said>;
  #stdout = "";
  #stderr = "";

  constructor(child: ChildProcessWithoutNullStreams) {
    this.child = child;
    child.stdout.setEncoding("utf8").on("data", (text: string) => (this.#stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    child.stdin.on("error", () => {}); // It may end without having read what it was given.
    const limit = setTimeout(() => child.kill("SIGKILL"), LIMIT_MS);
    this.ended = once(child, "close").then(() => {
      clearTimeout(limit);
      const { exitCode: code, signalCode: signal } = child;
      return { code, signal, stdout: this.#stdout, stderr: this.#stderr };
    });
  }

  /** Until it has said this on either stream. */
  async says(what: string | RegExp): Promise<void> {
    const heard = (): boolean =>
      typeof what === "string" ? this.said.includes(what) : what.test(this.said);
    while (!heard()) {
      const over = this.child.exitCode !== null || this.child.signalCode !== null;
      assert.ok(!over, `it ended without saying ${String(what)}:\n${this.said}`);
      await pause(LOOK_EVERY_MS);
    }
  }

  get said(): string {
    return this.#stdout + this.#stderr;
  }
}

/** Those that end by themselves and leave nothing behind in their process. */
const ERRANDS = new Set(
  (
    "alerts audit batches bulk cancel config doctor effects enqueue errors explain flows items job jobs leases " +
    "locks migrate queues rerun retry schedules stats tokens workers workflows"
  ).split(" "),
);
/** What makes a command wait, or takes modules and streams that are a process's own. */
const OF_A_PROCESS =
  /^(?:NODE_(?!ENV$)|NO_COLOR$|FORCE_COLOR$|TERM$|COLUMNS$|HOME$|XDG_|TMPDIR$|BUILD_ID$)/;
const STAYS = /^(?:-|--tasks|--wait|--follow)$/;
const known = new Set<string>();

/** Whether a process that is up may run it: then one of its own has run the same command before. */
function isErrand(args: readonly string[], { env = {}, input, fromSources }: Given): boolean {
  const [command = ""] = args;
  if (!ERRANDS.has(command) || input !== undefined || fromSources === true) return false;
  if (Object.keys(env).some((name) => OF_A_PROCESS.test(name))) return false;
  if (args.some((arg) => STAYS.test(arg))) return false;
  const isKnown = known.has(command);
  known.add(command);
  return isKnown;
}

/** The process that runs errands, one at a time. It keeps no test from ending, and ends with the process that asks. */
class Office {
  #clerk: ChildProcess | null = null;
  #last: Promise<unknown> = Promise.resolve();

  send(errand: Errand): Promise<Said> {
    const said = this.#last.then(() => this.#ask(errand));
    this.#last = said.catch(() => {});
    return said;
  }

  async #ask(errand: Errand): Promise<Said> {
    this.#clerk ??= fork(CLERK, [commandMain], { execArgv: [], env: plainEnvironment() });
    const clerk = this.#clerk;
    const limit = setTimeout(() => clerk.kill("SIGKILL"), LIMIT_MS);
    const answered = Promise.withResolvers<Done>();
    const gone = (): void => answered.reject(new Error(`no answer to: ${errand.args.join(" ")}`));
    clerk.once("message", answered.resolve).once("exit", gone).ref();
    clerk.channel?.ref();
    clerk.send(errand);
    try {
      return { ...(await answered.promise), signal: null };
    } finally {
      clearTimeout(limit);
      clerk.off("message", answered.resolve).off("exit", gone).unref();
      clerk.channel?.unref();
    }
  }
}

export const office = new Office();

/** Until the condition holds, or the time that anything may take is over. */
export async function until(what: string, condition: () => boolean | Promise<boolean>) {
  const endAt = performance.now() + LIMIT_MS;
  while (!(await condition())) {
    assert.ok(performance.now() < endAt, `it never came true that ${what}`);
    await pause(LOOK_EVERY_MS);
  }
}

/** The shell of the tests may have settings of its own. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const theirs = /^(?:HOLDFAST_|NODE_|NO_COLOR$|FORCE_COLOR$)/;
  const plain = Object.entries(process.env).filter(([name]) => !theirs.test(name));
  return { ...Object.fromEntries(plain), NODE_COMPILE_CACHE: compileCache };
}

/** It was refused with this exit code, in one sentence without a stack that matches all of these. */
export function assertRefused(said: Said, code: number, ...patterns: readonly RegExp[]): void {
  assert.equal(said.code, code, said.stderr);
  assert.equal(said.stdout, "");
  assert.equal(said.stderr.trimEnd().split("\n").length, 1, `one line: ${said.stderr}`);
  assert.doesNotMatch(said.stderr, / at .*:\d+:\d+/);
  for (const pattern of patterns) assert.match(said.stderr, pattern);
}
