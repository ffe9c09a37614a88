/** The worker that is killed: `node victim.ts <url> <name> <queue> <task> <endless|block>`. Its job never ends. */
import { writeSync } from "node:fs";
import { defineTask, openHoldfast } from "../../src/index.ts";

const [url = "", name = "", queue = "", task = "", how = ""] = process.argv.slice(2);

const endless = defineTask({
  name: task,
  queue,
  async run() {
    writeSync(1, "running\n");
    if (how === "block") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    await new Promise(() => {});
  },
});

const holdfast = await openHoldfast(url);
await holdfast.startWorker({
  name,
  tasks: [endless],
  concurrency: 3,
  version: name,
  maxBlock: "10m",
});
