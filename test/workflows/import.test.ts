/** Items that come from another system, in the states they have there. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Doctor } from "../../src/app/ops.ts";
import { defineTask } from "../../src/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "../worker/observe.ts";
import { ada, named, onEveryEngine } from "./shop.ts";

after(assertNothingRuns);

const HOUR_MS = 3_600_000;
const print = defineTask({ name: "print", run: async () => {} });

function tours() {
  const tour = defineWorkflow({
    name: named("tour"),
    initial: "planned",
    states: {
      planned: {},
      driving: {
        enter: ({ enqueue }) => enqueue(print, null),
        whenJobsEnd: { done: "finish" },
        limit: { after: "2h", move: "finish" },
      },
      finished: { final: true },
    },
    moves: {
      drive: { from: "planned", to: "driving" },
      finish: { from: "driving", to: "finished" },
    },
  });
  const stop = defineWorkflow({
    name: named("stop"),
    parent: tour,
    initial: "open",
    states: { open: {}, served: { final: true } },
    moves: { serve: { from: "open", to: "served" } },
  });
  return { tour, stop };
}

onEveryEngine("an imported item", (shop) => {
  test("keeps its state and the time it entered it, and continues from there", async () => {
    const { workflows, audit, jobs, store } = shop().holdfast;
    const { tour, stop } = tours();
    const now = Date.now();
    const by = { actor: "importer", reason: "from table tours" };
    const [item] = await workflows.import(
      tour,
      [
        {
          data: { old: 17 },
          identifier: "tour-17",
          status: "driving",
          createdAt: new Date(now - 3 * HOUR_MS),
          enteredAt: now - HOUR_MS,
        },
      ],
      by,
    );
    assert.ok(item !== undefined);
    assert.deepEqual(
      [item.status, item.createdAt, item.enteredAt, item.revision],
      ["driving", now - 3 * HOUR_MS, now - HOUR_MS, 1],
    );
    const [line, ...more] = await workflows.history(item.id);
    assert.deepEqual(
      [line?.action, line?.oldStatus, line?.newStatus, line?.actor, line?.reason, more.length],
      ["import", null, "driving", "importer", "from table tours", 0],
    );
    assert.deepEqual(await jobs.list({ task: "print" }), [], "its jobs ran in the other system");
    const { due, nextInMs } = await store.items.due({ workflows: [tour.name], limit: 5 });
    assert.deepEqual(due, []);
    assert.ok((nextInMs ?? 0) > 0.9 * HOUR_MS && (nextInMs ?? 0) <= HOUR_MS, "one hour is left");
    const stops = await workflows.import(
      stop,
      [
        { data: { n: 1 }, parent: item.id, status: "served" },
        { data: { n: 2 }, parent: item.id, status: "open" },
      ],
      ada,
    );
    assert.deepEqual(
      (await workflows.progress(item.id)).map(({ status, children }) => [status, children]),
      [
        ["open", 1],
        ["served", 1],
      ],
    );
    await stops[1]?.move("serve", ada);
    const finished = await (await workflows.item(tour, item.id)).move("finish", ada);
    assert.equal(finished.status, "finished");
    assert.deepEqual((await audit.verify()).breaks, []);
    const { findings } = await new Doctor(shop().holdfast).examine({ deep: true });
    assert.deepEqual(findings, []);
  });

  test("enters its state with enter: true: the jobs of the state are enqueued", async () => {
    const { workflows, jobs } = shop().holdfast;
    const { tour } = tours();
    await workflows.import(tour, [{ data: {}, status: "driving", enter: true }], ada);
    assert.equal((await jobs.list({ task: "print" })).length, 1);
  });

  test("is refused in a state that is not declared, and at a time that cannot be", async () => {
    const { workflows } = shop().holdfast;
    const { tour } = tours();
    const now = Date.now();
    const refused: Record<string, object> = {
      status: { status: "lost" },
      enteredAt: { status: "driving", enteredAt: now + HOUR_MS },
      createdAt: { status: "driving", enteredAt: now - HOUR_MS, createdAt: now - 5 },
    };
    for (const [field, facts] of Object.entries(refused)) {
      await assert.rejects(
        workflows.import(tour, [{ data: {}, ...facts } as never], ada),
        withCode("INVALID_ARGUMENT", field),
        field,
      );
    }
    assert.deepEqual(await workflows.list(tour), []);
  });
});
