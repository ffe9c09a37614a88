/** Fetches three regions at once, merges them when the last one has arrived, and survives a region that fails. */
import { defineTask, openHoldfast } from "holdfast";

const fetchRegion = defineTask({
  name: "report.fetch",
  retry: { maxAttempts: 1 },
  async run({ region }: { region: string }) {
    if (region === "nowhere") throw new Error("there is no such region");
    return { region, cents: region.length * 1_000 };
  },
});

const merge = defineTask({
  name: "report.merge",
  async run({ month }: { month: string }, ctx) {
    const parts = await ctx.results(fetchRegion);
    return { month, cents: parts.reduce((sum, part) => sum + part.cents, 0) };
  },
});

const summary = defineTask({
  name: "report.summary",
  async run(_: null, ctx) {
    const lines: string[] = [];
    for await (const { task, status } of ctx.dependencies()) lines.push(`${task} ${status}`);
    return lines.toSorted().join(", ");
  },
});

await using holdfast = await openHoldfast("sqlite::memory:");
await holdfast.startWorker({ tasks: [fetchRegion, merge, summary] });

const flow = await holdfast.flows.enqueue("monthly report", (jobs) => {
  const parts = ["eu", "us", "asia"].map((region) => jobs.job(fetchRegion, { region }));
  jobs.job(merge, { month: "2026-11" }, { after: parts });
});
const report = await flow.jobs.at(-1)?.result({ timeout: "10s" });
console.log(`merged: ${JSON.stringify(report)}`);

const batch = await holdfast.batches.enqueue(
  "regions",
  [
    [fetchRegion, { region: "eu" }],
    [fetchRegion, { region: "nowhere" }],
  ],
  { callback: [summary, null] },
);
console.log(`all have ended: ${String(await batch.callback?.result({ timeout: "10s" }))}`);
const progress = await holdfast.flows.get(batch.id);
console.log(`${progress?.done} done, ${progress?.failed} failed of ${progress?.total}`);
