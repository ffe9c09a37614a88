/** A worker with tasks that do to their process whatever a test needs done. */
import { defineTask } from "../../src/index.ts";
import { codeOf } from "../worker/observe.ts";
import { config, openHere, say, blockFor, startHere, stopListening, told } from "./worker-child.ts";

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

/** Blocks the event loop for this long, or for good at the first attempt. */
const block = defineTask({
  name: "block",
  run({ ms }: { ms: number | "for good" }, { attempt }) {
    if (ms !== "for good") blockFor(ms);
    else if (attempt === 1) blockFor(Number.POSITIVE_INFINITY);
    return config.role;
  },
});

/** Kills its process: nothing is said, nothing is cleaned up. */
const kill = defineTask({ name: "kill", run: () => process.kill(process.pid, "SIGKILL") });

/** Takes its time, so that it runs beside others. */
const linger = defineTask({
  name: "linger",
  async run({ ms }: { ms: number }) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return config.role;
  },
});

/** Runs until it is told to end, or aborted. */
const hold = defineTask({
  name: "hold",
  run: (_input: null, { id, signal }) =>
    new Promise((resolve, reject) => {
      void told("go").then(() => resolve(config.role));
      signal.addEventListener("abort", () => {
        say("aborted", { id, code: codeOf(signal.reason) });
        reject(new Error("interrupted"));
      });
    }),
});

const holdfast = await openHere();
await startHere(holdfast, [echo, block, kill, linger, hold]);
await told("close");
await holdfast.close();
say("closed");
stopListening();
