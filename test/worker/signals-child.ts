/** A program with a worker of its own, as an application writes it. Its job ends when stdin says so. */
import { once } from "node:events";
import { defineTask, openHoldfast, type WorkerOptions } from "../../src/index.ts";

const [url = "", options = "{}"] = process.argv.slice(2);

const hold = defineTask({
  name: "hold",
  async run() {
    console.log("running");
    await once(process.stdin, "data");
    return "finished";
  },
});

const holdfast = await openHoldfast(url);
const starting = holdfast.startWorker({
  tasks: [hold],
  ...(JSON.parse(options) as Omit<WorkerOptions, "tasks">),
});
console.log("starting");
await starting;
console.log("started");
// What an application waits for must not turn the end of its process into a failure.
await holdfast.enqueue(hold, null, { queue: "nowhere" }).then((job) => job.result());
