/** What is turned away at the door, and how: by the rules of browsers, by size, by speed, by form. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { after, test } from "node:test";
import { gzipSync } from "node:zlib";
import { checkShape } from "../../src/http-kernel/body.ts";
import { SECURITY_HEADERS } from "../../src/http-kernel/guards.ts";
import { DEFAULT_LIMITS } from "../../src/http-kernel/limits.ts";
import { startServer } from "../../src/app/server.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";
import { TestServer } from "./client.ts";

const JOB = { task: "a.b" };
const LIMIT_MS = 10_000;

test("a page that leads its own name to this machine gets nothing", async () => {
  await using api = await TestServer.open();
  const { port } = api.server;
  for (const host of [
    "evil.example",
    `evil.example:${port}`,
    "127.0.0.1.evil.example",
    "localhost.",
    "0.0.0.0",
  ]) {
    for (const path of ["/health", "/api/v1/jobs", "/nothing"]) {
      assert.equal((await api.ask(path, { headers: { host } })).status, 421, `${host} ${path}`);
    }
    assert.equal((await api.ask("/api/v1/jobs", { body: JOB, headers: { host } })).status, 421);
  }
  for (const host of ["localhost", `LOCALHOST:${port}`, "127.0.0.1", `[::1]:${port}`]) {
    assert.equal((await api.ask("/api/v1/jobs", { headers: { host } })).status, 200, host);
  }
});

test("beyond the loopback interface any name will do, with a token", async () => {
  await using api = await TestServer.open(undefined, { host: "0.0.0.0" });
  const token = await api.token("viewer");
  await api.get("/api/v1/jobs", 200, { token, headers: { host: "jobs.example" } });
});

test("a page of another origin can neither change nor read anything", async () => {
  await using api = await TestServer.open();
  const host = `127.0.0.1:${api.server.port}`;
  const foreign: Record<string, string>[] = [
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: `http://127.0.0.1:${api.server.port + 1}` },
    { origin: `http://${host}`, "sec-fetch-site": "cross-site" },
  ];
  for (const headers of foreign) {
    const posted = await api.ask("/api/v1/jobs", { body: JOB, headers });
    assert.deepEqual([posted.status, posted.json.code], [403, "FOREIGN_ORIGIN"]);
    assert.equal((await api.ask("/api/v1/jobs", { headers })).status, 403);
  }
  const own = { origin: `http://${host}`, "sec-fetch-site": "same-origin", host };
  assert.equal((await api.ask("/api/v1/jobs", { body: JOB, headers: own })).status, 201);
  const preflight = await api.ask("/api/v1/jobs", {
    method: "OPTIONS",
    headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
  });
  assert.equal(preflight.status, 405);
});

test("a body that an HTML form can send is refused", async () => {
  await using api = await TestServer.open();
  const types = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "",
    "application/json; charset=utf-16",
    "application/jsonp",
  ];
  for (const type of types) {
    const reply = await api.ask("/api/v1/jobs", { body: JOB, headers: { "content-type": type } });
    assert.equal(reply.status, 415, type);
  }
  for (const type of ["application/json", "Application/JSON; charset=UTF-8"]) {
    await api.post("/api/v1/jobs", JOB, 201, { headers: { "content-type": type } });
  }
});

test("a body that is packed is not unpacked", async () => {
  await using api = await TestServer.open();
  const raw = gzipSync(Buffer.alloc(50_000_000));
  for (const encoding of ["gzip", "br", "deflate", "x-gzip, gzip"]) {
    const reply = await api.ask("/api/v1/jobs", {
      raw,
      headers: { "content-encoding": encoding },
    });
    assert.deepEqual([reply.status, reply.json.code], [415, "ENCODED"]);
  }
});

test("a body that is too large is refused as soon as that is known", async () => {
  await using api = await TestServer.open();
  const announced = await sendRaw(api, [
    "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n",
  ]);
  assert.match(announced, /^HTTP\/1\.1 413 /);
  const endless = await sendRaw(api, [
    "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    ...Array.from({ length: 200 }, () => `10000\r\n${"x".repeat(0x10000)}\r\n`),
  ]);
  assert.match(endless, /^HTTP\/1\.1 413 /);
  const limits = { bodyBytes: 100 };
  await using small = await TestServer.open(undefined, { limits });
  await small.post("/api/v1/jobs", { task: "a".repeat(50) }, 201);
  await small.post("/api/v1/jobs", { task: "a".repeat(99) }, 413);
});

test("a body that is nested too deep, or has too many keys, is refused before it is parsed", async () => {
  await using api = await TestServer.open();
  const nested = (depth: number): string =>
    `{"task":"a.b","input":${"[".repeat(depth)}${"]".repeat(depth)}}`;
  assert.equal((await api.ask("/api/v1/jobs", { raw: nested(63) })).status, 201);
  assert.equal((await api.ask("/api/v1/jobs", { raw: nested(64) })).status, 400);
  assert.equal((await api.ask("/api/v1/jobs", { raw: "[".repeat(1_000_000) })).status, 400);
  const text = JSON.stringify({ task: "a.b", input: `${'["{:\\'.repeat(100)}"` });
  assert.equal((await api.ask("/api/v1/jobs", { raw: text })).status, 201, "in a text it is text");
  const keys = (count: number): Buffer =>
    Buffer.from(`{${Array.from({ length: count }, (_, at) => `"${at}":1`).join(",")}}`);
  assert.doesNotThrow(() => checkShape(keys(5), { ...DEFAULT_LIMITS, jsonKeys: 5 }));
  assert.throws(() => checkShape(keys(6), { ...DEFAULT_LIMITS, jsonKeys: 5 }), /keys/);
});

test("a body that is not JSON, or not UTF-8, is refused", async () => {
  await using api = await TestServer.open();
  for (const raw of ["{", "nul", '{"task":', "[1,]", '{"a":01}', "\u0000", '"\u0001"']) {
    assert.equal((await api.ask("/api/v1/jobs", { raw })).status, 400, raw);
  }
  const bytes = Buffer.concat([
    Buffer.from('{"task":"a'),
    Buffer.from([0xc3, 0x28]),
    Buffer.from('"}'),
  ]);
  assert.equal((await api.ask("/api/v1/jobs", { raw: bytes })).status, 400);
  for (const raw of ["null", "1", '"x"', "[]", ""]) {
    assert.equal((await api.ask("/api/v1/jobs", { raw })).status, 422, raw);
  }
});

test("a client that sends its headers too slowly is not waited for", async () => {
  await using api = await TestServer.open(undefined, {
    limits: { headersMs: 200, requestMs: 400 },
  });
  const answer = await sendRaw(api, ["GET /health HTTP/1.1\r\nHost: loc"], { half: false });
  assert.match(answer, /^HTTP\/1\.1 408 /);
  assertHeaders(answer);
});

test("a client that sends its body too slowly is not waited for", async () => {
  await using api = await TestServer.open(undefined, {
    limits: { headersMs: 200, requestMs: 400 },
  });
  const answer = await sendRaw(
    api,
    [
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ],
    { half: false },
  );
  assert.match(answer, /^(HTTP\/1\.1 408 |$)/);
  await api.get("/health");
});

test("requests that Node itself refuses are answered with the same headers", async () => {
  await using api = await TestServer.open();
  const big = `X-Big: ${"x".repeat(20_000)}\r\n`;
  const cases: [string, number][] = [
    ["nonsense\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: localhost:99999\r\nConnection: close\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: u@localhost\r\nConnection: close\r\n\r\n", 400],
    [`GET / HTTP/1.1\r\nHost: localhost\r\n${big}\r\n`, 431],
    ["GET /\u0000 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
    ["POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400],
    [
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
      400,
    ],
    ["CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400],
    [
      "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
      400,
    ],
  ];
  for (const [text, status] of cases) {
    const answer = await sendRaw(api, [text]);
    assert.equal(answer.slice(0, 12), `HTTP/1.1 ${status}`, text.slice(0, 60));
    assertHeaders(answer);
  }
});

test("dots, slashes and other ways out of a path lead nowhere", async () => {
  await using api = await TestServer.open(undefined, { token: "0123456789abcdef0123" });
  const paths = [
    "/../../etc/passwd",
    "/..%2f..%2fetc/passwd",
    "/health/..%2fapi/v1/jobs",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/health/",
    "/Health",
    "/api/v1/../../health%00",
    "/api//v1/jobs",
    "/api/v1/jobs/",
    "/api/v1/jobs%2f",
    "/api/v1/jobs;x=1",
    "/api\\v1\\jobs",
  ];
  for (const path of paths) assert.equal((await api.ask(path)).status, 404, path);
  // What a path comes to is what counts: this is the list of jobs, and needs a token.
  for (const path of ["/health/../api/v1/jobs", "/api/v1/x/../jobs", "/%61pi/v1/jobs"]) {
    const answer = await sendRaw(api, [
      `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
    ]);
    assert.match(answer, /^HTTP\/1\.1 (401|404) /, path);
  }
  const absolute = await sendRaw(api, [
    "GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
  ]);
  assert.match(absolute, /^HTTP\/1\.1 4\d\d /);
});

test("a path with a wrong escape is taken as it is, and the rest of it is decoded once", async () => {
  await using api = await TestServer.open();
  const names: [string, string][] = [
    ["a%2Fb", "a/b"],
    ["a%2541", "a%41"],
    ["%C3%A4", "ä"],
    ["a%2541%zz", "a%2541%zz"],
  ];
  for (const [given, name] of names) {
    const { json } = await api.ask(`/api/v1/queues/${given}/settings`);
    assert.equal(json.name, name);
  }
});

test("a response over HTTP/1.0 says how long it is", async () => {
  await using api = await TestServer.open(undefined, { token: "0123456789abcdef0123" });
  const answer = await sendRaw(api, [
    "GET /api/v1/jobs HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef0123\r\n\r\n",
  ]);
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  assert.match(head, /^HTTP\/1\.1 200 /);
  assert.match(head, new RegExp(`^Content-Length: ${body.length}$`, "im"));
});

test("a client that sends too many requests is told when to retry", async () => {
  await using api = await TestServer.open(undefined, {
    limits: { rateBurst: 3, ratePerSecond: 0.1 },
  });
  const replies = [];
  for (let count = 0; count < 4; count += 1) replies.push(await api.ask("/api/v1/jobs"));
  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200, 200, 429],
  );
  assert.equal(replies[3]?.headers["retry-after"], "10");
  const token = await api.token("viewer");
  await api.get("/api/v1/jobs", 200, { token }); // another principal
});

test("more connections than there is room for are not taken", async () => {
  await using api = await TestServer.open(undefined, { limits: { connections: 2 } });
  const [first, second, third] = await Promise.all([dial(api), dial(api), dial(api)]);
  const dropped = await within(
    LIMIT_MS,
    Promise.race([first, second, third].map((one) => once(one, "close"))),
  );
  assert.notEqual(dropped, null);
  for (const socket of [first, second, third]) socket?.destroy();
});

test("a server does not start on a port that is taken or does not exist", async () => {
  await using api = await TestServer.open();
  const { port } = api.server;
  await assert.rejects(startServer({ holdfast: api.holdfast, port }), { code: "EADDRINUSE" });
  await assert.rejects(startServer({ holdfast: api.holdfast, port: 70_000 }), /port/);
  await assert.rejects(startServer({ holdfast: api.holdfast, port: 0, host: "192.0.2.1" }), {
    code: "EADDRNOTAVAIL",
  });
});

test("a server closes although connections are idle, or hang", async () => {
  const limits = { closeMs: 200, keepAliveMs: 60_000, requestMs: 60_000, headersMs: 60_000 };
  const api = await TestServer.open(undefined, { limits });
  const agent = new Agent({ keepAlive: true });
  await new Promise<void>((resolve, reject) => {
    httpRequest(`${api.server.url}/health`, { agent }, (response) => {
      response.resume().on("end", resolve);
    })
      .on("error", reject)
      .end();
  });
  const silent = await dial(api); // as browsers open them in advance
  const hanging = await dial(api);
  hanging.write(
    "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n",
  );
  const closed = await within(
    LIMIT_MS,
    api.server.close().then(() => true),
  );
  assert.equal(closed, true);
  agent.destroy();
  silent.destroy();
  hanging.destroy();
  await api.holdfast.close();
});

test("a server closes at once when nothing is under way, whatever connections are open", async () => {
  const limits = { closeMs: 60_000, keepAliveMs: 60_000, requestMs: 60_000, headersMs: 60_000 };
  const api = await TestServer.open(undefined, { limits });
  const silent = await dial(api);
  const kept = await dial(api);
  kept.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await once(kept, "data");
  assert.equal(
    await within(
      LIMIT_MS,
      api.server.close().then(() => true),
    ),
    true,
  );
  for (const socket of [silent, kept]) socket.destroy();
  await api.holdfast.close();
});

test("a client that sends its body slowly is to blame, not the server", async () => {
  await using api = await TestServer.open(undefined, { limits: { bodyMs: 50 } });
  const head = [
    "POST /api/v1/jobs HTTP/1.1",
    `Host: 127.0.0.1:${api.server.port}`,
    "Content-Type: application/json",
    "Content-Length: 1000",
  ];
  const answer = await sendRaw(api, [`${head.join("\r\n")}\r\n\r\n{`], { half: false });
  assert.match(answer, /^HTTP\/1\.1 408 [^]*"TOO_SLOW"/);
  assert.deepEqual(
    api.log.filter((line) => line.startsWith("error")),
    [],
  );
});

test("the server does not wait forever for a response", async () => {
  const health = {
    health: () => new Promise<never>(() => {}),
    live: () => ({ status: "ok" }),
    ready: () => ({ status: "starting", missing: ["worker"] }),
  };
  await using api = await TestServer.open(undefined, { health, limits: { answerMs: 50 } });
  assert.equal((await api.get("/health", 503)).code, "TOOK_TOO_LONG");
  assert.deepEqual(await api.get("/live"), { status: "ok" });
  assert.deepEqual(await api.get("/ready", 503), { status: "starting", missing: ["worker"] });
});

test("probes and metrics answer what they are given, and HEAD has no body", async () => {
  await using api = await TestServer.open(undefined, { metrics: { text: async () => "up 1\n" } });
  const { status, uptime, timestamp } = await api.get("/health");
  assert.equal(status, "ok");
  assert.ok(Number.isInteger(uptime) && uptime >= 0, `${uptime} s`);
  assert.ok(Number.isFinite(Date.parse(timestamp)));
  const metrics = await api.ask("/metrics");
  assert.deepEqual(
    [metrics.text, metrics.headers["content-type"]],
    ["up 1\n", "text/plain; version=0.0.4; charset=utf-8"],
  );
  const head = await api.ask("/health", { method: "HEAD" });
  assert.deepEqual([head.status, head.text], [200, ""]);
});

test("an unavailable database is reported, without further details", async () => {
  await using api = await TestServer.open();
  api.holdfast.store.jobs.page = async () => {
    throw new Error("select secret from table at /srv/app/code.ts:1:1");
  };
  const problem = await api.get("/api/v1/jobs", 500);
  assert.doesNotMatch(JSON.stringify(problem), /select|secret|code\.ts/);
  const line = api.log.find((one) => one.startsWith("error"));
  assert.ok(line?.includes(problem.requestId) && line.includes("select secret"));
});

function assertHeaders(answer: string): void {
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) {
    assert.ok(
      answer.toLowerCase().includes(`${name}: ${value}`.toLowerCase()),
      `${name} in ${answer.slice(0, 300)}`,
    );
  }
}

async function dial({ server }: TestServer): Promise<Socket> {
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

/** Sends bytes as they are, and gives back what came. */
async function sendRaw(
  api: TestServer,
  parts: readonly string[],
  { half = true } = {},
): Promise<string> {
  const socket = await dial(api);
  let answer = "";
  socket.setEncoding("utf8").on("data", (text: string) => void (answer += text));
  const closed = new Promise<void>((resolve) => void socket.once("close", () => resolve()));
  for (const part of parts) {
    if (!socket.writable) break;
    const drained = new Promise<void>((resolve) => void socket.once("drain", () => resolve()));
    if (!socket.write(part)) await Promise.race([drained, closed]);
  }
  if (half) socket.end();
  await within(LIMIT_MS, closed);
  socket.destroy();
  return answer;
}

after(assertNothingRuns);
