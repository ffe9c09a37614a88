/**
 * Moves and retries with a key are made once on every database: when their answer is lost, when the process dies between the
 * commit and the answer, and when many send them again at once.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { OutcomeUnknownError } from "../../src/core/errors.ts";
import { openHoldfast, type Holdfast } from "../../src/app/holdfast.ts";
import { tempFolder } from "../support/folder.ts";
import { claimOne, failed, jobIn, settleOne } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { ServerProcess } from "./child.ts";
import { TestServer, send } from "./client.ts";
import { tally } from "./shop.ts";

const folder = tempFolder();
const body = { move: "count", patch: { by: "ada" } };
const locks = { lockTtl: 2_000, lockWait: 200 };
const headers = { "idempotency-key": "the-one" };

type Database = { readonly url: string; drop(): Promise<void> };

async function database(kind: "sqlite" | "postgres" | "mysql"): Promise<Database> {
  if (kind !== "sqlite") return scratchDatabase(kind);
  return { url: `sqlite:${folder.file(".db")}`, drop: async () => {} };
}

async function counted(holdfast: Holdfast, item: string): Promise<number> {
  const lines = await holdfast.workflows.history(item);
  return lines.filter(({ move }) => move === "count").length;
}

const KINDS = ["sqlite", "postgres", "mysql"] as const;

for (const kind of KINDS) {
  const isMissing = kind !== "sqlite" && missing(kind);
  describe(kind, { skip: reasonOf(isMissing, notItsTurn(kind, KINDS)) }, () => {
    let scratch: Database;
    before(async () => void (scratch = await database(kind)));
    after(() => scratch.drop());

    async function newItem(holdfast: Holdfast): Promise<string> {
      return (await holdfast.workflows.start(tally, { data: {}, actor: "shop" })).id;
    }

    test("a move whose answer was lost is not made again", async () => {
      await using api = await TestServer.open(scratch.url, { workflows: [tally] });
      const { store } = api.holdfast;
      const id = await newItem(api.holdfast);
      const path = `/api/v1/items/${id}/moves`;
      const change = store.items.change.bind(store.items);
      store.items.change = async (asked) => {
        await change(asked);
        throw new OutcomeUnknownError({ store: "the database", session: null });
      };
      const lost = await api.post(path, body, 503, { headers });
      assert.equal(lost.code, "OUTCOME_UNKNOWN");
      store.items.change = change;
      // Another operator moves the item; it has another revision by then.
      await api.post(path, { move: "count" });
      const again = await api.post(path, body, 200, { headers });
      assert.equal(again.item.revision, 3);
      assert.equal((await api.post(path, body, 200, { headers })).item.revision, 3);
      assert.equal(await counted(api.holdfast, id), 2);
    });

    test("a move whose server dies after the commit is not made again", async () => {
      await using holdfast = await openHoldfast(scratch.url);
      const id = await newItem(holdfast);
      const path = `/api/v1/items/${id}/moves`;
      const asked = { method: "POST", body, headers: { "idempotency-key": "death" } };
      const order = { url: scratch.url, limits: { underWayMs: 0 }, locks };
      await using mortal = await ServerProcess.start({
        ...order,
        dies: { in: "items.change", when: "after" },
      });
      await assert.rejects(send(mortal, path, asked), { code: "ECONNRESET" });
      await mortal.ended;
      assert.equal(await counted(holdfast, id), 1);
      await using server = await ServerProcess.start(order);
      // The dead server holds the lock of the item until it expires: that answer is not kept.
      const answered = async (): Promise<boolean> => {
        const replies = await Promise.all([0, 1, 2].map(() => send(server, path, asked)));
        return replies.some(({ status }) => status === 200);
      };
      const giveUpAt = performance.now() + 30_000;
      while (!(await answered()))
        assert.ok(performance.now() < giveUpAt, "no request got an answer");
      assert.equal((await send(server, path, asked)).json.item.revision, 2);
      assert.equal(await counted(holdfast, id), 1);
    });

    test("items whose server dies after they were started are not started again", async () => {
      await using holdfast = await openHoldfast(scratch.url);
      const path = "/api/v1/workflows/tally/items/bulk";
      const items = [{ data: { by: kind } }, { data: { by: kind } }];
      const asked = {
        method: "POST",
        body: { items },
        headers: { "idempotency-key": "birth" },
      };
      const order = { url: scratch.url, limits: { underWayMs: 0 }, locks };
      await using mortal = await ServerProcess.start({
        ...order,
        dies: { in: "items.change", when: "after" },
      });
      await assert.rejects(send(mortal, path, asked), { code: "ECONNRESET" });
      await mortal.ended;
      const started = await holdfast.workflows.list(tally);
      await using server = await ServerProcess.start(order);
      const { status, json } = await send(server, path, asked);
      assert.deepEqual([status, json.items.length], [201, 2]);
      assert.equal((await holdfast.workflows.list(tally)).length, started.length);
    });

    test("when many clients find an abandoned request, one carries it out, and all get its response", async () => {
      await using api = await TestServer.open(scratch.url, { workflows: [tally] });
      const { store } = api.holdfast;
      const id = await newItem(api.holdfast);
      const path = `/api/v1/items/${id}/moves`;
      const key = { "idempotency-key": "many" };
      const change = store.items.change.bind(store.items);
      store.items.change = async () => {
        throw new OutcomeUnknownError({ store: "the database", session: null });
      };
      await api.post(path, body, 503, { headers: key });
      let begun = 0;
      store.items.change = (asked) => {
        begun += 1;
        return change(asked);
      };
      const replies = await Promise.all(
        Array.from({ length: 6 }, () => api.post(path, body, 200, { headers: key })),
      );
      assert.deepEqual(new Set(replies.map(({ item }) => item.revision)), new Set([2]));
      assert.deepEqual([begun, await counted(api.holdfast, id)], [1, 1]);
    });

    test("a completed retry is reported as such, although the job has failed again meanwhile", async () => {
      await using api = await TestServer.open(scratch.url);
      const { store } = api.holdfast;
      const id = await jobIn(store, "failed");
      const retry = store.jobs.retry.bind(store.jobs);
      store.jobs.retry = async (...args) => {
        await retry(...args);
        throw new OutcomeUnknownError({ store: "the database", session: null });
      };
      const path = `/api/v1/jobs/${id}/retry`;
      const key = { "idempotency-key": "retry" };
      await api.post(path, {}, 503, { headers: key });
      store.jobs.retry = retry;
      await settleOne(store, failed(await claimOne(store)));
      assert.deepEqual(await api.post(path, {}, 200, { headers: key }), {
        id,
        status: "pending",
        called: [],
      });
      // It was tried again once, and that came to nothing.
      assert.equal((await api.get(`/api/v1/jobs/${id}`)).job.status, "failed");
      const { lines } = await api.get(`/api/v1/audit?subject=${encodeURIComponent(`job ${id}`)}`);
      assert.equal(lines.length, 1);
    });
  });
}

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
