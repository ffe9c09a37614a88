/** A worker and its client on a server that is in for trouble, and what they did. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { inspect } from "node:util";
import { OutcomeUnknownError } from "../../src/core/errors.ts";
import {
  defineTask,
  type Holdfast,
  type Job,
  openHoldfast,
  StoreUnavailableError,
  type Worker,
  type WorkerOptions,
} from "../../src/index.ts";
import type { DatabaseLocation } from "../../src/database/open.ts";
import { SECRET } from "./engines.ts";
import { hear, keepLog, until, type Heard, type KeptLog, type LogLine } from "../worker/observe.ts";

/** Between two jobs of a stream. */
const STREAM_GAP_MS = 5;

export class Crew implements AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly worker: Worker;
  readonly log: KeptLog;
  readonly heard: Heard[];
  readonly #counted: CountedTasks;
  readonly #streams: Stream[] = [];

  private constructor(holdfast: Holdfast, worker: Worker, log: KeptLog, counted: CountedTasks) {
    this.holdfast = holdfast;
    this.worker = worker;
    this.log = log;
    this.heard = hear(worker);
    this.#counted = counted;
  }

  static async start(
    location: DatabaseLocation,
    options: Partial<WorkerOptions> = {},
  ): Promise<Crew> {
    const log = keepLog();
    const counted = new CountedTasks();
    const holdfast = await openHoldfast(location, { logger: log.logger });
    try {
      const tasks = [counted.quick, counted.held];
      const worker = await holdfast.startWorker({ tasks, shutdown: "5s", ...options });
      return new Crew(holdfast, worker, log, counted);
    } catch (error) {
      await holdfast.close();
      throw error;
    }
  }

  /** The worker records them in the background after its start. */
  async tasksAreRecorded(): Promise<void> {
    const { store } = this.holdfast;
    await until("the tasks are recorded", async () => (await store.dashboard.tasks()).length > 0);
  }

  startAnother(): Promise<Worker> {
    return this.holdfast.startWorker({ tasks: [this.#counted.quick] });
  }

  /** How often the task of a job was run. */
  runs(id: string): number {
    return this.#counted.runs.get(id) ?? 0;
  }

  /** What the signal of a job that is held was aborted with; undefined: it was not. */
  aborts(id: string): { readonly reason: unknown; readonly at: number } | undefined {
    return this.#counted.aborts.get(id);
  }

  /** A job that ends at once. */
  quick(input = 1): Promise<Job<number>> {
    return this.holdfast.enqueue(this.#counted.quick, input);
  }

  /** A job that is running, and ends when it is told to or when its signal aborts. */
  async held(): Promise<Job<string>> {
    const job = await this.holdfast.enqueue(this.#counted.held, null);
    await until("it runs", () => this.runs(job.id) === 1);
    return job;
  }

  /** Lets a job that is held end, now or as soon as it runs. */
  end(id: string): void {
    this.#counted.gate(id).resolve("ended");
  }

  /** Enqueues one job after another, whatever happens, until it is stopped. */
  stream(): Stream {
    const stream = new Stream(() => this.quick());
    this.#streams.push(stream);
    return stream;
  }

  /** Every job was done once, at its first attempt. */
  async checkDoneOnce(jobs: readonly Job<unknown>[]): Promise<void> {
    for (const job of jobs) {
      await job.result({ timeout: "15s" });
      const { status, attempts, crashes, epoch } = await job.get();
      assert.deepEqual(
        { status, attempts, crashes, epoch, runs: this.runs(job.id) },
        { status: "done", attempts: 1, crashes: 0, epoch: 1, runs: 1 },
        `job ${job.id}`,
      );
    }
  }

  /** Every job is done by now or will be soon, by however many attempts. */
  async checkDone(jobs: readonly Job<unknown>[]): Promise<void> {
    for (const job of jobs) await job.result({ timeout: "15s" });
  }

  /** What each activity has complained about, by its name. */
  complaints(): Map<string, LogLine[]> {
    return Map.groupBy(
      this.log.lines
        .filter(({ level, facts }) => level === "error" || facts["event"] === "loop:failed")
        .filter(({ facts }) => facts["event"] !== "database:away"),
      loopOf,
    );
  }

  /** Each activity told at most so often that it failed, and as often that it works again. No worker gave anything up. */
  async checkLog({ timesMax }: { timesMax: number }): Promise<void> {
    const failed = [...this.complaints()];
    for (const [loop, errors] of failed) {
      const told = `${loop} failed: ${errors.map(({ message }) => message).join("\n")}`;
      assert.ok(errors.length <= timesMax, `${errors.length} times, ${told}`);
      await until(`it works again; ${told}`, () => this.recoveries(loop) === errors.length);
    }
    const events = (event: string) =>
      this.log.lines.filter(({ facts }) => facts["event"] === event).length;
    await until("the database is back", () => events("database:back") === events("database:away"));
    assert.doesNotMatch(inspect(this.log.lines, { depth: 8 }), new RegExp(SECRET));
    const warnings = this.log.lines.filter(({ level }) => level === "warn");
    assert.deepEqual(warnings, []);
  }

  recoveries(loop: string): number {
    return this.log.lines.filter(
      ({ facts, message }) =>
        (facts["event"] === "loop:recovered" && facts["loop"] === loop) ||
        message === `${loop}: works again`,
    ).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#counted.endAll();
    await Promise.all(this.#streams.map((stream) => stream.stop()));
    await this.holdfast.close();
  }
}

/** The keeper speaks from another thread, and only its words arrive. */
function loopOf({ facts, message }: LogLine): string {
  return typeof facts["loop"] === "string" ? facts["loop"] : (message.split(":")[0] ?? "");
}

/** The tasks, and the books about them. */
class CountedTasks {
  readonly runs = new Map<string, number>();
  readonly aborts = new Map<string, { reason: unknown; at: number }>();
  readonly #gates = new Map<string, PromiseWithResolvers<string>>();
  #closed = false;

  readonly quick = defineTask({
    name: "quick",
    retry: { maxAttempts: 5 },
    run: (input: number, { id }) => {
      this.#count(id);
      return input + 1;
    },
  });

  readonly held = defineTask({
    name: "held",
    retry: { maxAttempts: 5, backoff: { initial: "100ms", max: "100ms" } },
    run: (_input: null, { id, signal }) => {
      this.#count(id);
      signal.addEventListener("abort", () => {
        this.aborts.set(id, { reason: signal.reason, at: performance.now() });
        this.gate(id).reject(signal.reason as Error);
        this.#gates.delete(id);
      });
      return this.gate(id).promise;
    },
  });

  gate(id: string): PromiseWithResolvers<string> {
    const gate = this.#gates.get(id) ?? Promise.withResolvers<string>();
    gate.promise.catch(() => {}); // the attempt hears of it; a gate without a waiter is no error
    this.#gates.set(id, gate);
    if (this.#closed) gate.resolve("closed");
    return gate;
  }

  endAll(): void {
    this.#closed = true;
    for (const gate of this.#gates.values()) gate.resolve("closed");
  }

  #count(id: string): void {
    this.runs.set(id, (this.runs.get(id) ?? 0) + 1);
  }
}

export class Stream {
  readonly accepted: Job<number>[] = [];
  /** Those who were told that nothing was written. */
  refused = 0;
  /** Those who could not be told what became of it. */
  unknown = 0;
  #stopped = false;
  readonly #running: Promise<void>;

  constructor(enqueue: () => Promise<Job<number>>) {
    this.#running = this.#run(enqueue);
  }

  /** Until so many more were accepted. */
  async more(count: number): Promise<void> {
    const target = this.accepted.length + count;
    await until("jobs are accepted", () => this.accepted.length >= target);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #run(enqueue: () => Promise<Job<number>>): Promise<void> {
    while (!this.#stopped) {
      try {
        this.accepted.push(await enqueue());
      } catch (error) {
        if (error instanceof OutcomeUnknownError) this.unknown += 1;
        else if (error instanceof StoreUnavailableError) this.refused += 1;
        else throw error;
      }
      await pause(STREAM_GAP_MS);
    }
  }
}
