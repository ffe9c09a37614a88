/**
 * What a process says it does, a line at a time, in a file that outlives it. A line is on record when the call returns,
 * so a process that is killed has said everything it did.
 */
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { systemRuntime } from "../core/runtime.ts";
import type { Said } from "./check/history.ts";

const EXTENSION = ".journal";

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

/** Of all processes, each in its own order. Half a line, of a process that was killed while it wrote, says nothing. */
export function readProcessLogs(folder: string): (Said & { readonly at: number })[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(EXTENSION));
  return files.toSorted().flatMap((name) => readProcessLog(join(folder, name)));
}

export function readProcessLog(path: string): (Said & { readonly at: number })[] {
  return readFileSync(path, "utf8").split("\n").flatMap(readLine);
}

function readLine(line: string): (Said & { readonly at: number })[] {
  try {
    return [JSON.parse(line) as Said & { readonly at: number }];
  } catch {
    return [];
  }
}
