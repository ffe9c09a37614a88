/**
 * What a process does, a line at a time, in a file that outlives it. A line is written when the call returns, so the log
 * of a killed process is complete.
 */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { systemRuntime } from "../core/runtime.ts";
import type { Dated, Said } from "./check/history.ts";

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
