/** Debounce and throttle through the client. What the database does about it is in the conformance suite. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { defineTask } from "../../src/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "./observe.ts";

after(assertNothingRuns);

const seen: string[] = [];
const reindex = defineTask({ name: "reindex", run: (what: string) => void seen.push(what) });

test("a debounced task runs once, with the last input", async () => {
  seen.length = 0;
  await using kit = await openTestHoldfast();
  const options = { key: "shop 1", debounce: { wait: "5s", maxWait: "1m" } } as const;
  const first = await kit.holdfast.enqueue(reindex, "a", options);
  await kit.clock.advance("4s");
  const second = await kit.holdfast.enqueue(reindex, "b", options);
  assert.deepEqual([second.id, second.added], [first.id, false]);
  assert.equal((await first.get()).key, "shop 1");
  await kit.drain([reindex], { skipTime: true });
  assert.deepEqual(seen, ["b"]);
  await kit.holdfast.enqueue(reindex, "c", { key: "shop 1", debounce: 10 });
  await kit.drain([reindex], { skipTime: true });
  assert.deepEqual(seen, ["b", "c"]);
});

test("a throttled task runs for the first call of a period", async () => {
  seen.length = 0;
  await using kit = await openTestHoldfast();
  const options = { key: "shop 1", throttle: "1m" } as const;
  const jobs = await kit.holdfast.enqueueMany(reindex, ["a", "b"], options);
  assert.deepEqual(
    jobs.map(({ added }) => added),
    [true, false],
  );
  await kit.drain([reindex]);
  await kit.clock.advance("1m");
  assert.ok((await kit.holdfast.enqueue(reindex, "c", options)).added);
  await kit.drain([reindex]);
  assert.deepEqual(seen, ["a", "c"]);
});

test("options that cannot be combined are refused, and the error names the field", async () => {
  await using kit = await openTestHoldfast();
  const key = "k";
  const refusals: [field: string, options: object][] = [
    ["debounce", { debounce: "5s" }],
    ["throttle", { throttle: "5s" }],
    ["throttle", { key, debounce: "5s", throttle: "5s" }],
    ["delay", { key, debounce: "5s", delay: "1s" }],
    ["runAt", { key, debounce: "5s", runAt: 5 }],
    ["keyFor", { key, throttle: "5s", keyFor: "1s" }],
    ["onConflict", { key, debounce: "5s", onConflict: "replace" }],
    ["throttle", { key, throttle: 0 }],
    ["debounce.wait", { key, debounce: 0 }],
    ["debounce.wait", { key, debounce: {} }],
    ["debounce.waits", { key, debounce: { waits: 1 } }],
    ["debounce.maxWait", { key, debounce: { wait: "5s", maxWait: "1s" } }],
    ["key", { key: "", debounce: "5s" }],
  ];
  for (const [field, options] of refusals) {
    await assert.rejects(
      kit.holdfast.enqueue(reindex, "a", options),
      withCode("INVALID_ARGUMENT", field),
      JSON.stringify(options),
    );
  }
});
