/** Explanations through the library and over HTTP. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { defineTask, JobNotFoundError, openHoldfast } from "../../src/index.ts";
import { startServer } from "../../src/app/server.ts";

const send = defineTask({ name: "mail.send", queue: "mail", run: (to: null) => to });

suite("explanations", () => {
  test("are the same in a program and over HTTP", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    await using server = await startServer({ holdfast, port: 0, production: false });
    const ask = async (path: string): Promise<[number, any]> => {
      const response = await fetch(`${server.url}/api/v1${path}`);
      return [response.status, await response.json()];
    };
    const job = await holdfast.enqueue(send, null);
    await holdfast.queues.pause("mail", { actor: "ada", reason: "gateway down" });
    const explanation = await job.explain();
    assert.match(
      explanation.sentence,
      /^Its queue 'mail' is paused: ada paused it (just now|\d+s ago), with the reason "gateway down"\.$/,
    );
    assert.ok(explanation.reason === "paused"); // and so the compiler knows the facts
    assert.deepEqual([explanation.facts.by, explanation.facts.why], ["ada", "gateway down"]);
    assert.deepEqual(await ask(`/jobs/${job.id}/explanation`), [
      200,
      { job: job.id, ...explanation },
    ]);
    const [status, queue] = await ask("/queues/mail/explanation");
    assert.deepEqual([status, queue.queue, queue.reason], [200, "mail", "paused"]);
    assert.match(queue.sentence, /^The queue 'mail' is paused: ada /);
    const unknown = "01990000-0000-7000-8000-000000000000";
    await assert.rejects(holdfast.jobs.explain(unknown), JobNotFoundError);
    assert.equal((await ask(`/jobs/${unknown}/explanation`))[0], 404);
  });
});
