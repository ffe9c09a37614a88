import { defineTask, openHoldfast } from "holdfast";
import { dashboardHandler } from "holdfast/dashboard";
import { openTestHoldfast } from "holdfast/testing";

const double = defineTask({ name: "double", run: (n: number) => n * 2 });

async function main(): Promise<void> {
  const holdfast = await openHoldfast("sqlite:bundled.db");
  const worker = await holdfast.startWorker({ tasks: [double] });
  const job = await holdfast.enqueue(double, 21);
  console.log(await job.result({ timeout: "20s" }));
  await worker.stop();
  await holdfast.close();
  console.log(typeof dashboardHandler, typeof openTestHoldfast);
}

main().catch((error: Error & { code?: string }) => console.log(error.code, error.message));
