/** How fast jobs with three steps are worked off: by a whole worker, and by the bare loop. */
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import type { SqlEngine } from "../fill.ts";
import { freshStatistics, scratchPlace } from "../places.ts";
import { expectCount, inBulks, rate } from "../questions/question.ts";
import { Countdown } from "../systems/system.ts";
import { openBare } from "./bare.ts";
import { STEPS } from "./statement.ts";

const threeSteps = defineTask({
  name: "three-steps",
  async run(_input: string, ctx) {
    for (const name of STEPS) await ctx.step(name, () => ({ ok: true }));
  },
});

export interface Load {
  readonly engine: SqlEngine;
  readonly jobs: number;
  readonly concurrency: number;
}

export interface Pace {
  /** Jobs a second. */
  readonly rate: number;
  /** Jobs that were claimed in one turn, on average. */
  readonly batch: number;
  /** Milliseconds of this process's processor for a job, its threads' among them. */
  readonly cpuMs: number;
}

export function workerPace(load: Load): Promise<Pace> {
  return atWork(load, async ({ holdfast }) => {
    const { jobs, concurrency } = load;
    const turns = countTurns(holdfast);
    const left = new Countdown(jobs);
    const worker = await holdfast.startWorker({ tasks: [threeSteps], concurrency });
    worker.on("job:done", left.tick);
    const timed = await time(jobs, () => left.over);
    await worker.stop();
    return { ...timed, batch: jobs / turns() };
  });
}

/** With turns of the size that the worker's had. */
export function barePace(load: Load, batch: number): Promise<Pace> {
  return atWork(load, async ({ holdfast, place }) => {
    const { engine, jobs, concurrency } = load;
    const store = holdfast.store;
    const task = threeSteps.name;
    await using bare = await openBare(engine, { place, store, task, concurrency });
    let drained = 0;
    const timed = await time(jobs, async () => {
      drained = await bare.run(Math.max(1, Math.round(batch)));
    });
    expectCount("drained", drained, jobs);
    return { ...timed, batch };
  });
}

async function time(jobs: number, body: () => Promise<void>): Promise<Omit<Pace, "batch">> {
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  await body();
  const ms = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  return { rate: rate(jobs, ms), cpuMs: (user + system) / 1_000 / jobs };
}

type AtWork = { holdfast: Holdfast; place: Awaited<ReturnType<typeof scratchPlace>> };

/** In a place of its own with all jobs pending; afterwards every one of them is done and has its steps. */
async function atWork({ engine, jobs }: Load, body: (at: AtWork) => Promise<Pace>): Promise<Pace> {
  await using place = await scratchPlace(engine);
  await using holdfast = await openHoldfast(place.url, { redis: "" });
  for (const inputs of inBulks("x", jobs)) await holdfast.enqueueMany(threeSteps, inputs);
  await freshStatistics(engine, place);
  const pace = await body({ holdfast, place });
  const [stats] = await holdfast.stats();
  expectCount("done", stats?.counts.done ?? 0, jobs);
  const [job] = await holdfast.jobs.list({ limit: 1 });
  expectCount("kept", (await holdfast.jobs.steps(job?.id ?? "")).length, STEPS.length);
  return pace;
}

/** Turns of a worker in this process, from now on. */
function countTurns({ store }: Holdfast): () => number {
  let turns = 0;
  const turn = store.jobs.settleAndClaim.bind(store.jobs);
  store.jobs.settleAndClaim = (...args) => {
    turns += 1;
    return turn(...args);
  };
  return () => turns;
}
