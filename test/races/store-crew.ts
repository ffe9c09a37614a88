/**
 * Processes that race on one database file.
 *
 * They open the store, say that they are ready, and start together at a word. Each ends by itself when
 * its work is done, when its time is over, or when the test that started it is gone.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemRuntime } from "../../src/core/runtime.ts";
import { SqliteEngine } from "../../src/database/sqlite/engine.ts";
import { type Store, storeOn } from "../../src/app/store.ts";

const MEMBER_MS_MAX = 60_000;

/** A folder of our own that is gone when the block ends. */
export function temporaryFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "holdfast-race-"));
  const remove = (): void => rmSync(path, { recursive: true, force: true });
  return { path, [Symbol.dispose]: remove };
}

export async function openFile(path: string): Promise<Store> {
  const engine = await SqliteEngine.open({ path, runtime: systemRuntime, create: true });
  return storeOn(engine);
}

// ── What the test does ───────────────────────────────────────────────────────────────────────────

export class Crew implements Disposable {
  readonly #members: ChildProcess[] = [];
  readonly #ended: Promise<void>[] = [];
  readonly #ready: Promise<unknown>[] = [];

  /** Starts a process that runs `file` and hears about everything it tells after "ready". */
  add(file: string, args: readonly string[], hear: (message: unknown) => void = () => {}): void {
    const member = fork(file, args, { execArgv: [], timeout: MEMBER_MS_MAX });
    const ready = once(member, "message");
    void ready.then(() => member.on("message", hear)).catch(() => {});
    this.#members.push(member);
    this.#ready.push(ready);
    const ended = endOf(member);
    ended.catch(() => {}); // it is awaited later, and must not end the process before
    this.#ended.push(ended);
  }

  /** Lets all of them go at once. */
  async go(): Promise<void> {
    await Promise.race([Promise.all(this.#ready), Promise.all(this.#ended)]);
    this.tell("go");
  }

  tell(word: "go" | "stop"): void {
    for (const member of this.#members) if (member.connected) member.send(word);
  }

  /** Resolves when all have ended well; rejects when one has not. */
  async ended(): Promise<void> {
    await Promise.all(this.#ended);
  }

  [Symbol.dispose](): void {
    for (const member of this.#members) member.kill("SIGKILL");
  }
}

async function endOf(member: ChildProcess): Promise<void> {
  await once(member, "exit");
  if (member.exitCode === 0) return;
  throw new Error(`A process ended with ${member.signalCode ?? `code ${member.exitCode}`}.`);
}

// ── What a process does ──────────────────────────────────────────────────────────────────────────

/** Waits for the word; from then on `stop` tells whether the work is to be ended. */
export async function awaitGo(): Promise<{ readonly stop: boolean }> {
  const told = { stop: false };
  process.once("disconnect", () => process.exit(1)); // the test is gone
  tell("ready");
  await once(process, "message");
  process.on("message", () => {
    told.stop = true;
  });
  return told;
}

export function tell(message: string | readonly string[]): void {
  process.send?.(message);
}

/** SQLite answers without a pause; this is one, so that words from outside are heard. */
export function listen(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Ends this process well: nothing more will be told or heard. */
export function leave(): void {
  process.removeAllListeners("disconnect");
  process.disconnect?.();
}
