/** A night at work: jobs fail for one cause, an operator looks, corrects and retries them, and no customer pays twice. */
import { defineTask, GiveUpError, openHoldfast } from "holdfast";

const charged: string[] = [];
const sent: string[] = [];

const invoice = defineTask({
  name: "invoice.send",
  retry: { maxAttempts: 1 },
  async run({ to, cents }: { to: string; cents: number }, ctx) {
    await ctx.effect("charge", () => void charged.push(`${cents} cents`));
    await ctx.step("address", () => {
      if (!to.includes("@")) throw new GiveUpError(`${to} is no address`);
    });
    await ctx.effect("mail", () => void sent.push(to));
  },
});

const reindex = defineTask({ name: "reindex", run: (what: string) => void sent.push(what) });

const holdfast = await openHoldfast("sqlite::memory:");
const worker = await holdfast.startWorker({ tasks: [invoice, reindex] });
const idle = async (): Promise<void> => {
  for (;;) {
    const [stats] = await holdfast.stats();
    const { pending = 0, processing = 0, scheduled = 0 } = stats?.counts ?? {};
    if (pending + processing + scheduled === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};

// Tags say what belongs together.
const customers = ["ada@example.org", "bob", "cy"];
await holdfast.enqueueMany(
  invoice,
  customers.map((to) => ({ to, cents: 500 })),
  { tags: ["november"] },
);
await idle();

// What failed, and why?
const failed = await holdfast.jobs.list({ status: "failed", tag: ["november"] });
for (const { task, lastError } of failed) console.log(`${task}: ${lastError?.message}`);

// Correct one input. The job stays the same one: its charge is not repeated.
const actor = "ada";
for (const { id, lastError } of failed) {
  const to = `${lastError?.message.split(" ")[0] ?? ""}@example.org`;
  await holdfast.jobs.retry(id, {
    input: { to, cents: 500 },
    actor,
    reason: "typing error",
  });
}
await idle();
console.log(`charged ${charged.length} times, sent to ${sent.toSorted().join(", ")}`);

// Send one of them again, without charging again.
const [newest] = await holdfast.jobs.list({ tag: ["november"], limit: 1 });
const id = newest?.id ?? "";
const plan = await holdfast.jobs.planRerun(id, { from: "mail" });
console.log(
  `keeps ${plan.keeps.map(({ name }) => name).join(", ")}; repeats ${plan.confirm.join(", ")}`,
);
await holdfast.jobs.rerun(id, { from: "mail", confirm: plan.confirm, actor });
await idle();
console.log(`charged ${charged.length} times, sent ${sent.length} mails`);

// Many calls, one job: the last one wins.
for (const word of ["h", "ho", "hold"]) {
  await holdfast.enqueue(reindex, word, {
    key: "search",
    debounce: { wait: "50ms", maxWait: "1s" },
  });
}
await idle();
console.log(`reindexed ${sent.at(-1)}`);

// All of November in one action: first the number, then the deed.
const filter = { tag: ["november"], status: "done" } as const;
const count = await holdfast.bulk.start({ action: "delete", filter, dryRun: true }, { actor });
console.log(`would delete ${(await holdfast.bulk.run(count)).matched}`);
const deletion = await holdfast.bulk.start({ action: "delete", filter }, { actor });
console.log(`deleted ${(await holdfast.bulk.run(deletion)).changed}`);

await worker.stop();
await holdfast.close();
