/**
 * What the compiler promises about tasks, jobs and workers. Compiled by `npm run check`, never run.
 *
 * A line under `@ts-expect-error` must not compile; if it does, the directive itself is the error.
 */
import * as v from "valibot";
import * as z from "zod";
import type { Json } from "../../src/core/json.ts";
import {
  type AnyTask,
  type Context,
  defineTask,
  type Holdfast,
  type Job,
  RetryIn,
  Snooze,
  type Status,
  type Task,
  type TaskClient,
  type Worker,
  type WorkerOptions,
} from "../../src/index.ts";
import type { FlowJob } from "../../src/flows/index.ts";
import { defineSchedule } from "../../src/schedules/index.ts";
import { drain, type Drained, openTestHoldfast, testClock } from "../../src/testing/index.ts";

type IsAny<T> = 0 extends 1 & T ? true : false;

/** True when both are the same type. `any` fits everywhere, so it is the same as nothing but itself. */
type Same<A, B> = IsAny<A> extends IsAny<B> ? ([A, B] extends [B, A] ? true : false) : false;

declare const holdfast: Holdfast;
declare const worker: Worker;

// ── Without a schema: the types of run() are the task's ──────────────────────────────────────────

const ship = defineTask({ name: "ship", run: (id: string) => id.length });

export const mail = defineTask({
  name: "mail.send",
  async run({ to }: { to: string; copies?: number }, ctx) {
    void (true satisfies Same<typeof ctx.signal, AbortSignal>);
    void (true satisfies Same<typeof ctx.attempt, number>);
    void (true satisfies Same<typeof ctx.holdfast, TaskClient>);
    const job = await ctx.holdfast.enqueue(ship, "7");
    void (true satisfies Same<typeof job, Job<number>>);
    // @ts-expect-error -- a task does not end what runs it
    void ctx.holdfast.close;
    // @ts-expect-error -- a task starts no workers
    void ctx.holdfast.startWorker;
    return { sentTo: to };
  },
});
void (true satisfies Same<typeof mail, Task<{ to: string; copies?: number }, { sentTo: string }>>);

export async function withoutSchema(): Promise<void> {
  const job = await holdfast.enqueue(mail, { to: "ada" });
  void (true satisfies Same<typeof job, Job<{ sentTo: string }>>);
  const result = await job.result({ timeout: "10s" });
  void (true satisfies Same<typeof result, { sentTo: string }>);

  await holdfast.enqueue(mail, { to: "ada", copies: 2 });
  // @ts-expect-error -- a number is not an address
  await holdfast.enqueue(mail, { to: 7 });
  // @ts-expect-error -- `to` is missing
  await holdfast.enqueue(mail, {});
  // @ts-expect-error -- there is no field `too`
  await holdfast.enqueue(mail, { too: "ada" });
  // @ts-expect-error -- the input is missing
  await holdfast.enqueue(mail);
  // @ts-expect-error -- nothing is known about the value, so it may be anything
  await holdfast.enqueue(mail, JSON.parse("{}") as unknown);
}

// ── Without input: it may be left out, and only then ─────────────────────────────────────────────

const ping = defineTask({ name: "ping", run: async () => 1 });
const logged = defineTask({ name: "logged", run: (_, ctx) => ctx.id });
const report = defineTask({ name: "report", run: (days?: number) => days ?? 7 });
const digest = defineTask({
  name: "digest",
  run: (days: number = 7) => days,
});
const empty = defineTask({ name: "empty", run: (value: null) => value });
const either = defineTask({ name: "either", run: (id: string | null) => id });
const schemed = defineTask({ name: "schemed", input: z.string().default("a"), run: (id) => id });

export async function withoutInput(tx: unknown): Promise<void> {
  const job = await holdfast.enqueue(ping);
  void (true satisfies Same<typeof job, Job<number>>);
  const named = await holdfast.enqueue("ping");
  void (true satisfies Same<typeof named, Job<unknown>>);
  await holdfast.enqueue(ping, undefined, { delay: "1h" });
  await holdfast.enqueue(ping, null, { delay: "1h" });
  await holdfast.enqueue(logged);
  await holdfast.enqueue(report);
  await holdfast.enqueue(report, 3);
  await holdfast.enqueue(digest);
  await holdfast.enqueue(digest, 3, { priority: 1 });
  await holdfast.enqueue(empty);
  await holdfast.enqueue(schemed);
  await holdfast.within(tx).enqueue(ping);
  // @ts-expect-error -- a text is not a number of days
  await holdfast.enqueue(report, "3");
  // @ts-expect-error -- null is a choice here, so it is written
  await holdfast.enqueue(either);
  // @ts-expect-error -- the input is missing
  await holdfast.enqueue(mail);
  // @ts-expect-error -- null is no input either
  await holdfast.enqueue(mail, null);
  // @ts-expect-error -- the input is missing
  await holdfast.within(tx).enqueue(mail);
  await holdfast.enqueueMany(report, [undefined, 3]);
  const [first] = await holdfast.enqueueMany([[ping], [mail, { to: "ada" }], ["by name"]]);
  void (true satisfies Same<typeof first, Job<number>>);
  // @ts-expect-error -- the second has no input
  await holdfast.enqueueMany([[ping], [mail]]);
  await holdfast.batches.enqueue("b", [[ping], [report, 3]], { callback: [ping] });
  // @ts-expect-error -- the input is missing
  await holdfast.batches.add("b", [[mail]]);
  await holdfast.flows.enqueue("f", (jobs) => {
    const one = jobs.job(ping);
    void (true satisfies Same<typeof one, FlowJob<number>>);
    jobs.job(report, undefined, { after: [one] });
    // @ts-expect-error -- the input is missing
    jobs.job(mail);
  });
  defineSchedule({ name: "s", task: ping, every: "1h" });
  defineSchedule({ name: "s", task: "ping", every: "1h" });
  defineSchedule({ name: "s", task: mail, every: "1h", input: { to: "ada" } });
  // @ts-expect-error -- the input is missing
  defineSchedule({ name: "s", task: mail, every: "1h" });
  // @ts-expect-error -- a number is not an address
  defineSchedule({ name: "s", task: mail, every: "1h", input: { to: 1 } });
  await holdfast.schedules.create({ name: "s", task: report, every: "1h", input: 3 });
  // @ts-expect-error -- the input is missing
  await holdfast.schedules.create({ name: "s", task: mail, every: "1h" });
  const declared = defineSchedule({ name: "s", task: ping, every: "1h" });
  await holdfast.schedules.create(declared, { paused: true });
  await drain(holdfast, [ping], { schedules: [declared] });
  defineTask({
    name: "calls",
    async run(_, ctx) {
      const called = await ctx.call(ping);
      void (true satisfies Same<typeof called, number>);
      await ctx.call(report, undefined, { name: "again" });
      // @ts-expect-error -- the input is missing
      await ctx.call(mail);
    },
  });
}

/** Helpers of applications, for any task. */
export function later<Input, Result>(
  task: Task<Input, Result>,
  input: Input,
): Promise<Job<Result>> {
  return holdfast.enqueue(task, input, { delay: "1h" });
}
export function all<Input, Result>(
  task: Task<Input, Result>,
  list: Input[],
): Promise<Job<Result>[]> {
  return holdfast.enqueueMany(task, list);
}

// ── Inputs and results are JSON ──────────────────────────────────────────────────────────────────

interface Row {
  readonly id: number;
  readonly name?: string;
  readonly kind: "a" | "b" | null;
  readonly tags: readonly string[];
  readonly parent?: Row | null;
  readonly children: Row[];
}
type Tree = string | readonly Tree[] | { readonly left?: Tree };
declare const row: Row;
declare const tree: Tree;
declare const json: Json;
declare const anything: unknown;
declare const branded: string & { readonly __brand: "order" };
declare const record: Record<string, unknown>;

export const storable = [
  defineTask({ name: "t", run: async () => [row] as const }),
  defineTask({ name: "t", run: () => ({ tree, json, anything, branded, record }) }),
  defineTask({
    name: "t",
    run: async (given: Row) => ({ ...given, at: new Date().toISOString() }),
  }),
  defineTask({ name: "t", run: (given: unknown) => given }),
  defineTask({ name: "t", run: () => JSON.parse("1") }),
  defineTask({ name: "t", run: async () => {} }),
  defineTask({ name: "t", run: (n: number) => (n > 1 ? new Snooze("1s") : new RetryIn("1s")) }),
];

// @ts-expect-error -- a Date in a result
defineTask({ name: "t", run: async () => [{ rows: [{ at: new Date() }] }] });
// @ts-expect-error -- a Date that may be there
defineTask({ name: "t", run: (n: number) => ({ at: n > 1 ? new Date(n) : null }) });
// @ts-expect-error -- a Date in an input
defineTask({ name: "t", run: ({ at }: { at: Date }) => at.getTime() });
// @ts-expect-error -- a bigint
defineTask({ name: "t", run: () => ({ id: 1n }) });
// @ts-expect-error -- a Map
defineTask({ name: "t", run: () => new Map([["a", 1]]) });
// @ts-expect-error -- a Set
defineTask({ name: "t", run: () => ({ ids: new Set([1]) }) });
// @ts-expect-error -- a function
defineTask({ name: "t", run: () => ({ again: () => 1 }) });
// @ts-expect-error -- a symbol
defineTask({ name: "t", run: () => ({ mark: Symbol("mark") }) });
// @ts-expect-error -- bytes
defineTask({ name: "t", run: () => Buffer.from("a") });
// @ts-expect-error -- an object of a class with methods
defineTask({ name: "t", run: () => new URL("http://localhost") });
// @ts-expect-error -- callers would pass a Date
defineTask({ name: "t", input: z.object({ at: z.date() }), run: () => 1 });
// @ts-expect-error -- a Date in the result of a task with a schema
defineTask({ name: "t", input: z.object({ id: z.string() }), run: () => ({ at: new Date() }) });

/** A helper that defines tasks of any types says itself that they are JSON. */
export function quiet<Input, Result>(
  name: string,
  run: (input: Input, ctx: Context) => Promise<Result>,
): Task<Input, Result> {
  const unchecked: AnyTask["run"] = run;
  return defineTask({ name, run: unchecked }) as Task<Input, Result>;
}

// ── With a schema: callers pass its input, run() gets its output ─────────────────────────────────

export const shipZod = defineTask({
  name: "order.ship",
  input: z.object({ id: z.string(), at: z.iso.datetime().transform((text) => new Date(text)) }),
  run({ id, at }) {
    void (true satisfies Same<typeof id, string>);
    void (true satisfies Same<typeof at, Date>);
    return at.getTime();
  },
});
void (true satisfies Same<typeof shipZod, Task<{ id: string; at: string }, number>>);

export const shipValibot = defineTask({
  name: "order.ship",
  input: v.object({ id: v.string(), boxes: v.optional(v.number(), 1) }),
  async run({ id, boxes }) {
    void (true satisfies Same<typeof boxes, number>);
    return [id, boxes] as const;
  },
});
void (true satisfies Same<
  typeof shipValibot,
  Task<{ id: string; boxes?: number | undefined }, readonly [string, number]>
>);

export async function withSchema(): Promise<void> {
  const zod = await holdfast.enqueue(shipZod, { id: "1", at: "2027-01-01T00:00:00Z" });
  void (true satisfies Same<Awaited<ReturnType<typeof zod.result>>, number>);
  // @ts-expect-error -- callers pass the schema's input, a text, not its output, a Date
  await holdfast.enqueue(shipZod, { id: "1", at: new Date(0) });
  // @ts-expect-error -- `at` is missing
  await holdfast.enqueue(shipZod, { id: "1" });

  const valibot = await holdfast.enqueue(shipValibot, { id: "1" });
  void (true satisfies Same<Awaited<ReturnType<typeof valibot.result>>, readonly [string, number]>);
  // @ts-expect-error -- a text is not a number of boxes
  await holdfast.enqueue(shipValibot, { id: "1", boxes: "2" });
}

// ── Completed in a transaction: what is given back is what was given ─────────────────────────────

export async function completed(tx: unknown): Promise<void> {
  const task = defineTask({
    name: "complete",
    run: async (id: number, ctx) => ctx.complete(tx, { shipped: id }),
  });
  const job = await holdfast.enqueue(task, 1);
  void (true satisfies Same<Awaited<ReturnType<typeof job.result>>, { shipped: number }>);
}

// ── By name: nothing is known ────────────────────────────────────────────────────────────────────

export async function byName(): Promise<void> {
  const job = await holdfast.enqueue("somebody.elses", { any: ["thing"] });
  void (true satisfies Same<typeof job, Job<unknown>>);
  // @ts-expect-error -- the result of a task known by name only is unknown
  void (await job.result()).sentTo;
}

// ── Many at once ─────────────────────────────────────────────────────────────────────────────────

export async function many(): Promise<void> {
  const jobs = await holdfast.enqueueMany(mail, [{ to: "ada" }, { to: "bob" }], ({ to }, index) => {
    void (true satisfies Same<typeof to, string>);
    return { key: `${to}-${index}` };
  });
  void (true satisfies Same<typeof jobs, Job<{ sentTo: string }>[]>);
  // @ts-expect-error -- one of the inputs has no `to`
  await holdfast.enqueueMany(mail, [{ to: "ada" }, {}]);
  // @ts-expect-error -- the options of each job are options too
  await holdfast.enqueueMany(mail, [{ to: "ada" }], () => ({ keys: "1" }));
}

// ── Options ──────────────────────────────────────────────────────────────────────────────────────

export async function options(): Promise<void> {
  await holdfast.enqueue(
    mail,
    { to: "ada" },
    { delay: "10s", priority: 1, key: "k", maxAttempts: 2 },
  );
  await holdfast.enqueue(mail, { to: "ada" }, { key: "k", keyFor: "7d", onConflict: "replace" });
  // @ts-expect-error -- a conflict is one of three words
  await holdfast.enqueue(mail, { to: "ada" }, { key: "k", onConflict: "ignore" });
  // @ts-expect-error -- there is no option `prio`
  await holdfast.enqueue(mail, { to: "ada" }, { prio: 1 });
  // @ts-expect-error -- a moment is a Date or milliseconds, not a text
  await holdfast.enqueue(mail, { to: "ada" }, { runAt: "2027-01-01" });
  // @ts-expect-error -- a status is one of eight words
  await holdfast.jobs.list({ status: "finished" });
  // @ts-expect-error -- a lease is given back as done, failed, suspended or released
  await holdfast.leases.release({ id: "", worker: "", epoch: 1 }, { as: "lost" });
  // @ts-expect-error -- a failed attempt comes with its error
  await holdfast.leases.release({ id: "", worker: "", epoch: 1 }, { as: "failed" });
}

// @ts-expect-error -- a task has a name
defineTask({ run: () => null });
// @ts-expect-error -- a task has a function
defineTask({ name: "idle" });
// @ts-expect-error -- there is no option `retries`
defineTask({ name: "typo", retries: 3, run: () => null });

// ── Workers and the test kit take tasks of any types ─────────────────────────────────────────────

export async function workers(): Promise<void> {
  const chosen: WorkerOptions = { tasks: [mail, shipZod, shipValibot], concurrency: 4 };
  await holdfast.startWorker(chosen);
  // @ts-expect-error -- there is no option `concurency`
  await holdfast.startWorker({ tasks: [mail], concurency: 4 });
  // @ts-expect-error -- a worker without tasks has nothing to do
  await holdfast.startWorker({ concurrency: 4 });

  worker.on("job:done", ({ id, durationMs }) => {
    void (true satisfies Same<typeof id, string>);
    void (true satisfies Same<typeof durationMs, number>);
  });
  worker.on(
    "job:retrying",
    ({ retryAt }) => void (true satisfies Same<typeof retryAt, number | null>),
  );
  // @ts-expect-error -- there is no such event
  worker.on("job:finished", () => {});
  // @ts-expect-error -- a completed attempt has no error
  worker.on("job:done", ({ error }) => error);
}

// ── Reports and their watchers ────────────────────────────────────────────────────────────────────

export const chatty = defineTask({
  name: "chatty",
  run(_input: null, ctx) {
    ctx.progress(0.5, "halfway");
    ctx.progress({ done: 1, total: 2 });
    ctx.log("text", { any: ["data"] });
    void (true satisfies Same<ReturnType<typeof ctx.report>, void>);
    // @ts-expect-error -- so many of how many?
    ctx.progress({ done: 1 });
    // @ts-expect-error -- a log line has a text
    ctx.log({ rows: 3 });
  },
});

export async function watching(): Promise<void> {
  const job = await holdfast.enqueue(chatty, null);
  for await (const entry of job.watch({ after: 3, signal: AbortSignal.timeout(1_000) })) {
    void (true satisfies Same<typeof entry.seq, number>);
    if (entry.kind === "progress") void (true satisfies Same<typeof entry.share, number>);
    if (entry.kind === "log") void (true satisfies Same<typeof entry.text, string>);
    if (entry.kind === "report") void (true satisfies Same<typeof entry.name, string>);
    if (entry.kind === "status") void (true satisfies Same<typeof entry.status, Status>);
    // @ts-expect-error -- not every entry has a text
    void entry.text;
  }
  const [first] = await holdfast.jobs.reports(job.id, { kind: "log", newest: true, limit: 1 });
  // @ts-expect-error -- a page has no statuses
  void (first?.kind === "status");
}

export async function testKit(): Promise<void> {
  await using kit = await openTestHoldfast({ start: new Date(0), seed: 2 });
  void (true satisfies Same<typeof kit.holdfast, Holdfast>);
  await kit.clock.advance("1h");
  const drained = await drain(kit.holdfast, [mail, shipZod, shipValibot], { skipTime: true });
  void (true satisfies Same<typeof drained, Drained>);
  // @ts-expect-error -- what a job failed with is there only if it failed
  void drained.jobs[0]?.error.message;
  // @ts-expect-error -- a clock starts at a Date or at milliseconds
  testClock("2027-01-01");
}

// ── Flows, batches and jobs of different tasks ───────────────────────────────────────────────────

export async function flows(): Promise<void> {
  const [length, sent] = await holdfast.enqueueMany([
    [ship, "7"],
    [mail, { to: "ada" }, { delay: "1h" }],
  ]);
  void (true satisfies Same<typeof length, Job<number>>);
  void (true satisfies Same<typeof sent, Job<{ sentTo: string }>>);
  // @ts-expect-error -- a number is not an id
  await holdfast.enqueueMany([[ship, 7]]);

  const flow = await holdfast.flows.enqueue("f", (jobs) => {
    const first = jobs.job(ship, "7");
    jobs.job(mail, { to: "ada" }, { after: [first], onFailed: "ignore" });
    // @ts-expect-error -- a number is not an id
    jobs.job(ship, 7);
    // @ts-expect-error -- there is no such policy
    jobs.job(ship, "7", { after: [first], onFailed: "explode" });
  });
  void (true satisfies Same<typeof flow.id, string>);

  await holdfast.batches.enqueue("b", [[ship, "7"]], { callback: [mail, { to: "ada" }] });
  // @ts-expect-error -- a number is not an id
  await holdfast.batches.add("b", [[ship, 7]]);
  const pairs = ["1", "2"].map((id) => [ship, id] as const);
  await holdfast.batches.enqueue("b", pairs);
  const lengths = await holdfast.enqueueMany(pairs);
  void (true satisfies Same<typeof lengths, Job<number>[]>);
  await holdfast.batches.enqueue("by name", [["ship", { anything: 1 }]]);

  defineTask({
    name: "fan-in",
    async run(_: null, ctx) {
      const results = await ctx.results(mail);
      void (true satisfies Same<typeof results, { sentTo: string }[]>);
    },
  });
}
