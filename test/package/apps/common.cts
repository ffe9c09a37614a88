import { defineTask, openHoldfast } from "holdfast";
import { defineWorkflow } from "holdfast/workflows";
import ops = require("holdfast/ops");

const greet = defineTask({
  name: "greet",
  run: (input: { name: string }) => `hello ${input.name}`,
});
const order = defineWorkflow({
  name: "order",
  initial: "open",
  states: { open: { final: true } },
  moves: {},
});

async function main(): Promise<void> {
  await using holdfast = await openHoldfast("sqlite:common.db");
  await holdfast.startWorker({ tasks: [greet], workflows: [order] });
  const job = await holdfast.enqueue(greet, { name: "Ada" });
  console.log(await job.result({ timeout: "20s" }));
  console.log((await new ops.Doctor(holdfast).examine()).healthy);
}

void main();
