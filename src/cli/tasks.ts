/** Loads the tasks that a module of the user's exports. */
import { existsSync, statSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { HoldfastError, UnknownTask } from "../core/errors.ts";
import { taskMap, type Task } from "../core/task.ts";
import type { AnyWorkflow } from "../core/workflow.ts";

export class TasksNotLoaded extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("TASKS_NOT_LOADED", message, cause);
  }
}

/** Every task that the module exports: under a name, in an array, or as its default. */
export async function loadTasks(file: string): Promise<Task[]> {
  const path = resolve(file);
  checkIsFile(path);
  const exported = await importModule(path);
  const tasks = [...new Set(Object.values(exported).flat())].filter(isTask);
  if (tasks.length === 0) {
    throw new TasksNotLoaded(
      `${path} exports no task. Export what defineTask() returns, under a name or in an array.`,
    );
  }
  taskMap(tasks); // Throws when two have one name.
  return tasks;
}

/** Every workflow that the module exports, in the same ways; there need be none. */
export async function loadWorkflows(file: string): Promise<AnyWorkflow[]> {
  const path = resolve(file);
  const exported = await importModule(path);
  const workflows = [...new Set(Object.values(exported).flat())].filter(isWorkflow);
  const names = workflows.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice === undefined) return workflows;
  throw new TasksNotLoaded(`${path} exports two workflows that are called '${twice}'.`);
}

export function findTask(tasks: readonly Task[], name: string): Task {
  const task = tasks.find((one) => one.name === name);
  if (task !== undefined) return task;
  throw new UnknownTask({ task: name, known: tasks.map((one) => one.name) });
}

function checkIsFile(path: string): void {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) {
    throw new TasksNotLoaded(`There is no file ${path}. Name your tasks module with --tasks.`);
  }
  if (!stats.isFile()) {
    throw new TasksNotLoaded(`${path} is not a file. Name the module itself with --tasks.`);
  }
}

async function importModule(path: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  } catch (error) {
    const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    const why = `could not be loaded${placeOf(error, path)}. ${what}`;
    throw new TasksNotLoaded(`${path} ${why}${helpWith(error, what)}`, error);
  }
}

function helpWith(error: unknown, what: string): string {
  // It is not on the registry yet, so what one tries first does not help.
  if (what.includes("Cannot find package 'holdfast'")) {
    return ". Install it there: 'npm pack' in a checkout of holdfast, then 'npm install' with the file that it made";
  }
  const file = fileMeant(error, what);
  if (file !== null) return `. ${AS_IT_STANDS}: write "${file}", ${OTHER_WAYS}`;
  if (!isMoreThanTypes(error)) return "";
  return `. Node only removes types, and does not know enums, decorators and parameter properties: write it without them, ${OTHER_WAYS}`;
}

const AS_IT_STANDS = "Node runs TypeScript as it stands";
const OTHER_WAYS = 'name the compiled file, or set NODE_OPTIONS="--import tsx"';

/** The file behind an import that TypeScript resolves and Node does not: `./util` or `./util.js` for `./util.ts`. */
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

/** Node says so of enums and the like; of decorators it says only that it does not know the sign. */
function isMoreThanTypes(error: unknown): boolean {
  const { code, stack = "" } = error as { code?: unknown; stack?: string };
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") return true;
  return error instanceof SyntaxError && /^\s*@\w/m.test(stack);
}

/** A syntax error's stack begins with the file and the line; the message names neither. */
function placeOf(error: unknown, path: string): string {
  if (!(error instanceof Error)) return "";
  const [first = ""] = error.stack?.split("\n") ?? [];
  const line = /:(\d+)$/.exec(first)?.[1];
  const named = first.startsWith(path) || first.startsWith(pathToFileURL(path).href);
  return line !== undefined && named ? ` (line ${line})` : "";
}

/** By shape, not by class: the module may have brought a copy of the library of its own. */
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

/** By shape, as well. */
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
