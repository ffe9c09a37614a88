/** What is refused is said in our own words: which field, what it must be, what it was. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { refused } from "../../src/http-kernel/body.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer } from "./client.ts";

const ID = "018f2c5e-9b3a-700c-91f2-4c7d9be03a58";
const fence = { worker: "w-1", epoch: 1 };

const posts: [string, unknown, string, string][] = [
  ["/jobs", {}, "task", "task is required and must be a string."],
  ["/jobs", { task: 1 }, "task", "task must be a string; got 1."],
  ["/jobs", { task: "" }, "task", 'task must have between 1 and 128 characters; got "".'],
  [
    "/jobs",
    { task: "a\u0000" },
    "task",
    String.raw`task must contain no control characters; got "a\u0000".`,
  ],
  ["/jobs", { task: "a", more: 1 }, "more", "Unknown field 'more'. Allowed: task, input, options."],
  ["/jobs", [], "", "The body must be an object; got a list of 0."],
  [
    "/jobs",
    { task: "a", options: { priority: 1.5 } },
    "options.priority",
    "options.priority must be a whole number between -32767 and 32767; got 1.5.",
  ],
  [
    "/jobs",
    { task: "a", options: { onConflict: "shout" } },
    "options.onConflict",
    'options.onConflict must be one of return, replace, reject; got "shout".',
  ],
  [
    "/jobs",
    { task: "a", options: { delay: true } },
    "options.delay",
    "options.delay must be milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m; got true.",
  ],
  [
    "/jobs/bulk",
    { jobs: [] },
    "jobs",
    "jobs must have between 1 and 5000 entries; got a list of 0.",
  ],
  [
    "/jobs/bulk",
    { jobs: [{ task: "a" }, {}] },
    "jobs.1.task",
    "jobs.1.task is required and must be a string.",
  ],
  [
    "/leases/acquire",
    { worker: "w-1", limit: 0 },
    "limit",
    "limit must be between 1 and 100; got 0.",
  ],
  [
    `/leases/${ID}/settle`,
    { ...fence, as: "lost" },
    "as",
    'as must be one of done, failed, suspended, released; got "lost".',
  ],
  [
    `/leases/${ID}/settle`,
    fence,
    "as",
    "as is required and must be one of done, failed, suspended, released.",
  ],
  [
    `/leases/${ID}/settle`,
    { ...fence, as: "failed", error: 7 },
    "error",
    "error must be a string, or an object with a message; got 7.",
  ],
  [
    `/jobs/${ID}/retry`,
    { attempts: "x".repeat(99) },
    "attempts",
    "attempts must be a whole number between 1 and 1000; got a string of 99 characters.",
  ],
];

test("an invalid field of a body is named, with the allowed and the given value", async () => {
  await using api = await TestServer.open();
  for (const [path, body, field, detail] of posts) {
    const problem = await api.post(`/api/v1${path}`, body, 422);
    assert.deepEqual([problem.field ?? "", problem.detail], [field, detail]);
  }
});

test("a field of a query is, too", async () => {
  await using api = await TestServer.open();
  const queries: [string, string][] = [
    ["/jobs?limit=0", "limit must be between 1 and 1000; got 0."],
    ["/jobs?limit=many", 'limit must be a whole number between 1 and 1000; got "many".'],
    ["/jobs?before=1", 'before must be `next` from the previous page; got "1".'],
    [
      "/jobs?colour=red",
      "Unknown field 'colour'. Allowed: status, queue, task, key, keyPrefix, tag, lane, worker, build, flow, schedule, kind, code, error, input, enqueuedSince, enqueuedUntil, startedSince, startedUntil, endedSince.",
    ],
    ["/jobs?limit=1&limit=2", "Query parameter 'limit' is given twice. Send it once."],
    ["/workers?all=maybe", 'all must be true or false; got "maybe".'],
    ["/health?x=1", "Unknown field 'x'. This object has no fields."],
  ];
  for (const [path, detail] of queries) {
    const whole = path.startsWith("/health") ? path : `/api/v1${path}`;
    assert.equal((await api.get(whole, 400)).detail, detail);
  }
});

test("a request without a token gets instructions for creating one", async () => {
  await using api = await TestServer.open(undefined, { token: "hft_configured_0123456789" });
  for (const headers of [{}, { authorization: "Bearer hft_wrong" }, { authorization: "Basic x" }]) {
    const { detail } = await api.get("/api/v1/jobs", 401, { headers });
    assert.match(detail, /holdfast tokens create --name/);
  }
});

test("a schema without a description still gets a message", async () => {
  const { z } = await import("zod");
  const schema = z.strictObject({ when: z.string().regex(/^\d+$/), least: z.number().min(3) });
  const words = (given: unknown): string => {
    const read = schema.safeParse(given, { reportInput: true });
    return refused(schema, read.error!.issues[0]!).detail;
  };
  assert.equal(words({ when: "x", least: 3 }), 'when must match the OpenAPI document; got "x".');
  assert.equal(words({ when: "1", least: 2 }), "least must be at least 3; got 2.");
});

after(() => assertNothingRuns());
