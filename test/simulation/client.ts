/** The application: enqueues jobs, says events, cancels, retries, and says what became of effects in doubt. */
import { HoldfastError, OutcomeUnknownError } from "../../src/core/errors.ts";
import { makeIds } from "../../src/core/id.ts";
import type { Holdfast } from "../../src/app/holdfast.ts";
import type { Chance } from "./chance.ts";
import { openAt, type Parts } from "./crew.ts";
import { Machine } from "./machine.ts";
import { GOVERNED, LANES, type Limits, TICKER } from "./plan.ts";
import { eventKey, packed, tasksAt, type Input, type Tasks } from "./tasks.ts";

/** The share of the time of faults in which jobs are enqueued. */
const ENQUEUE_SHARE = 0.7;
const KEYS = ["k1", "k2"];
const PERSON_MS = 400;
/** The share of jobs in the queue that has limits, where there is one. */
const GOVERNED_SHARE = 0.8;
/** What must be done in the end is tried so often. */
const TRIES_MAX = 200;

export class Client {
  readonly machine: Machine;
  readonly #parts: Parts;
  readonly #chance: Chance;
  readonly #tasks: Tasks;
  #holdfast: Holdfast | null = null;
  #toDo = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.machine = new Machine("client", parts.world, { skewMs: 0, rate: 1 });
    this.#chance = parts.world.chance("client");
    // A client only needs to know what a task is called and how it is retried.
    const never = (): never => {
      throw new Error("a client runs nothing");
    };
    const { plan, bank } = parts;
    this.#tasks = tasksAt({
      machine: this.machine,
      plan,
      bank,
      note: never,
      crash: never,
      token: never,
    });
  }

  /** Whether everything has been enqueued and said. */
  get isDone(): boolean {
    return this.#toDo === 0;
  }

  async start(): Promise<void> {
    const { plan } = this.#parts;
    this.#toDo += 1;
    this.#holdfast = await this.#untilDone(() => openAt(this.machine, this.#parts));
    if (plan.limits !== null) await this.#setLimits(plan.limits);
    this.#toDo -= 1;
    for (let n = 1; n <= plan.jobs; n += 1) {
      const at = this.#chance.between(0, plan.chaosMs * ENQUEUE_SHARE);
      this.#later(at, "enqueue", () => this.#enqueue(n));
    }
    void this.#lookAfterDoubts();
  }

  /** Before the first job, so that they hold for all. The schedule ends before the faults do. */
  async #setLimits({ concurrency, laneConcurrency, rate }: Limits): Promise<void> {
    const { plan, history } = this.#parts;
    const { name, task, everyMs: every } = TICKER;
    const { count = 0, periodMs: per = 0, burst = 1 } = rate ?? {};
    const paced = rate === null ? {} : { rate: { count, per, burst } };
    const eachLane = { concurrency: laneConcurrency };
    await this.#untilDone(() =>
      this.#open().queues.set(GOVERNED, { concurrency, eachLane, ...paced }),
    );
    const input: Input = { n: 0, napMs: 0, cents: 0 };
    const options = { maxAttempts: 1_000 };
    const schedule = { name, task, every, input, options, missed: { all: 1_000 } };
    const id = makeIds(this.machine.runtime)();
    const created = await this.#untilDone(() => this.#open().schedules.create(schedule, {}, id));
    this.#later(plan.chaosMs * ENQUEUE_SHARE, "pause the schedule", async () => {
      const paused = await this.#untilDone(() => this.#open().schedules.pause(name));
      const from = (Math.floor(created.createdAt / every) + 1) * every;
      history.ticks = { from, until: paused.lastAt, pausedAt: paused.pausedAt ?? 0 };
    });
  }

  #later(ms: number, label: string, act: () => Promise<void>): void {
    this.#toDo += 1;
    this.machine.world.after(ms, this.machine, label, () => {
      void act().finally(() => (this.#toDo -= 1));
    });
  }

  async #enqueue(n: number): Promise<void> {
    const { plan } = this.#parts;
    const chance = this.#chance;
    const name = n <= plan.killers ? "killer" : chance.pick(plan.tasks);
    const input: Input = { n, napMs: chance.whole(50, 1_500), cents: chance.whole(1, 9_999) };
    const options = {
      ...(chance.isHit(plan.delays) ? { delay: chance.whole(1, 2_000) } : {}),
      ...(chance.isHit(plan.keys) ? { key: chance.pick(KEYS) } : {}),
      ...(chance.isHit(0.1) ? { priority: chance.whole(-5, 5) } : {}),
      ...(plan.limits !== null && chance.isHit(GOVERNED_SHARE)
        ? { queue: GOVERNED, lane: chance.pick(LANES) }
        : {}),
    };
    if (name === "hear" || name === "order") this.#emitLater(input);
    try {
      const job = await this.#open().enqueue(this.#tasks[name], input, options);
      this.#followUp(job.id);
    } catch (error) {
      expected(error);
    }
  }

  /** Before anybody waits for it, or after. */
  #emitLater(input: Input): void {
    const parcel = `parcel-${input.n}`;
    this.#later(this.#chance.between(0, 3_000), "emit", async () => {
      await this.#untilDone(() => this.#open().emit(packed, eventKey(input), { parcel }));
      if (!this.#chance.isHit(0.2)) return;
      // A repeated answer does not count.
      await this.#untilDone(() =>
        this.#open().emit(packed, eventKey(input), { parcel: `${parcel}-again` }),
      );
    });
  }

  #followUp(id: string): void {
    const { plan } = this.#parts;
    if (this.#chance.isHit(plan.cancels)) {
      this.#later(this.#chance.between(0, 2_000), "cancel", async () => {
        await this.#open()
          .jobs.cancel(id)
          .then(() => {}, expected);
      });
    }
    if (this.#chance.isHit(plan.retries)) {
      this.#later(this.#chance.between(500, 5_000), "retry", async () => {
        const attempts = this.#chance.whole(1, 3);
        await this.#open()
          .jobs.retry(id, { attempts })
          .then(() => {}, expected);
      });
    }
  }

  /** A person looks whether effects are in doubt, asks the bank, and says what it says. */
  async #lookAfterDoubts(): Promise<void> {
    const { bank, world } = this.#parts;
    for (;;) {
      await this.machine.work(PERSON_MS, "a person looks for doubts");
      try {
        for (const doubt of await this.#open().jobs.effectsInDoubt()) {
          const found = bank.charges.get(`${doubt.job}/${doubt.name}/${doubt.occurrence}`);
          const happened =
            found === undefined
              ? { done: false as const }
              : { done: true as const, result: found.receipt };
          world.coverage.hit(`client: a doubt resolved, ${happened.done ? "done" : "not done"}`);
          await this.#open().jobs.resolve(doubt, happened);
        }
      } catch (error) {
        expected(error);
      }
    }
  }

  async #untilDone<T>(act: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await act();
      } catch (error) {
        expected(error);
        if (tries === TRIES_MAX) throw error;
        await this.machine.work(100, "tries again");
      }
    }
  }

  #open(): Holdfast {
    return this.#holdfast as Holdfast;
  }
}

/** What the contract allows; anything else is a bug. */
function expected(error: unknown): void {
  if (!(error instanceof HoldfastError)) throw error;
  if (error instanceof OutcomeUnknownError) return;
  if (!EXPECTED.has(error.code)) throw error;
}

const EXPECTED = new Set([
  "STORE_UNAVAILABLE",
  "STORE_BUSY",
  "STORE_REFUSED",
  "JOB_NOT_FOUND",
  "ILLEGAL_MOVE",
  "CALLED_FAILED",
  "EFFECT_NOT_FOUND", // its job was cancelled after the person had looked
  "KEY_TAKEN",
]);
