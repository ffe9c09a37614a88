/** A worker that freezes itself when it has written that an effect begins, and before it acts. */
import { openStore } from "../../src/app/store.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { codeOf } from "../worker/observe.ts";
import { wrapStore } from "../worker/wrapped-store.ts";
import { config, logger, say, startHere } from "./worker-child.ts";

const real = await openStore(config.url);
const store = wrapStore(real, () => ({
  steps: {
    async put(fence, step) {
      const written = await real.steps.put(fence, step);
      if (step.status === "begun") process.kill(process.pid, "SIGSTOP");
      return written;
    },
  },
}));
const holdfast = await openHoldfast(store, { logger });

const charge = defineTask({
  name: "charge",
  async run(_input: null, ctx) {
    try {
      await ctx.effect("charge", ({ signal }) => say("acted", { aborted: signal.aborted }));
      say("threw", { code: null });
    } catch (error) {
      say("threw", { code: codeOf(error) });
      throw error;
    }
  },
});

await startHere(holdfast, [charge]);
