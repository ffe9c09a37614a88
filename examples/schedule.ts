/** Sends a report every second, is paused and edited while the worker runs, and shows what a change of the clock does. */
import { defineTask, openHoldfast } from "holdfast";
import { defineSchedule } from "holdfast/schedules";

const arrived = Promise.withResolvers<string>();

const report = defineTask({
  name: "report.send",
  async run({ to }: { to: string }, ctx) {
    const run = await ctx.holdfast.schedules.runOf(ctx.id);
    arrived.resolve(`a report for ${to}, of schedule ${run?.schedule}`);
  },
});

const often = defineSchedule({
  name: "often",
  task: report,
  input: { to: "ada" },
  every: "1s",
  overlap: "skip",
});

await using holdfast = await openHoldfast("sqlite::memory:");
await holdfast.startWorker({ tasks: [report], schedules: [often] });
console.log(await arrived.promise);

// From here on at night, once it is resumed.
await holdfast.schedules.pause("often", { actor: "ada", reason: "too many" });
const edited = await holdfast.schedules.edit(
  "often",
  { cron: "30 2 * * MON-FRI", timeZone: "Europe/Berlin" },
  { actor: "ada" },
);
console.log(edited.words);

const { nextRuns } = await holdfast.schedules.preview({
  cron: "30 2 * * *",
  timeZone: "Europe/Berlin",
  after: new Date("2027-03-27T12:00:00Z"),
  count: 2,
});
// On the 28th the clock jumps from 02:00 to 03:00: the run is then, at 01:00 UTC.
console.log(nextRuns.map((at) => new Date(at).toISOString()).join(" "));
