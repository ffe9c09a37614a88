/** Example tasks for `holdfast start` in a folder without tasks. */
import { z } from "zod";
import type { Holdfast } from "../app/holdfast.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import { defineTask } from "../core/task.ts";

const STEPS = 20;
const STEP_MS = 250;
const MOOD = 0.3;

export const greet = defineTask({
  name: "greet",
  input: z.object({ name: z.string() }),
  run: ({ name }) => `Hello, ${name}!`,
});

export const sum = defineTask({
  name: "sum",
  input: z.array(z.number()),
  run: (numbers) => numbers.reduce((total, number) => total + number, 0),
});

/** Takes a few seconds and reports progress: `holdfast job <id> --follow`. */
export const report = defineTask({
  name: "report",
  input: z.object({ pages: z.int().positive() }),
  async run({ pages }, ctx) {
    for (let step = 1; step <= STEPS; step += 1) {
      await sleep(systemRuntime, STEP_MS, { signal: ctx.signal });
      ctx.signal.throwIfAborted();
      ctx.progress(step / STEPS, `page ${Math.ceil((pages * step) / STEPS)} of ${pages}`);
    }
    return { pages };
  },
});

/** Fails now and then, and is retried. */
export const moody = defineTask({
  name: "moody",
  retry: { maxAttempts: 3, backoff: { initial: "2s", max: "10s" } },
  input: z.object({ mood: z.string() }),
  run({ mood }) {
    if (systemRuntime.random() < MOOD) throw new Error(`not in a ${mood} mood`);
    return mood;
  },
});

/** As many as fit a screen. */
const NAMES = ["Ada", "Grace", "Barbara", "Frances", "Radia", "Margaret"];
const REPORTS = 4;
const MOODS = 12;

/** Enqueues a few jobs if the database has none. Returns how many. */
export async function sprinkle(holdfast: Holdfast): Promise<number> {
  const [any] = await holdfast.jobs.list({ limit: 1 });
  if (any !== undefined) return 0;
  const names = NAMES.map((name) => ({ name }));
  const sums = NAMES.map((_, index) => [index, 19, 23]);
  const reports = Array.from({ length: REPORTS }, () => ({ pages: 60 }));
  const moods = Array.from({ length: MOODS }, () => ({ mood: "good" }));
  await holdfast.enqueueMany(greet, names);
  await holdfast.enqueueMany(sum, sums);
  await holdfast.enqueueMany(report, reports);
  await holdfast.enqueueMany(moody, moods);
  return names.length + sums.length + reports.length + moods.length;
}
