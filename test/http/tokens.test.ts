/** Tokens: stored as hashes, compared in constant time, never shown again, and invalid once they expire. */
import assert from "node:assert/strict";
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { InvalidArgumentError } from "../../src/core/errors.ts";
import { TokenNotFoundError, Tokens } from "../../src/tokens/tokens.ts";
import { startServer } from "../../src/app/server.ts";
import { hashOf, isSameHash } from "../../src/http-kernel/auth.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";
import { TestServer, Ear } from "./client.ts";

const LIMIT_MS = 10_000;
const SECRET = "configured-0123456789abcdef";

test("a token has 256 bits and is never the same; what is stored is its hash", async () => {
  await using api = await TestServer.open();
  const [one, two] = [await api.token("viewer", "a"), await api.token("viewer", "b")];
  assert.match(one, /^hft_[\w-]{43}$/);
  assert.notEqual(one, two);
  assert.equal((await api.holdfast.store.tokens.find(hashOf(one)))?.name, "a");
  const listed = await new Tokens(api.holdfast).list();
  assert.equal(JSON.stringify(listed).includes(hashOf(one)), false);
});

test("hashes are compared in constant time", async (context) => {
  const compare = context.mock.method(crypto, "timingSafeEqual");
  syncBuiltinESMExports();
  try {
    await using api = await TestServer.open(undefined, { token: SECRET });
    const token = await api.token("viewer");
    await api.get("/api/v1/jobs", 200, { token });
    await api.get("/api/v1/jobs", 200, { token: SECRET });
    assert.ok(
      compare.mock.callCount() >= 3,
      "the configured one twice, and the one from the table",
    );
  } finally {
    compare.mock.restore();
    syncBuiltinESMExports();
  }
  const hash = hashOf("a");
  assert.equal(isSameHash(hash, hash), true);
  assert.equal(isSameHash(hash, hashOf("b")), false);
  assert.equal(isSameHash("", ""), false);
  assert.equal(isSameHash(hash, hash.slice(2)), false);
});

test("a token that was revoked or has expired counts no more, as soon as what is remembered is old", async () => {
  await using api = await TestServer.open(undefined, { limits: { tokenMs: 50 } });
  const token = await api.token("operator", "ci");
  const brief = await api.token("viewer", "brief", "30ms");
  await api.get("/api/v1/jobs", 200, { token });
  await new Tokens(api.holdfast).revoke("ci", { actor: "ada" });
  await eventually(async () => (await api.ask("/api/v1/jobs", { token })).status === 401);
  await eventually(async () => (await api.ask("/api/v1/jobs", { token: brief })).status === 401);
});

test("once a token exists, every request needs one", async () => {
  await using api = await TestServer.open(undefined, { limits: { tokenMs: 50 } });
  await api.get("/api/v1/jobs");
  await api.token("viewer");
  await eventually(async () => (await api.ask("/api/v1/jobs")).status === 401);
  await new Tokens(api.holdfast).revoke("viewer");
  await pause(60);
  await api.get("/api/v1/jobs", 401);
});

test("the audit log records actions under the name of the token", async () => {
  await using api = await TestServer.open();
  const token = await api.token("operator", "Ada of the night shift");
  const { id } = await api.post("/api/v1/jobs", { task: "a.b" }, 201, { token });
  await api.post(`/api/v1/jobs/${id}/cancel`, {}, 200, { token });
  const { lines } = await api.get("/api/v1/audit", 200, { token });
  const { actor, action, traceId } = lines.at(-1);
  assert.deepEqual([actor, action], ["token Ada of the night shift", "job.cancel"]);
  assert.match(traceId, /^[0-9a-f-]{36}$/);
});

test("keys of one principal say nothing to another", async () => {
  await using api = await TestServer.open();
  const [a, b] = [await api.token("operator", "a"), await api.token("operator", "b")];
  const headers = { "idempotency-key": "same" };
  const ids = [];
  for (const token of [a, b]) {
    ids.push((await api.post("/api/v1/jobs", { task: "a.b" }, 201, { token, headers })).id);
  }
  assert.notEqual(ids[0], ids[1]);
});

test("tokens are in no log line and in no answer, right or wrong", async () => {
  await using api = await TestServer.open(undefined, { token: SECRET });
  const token = await api.token("viewer", "v");
  const wrong = `hft_${"W".repeat(43)}`;
  const answers: string[] = [];
  for (const shown of [token, wrong, SECRET, `${SECRET}\u0001`.slice(0, -1), "x".repeat(500)]) {
    for (const path of ["/api/v1/jobs", "/api/v1/nothing", "/api/v1/jobs?limit=x", "/health"]) {
      answers.push((await api.ask(path, { token: shown })).text);
    }
    const posted = await api.ask("/api/v1/jobs", { token: shown, body: { task: " " } });
    answers.push(posted.text);
  }
  // Also when the database is away in the middle of it.
  await api.holdfast.store.close();
  const away = await api.ask("/api/v1/jobs", { token: `hft_${"Z".repeat(43)}` });
  assert.equal(away.status >= 500, true);
  const said = [...api.log, ...answers, away.text].join("\n");
  assert.ok(api.log.some((line) => line.includes("a request had an invalid token")));
  for (const secret of [token, wrong, SECRET, "Z".repeat(43)]) {
    assert.equal(said.includes(secret), false);
    assert.equal(said.includes(hashOf(secret)), false);
  }
  assert.doesNotMatch(
    [...answers, away.text].join("\n"),
    /select |insert |\.ts:\d+| at .*:\d+:\d+/,
  );
});

test("a client that guesses tokens is rate-limited, and no other client is", async () => {
  const limits = { failureBurst: 3, failuresPerSecond: 0.01, tokenMs: 10 };
  await using api = await TestServer.open(undefined, { limits });
  const token = await api.token("viewer");
  await api.get("/api/v1/jobs", 200, { token });
  const statuses: number[] = [];
  for (let guess = 0; guess < 6; guess += 1) {
    const { status } = await api.ask("/api/v1/jobs", { token: `hft_${String(guess).repeat(43)}` });
    statuses.push(status);
  }
  assert.deepEqual(statuses, [401, 401, 401, 429, 429, 429]);
  await pause(20); // what was remembered of the token is old by now
  await api.get("/api/v1/jobs", 200, { token });
  await new Tokens(api.holdfast).revoke("viewer");
  await pause(20);
  await api.get("/api/v1/jobs", 429, { token });
});

test("wrong tokens from an address do not lock out a valid one that was not seen before", async () => {
  const limits = { failureBurst: 3, failuresPerSecond: 0.01 };
  await using api = await TestServer.open(undefined, { limits });
  const token = await api.token("viewer");
  for (let guess = 0; guess < 5; guess += 1) {
    await api.ask("/api/v1/jobs", { token: `hft_${String(guess).repeat(43)}` });
  }
  await api.get("/api/v1/jobs", 429, { token: `hft_${"W".repeat(43)}` });
  await api.get("/api/v1/jobs", 200, { token });
});

test("refused requests of an address are limited, and neither its right ones nor its probes are", async () => {
  const limits = { refusedBurst: 3, refusedPerSecond: 0.01 };
  const refused: [status: number, path: string, asked: object][] = [
    [401, "/api/v1/jobs", {}],
    [404, "/nothing", {}],
    [405, "/health", { method: "PUT" }],
    [421, "/health", { headers: { host: "evil.example" } }],
    [403, "/api/v1/jobs", { headers: { origin: "https://evil.example" } }],
  ];
  for (const [status, path, asked] of refused) {
    await using api = await TestServer.open(undefined, { limits });
    const token = await api.token("viewer");
    const statuses: number[] = [];
    for (let count = 0; count < 5; count += 1) statuses.push((await api.ask(path, asked)).status);
    assert.deepEqual(statuses, [status, status, status, 429, 429], path);
    await api.get("/api/v1/jobs", 200, { token });
    await api.get("/live", 200);
  }
});

test("a stream ends when its token is revoked or expires, and others go on", async () => {
  const limits = { tokenMs: 20, heartbeatMs: 40 };
  await using api = await TestServer.open(undefined, { limits });
  const { id } = await api.post("/api/v1/jobs", { task: "a.b" }, 201);
  const paths = ["/api/v1/stream", `/api/v1/jobs/${id}/events`];
  const listen = (token: string, path: string): Promise<Ear> =>
    Ear.open(api.server, path, { authorization: `Bearer ${token}` });
  const stays = await listen(await api.token("viewer", "stays"), "/api/v1/stream");
  await stays.until("hello");
  const revoked = await api.token("viewer", "revoked");
  const brief = await api.token("viewer", "brief", "2s");
  const ears = await Promise.all(
    [revoked, brief].flatMap((token) => paths.map((path) => listen(token, path))),
  );
  await new Tokens(api.holdfast).revoke("revoked", { actor: "ada" });
  for (const ear of ears) await ended(ear);
  const token = await api.token("operator");
  await api.post("/api/v1/jobs", { task: "a.b" }, 201, { token });
  await stays.until("enqueued");
  for (const ear of [stays, ...ears]) await ear[Symbol.asyncDispose]();
});

test("a stream that was opened without a token ends with the first token", async () => {
  await using api = await TestServer.open(undefined, { limits: { tokenMs: 20, heartbeatMs: 40 } });
  await using ear = await Ear.open(api.server, "/api/v1/stream");
  await ear.until("hello");
  await api.token("viewer");
  await ended(ear);
});

test("a stream continues while the database cannot confirm its token", async () => {
  await using api = await TestServer.open(undefined, { limits: { tokenMs: 0, heartbeatMs: 20 } });
  const token = await api.token("viewer");
  await using ear = await Ear.open(api.server, "/api/v1/stream", {
    authorization: `Bearer ${token}`,
  });
  await ear.until("hello");
  const { store } = api.holdfast;
  const find = store.tokens.find.bind(store.tokens);
  let asked = 0;
  store.tokens.find = async () => {
    asked += 1;
    throw new Error("away");
  };
  await eventually(async () => asked >= 3);
  store.tokens.find = find;
  await api.holdfast.enqueue("a.b", null);
  await ear.until("enqueued");
});

test("names are unique, roles are checked, and an unknown token cannot be revoked", async () => {
  await using api = await TestServer.open();
  const tokens = new Tokens(api.holdfast);
  await tokens.create({ name: "a", role: "viewer" });
  const wrong = [
    { name: "a", role: "viewer" },
    { name: "b", role: "root" },
    { name: "", role: "viewer" },
    { name: "b", role: "viewer", expires: "soon" },
    { name: "b", role: "viewer", extra: 1 },
    { name: "b".repeat(123), role: "viewer" },
  ];
  for (const options of wrong)
    await assert.rejects(tokens.create(options as any), InvalidArgumentError);
  await assert.rejects(tokens.revoke("nobody"), TokenNotFoundError);
});

test("the name of a token cannot imitate another actor in the audit log", async () => {
  await using api = await TestServer.open(undefined, { token: SECRET });
  for (const name of ["cli root", "local", "api", "HOLDFAST_TOKEN", "b".repeat(122)]) {
    const token = await api.token("operator", name);
    const { id } = await api.post("/api/v1/jobs", { task: "a.b" }, 201, { token });
    await api.post(`/api/v1/jobs/${id}/cancel`, { reason: "x" }, 200, { token });
    const { lines } = await api.get("/api/v1/audit", 200, { token });
    assert.equal(lines.at(-1).actor, `token ${name}`);
  }
});

test("a configured token of any allowed length lets in", async () => {
  const long = "0123456789abcdef".repeat(32);
  await using api = await TestServer.open(undefined, { token: `${long.slice(1)}x` });
  await api.get("/api/v1/jobs", 200, { token: `${long.slice(1)}x` });
  await api.get("/api/v1/jobs", 401, { token: `${long}xy` });
});

test("a configured token that is an example, or hardly more than one character, is refused", async () => {
  await using api = await TestServer.open();
  const weak = [
    "change-me-to-48-random-characters",
    "CHANGE_ME_0123456789abcdef",
    "replace-me-0123456789",
    "your-token-0123456789",
    "a".repeat(48),
    "0101010101010101",
    "passwordpassword",
    "x".repeat(513),
  ];
  for (const token of weak) {
    await assert.rejects(
      startServer({ holdfast: api.holdfast, port: 0, token }),
      (error: Error) => error instanceof InvalidArgumentError && !error.message.includes(token),
      token,
    );
  }
});

test("a configured token that could be guessed is refused, without being told", async () => {
  await using api = await TestServer.open();
  await assert.rejects(
    startServer({ holdfast: api.holdfast, port: 0, token: "hunter2" }),
    (error: Error) => error instanceof InvalidArgumentError && !error.message.includes("hunter2"),
  );
});

/** Heartbeats alone would be read for ever. */
async function ended(ear: Ear): Promise<void> {
  const over = (async () => {
    while ((await ear.next()) !== null);
    return true;
  })();
  assert.equal(await within(LIMIT_MS, over), true, "the stream goes on");
}

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    if (await holds()) return;
    await pause(20);
  }
  assert.fail("it never came true");
}

after(assertNothingRuns);
