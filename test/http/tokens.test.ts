/** Tokens: kept as hashes, compared in constant time, told to nobody, and over when they are over. */
import assert from "node:assert/strict";
import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { InvalidArgument } from "../../src/core/errors.ts";
import { hashOf, isSameHash, TokenNotFound, Tokens } from "../../src/server/tokens.ts";
import { startServer } from "../../src/server/server.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Desk } from "./client.ts";

const SECRET = "configured-0123456789abcdef";

test("a token has 256 bits and is never the same; what is stored is its hash", async () => {
  await using desk = await Desk.open();
  const [one, two] = [await desk.token("viewer", "a"), await desk.token("viewer", "b")];
  assert.match(one, /^hft_[\w-]{43}$/);
  assert.notEqual(one, two);
  assert.equal((await desk.holdfast.store.findToken(hashOf(one)))?.name, "a");
  const listed = await new Tokens(desk.holdfast).list();
  assert.equal(JSON.stringify(listed).includes(hashOf(one)), false);
});

test("hashes are compared in a time that tells nothing", async (context) => {
  const compare = context.mock.method(crypto, "timingSafeEqual");
  syncBuiltinESMExports();
  try {
    await using desk = await Desk.open(undefined, { token: SECRET });
    const token = await desk.token("viewer");
    await desk.get("/api/v1/jobs", 200, { token });
    await desk.get("/api/v1/jobs", 200, { token: SECRET });
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
  await using desk = await Desk.open(undefined, { limits: { tokenMs: 50 } });
  const token = await desk.token("operator", "ci");
  const brief = await desk.token("viewer", "brief", "30ms");
  await desk.get("/api/v1/jobs", 200, { token });
  await new Tokens(desk.holdfast).revoke("ci", { actor: "ada" });
  await eventually(async () => (await desk.ask("/api/v1/jobs", { token })).status === 401);
  await eventually(async () => (await desk.ask("/api/v1/jobs", { token: brief })).status === 401);
});

test("from the first token on nobody comes without one", async () => {
  await using desk = await Desk.open(undefined, { limits: { tokenMs: 50 } });
  await desk.get("/api/v1/jobs");
  await desk.token("viewer");
  await eventually(async () => (await desk.ask("/api/v1/jobs")).status === 401);
  await new Tokens(desk.holdfast).revoke("viewer");
  await pause(60);
  await desk.get("/api/v1/jobs", 401);
});

test("what somebody does is on record under the name of their token", async () => {
  await using desk = await Desk.open();
  const token = await desk.token("operator", "Ada of the night shift");
  const { id } = await desk.post("/api/v1/jobs", { task: "a.b" }, 201, { token });
  await desk.post(`/api/v1/jobs/${id}/cancel`, {}, 200, { token });
  const { lines } = await desk.get("/api/v1/audit", 200, { token });
  const { actor, action, traceId } = lines.at(-1);
  assert.deepEqual([actor, action], ["Ada of the night shift", "job.cancel"]);
  assert.match(traceId, /^[0-9a-f-]{36}$/);
});

test("keys of one asker say nothing to another", async () => {
  await using desk = await Desk.open();
  const [a, b] = [await desk.token("operator", "a"), await desk.token("operator", "b")];
  const headers = { "idempotency-key": "same" };
  const ids = [];
  for (const token of [a, b]) {
    ids.push((await desk.post("/api/v1/jobs", { task: "a.b" }, 201, { token, headers })).id);
  }
  assert.notEqual(ids[0], ids[1]);
});

test("tokens are in no log line and in no answer, right or wrong", async () => {
  await using desk = await Desk.open(undefined, { token: SECRET });
  const token = await desk.token("viewer", "v");
  const wrong = `hft_${"W".repeat(43)}`;
  const answers: string[] = [];
  for (const shown of [token, wrong, SECRET, `${SECRET}\u0001`.slice(0, -1), "x".repeat(500)]) {
    for (const path of ["/api/v1/jobs", "/api/v1/nothing", "/api/v1/jobs?limit=x", "/health"]) {
      answers.push((await desk.ask(path, { token: shown })).text);
    }
    const posted = await desk.ask("/api/v1/jobs", { token: shown, body: { task: " " } });
    answers.push(posted.text);
  }
  // Also when the database is away in the middle of it.
  await desk.holdfast.store.close();
  const away = await desk.ask("/api/v1/jobs", { token: `hft_${"Z".repeat(43)}` });
  assert.equal(away.status >= 500, true);
  const said = [...desk.log, ...answers, away.text].join("\n");
  assert.ok(desk.log.some((line) => line.includes("a token that does not count")));
  for (const secret of [token, wrong, SECRET, "Z".repeat(43)]) {
    assert.equal(said.includes(secret), false);
    assert.equal(said.includes(hashOf(secret)), false);
  }
  assert.doesNotMatch(
    [...answers, away.text].join("\n"),
    /select |insert |\.ts:\d+| at .*:\d+:\d+/,
  );
});

test("whoever guesses is stopped, and nobody else", async () => {
  const limits = { failureBurst: 3, failuresPerSecond: 0.01, tokenMs: 10 };
  await using desk = await Desk.open(undefined, { limits });
  const token = await desk.token("viewer");
  await desk.get("/api/v1/jobs", 200, { token });
  const statuses: number[] = [];
  for (let guess = 0; guess < 6; guess += 1) {
    const { status } = await desk.ask("/api/v1/jobs", { token: `hft_${String(guess).repeat(43)}` });
    statuses.push(status);
  }
  assert.deepEqual(statuses, [401, 401, 401, 429, 429, 429]);
  await pause(20); // what was remembered of the token is old by now
  await desk.get("/api/v1/jobs", 200, { token });
  await new Tokens(desk.holdfast).revoke("viewer");
  await pause(20);
  await desk.get("/api/v1/jobs", 429, { token });
});

test("a name is one token's, a role is one of two, and what is not there cannot be revoked", async () => {
  await using desk = await Desk.open();
  const tokens = new Tokens(desk.holdfast);
  await tokens.create({ name: "a", role: "viewer" });
  const wrong = [
    { name: "a", role: "viewer" },
    { name: "b", role: "root" },
    { name: "", role: "viewer" },
    { name: "b", role: "viewer", expires: "soon" },
    { name: "b", role: "viewer", extra: 1 },
  ];
  for (const options of wrong) await assert.rejects(tokens.create(options as any), InvalidArgument);
  await assert.rejects(tokens.revoke("nobody"), TokenNotFound);
});

test("a configured token that could be guessed is refused, without being told", async () => {
  await using desk = await Desk.open();
  await assert.rejects(
    startServer({ holdfast: desk.holdfast, port: 0, token: "hunter2" }),
    (error: Error) => error instanceof InvalidArgument && !error.message.includes("hunter2"),
  );
});

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    if (await holds()) return;
    await pause(20);
  }
  assert.fail("it never came true");
}

after(assertNothingRuns);
