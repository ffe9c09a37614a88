/** The configuration of a process of the kit, and how it ends with its parent. */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { systemRuntime } from "../src/core/runtime.ts";
import type { Dated, Said } from "./check/history.ts";
import type { Workload } from "./plan.ts";

export interface ProcessConfig extends Workload {
  readonly name: string;
  readonly url: string;
  readonly processLog: string;
  readonly bank: string;
  /** Producers: the position of this one, and how many jobs all of them enqueue over how many milliseconds. */
  readonly place: number;
  readonly producers: number;
  readonly jobs: number;
  readonly ms: number;
  /** When the time is over, the remaining jobs are left out. Nor are jobs added while many are pending. */
  readonly isOnTime: boolean;
}

export type Order = { readonly kind: "stop" } | { readonly kind: "block"; readonly ms: number };

/** Flushes the compile cache for later processes, because a killed process does not. */
export function sayReady(): void {
  flushCompileCache();
  process.send?.("ready");
}

/** No process outlives a killed run: processes that are awake wake the frozen ones, so that these end too. */
export function endWithParent(): void {
  process.on("disconnect", () => {
    process.kill(0, "SIGCONT"); // The process group; a process that is awake ignores it.
    systemRuntime.afterIo(() => process.exit(3));
  });
}

// What a process does, a line at a time, in a file that outlives it. A line is written when the call returns, so the log
// of a killed process is complete.

const EXTENSION = ".log";

export class ProcessLog implements Disposable {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "a");
  }

  say(said: Said): void {
    writeSync(this.#file, `${JSON.stringify({ ...said, at: systemRuntime.now() })}\n`);
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}

export function processLogPath(folder: string, name: string): string {
  return join(folder, `${name}${EXTENSION}`);
}

/** Of all processes, each in its own order. Half a line, from a process killed while it wrote, is skipped. */
export function readProcessLogs(folder: string): Dated<Said>[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(EXTENSION));
  return files.toSorted().flatMap((name) => readProcessLog(join(folder, name)));
}

export function readProcessLog(path: string): Dated<Said>[] {
  return readFileSync(path, "utf8").split("\n").flatMap(readLine);
}

function readLine(line: string): Dated<Said>[] {
  try {
    return [JSON.parse(line) as Dated<Said>];
  } catch {
    return [];
  }
}
