/** A program's own worker and the signals that end programs: real processes, real signals. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until, withCode } from "./observe.ts";

const PROGRAM = join(import.meta.dirname, "signals-child.ts");
const PROCESS_MS_MAX = 60_000;

const folder = tempFolder();
after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});

class Program implements AsyncDisposable {
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  said = "";
  readonly #child: ChildProcess;

  constructor(url: string, options: object) {
    this.#child = spawn(process.execPath, [PROGRAM, url, JSON.stringify(options)], {
      stdio: ["pipe", "pipe", "pipe"],
      timeout: PROCESS_MS_MAX,
      killSignal: "SIGKILL",
    });
    const hear = (text: Buffer): void => void (this.said += text.toString());
    this.#child.stdout?.on("data", hear);
    this.#child.stderr?.on("data", hear);
    this.ended = once(this.#child, "close").then(([code, signal]) => ({ code, signal }) as never);
  }

  async says(word: string): Promise<void> {
    await until(`it says ${word}`, () => this.said.includes(word));
  }

  send(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  letJobEnd(): void {
    this.#child.stdin?.write("go\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
  }
}

async function workerOf(holdfast: Holdfast): Promise<string | undefined> {
  const [worker] = await holdfast.workers.list({ all: true });
  return worker?.status;
}

suite("a program whose worker listens for signals", () => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    test(`finishes its job after ${signal}, and ends with 0`, async () => {
      const url = `sqlite:${folder.file(".db")}`;
      await using holdfast = await openHoldfast(url);
      const job = await holdfast.enqueue("hold", null);
      const next = await holdfast.enqueue("hold", null);
      await using program = new Program(url, { signals: true, concurrency: 1 });
      await program.says("running");
      program.send(signal);
      await until("it stops", async () => (await workerOf(holdfast)) === "stopping");
      program.letJobEnd();
      assert.deepEqual(await program.ended, { code: 0, signal: null }, program.said);
      assert.equal(await job.result(), "finished");
      assert.equal((await next.get()).status, "pending");
      assert.equal(await workerOf(holdfast), "stopped");
      assert.equal(program.said, "starting\nstarted\nrunning\n");
    });
  }

  test("ends at once at the second signal", async () => {
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    const job = await holdfast.enqueue("hold", null);
    await using program = new Program(url, { signals: true });
    await program.says("running");
    program.send("SIGTERM");
    await until("it stops", async () => (await workerOf(holdfast)) === "stopping");
    program.send("SIGTERM");
    assert.deepEqual(await program.ended, { code: null, signal: "SIGTERM" });
    assert.equal((await job.get()).status, "processing");
  });

  test("hands its job back when the time to stop is over", async () => {
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    const job = await holdfast.enqueue("hold", null);
    await using program = new Program(url, { signals: true, shutdown: 0 });
    await program.says("running");
    program.send("SIGTERM");
    assert.deepEqual(await program.ended, { code: 0, signal: null }, program.said);
    const { status, attempts } = await job.get();
    assert.deepEqual([status, attempts], ["pending", 0]);
  });

  test("exits with 0 while it is a standby", async () => {
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    const task = defineTask({ name: "any", run: () => null });
    await holdfast.startWorker({ tasks: [task], name: "solo", slots: 1 });
    const options = { signals: true, name: "solo", slots: 1, onConflict: "standby" };
    await using program = new Program(url, options);
    await program.says("starting");
    program.send("SIGTERM");
    assert.deepEqual(await program.ended, { code: 0, signal: null }, program.said);
    assert.equal(program.said, "starting\n");
  });
});

suite("a library does not touch the signals of its program", () => {
  const task = defineTask({ name: "any", run: () => null });
  const listeners = (): number[] =>
    ["SIGTERM", "SIGINT"].map((signal) => process.listenerCount(signal));

  test("unless signals is true, and no longer than such a worker runs", async () => {
    const before = listeners();
    await using holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.startWorker({ tasks: [task] });
    assert.deepEqual(listeners(), before);
    const first = await holdfast.startWorker({ tasks: [task], signals: true });
    const second = await holdfast.startWorker({ tasks: [task], signals: true });
    const more = before.map((count) => count + 1);
    assert.deepEqual(listeners(), more);
    await first.stop();
    assert.deepEqual(listeners(), more);
    await second.stop();
    assert.deepEqual(listeners(), before);
  });

  test("without signals, it ends as every program does", async () => {
    const url = `sqlite:${folder.file(".db")}`;
    await using holdfast = await openHoldfast(url);
    await holdfast.enqueue("hold", null);
    await using program = new Program(url, {});
    await program.says("running");
    program.send("SIGTERM");
    assert.deepEqual(await program.ended, { code: null, signal: "SIGTERM" });
  });

  test("and signals must be true or false", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const signals = "SIGTERM" as unknown as boolean;
    await assert.rejects(
      holdfast.startWorker({ tasks: [task], signals }),
      withCode("INVALID_ARGUMENT", "signals"),
    );
  });
});
