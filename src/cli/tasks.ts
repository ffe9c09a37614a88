/** Loads the tasks that a user's module exports. */
import { existsSync, statSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { HoldfastError, UnknownTaskError } from "../core/errors.ts";
import { type Task, taskMap } from "../core/task.ts";
import { installHint } from "../core/text.ts";
import type { RunHook } from "../worker/events.ts";
import type { Schedule } from "../schedules/schedule.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";

class TasksNotLoadedError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("TASKS_NOT_LOADED", message, cause);
  }
}

/** Every task that the module exports: under a name, in an array, or as its default. */
export async function loadTasks(file: string): Promise<Task[]> {
  const path = resolve(file);
  checkIsFile(path);
  const tasks = (await exportsOf(path)).filter(isTask);
  if (tasks.length === 0) {
    throw new TasksNotLoadedError(
      `${path} exports no task. Export what defineTask() returns, under a name or in an array.`,
    );
  }
  taskMap(tasks); // throws if two tasks have the same name
  return tasks;
}

/** Every workflow that the module exports, in the same ways; there may be none. */
export async function loadWorkflows(file: string): Promise<AnyWorkflow[]> {
  const path = resolve(file);
  const workflows = (await exportsOf(path)).filter(isWorkflow);
  const names = workflows.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice === undefined) return workflows;
  throw new TasksNotLoadedError(`${path} exports two workflows named '${twice}'.`);
}

/** The hooks that the module exports as an array named `hooks`; there may be none. */
export async function loadHooks(file: string): Promise<readonly RunHook[]> {
  const { hooks = [] } = (await importOf(resolve(file))) as { hooks?: readonly RunHook[] };
  return hooks;
}

/** Every schedule that the module exports, in the same ways; there may be none. */
export async function loadSchedules(file: string): Promise<Schedule[]> {
  return (await exportsOf(resolve(file))).filter(isSchedule);
}

export function findTask(tasks: readonly Task[], name: string): Task {
  const task = tasks.find((one) => one.name === name);
  if (task !== undefined) return task;
  throw new UnknownTaskError({ task: name, known: tasks.map((one) => one.name) });
}

function checkIsFile(path: string): void {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) {
    throw new TasksNotLoadedError(`File ${path} not found. Name your tasks module with --tasks.`);
  }
  if (!stats.isFile()) {
    throw new TasksNotLoadedError(`${path} is not a file. Name the module itself with --tasks.`);
  }
}

/** Arrays count as their elements. */
async function exportsOf(path: string): Promise<unknown[]> {
  return [...new Set(Object.values(await importOf(path)).flat())];
}

async function importOf(path: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  } catch (error) {
    const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    const why = `cannot be loaded${placeOf(error, path)}. ${what}`;
    throw new TasksNotLoadedError(`${path} ${why}${helpWith(error, what)}`, error);
  }
}

function helpWith(error: unknown, what: string): string {
  // The package is not on the registry yet, so a plain 'npm install holdfast' does not help.
  if (what.includes("Cannot find package 'holdfast'")) {
    return ". Install the package: run 'npm pack' in a checkout of holdfast, then 'npm install' with the resulting file";
  }
  const file = fileMeant(error, what);
  if (file !== null) {
    return `. Node runs TypeScript without resolving such imports: write "${file}", ${OTHER_WAYS}`;
  }
  if (!isMoreThanTypes(error)) return installHint(what);
  return `. Node only strips types, and does not support enums, decorators and parameter properties: avoid them, ${OTHER_WAYS}`;
}

const OTHER_WAYS = 'name the compiled file, or set NODE_OPTIONS="--import tsx"';

/** The file of an import that TypeScript resolves and Node does not: `./util` or `./util.js` for `./util.ts`. */
function fileMeant(error: unknown, what: string): string | null {
  const { code, url } = error as { code?: unknown; url?: unknown };
  if (code !== "ERR_MODULE_NOT_FOUND" && code !== "ERR_UNSUPPORTED_DIR_IMPORT") return null;
  if (typeof url !== "string" || !url.startsWith("file:")) return null;
  const missing = fileURLToPath(url);
  const importer = / imported from (.+)$/m.exec(what)?.[1] ?? missing;
  const bare = missing.replace(/\.[cm]?js$/, "");
  const found = [`${bare}.ts`, `${bare}.mts`, `${missing}/index.ts`].find((file) =>
    existsSync(file),
  );
  if (found === undefined) return null;
  const path = relative(dirname(importer), found);
  return path.startsWith(".") ? path : `./${path}`;
}

/** Node has an error code for enums and the like, but reports a decorator only as a syntax error. */
function isMoreThanTypes(error: unknown): boolean {
  const { code, stack = "" } = error as { code?: unknown; stack?: string };
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") return true;
  return error instanceof SyntaxError && /^\s*@\w/m.test(stack);
}

/** The stack of a syntax error begins with file and line; its message has neither. */
function placeOf(error: unknown, path: string): string {
  if (!(error instanceof Error)) return "";
  const [first = ""] = error.stack?.split("\n") ?? [];
  const line = /:(\d+)$/.exec(first)?.[1];
  const named = first.startsWith(path) || first.startsWith(pathToFileURL(path).href);
  return line !== undefined && named ? ` (line ${line})` : "";
}

/** By shape, not by class: the module may use another copy of the library. */
function isTask(value: unknown): value is Task {
  if (typeof value !== "object" || value === null) return false;
  const { name, queue, retry, run } = value as Partial<Record<keyof Task, unknown>>;
  return (
    typeof name === "string" &&
    typeof queue === "string" &&
    typeof retry === "object" &&
    typeof run === "function"
  );
}

function isSchedule(value: unknown): value is Schedule {
  if (typeof value !== "object" || value === null) return false;
  const { name, definition, check } = value as Partial<Record<keyof Schedule, unknown>>;
  return typeof name === "string" && typeof definition === "object" && typeof check === "function";
}

function isWorkflow(value: unknown): value is AnyWorkflow {
  if (typeof value !== "object" || value === null) return false;
  const { name, version, states, moves } = value as Partial<Record<keyof AnyWorkflow, unknown>>;
  return (
    typeof name === "string" &&
    typeof version === "number" &&
    states instanceof Map &&
    moves instanceof Map
  );
}
