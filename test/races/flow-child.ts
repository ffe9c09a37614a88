/** A worker for flows: each job says how long the longest way to it is. */
import { defineTask } from "../../src/index.ts";
import { config, openHere } from "./worker-child.ts";

/** One more than the greatest of those it waited for. */
const depth = defineTask({
  name: "depth",
  async run({ fails }: { fails?: boolean }, ctx) {
    if (fails === true) throw new Error("a leaf that fails");
    return 1 + Math.max(0, ...(await ctx.results(depthOf)));
  },
});

/** The same by its name and type alone: a task cannot name itself. */
const depthOf = defineTask({ name: "depth", run: () => 0 });

const holdfast = await openHere();
await holdfast.startWorker({ ...config.worker, tasks: [depth] });
process.on("disconnect", () => process.exit());
