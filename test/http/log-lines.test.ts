/** Every log line of the server carries the name of its event. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Desk } from "./client.ts";

test("log lines of the server name their event", async () => {
  await using desk = await Desk.open();
  await desk.get("/api/v1/jobs");
  await desk.get("/api/v1/jobs", 401, { headers: { authorization: "Bearer hft_wrong" } });
  desk.holdfast.store.requests.begin = () => Promise.reject(new Error("broken"));
  await desk.post("/api/v1/jobs", { task: "a" }, 500, { headers: { "idempotency-key": "k" } });
  const named = desk.log.map((line) => /"event":"([a-z:-]+)"/.exec(line)?.[1] ?? line);
  assert.deepEqual(new Set(named), new Set(EVENTS));
});

const EVENTS = [
  "http:listening",
  "http:no-token",
  "http:request",
  "http:token-refused",
  "http:failed",
];

after(() => assertNothingRuns());
