/** The worker that is killed: `node victim.ts <url> <name> <queue> <task>`. Its job never ends. */
import { defineTask, openHoldfast } from "../../src/index.ts";

const [url = "", name = "", queue = "", task = ""] = process.argv.slice(2);

const endless = defineTask({
  name: task,
  queue,
  async run() {
    console.log("running");
    await new Promise(() => {});
  },
});

const holdfast = await openHoldfast(url);
await holdfast.startWorker({ name, tasks: [endless], concurrency: 3, version: name });
