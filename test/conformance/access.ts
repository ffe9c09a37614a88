/** Those who come over HTTP: tokens of which only the hash is kept, requests that are made once, and what is new. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import { firstIdAt } from "../../src/core/id.ts";
import { type NewRequest, ABANDONED_MS } from "../../src/http-kernel/idempotency.ts";
import type { NewToken } from "../../src/tokens/store.ts";
import type { OperatorEntry } from "../../src/audit/entry.ts";
import { sql } from "../../src/database/sql.ts";
import type { Group } from "../support/bundle.ts";
import { claimOne, done, enqueueOne, HOUR_MS, jobIn, nextId, settleOne } from "../support/jobs.ts";

const HASH = "a".repeat(64);

function token(facts: Partial<NewToken> = {}): NewToken {
  return { id: nextId(), name: "ci", role: "operator", hash: HASH, forMs: null, ...facts };
}

function by(actor: string): OperatorEntry {
  return { id: nextId(), actor };
}

function request(facts: Partial<NewRequest> = {}): NewRequest {
  return { principal: "token a", key: "order-42", fingerprint: HASH, seed: nextId(), ...facts };
}

export const access: Group = (open) => {
  test("a token is found by its hash, and by nothing else", async () => {
    const { store, clock } = await open();
    assert.equal(await store.tokens.any(), false);
    const ours = token({ forMs: HOUR_MS });
    assert.equal(await store.tokens.create(ours, by("ada")), true);
    assert.equal(await store.tokens.any(), true);
    clock.advance(1_000);
    assert.deepEqual(await store.tokens.find(HASH), {
      id: ours.id,
      name: "ci",
      role: "operator",
      hash: HASH,
      createdAt: clock.now() - 1_000,
      expiresAt: clock.now() - 1_000 + HOUR_MS,
      expiresInMs: HOUR_MS - 1_000,
      revokedAt: null,
      usedAt: null,
    });
    assert.equal(await store.tokens.find("A".repeat(64)), null);
    assert.equal(await store.tokens.find("b".repeat(64)), null);
  });

  test("a name is one token's at a time, and free again when that is revoked", async () => {
    const { store, clock } = await open();
    const first = token();
    await store.tokens.create(first, by("ada"));
    const second = token({ hash: "b".repeat(64), role: "viewer" });
    assert.equal(await store.tokens.create(second, by("ada")), false);
    assert.equal(await store.tokens.revoke("ci", by("eve")), true);
    assert.equal(await store.tokens.revoke("ci", by("eve")), false);
    assert.equal((await store.tokens.find(HASH))?.revokedAt, clock.now());
    clock.advance(1);
    assert.equal(await store.tokens.create(second, by("ada")), true);
    const listed = await store.tokens.list({ limit: 10 });
    assert.deepEqual(
      listed.map(({ id, revokedAt }) => [id, revokedAt === null]),
      [
        [second.id, true],
        [first.id, false],
      ],
    );
    assert.deepEqual((await store.tokens.list({ limit: 1 })).length, 1);
    const lines = await store.audit.list({ limit: 10 });
    assert.deepEqual(
      lines.map(({ actor, action, subject }) => [actor, action, subject]),
      [
        ["ada", "token.create", "token ci"],
        ["eve", "token.revoke", "token ci"],
        ["ada", "token.create", "token ci"],
      ],
    );
  });

  test("the database itself refuses a second token with the same name, and an unknown role", async () => {
    const { store, byHand } = await open();
    await store.tokens.create(token(), by("ada"));
    const insert = (name: string, role: string, hash: string): Promise<number> =>
      byHand(sql`
        insert into holdfast.token (id, name, role, hash, created_at)
        values (${nextId()}, ${name}, ${role}, ${hash}, 1)`);
    await assert.rejects(insert("ci", "viewer", "b".repeat(64)), StoreRefusedError);
    await assert.rejects(insert("other", "viewer", HASH), StoreRefusedError);
    await assert.rejects(insert("other", "root", "b".repeat(64)), StoreRefusedError);
    assert.equal(await insert("other", "viewer", "b".repeat(64)), 1);
  });

  test("tokens still count as created after all of them were revoked", async () => {
    const { store } = await open();
    await store.tokens.create(token(), by("ada"));
    await store.tokens.revoke("ci", by("ada"));
    assert.equal(await store.tokens.any(), true);
  });

  test("the last use of a token is recorded", async () => {
    const { store, clock } = await open();
    const ours = token();
    await store.tokens.create(ours, by("ada"));
    clock.advance(5_000);
    await store.tokens.noteUse(ours.id);
    assert.equal((await store.tokens.find(HASH))?.usedAt, clock.now());
  });

  test("a session is found by its hash with its token, ends, and is deleted when it is over", async () => {
    const { store, clock } = await open();
    const ours = token();
    await store.tokens.create(ours, by("ada"));
    const terms = { tokenId: ours.id, forMs: HOUR_MS, most: 2 };
    const hash = (letter: string): string => letter.repeat(64);
    await store.sessions.begin({ ...terms, hash: hash("1") });
    await store.sessions.begin({ ...terms, hash: hash("2"), tokenId: null });
    clock.advance(1_000);
    const found = await store.sessions.find(hash("1"));
    assert.equal(found?.expiresInMs, HOUR_MS - 1_000);
    assert.deepEqual(found?.token, await store.tokens.find(HASH));
    assert.equal((await store.sessions.find(hash("2")))?.token, null);
    assert.equal(await store.sessions.find(hash("3")), null);
    // A third session of a token ends its oldest.
    await store.sessions.begin({ ...terms, hash: hash("4") });
    clock.advance(1);
    await store.sessions.begin({ ...terms, hash: hash("5") });
    assert.equal(await store.sessions.find(hash("1")), null);
    assert.ok((await store.sessions.find(hash("4"))) !== null);
    await store.sessions.end(hash("4"));
    assert.equal(await store.sessions.find(hash("4")), null);
    assert.equal(await store.sessions.prune(10), 0);
    clock.advance(HOUR_MS);
    assert.equal(await store.sessions.prune(1), 1);
    assert.equal(await store.sessions.prune(10), 1);
    assert.equal(await store.sessions.find(hash("5")), null);
  });

  test("a request that is sent again finds the first one, with its seed", async () => {
    const { store, clock } = await open();
    const first = request();
    const begun = await store.requests.begin(first);
    assert.deepEqual(begun, {
      fingerprint: HASH,
      seed: first.seed,
      begunAt: clock.now(),
      ageMs: 0,
      status: null,
      body: null,
    });
    clock.advance(700);
    const again = await store.requests.begin(request({ fingerprint: "b".repeat(64) }));
    assert.deepEqual(again, { ...begun, ageMs: 700 });
    const others = [request({ principal: "token b" }), request({ key: "Order-42" })];
    for (const other of others) {
      assert.equal((await store.requests.begin(other)).seed, other.seed);
    }
  });

  test("when many clients send the same request at once, all agree on which was first", async () => {
    const { store, alone, another } = await open();
    const stores = alone === null ? [store, await another(), await another()] : [store];
    const sent = stores.flatMap((each) =>
      Array.from({ length: 8 }, () => each.requests.begin(request())),
    );
    const seeds = new Set((await Promise.all(sent)).map(({ seed }) => seed));
    assert.equal(seeds.size, 1);
  });

  test("the first answer is kept", async () => {
    const { store } = await open();
    const name = request();
    await store.requests.begin(name);
    await store.requests.answer(name, { status: 201, body: '{"id":"\\u0000"}' });
    await store.requests.answer(name, { status: 500, body: null });
    await store.requests.abandon(name);
    const { status, body, ageMs } = await store.requests.begin(request());
    assert.deepEqual([status, body, ageMs], [201, '{"id":"\\u0000"}', 0]);
  });

  test("a request that failed counts as abandoned", async () => {
    const { store } = await open();
    const name = request();
    await store.requests.begin(name);
    await store.requests.abandon(name);
    const { ageMs, seed } = await store.requests.begin(request());
    assert.deepEqual([ageMs, seed], [ABANDONED_MS, name.seed]);
  });

  test("when several clients find an abandoned request, one takes it over", async () => {
    const { store, clock, alone, another } = await open();
    const name = request();
    await store.requests.begin(name);
    await store.requests.abandon(name);
    const { begunAt } = await store.requests.begin(request());
    const stores = alone === null ? [store, await another()] : [store];
    const takers = stores.flatMap((each) =>
      Array.from({ length: 4 }, () => each.requests.takeOver(name, begunAt)),
    );
    const taken = (await Promise.all(takers)).filter(Boolean);
    assert.equal(taken.length, 1);
    const renewed = await store.requests.begin(request());
    assert.deepEqual([renewed.seed, renewed.ageMs], [name.seed, 0]);
    clock.advance(1);
    assert.equal(await store.requests.takeOver(name, begunAt), false);
    await store.requests.answer(name, { status: 200, body: "{}" });
    assert.equal(await store.requests.takeOver(name, renewed.begunAt), false);
  });

  test("a request that fails repeatedly keeps its ids", async () => {
    const { store } = await open();
    const name = request();
    for (let tries = 0; tries < 30; tries += 1) {
      await store.requests.begin(name);
      await store.requests.abandon(name);
    }
    assert.equal(await store.requests.prune({ forMs: 24 * HOUR_MS, limit: 10 }), 0);
    assert.equal((await store.requests.begin(request())).seed, name.seed);
  });

  test("old requests are forgotten, some at a time", async () => {
    const { store, clock } = await open();
    for (const key of ["1", "2", "3"]) await store.requests.begin(request({ key }));
    clock.advance(HOUR_MS + 1);
    const young = request({ key: "4" });
    await store.requests.begin(young);
    assert.equal(await store.requests.prune({ forMs: HOUR_MS, limit: 2 }), 2);
    assert.equal(await store.requests.prune({ forMs: HOUR_MS, limit: 2 }), 1);
    assert.equal(await store.requests.prune({ forMs: HOUR_MS, limit: 2 }), 0);
    assert.equal((await store.requests.begin(request({ key: "4" }))).seed, young.seed);
  });

  test("new jobs are listed in order, from a given position on", async () => {
    const { store, clock } = await open();
    const first = await enqueueOne(store);
    const second = await enqueueOne(store, { queue: "mail", task: "mail.send@2" });
    const all = await store.jobs.after({ after: firstIdAt(0), limit: 10 });
    assert.deepEqual(all, [
      { id: first.id, queue: "default", task: "mail.send", enqueuedAt: clock.now() },
      { id: second.id, queue: "mail", task: "mail.send@2", enqueuedAt: clock.now() },
    ]);
    assert.deepEqual(await store.jobs.after({ after: first.id, limit: 10 }), all.slice(1));
    assert.deepEqual(await store.jobs.after({ after: firstIdAt(0), limit: 1 }), all.slice(0, 1));
  });

  test("ended jobs are listed in order, from a given time on", async () => {
    const { store, clock } = await open();
    const failed = await jobIn(store, "failed");
    clock.advance(1);
    const cancelled = await jobIn(store, "cancelled");
    clock.advance(1);
    const { id } = await enqueueOne(store);
    await settleOne(store, done(await claimOne(store)));
    assert.equal(await store.db.clock(), clock.now());
    const ended = await store.jobs.endedSince({ at: clock.now() - 2, limit: 10 });
    assert.deepEqual(
      ended.map((one) => [one.id, one.status, one.finishedAt]),
      [
        [failed, "failed", clock.now() - 2],
        [cancelled, "cancelled", clock.now() - 1],
        [id, "done", clock.now()],
      ],
    );
    assert.deepEqual(ended[2]?.worker, "worker-a");
    assert.deepEqual(await store.jobs.endedSince({ at: clock.now(), limit: 10 }), ended.slice(2));
    assert.deepEqual(await store.jobs.endedSince({ at: 0, limit: 1 }), ended.slice(0, 1));
  });

  test("workflows are listed by name", async () => {
    const { store } = await open();
    const none = { version: 1, parent: null, keepMs: null, types: ["t"], moves: [] };
    const states = [{ name: "open", isInitial: true, isFinal: true }];
    for (const name of ["b", "a"]) await store.items.declare({ ...none, name, states });
    assert.deepEqual(await store.items.workflowNames({ limit: 10 }), ["a", "b"]);
    assert.deepEqual(await store.items.workflowNames({ limit: 1 }), ["a"]);
  });
};
