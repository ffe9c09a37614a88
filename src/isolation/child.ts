/**
 * The program of the thread or process in which isolated tasks run, one job at a time.
 *
 * It imports the module of the task and runs its function; the worker does the rest. It ends with the worker: at once when
 * the channel closes, and, if the task blocks this thread, when a second thread notices that the worker is gone.
 */
import { writeSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker as Thread } from "node:worker_threads";
import { describeError } from "../core/error-record.ts";
import { parseInput } from "../core/input.ts";
import { IsolationError } from "../core/errors.ts";
import { decode, encodeResult } from "../core/json.ts";
import { RetryIn, Snooze } from "../core/retry.ts";
import type { Task } from "../core/task.ts";
import { type FromChild, HEARTBEAT_FD, markIsolated, sendError, type ToChild } from "./messages.ts";
import { IsolatedContext } from "./context.ts";

/** How often the second thread of a process looks whether the worker still exists. With each such look, a heartbeat. */
const PARENT_LOOK_MS = 250;

/** Names in the message about a task that was not found. */
const NAMED_MAX = 20;

let current: { readonly run: number; readonly ctx: IsolatedContext } | null = null;

function send(message: FromChild): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  if (parentPort !== null) parentPort.postMessage(message);
  // The worker may be gone; then this process ends.
  else process.send?.(message, undefined, {}, () => {});
}

function onMessage(message: ToChild): void {
  if (message.kind === "run") return void run(message);
  if (current?.run !== message.run) return;
  if (message.kind === "over") current = null;
  else current.ctx.receive(message);
}

async function run({ run: number, module, job }: ToChild & { kind: "run" }): Promise<void> {
  const ctx = new IsolatedContext(job, number, send);
  current = { run: number, ctx };
  try {
    const task = await findTask(module, job.task);
    send({ kind: "started", run: number });
    const result = await call(task, job.payload, ctx);
    ctx.flush();
    send({ kind: "done", run: number, ...result });
  } catch (error) {
    ctx.flush();
    send({ kind: "failed", run: number, error: sendError(ctx.snoozed ?? error) });
  }
}

async function call(
  task: Task,
  payload: string,
  ctx: IsolatedContext,
): Promise<ReturnType<typeof encodeResult>> {
  const input = await parseInput(task, decode(payload));
  ctx.signal.throwIfAborted();
  const result: unknown = await task.run(input as never, ctx);
  if (ctx.snoozed !== null) throw ctx.snoozed;
  if (result instanceof RetryIn || result instanceof Snooze) throw result;
  return encodeResult(result, { task: task.name });
}

async function findTask(module: string, name: string): Promise<Task> {
  const file = module.startsWith("file:") ? fileURLToPath(module) : module;
  const exported = await load(module, file);
  const tasks = [...new Set(Object.values(exported).flat())].filter(isTask);
  const found = tasks.find((task) => task.name === name);
  if (found !== undefined) return found;
  const names = tasks.slice(0, NAMED_MAX).map((task) => `'${task.name}'`);
  const has = names.length === 0 ? "It exports no task." : `It exports ${names.join(", ")}.`;
  throw new IsolationError(
    `${file} exports no task '${name}'. ${has} Holdfast finds an isolated task by its name among the exports of the module that ` +
      `\`isolation.module\` names: export what defineTask() returns, at the top level of ${basename(file)}.`,
  );
}

async function load(module: string, file: string): Promise<Record<string, unknown>> {
  try {
    return (await import(module)) as Record<string, unknown>;
  } catch (error) {
    throw new IsolationError(
      `${file} cannot be imported to run an isolated task: ${describeError(error).message} ` +
        `Keep isolated tasks in a module that only defines them, apart from the program that starts the worker.`,
      error,
    );
  }
}

/** By shape, not by class: the module may use another copy of the library. */
function isTask(value: unknown): value is Task {
  if (typeof value !== "object" || value === null) return false;
  const { name, retry, run: body } = value as Partial<Record<keyof Task, unknown>>;
  return typeof name === "string" && typeof retry === "object" && typeof body === "function";
}

/** Nothing else runs here, so it can only be the task's. The worker ends this thread or process afterwards. */
function onUncaught(error: unknown): void {
  if (current === null) return;
  current.ctx.flush();
  const sent = sendError(current.ctx.snoozed ?? error);
  send({ kind: "failed", run: current.run, error: sent, isUncaught: true });
}

/** A process whose worker was killed gets no message: a thread looks, because the task may block the main thread. */
const watch = (parent: number): string => `
const { writeSync } = require("node:fs");
const parent = ${parent};
const isGone = () => {
  if (process.ppid !== parent) return true;
  try { return !process.kill(parent, 0); } catch (error) { return error.code === "ESRCH"; }
};
setInterval(() => {
  if (isGone()) process.kill(process.pid, "SIGKILL");
  try { writeSync(${HEARTBEAT_FD}, "."); } catch { /* The worker is gone: the next look shows it. */ }
}, ${PARENT_LOOK_MS});`;

function beat(): void {
  try {
    writeSync(HEARTBEAT_FD, ".");
  } catch {
    // The worker is gone: the watch ends this process.
  }
}

function main(): void {
  markIsolated();
  process.on("uncaughtException", onUncaught);
  process.on("unhandledRejection", onUncaught);
  if (!isMainThread) {
    parentPort?.on("message", onMessage);
    return;
  }
  process.on("message", onMessage);
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
  // A terminal or a service manager signals the whole group. The worker decides when its jobs end.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => {});
  beat(); // The worker watches this process before the task runs.
  const limits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 };
  new Thread(watch(Number(process.argv[2])), {
    eval: true,
    execArgv: [],
    resourceLimits: limits,
    env: {},
  }).unref();
}

main();
