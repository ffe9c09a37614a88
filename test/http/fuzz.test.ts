/**
 * Hostile requests over real sockets: no answer says that something went wrong inside, the process lives, nothing is
 * logged as an error, and its memory stays where it was.
 */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, test } from "node:test";
import * as fc from "fast-check";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { isLong, runSeed, sized } from "../support/scale.ts";
import { tempFolder } from "../support/folder.ts";
import { ServerProcess } from "./child.ts";

const REQUESTS = sized(800, 5_000);
const WARM_UP = 500;
/** A sample may meet few of the others. */
const WANTED = isLong ? ["200", "201", "400", "404", "405", "415", "422"] : ["200", "400", "404"];
const AT_ONCE = 16;
const SEED = runSeed;
const MEMORY_MAX = 50 * 1_024 * 1_024;
const ANSWER_MS = 10_000;

const ID = "018f2c5e-9b3a-700c-91f2-4c7d9be03a58";
const folder = tempFolder();

const nasty = fc.constantFrom(
  "..",
  "..%2f",
  "%2e%2e/",
  "%00",
  "\\..\\",
  "%ff%fe",
  "%ed%a0%80",
  "'; drop table job; --",
  "__proto__",
  "constructor",
  "%0d%0aX-Evil:%201",
  "<script>",
  "%",
  "%zz",
  "*",
  ID,
  "jobs",
  "-1",
  "1e309",
  "9007199254740993",
  "x".repeat(300),
);

const methods = fc.constantFrom(
  "GET",
  "POST",
  "HEAD",
  "PUT",
  "DELETE",
  "PATCH",
  "OPTIONS",
  "TRACE",
  "get",
  "BREW",
  "CONNECT",
);

const known = [
  "/health",
  "/metrics",
  "/api/v1/openapi.json",
  "/api/v1/jobs",
  "/api/v1/jobs/bulk",
  `/api/v1/jobs/${ID}`,
  `/api/v1/jobs/${ID}/cancel`,
  `/api/v1/jobs/${ID}/retry`,
  `/api/v1/jobs/${ID}/events`,
  "/api/v1/leases/acquire",
  `/api/v1/leases/${ID}/extend`,
  `/api/v1/leases/${ID}/settle`,
  "/api/v1/leases",
  "/api/v1/queues",
  "/api/v1/workers",
  "/api/v1/workers/w-1/pause",
  "/api/v1/items",
  `/api/v1/items/${ID}/moves`,
  "/api/v1/locks",
  "/api/v1/locks/stats",
  "/api/v1/locks/release",
  "/api/v1/audit",
  "/api/v1/stats",
  "/api/v1/workflows",
];

const queries = fc.array(
  fc.tuple(
    fc.oneof(
      fc.constantFrom(
        "limit",
        "before",
        "after",
        "status",
        "queue",
        "task",
        "type",
        "last",
        "worker",
        "subject",
        "kind",
        "newest",
        "all",
        "state",
        "workflow",
        "tenant",
        "parent",
      ),
      nasty,
    ),
    fc.oneof(
      nasty,
      fc.string({ unit: "binary", maxLength: 20 }).map(safely),
      fc.integer().map(String),
    ),
  ),
  { maxLength: 4 },
);

const paths = fc
  .tuple(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...known) },
      {
        weight: 1,
        arbitrary: fc.array(nasty, { maxLength: 5 }).map((parts) => `/${parts.join("/")}`),
      },
    ),
    fc.oneof({ weight: 9, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: nasty }),
    fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: queries }),
  )
  .map(([path, more, query]) => {
    const search = query.map(([name, value]) => `${name}=${value}`).join("&");
    return `${path}${more === null ? "" : `/${more}`}${search === "" ? "" : `?${search}`}`;
  });

/** Texts with lone surrogates, NUL and what else there is. */
const texts = fc.oneof(
  fc.string({ maxLength: 30 }),
  fc.string({ unit: "binary", maxLength: 30 }),
  fc.constantFrom(
    "\u0000",
    "\uD800",
    "\uDFFF\uD800",
    "__proto__",
    "a.b",
    "w-1",
    "default",
    "10s",
    "1e999d",
    ID,
    "\u202E",
    "x".repeat(1_000),
  ),
);

const values = fc.oneof(
  fc.json({ maxDepth: 4 }).map((text) => JSON.parse(text) as unknown),
  texts,
  fc.constantFrom(0, -0, 1e308, -1e308, 2 ** 53 + 2, 1.5, true, null, [], {}),
  fc.array(texts, { maxLength: 5 }),
);

const fields = [
  "task",
  "input",
  "options",
  "jobs",
  "worker",
  "epoch",
  "as",
  "result",
  "error",
  "lease",
  "limit",
  "queues",
  "tasks",
  "move",
  "patch",
  "expect",
  "reason",
  "attempts",
  "key",
  "for",
  "retryIn",
  "final",
  "__proto__",
  "constructor",
  "toString",
];

/** Fields that routes know, with values that they may not. */
const objects = fc
  .array(fc.tuple(fc.constantFrom(...fields), values), { maxLength: 6 })
  .map(
    (entries) =>
      `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value) ?? "null"}`).join(",")}}`,
  );

/** Requests that come close to being right. */
const nearly = fc.oneof(
  values.map((input) => JSON.stringify({ task: "a.b", input })),
  values.map((reason) => JSON.stringify({ reason })),
  fc.constant(JSON.stringify({ worker: "w-1", queues: ["default"], limit: 1 })),
  fc.tuple(texts, values).map(([task, input]) => JSON.stringify({ task, input })),
  fc
    .tuple(
      texts,
      values,
      fc.dictionary(
        fc.constantFrom(
          "queue",
          "priority",
          "delay",
          "runAt",
          "maxAttempts",
          "key",
          "keyFor",
          "onConflict",
        ),
        values,
      ),
    )
    .map(([task, input, options]) => JSON.stringify({ task, input, options })),
  fc
    .tuple(texts, fc.integer(), fc.constantFrom("done", "failed", "suspended", "released"), values)
    .map(([worker, epoch, as, result]) =>
      JSON.stringify({ worker, epoch, as, result, error: result, for: result }),
    ),
  fc
    .tuple(texts, fc.array(texts), values)
    .map(([worker, queues, lease]) => JSON.stringify({ worker, queues, lease })),
  fc.tuple(texts, values).map(([key, reason]) => JSON.stringify({ key, reason })),
);

const bodies = fc.oneof(
  { weight: 4, arbitrary: nearly.map((text) => Buffer.from(text)) },
  { weight: 3, arbitrary: objects.map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: fc.json().map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)) },
  {
    weight: 1,
    arbitrary: fc
      .integer({ min: 1, max: 3_000 })
      .map((depth) => Buffer.from("[".repeat(depth) + "]".repeat(depth))),
  },
  {
    weight: 1,
    arbitrary: fc
      .integer({ min: 1, max: 3_000 })
      .map((depth) => Buffer.from(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`)),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(
        '{"task":"a.b","input":1e400}',
        '{"task":"a","task":"b"}',
        "\u{FEFF}{}",
        '{"task":"\\ud800"}',
      )
      .map((text) => Buffer.from(text)),
  },
);

const headers = fc.dictionary(
  fc.constantFrom(
    "content-type",
    "content-encoding",
    "authorization",
    "idempotency-key",
    "accept",
    "last-event-id",
    "origin",
    "sec-fetch-site",
    "expect",
    "transfer-encoding",
    "x-forwarded-for",
    "range",
    "if-none-match",
    "cookie",
  ),
  fc.oneof(
    fc.constantFrom(
      "application/json",
      "text/event-stream",
      "Bearer x",
      "Bearer ",
      "gzip",
      "chunked",
      "100-continue",
      "null",
      "cross-site",
      "same-origin",
      "a",
      "5~6",
      `${ID}~1`,
      "bytes=0-",
      "*",
    ),
    fc.string({ maxLength: 40 }).map((text) => text.replaceAll(/\p{Cc}/gu, "")),
  ),
  { maxKeys: 4 },
);

interface Hostile {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  readonly json: boolean;
  readonly length: "right" | "none" | "wrong";
}

const anything: fc.Arbitrary<Hostile> = fc.record({
  method: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom("GET", "POST", "POST") },
    { weight: 1, arbitrary: methods },
  ),
  path: paths,
  headers: fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: headers }),
  body: bodies,
  json: fc.oneof(
    { weight: 9, arbitrary: fc.constant(true) },
    { weight: 1, arbitrary: fc.constant(false) },
  ),
  length: fc.constantFrom("right", "right", "right", "right", "none", "wrong"),
});

/** Right in all but what it says, so that some jobs are made. */
const enqueueing: fc.Arbitrary<Hostile> = nearly.map((text) => ({
  method: "POST",
  path: "/api/v1/jobs",
  headers: {},
  body: Buffer.from(text),
  json: true,
  length: "right",
}));

const hostile = fc.oneof({ weight: 19, arbitrary: anything }, { weight: 1, arbitrary: enqueueing });

function safely(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function bytesOf({ method, path, headers: given, body, json, length }: Hostile): Buffer {
  const target = path.replaceAll(/[\s\p{Cc}]/gu, "+");
  const lengths = {
    right: [`content-length: ${body.length}`],
    none: [],
    wrong: [`content-length: ${body.length + 7}`],
  };
  const lines = [
    `${method} ${target} HTTP/1.1`,
    "host: 127.0.0.1",
    "connection: close",
    ...Object.entries(given).map(([name, value]) => `${name}: ${value}`),
    ...(json && given["content-type"] === undefined ? ["content-type: application/json"] : []),
    ...(method === "POST" || length === "wrong" ? lengths[length] : []),
  ];
  const carries = method === "POST" ? body : Buffer.alloc(0);
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), carries]);
}

/** The status of the answer; null: the connection was closed without one. */
function attack(port: number, bytes: Buffer): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`no answer to ${bytes.toString("latin1").slice(0, 500)}`));
    }, ANSWER_MS);
    const finish = (): void => {
      clearTimeout(timer);
      socket.destroy();
      const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1];
      resolve(status === undefined ? null : Number(status));
    };
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => {
      answer = (answer + text).slice(0, 4_000);
      if (/content-type: text\/event-stream/i.test(answer)) finish();
    });
    socket.on("error", finish);
    socket.on("close", finish);
    // What more is announced than comes does not come: the end says so.
    socket.end(bytes);
  });
}

test(`${REQUESTS} hostile requests break nothing`, { timeout: 120_000 }, async (context) => {
  const url = `sqlite:${folder.file(".db")}`;
  const limits = {
    rateBurst: 1e9,
    streams: 1e6,
    streamsEach: 1e6,
    failureBurst: 1e9,
    refusedBurst: 1e9,
    headersMs: 2_000,
    requestMs: 2_000,
  };
  await using server = await ServerProcess.start({ url, limits });
  const requests = fc.sample(hostile, { seed: SEED, numRuns: REQUESTS });
  const tally = new Map<string, number>();
  const todo = requests.entries();
  let memory = 0;
  const work = async (): Promise<void> => {
    for (const [index, request] of todo) {
      if (index === WARM_UP) memory = (await server.facts()).rss;
      const bytes = bytesOf(request);
      const status = await attack(server.port, bytes);
      const seen = `${status ?? "closed"}`;
      tally.set(seen, (tally.get(seen) ?? 0) + 1);
      const shown = `seed ${SEED}, request ${index}: ${bytes.toString("latin1").slice(0, 800)}`;
      assert.ok(status === null || status < 500, `${status} for ${shown}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const { rss, errors } = await server.facts();
  context.diagnostic(
    `${JSON.stringify(Object.fromEntries([...tally].toSorted(([a], [b]) => (a < b ? -1 : 1))))}, ${Math.round((rss - memory) / 1e6)} MB`,
  );
  assert.deepEqual(errors, []);
  assert.ok(rss - memory < MEMORY_MAX, `${rss - memory} bytes more`);
  // It was not turned away at the door all the time: jobs were made, and were refused for many reasons.
  for (const wanted of WANTED) {
    assert.ok((tally.get(wanted) ?? 0) >= 5, `only ${tally.get(wanted) ?? 0} of ${wanted}`);
  }
  assert.equal((await fetch(`${server.url}/health`)).status, 200);
});

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
