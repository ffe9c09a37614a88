/** What the programs of worker processes have in common. Their test is on the other end of the channel. */
import {
  type AnyTask,
  type Holdfast,
  type Logger,
  openHoldfast,
  type Worker,
} from "../../src/index.ts";
import type { ChildConfig, Said } from "./worker-process.ts";

export const config = JSON.parse(process.argv[2] ?? "null") as ChildConfig;

/** Tells the test something. */
export function say(word: string, facts: Said["facts"] = {}): void {
  if (process.connected) process.send?.({ word, facts } satisfies Said);
}

/** Resolves when the test says the word; it may have been said before. A child whose parent is gone ends. */
export function told(word: string): Promise<void> {
  listen();
  return new Promise((resolve) => {
    if (words.has(word)) return resolve();
    waiting.push(() => words.has(word) && resolve());
  });
}

const words = new Set<string>();
const waiting: (() => unknown)[] = [];
let listening = false;

function listen(): void {
  if (listening) return;
  listening = true;
  process.on("message", (word) => {
    words.add(String(word));
    for (const look of waiting) look();
  });
  process.on("disconnect", () => process.exit());
}

/** Lets the process end by itself from here on. */
export function stopListening(): void {
  process.removeAllListeners("disconnect");
  if (process.connected) process.disconnect();
}

/** The log goes to the test, line by line. */
export const logger: Logger = {
  debug: (facts, message) => say("log", { message, level: "debug", ...plain(facts) }),
  info: (facts, message) => say("log", { message, level: "info", ...plain(facts) }),
  warn: (facts, message) => say("log", { message, level: "warn", ...plain(facts) }),
  error: (facts, message) => say("log", { message, level: "error", ...plain(facts) }),
};

function plain(facts: object): Record<string, unknown> {
  const entries = Object.entries(facts).map(([name, value]) => {
    return [name, value instanceof Error ? String(value) : value] as const;
  });
  return Object.fromEntries(entries);
}

export function openHere(): Promise<Holdfast> {
  return openHoldfast(config.url, { logger });
}

export async function startHere(holdfast: Holdfast, tasks: readonly AnyTask[]): Promise<Worker> {
  const worker = await holdfast.startWorker({ ...config.worker, tasks });
  worker.on("job:started", ({ id, attempt }) => say("started", { id, attempt }));
  worker.on("lease:lost", ({ id }) => say("lost", { id }));
  say("ready", { worker: worker.id });
  return worker;
}

const SLICE_MS = 20;

/** Blocks the thread for this long: nothing else runs in it meanwhile. Other processes have the processor. */
export function blockFor(ms: number): void {
  const until = performance.now() + ms;
  const cell = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  while (performance.now() < until) Atomics.wait(cell, 0, 0, SLICE_MS);
}
