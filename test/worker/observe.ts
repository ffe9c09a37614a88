/** What the tests of the worker look with: conditions that are waited for, and a log that is kept. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { WorkerEvents } from "../../src/app/ops.ts";
import { HoldfastError, type Logger, type Worker } from "../../src/index.ts";

/** Nothing in these tests takes this long unless it is broken. */
export const WAIT_MS_MAX = 30_000;
const LOOK_EVERY_MS = 5;

/** The first value that is there: not false, null or undefined. Fails when none comes in time. */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  limitMs = WAIT_MS_MAX,
): Promise<Exclude<T, false | null | undefined>> {
  const stopAt = performance.now() + limitMs;
  for (;;) {
    const seen = await look();
    if (seen !== false && seen !== null && seen !== undefined) {
      return seen as Exclude<T, false | null | undefined>;
    }
    assert.ok(performance.now() < stopAt, `waited ${limitMs} ms in vain until ${what}`);
    await pause(LOOK_EVERY_MS);
  }
}

/** For `assert.rejects` and `assert.throws`: our error with this code, and of this field if named. */
export function withCode(code: string, field?: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof HoldfastError, `not an error of ours: ${String(error)}`);
    assert.equal(error.code, code, error.message);
    if (field !== undefined) assert.equal("field" in error ? error.field : null, field);
    return true;
  };
}

export function codeOf(error: unknown): string {
  return error instanceof HoldfastError ? error.code : String(error);
}

export interface LogLine {
  readonly level: keyof Logger;
  readonly facts: Record<string, unknown>;
  readonly message: string;
}

export interface KeptLog {
  readonly logger: Logger;
  readonly lines: readonly LogLine[];
  /** The lines with exactly this message. */
  of(message: string): LogLine[];
}

export function keepLog(): KeptLog {
  const lines: LogLine[] = [];
  const at = (level: keyof Logger) => (facts: object, message: string) => {
    lines.push({ level, facts: { ...facts }, message });
  };
  return {
    logger: { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") },
    lines,
    of: (message) => lines.filter((line) => line.message === message),
  };
}

const jobEvents = [
  "job:started",
  "job:done",
  "job:failed",
  "job:retrying",
  "job:cancelled",
  "job:released",
  "lease:lost",
  "lease:recovered",
] as const satisfies readonly (keyof WorkerEvents)[];

type JobEventName = (typeof jobEvents)[number];

export type Heard = {
  [Name in JobEventName]: { readonly name: Name; readonly event: WorkerEvents[Name] };
}[JobEventName];

/** Everything the worker tells about jobs from here on, in the order it is told. */
export function hear(worker: Worker): Heard[] {
  const heard: Heard[] = [];
  for (const name of jobEvents) {
    worker.on(name, (event) => void heard.push({ name, event } as Heard));
  }
  return heard;
}

/** The names of what was told about one job. */
export function storyOf(heard: readonly Heard[], id: string): JobEventName[] {
  return heard.filter(({ event }) => event.id === id).map(({ name }) => name);
}
