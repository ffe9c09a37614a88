/** Jobs that end, fill or block the process that runs them. The mails that run beside them do not notice. */
import { defineTask, JobFailedError, openHoldfast } from "holdfast";

/** Each of its jobs runs in a process of its own, which imports this module to find the task. */
export const convert = defineTask({
  name: "convert",
  timeout: "5s",
  retry: { maxAttempts: 1 },
  isolation: { in: "process", module: import.meta.url, memory: 64 },
  async run({ file }: { file: string }, ctx) {
    const size = await ctx.step("read", () => file.length);
    if (file === "broken.png") process.exit(1);
    // As an endless loop does, but without using the processor.
    if (file === "endless.gif") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (file === "huge.png")
      for (const rows: unknown[] = []; ;) rows.push(Array.from({ length: 1e5 }, String));
    return `${file}: ${size} bytes`;
  },
});

export const mail = defineTask({
  name: "mail",
  run: ({ to }: { to: string }) => `sent to ${to}`,
});

// The processes import this module too: only the program itself starts a worker.
if (import.meta.main) {
  await using holdfast = await openHoldfast("sqlite::memory:");
  await holdfast.startWorker({ tasks: [convert, mail] });

  const files = ["photo.png", "broken.png", "huge.png", "endless.gif"].map((file) => ({ file }));
  const people = ["ada", "bob", "eve"].map((to) => ({ to }));
  const conversions = await holdfast.enqueueMany(convert, files);
  const mails = await holdfast.enqueueMany(mail, people);

  for (const job of [...mails, ...conversions]) {
    try {
      console.log(await job.result());
    } catch (error) {
      if (!(error instanceof JobFailedError)) throw error;
      console.log((error.error as Error).message.replace(job.id, "it"));
    }
  }
}
