/** Every log line of the server carries the name of its event. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer } from "./client.ts";

test("log lines of the server name their event", async () => {
  await using api = await TestServer.open();
  await api.get("/api/v1/jobs");
  await api.get("/api/v1/jobs", 401, { headers: { authorization: "Bearer hft_wrong" } });
  api.holdfast.store.requests.begin = () => Promise.reject(new Error("broken"));
  await api.post("/api/v1/jobs", { task: "a" }, 500, { headers: { "idempotency-key": "k" } });
  const named = api.log.map((line) => /"event":"([a-z:-]+)"/.exec(line)?.[1] ?? line);
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
