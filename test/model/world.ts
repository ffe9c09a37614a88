/** The store under test beside the model, on one clock, and how the two are compared. */
import { deepEqual, equal } from "node:assert/strict";
import type { Fence } from "../../src/core/job.ts";
import { noGauge, type Runtime } from "../../src/core/runtime.ts";
import type { JobsStore } from "../../src/jobs/sql-jobs.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import { Model } from "./model.ts";

/** Opens an empty, migrated store on the given clock. Closing the store is all the tidying there is. */
export type OpenStore = (runtime: Runtime) => Promise<Store>;

/** More than any run makes. */
const EVERYTHING = 10_000;

export class World {
  readonly store: Store;
  readonly model: Model;
  /** Every fence that a claim has handed out, current or not. */
  readonly fences: Fence[] = [];
  /** Every job that was ever asked for, accepted or not. */
  readonly asked: NewJob[] = [];
  /** The calls made so far, for the report of a failure. */
  readonly calls: string[] = [];
  readonly #tally: Map<string, number>;
  /** What the model said of a job when it was last compared. */
  readonly #compared = new Map<string, string>();

  private constructor(store: Store, model: Model, tally: Map<string, number>) {
    this.store = store;
    this.model = model;
    this.#tally = tally;
  }

  static async open(open: OpenStore, tally: Map<string, number>): Promise<World> {
    const model = new Model();
    return new World(await open(runtimeOn(() => model.now)), model, tally);
  }

  /** Counts something that the run was meant to meet, so that it can be shown to have met it. */
  saw(what: string, times = 1): void {
    if (times > 0) this.#tally.set(what, (this.#tally.get(what) ?? 0) + times);
  }

  /** Makes one call on the store, and notes it down. */
  call<Verb extends keyof Calls>(verb: Verb, ...args: Parameters<Calls[Verb]>): Returns<Verb> {
    this.calls.push(`${verb}(${args.map((arg) => JSON.stringify(arg)).join(", ")})`);
    const { jobs } = this.store;
    const method = jobs[verb] as (...args: Parameters<Calls[Verb]>) => Returns<Verb>;
    return method.apply(jobs, args);
  }

  same(verb: string, answer: unknown, expected: unknown): void {
    deepEqual(readable(answer), readable(expected), `the answer of ${verb} (− model, + store)`);
  }

  /**
   * Everything the store tells about every job equals what the model says. A job of which the model says what it said
   * before is compared as a line of the list, and in full again when the run ends.
   */
  async sameState(whom: "changed" | "all" = "changed"): Promise<void> {
    const { store, model } = this;
    const listed = await store.jobs.list({ limit: EVERYTHING });
    this.same("list", listed, model.list({ limit: EVERYTHING }));
    const compare = async (id: string): Promise<void> => {
      const [job, attempts] = [model.find(id), model.attempts(id)];
      const said = JSON.stringify([job, attempts]);
      if (whom === "changed" && this.#compared.get(id) === said) return;
      this.same(`find(${id})`, await store.jobs.find(id), job);
      this.same(`attempts(${id})`, await store.jobs.attempts(id), attempts);
      this.#compared.set(id, said);
    };
    await Promise.all(listed.map(({ id }) => compare(id)));
    for (const state of ["active", "expired"] as const) {
      const filter = { state, limit: EVERYTHING };
      this.same(`leases(${state})`, await store.jobs.leases(filter), model.leases(filter));
    }
    this.same("stats", await store.jobs.stats(), model.stats());
    equal(listed.length, model.jobs.size);
  }
}

type Calls = Omit<JobsStore, "in">;
type Returns<Verb extends keyof Calls> = ReturnType<Calls[Verb]>;

/** Values as they compare: without prototypes, and the store's own error texts by their code. */
function readable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(readable);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([field, inner]) => {
    const isError = (field === "error" || field === "lastError") && typeof inner === "string";
    return [field, isError ? codeOf(inner) : readable(inner)];
  });
  return Object.fromEntries(entries);
}

/** What the store writes about a crash is JSON with a code; what a settlement brings is any text. */
function codeOf(error: string): string {
  if (!error.startsWith("{")) return error;
  return (JSON.parse(error) as { code: string }).code;
}

/** Time stands still between the commands, and no command may wait. */
function runtimeOn(now: () => number): Runtime {
  return {
    now,
    monotonic: now,
    random: () => 0.5,
    fillRandom: (bytes) => void bytes.fill(7),
    timer: () => {
      throw new Error("A store with one user has nothing to wait for.");
    },
    afterIo: (call) => void setImmediate(call),
    gauge: () => noGauge,
  };
}
