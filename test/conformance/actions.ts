/** What an operator does to one job: run it now, change it, delete it, replay it. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { operatorActions, statuses, type Status } from "../../src/core/job.ts";
import { TAGS_MAX } from "../../src/core/name.ts";
import type { Store } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import { LET_THROUGH_MAX } from "../../src/jobs/actions.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  idsOf,
  jobIn,
  member,
  mustFind,
  newJob,
  nextId,
  pictureOf,
  promoteOne,
  released,
  retry,
  settleOne,
  startOne,
  statusOf,
  upTo,
} from "../support/jobs.ts";

const ada = (): { id: string; actor: string; reason: string } => ({
  id: nextId(),
  actor: "ada",
  reason: "the bank asked",
});

async function lineAbout(store: Store, id: string) {
  const lines = await store.audit.list({ subject: `job ${id}`, limit: 10 });
  const { action, oldStatus, newStatus, reason, detail } = lines.at(-1) ?? {};
  return { action, oldStatus, newStatus, reason, detail };
}

/** The states are those of the table that the page has too. */
const {
  runNow,
  edit,
  ...states
}: Readonly<Record<keyof typeof operatorActions, readonly Status[]>> = operatorActions;

const VERBS = {
  "run now": {
    from: runNow,
    act: (store: Store, id: string): Promise<unknown> => store.jobs.runNow(id, ada()),
  },
  edit: {
    from: edit,
    act: (store: Store, id: string): Promise<unknown> =>
      store.jobs.edit(id, { priority: 3 }, ada()),
  },
  delete: {
    from: states.delete,
    act: (store: Store, id: string): Promise<unknown> => store.jobs.delete(id, ada()),
  },
  replay: {
    from: states.replay,
    act: (store: Store, id: string): Promise<unknown> =>
      store.jobs.replay({ id, newId: nextId() }, ada()),
  },
};

export const actions: Group = (open) => {
  for (const [verb, { from, act }] of Object.entries(VERBS)) {
    suite(`to ${verb}`, () => {
      for (const status of statuses.filter((one) => !from.includes(one))) {
        test(`a ${status} job is refused and stays as it is`, async () => {
          const { store } = await open();
          const id = await jobIn(store, status);
          const before = await pictureOf(store, id);
          await assert.rejects(act(store, id), { code: "ILLEGAL_MOVE", id, status, move: verb });
          assert.deepEqual(await pictureOf(store, id), before);
          assert.deepEqual(await store.audit.list({ subject: `job ${id}`, limit: 1 }), []);
        });
      }

      test("a job that does not exist is refused", async () => {
        const { store } = await open();
        await assert.rejects(act(store, nextId()), { code: "JOB_NOT_FOUND" });
        await assert.rejects(act(store, "no-id"), { code: "JOB_NOT_FOUND" });
      });
    });
  }

  suite("running a job now", () => {
    for (const status of operatorActions.runNow) {
      test(`a ${status} job goes first, before every priority, and it is on record`, async () => {
        const { store, clock } = await open();
        const id = await jobIn(store, status);
        await enqueueOne(store, { priority: 32_767 });
        clock.advance(1);
        assert.equal(await store.jobs.runNow(id, ada()), status);
        assert.equal(await statusOf(store, id), "pending");
        assert.equal((await store.explain.job(id))?.before.count, 0);
        assert.equal((await claimOne(store)).id, id);
        const line = { action: "job.run-now", oldStatus: status, newStatus: "pending" };
        assert.deepEqual(await lineAbout(store, id), {
          ...line,
          reason: "the bank asked",
          detail: null,
        });
      });

      test(`a ${status} job of a paused queue runs, and no other one of it`, async () => {
        const { store } = await open();
        const id = await jobIn(store, status);
        await enqueueOne(store);
        await store.queues.pause("default", ada());
        assert.deepEqual(await store.jobs.claim(upTo(9)), []);
        await store.jobs.runNow(id, ada());
        assert.equal((await store.explain.job(id))?.queue, null, "the pause does not hold it");
        assert.deepEqual(idsOf(await store.jobs.claim(upTo(9))), [id]);
        assert.deepEqual(await store.jobs.claim(upTo(9)), []);
      });
    }

    test("those of a paused queue go in the order of the calls, from all lanes, up to the limit of the claim", async () => {
      const { store, clock } = await open();
      const ids: string[] = [];
      for (const lane of ["acme", "beta", "acme", null]) {
        ids.push((await enqueueOne(store, { lane })).id);
        await enqueueOne(store, { lane });
      }
      await store.queues.pause("default", ada());
      for (const id of ids.toReversed()) {
        await store.jobs.runNow(id, ada());
        clock.advance(1);
      }
      const first = await store.jobs.claim(upTo(1));
      const claimed = [...first];
      while (claimed.length < 4) claimed.push(...(await store.jobs.claim(upTo(2))));
      assert.deepEqual(idsOf(claimed).toSorted(), ids);
      assert.deepEqual(await store.jobs.claim(upTo(9)), []);
      const lanes = await Promise.all(ids.map(async (id) => (await mustFind(store, id)).lane));
      assert.deepEqual(lanes, ["acme", "beta", "acme", null]);
    });

    test("limits hold for it, also in a paused queue", async () => {
      const { store } = await open();
      const none = { rate: null, weight: null };
      const each = { kind: "lanes", name: "", concurrency: 1, ...none } as const;
      const ofTask = { kind: "task", name: "slow", concurrency: 1, ...none } as const;
      await store.queues.change({ queue: "default", rules: [each, ofTask] }, ada());
      const running = await startOne(store, { lane: "acme" });
      const slow = await startOne(store, { task: "slow" });
      const laned = await enqueueOne(store, { lane: "acme" });
      const tasked = await enqueueOne(store, { task: "slow" });
      await store.queues.pause("default", ada());
      await store.jobs.runNow(laned.id, ada());
      await store.jobs.runNow(tasked.id, ada());
      assert.deepEqual(await store.jobs.claim(upTo(9)), []);
      await store.jobs.settle([done(running), done(slow)]);
      const claimed = [
        ...(await store.jobs.claim(upTo(9))),
        ...(await store.jobs.claim(upTo(9))), // the first one moved a job to the lane of its task
      ];
      assert.deepEqual(idsOf(claimed).toSorted(), [laned.id, tasked.id].toSorted());
    });

    test("the pause is lifted for one claim: a retry and a job handed back wait for the queue", async () => {
      const bundle = await open();
      const { store } = bundle;
      const { id } = await enqueueOne(store);
      const other = await enqueueOne(store);
      await store.queues.pause("default", ada());
      await store.jobs.runNow(id, ada());
      await settleOne(store, released(await claimOne(store)));
      assert.deepEqual(await store.jobs.claim(upTo(9)), []);
      await store.jobs.runNow(id, ada());
      await settleOne(store, retry(await claimOne(store)));
      await promoteOne(bundle, id);
      await store.jobs.runNow(other.id, ada());
      assert.deepEqual(idsOf(await store.jobs.claim(upTo(9))), [other.id]);
      await store.queues.resume("default", ada());
      assert.deepEqual(idsOf(await store.jobs.claim(upTo(9))), [id]);
    });

    test("a resumed queue forgets whom the pause let through", async () => {
      const { store } = await open();
      const { id } = await enqueueOne(store);
      await store.queues.pause("default", ada());
      await store.jobs.runNow(id, ada());
      await store.queues.resume("default", ada());
      await store.queues.pause("default", ada());
      assert.deepEqual(await store.jobs.claim(upTo(9)), []);
    });

    test("a pause lets so many jobs through; one more is refused, and none of them is forgotten", async () => {
      const { store, byHand } = await open();
      const jobs = Array.from({ length: LET_THROUGH_MAX + 1 }, () => newJob());
      await store.jobs.enqueue(jobs);
      const [one] = idsOf(jobs);
      await store.queues.pause("default", ada());
      await store.jobs.runNow(one ?? "", ada());
      const through = JSON.stringify(idsOf(jobs.slice(1)));
      await byHand(sql`update holdfast.queue set let_through = ${through}`);
      await byHand(sql`
        update holdfast.ready set place = (select place from (select min(place) as place from holdfast.ready) o)`);
      const before = await pictureOf(store, one ?? "");
      await assert.rejects(store.jobs.runNow(one ?? "", ada()), {
        code: "ILLEGAL_MOVE",
        message: new RegExp(`^Job ${one} is in the paused queue 'default', and 1,000 of its jobs`),
      });
      assert.deepEqual(await pictureOf(store, one ?? ""), before);
      const same = sql`update holdfast.queue set let_through = ${through} where let_through = ${through}`;
      assert.equal(await byHand(same), 1);
    });

    test("a second call with the same audit line changes nothing", async () => {
      const { store } = await open();
      const id = await jobIn(store, "scheduled");
      const by = ada();
      await store.jobs.runNow(id, by);
      const claimed = await claimOne(store);
      await settleOne(store, done(claimed));
      assert.equal(await store.jobs.runNow(id, by), "scheduled");
      assert.equal((await store.audit.list({ subject: `job ${id}`, limit: 9 })).length, 1);
    });
  });

  suite("changing a job", () => {
    test("its input: the old one is kept, and the new one is claimed", async () => {
      const { store } = await open();
      const id = await jobIn(store, "scheduled", { payload: '"old"' });
      assert.equal(await store.jobs.edit(id, { payload: '"new"' }, ada()), "scheduled");
      assert.deepEqual(
        (await store.jobs.revisions(id)).map(({ payload }) => payload),
        ['"old"'],
      );
      const line = await lineAbout(store, id);
      assert.equal(line.action, "job.edit");
      assert.match(line.detail ?? "", /^input 1 to 2, sha256 [0-9a-f]{64} to [0-9a-f]{64}$/);
      await store.jobs.runNow(id, ada());
      assert.equal((await claimOne(store)).payload, '"new"');
    });

    test("its priority decides when it is claimed", async () => {
      const { store } = await open();
      await enqueueOne(store, { priority: 1 });
      const { id } = await enqueueOne(store);
      await store.jobs.edit(id, { priority: 2 }, ada());
      assert.equal((await mustFind(store, id)).priority, 2);
      assert.equal((await lineAbout(store, id)).detail, "priority 0 to 2");
      assert.equal((await claimOne(store)).id, id);
    });

    test("its queue: key, lane and place in time stay, and lanes of the new queue hold for it", async () => {
      const { store, clock } = await open();
      const facts = { key: "order-1", lane: "acme" };
      const { id, readyAt } = { ...(await enqueueOne(store, facts)), readyAt: clock.now() };
      clock.advance(1_000);
      await store.jobs.edit(id, { queue: "slow" }, ada());
      const job = await mustFind(store, id);
      assert.deepEqual([job.queue, job.key, job.lane], ["slow", "order-1", "acme"]);
      const again = newJob({ key: "order-1" });
      assert.deepEqual(await store.jobs.enqueue([again]), [{ id, added: false }]);
      const counts = new Map(
        (await store.jobs.stats()).map(({ queue, counts: each }) => [queue, each.pending]),
      );
      assert.deepEqual([counts.get("default") ?? 0, counts.get("slow")], [0, 1]);
      const claimed = await claimOne(store, { queues: ["slow"] });
      assert.deepEqual([claimed.id, claimed.readyAt], [id, readyAt]);
      assert.equal((await lineAbout(store, id)).detail, "queue default to slow");
      await settleOne(store, done(claimed));
      assert.equal((await store.jobs.enqueue([again]))[0]?.added, true, "its key is free");
    });

    test("its time: later, earlier, and at once", async () => {
      const { store, clock } = await open();
      const { id } = await enqueueOne(store);
      const later = { start: { delayMs: HOUR_MS } };
      assert.equal(await store.jobs.edit(id, later, ada()), "scheduled");
      assert.equal((await mustFind(store, id)).dueAt, clock.now() + HOUR_MS);
      assert.deepEqual(await store.jobs.claim(upTo(9)), []);
      const at = clock.now() + 5_000;
      await store.jobs.edit(id, { start: { at } }, ada());
      assert.equal((await mustFind(store, id)).dueAt, at);
      assert.equal((await lineAbout(store, id)).detail, `due ${new Date(at).toISOString()}`);
      assert.equal(await store.jobs.edit(id, { start: null }, ada()), "pending");
      assert.equal((await claimOne(store)).id, id);
    });

    test("all at once, and a job in retry stays in retry", async () => {
      const { store, clock } = await open();
      const id = await jobIn(store, "retry");
      const terms = { payload: "1", priority: -4, queue: "slow", start: { delayMs: HOUR_MS } };
      assert.equal(await store.jobs.edit(id, terms, ada()), "retry");
      const { payload, priority, queue, dueAt, attempts } = await mustFind(store, id);
      assert.deepEqual([payload, priority, queue, attempts], ["1", -4, "slow", 1]);
      assert.equal(dueAt, clock.now() + HOUR_MS);
    });

    test("a job that waits for another can get an input, and no time", async () => {
      const { store } = await open();
      const first = await startOne(store, member());
      const { id } = await enqueueOne(store, member([first.id]));
      await assert.rejects(store.jobs.edit(id, { start: null }, ada()), { code: "ILLEGAL_MOVE" });
      await store.jobs.edit(id, { payload: '"new"', priority: 1 }, ada());
      assert.equal(await statusOf(store, id), "waiting");
      await settleOne(store, done(first));
      assert.equal((await claimOne(store)).payload, '"new"');
    });

    test("a job is not given a time at which it would have expired", async () => {
      const { store, clock } = await open();
      const { id } = await enqueueOne(store, { startBy: { at: clock.now() + 1_000 } });
      const late = store.jobs.edit(id, { start: { delayMs: HOUR_MS } }, ada());
      await assert.rejects(late, { code: "INVALID_ARGUMENT" });
      assert.equal(await statusOf(store, id), "pending");
    });

    test("what is already so is not on record", async () => {
      const { store } = await open();
      const { id } = await enqueueOne(store);
      const before = await pictureOf(store, id);
      await store.jobs.edit(id, { priority: 0, queue: "default" }, ada());
      assert.deepEqual(await pictureOf(store, id), before);
      assert.deepEqual(await store.audit.list({ subject: `job ${id}`, limit: 1 }), []);
    });
  });

  suite("deleting a job", () => {
    for (const status of states.replay) {
      test(`a ${status} job is gone, its audit stays`, async () => {
        const { store } = await open();
        const id = await jobIn(store, status, { tags: ["a"] });
        await store.jobs.delete(id, ada());
        assert.equal(await store.jobs.find(id), null);
        assert.deepEqual(await store.jobs.list({ tag: ["a"], limit: 9 }), []);
        const { action, oldStatus, newStatus } = await lineAbout(store, id);
        assert.deepEqual([action, oldStatus, newStatus], ["job.delete", status, null]);
      });
    }

    test("a second call with the same audit line changes nothing", async () => {
      const { store } = await open();
      const id = await jobIn(store, "done");
      const by = ada();
      await store.jobs.delete(id, by);
      await store.jobs.delete(id, by);
      await assert.rejects(store.jobs.delete(id, ada()), { code: "JOB_NOT_FOUND" });
    });

    test("a job stays whose result another one may read", async () => {
      const { store } = await open();
      const first = await startOne(store, member());
      const { id } = await enqueueOne(store, member([first.id]));
      await settleOne(store, done(first));
      await assert.rejects(store.jobs.delete(first.id, ada()), { code: "JOB_IN_USE" });
      await store.jobs.cancel(id);
      await store.jobs.delete(first.id, ada());
    });
  });

  suite("replaying a job", () => {
    for (const status of states.replay) {
      test(`a ${status} job: a new one of its kind, without its key, tells where it comes from`, async () => {
        const { store } = await open();
        const facts = { queue: "default", priority: 4, lane: "acme", maxAttempts: 7, tags: ["a"] };
        const id = await jobIn(store, status, { ...facts, key: "k", payload: '"old"' });
        const before = await pictureOf(store, id);
        const newId = nextId();
        assert.equal(await store.jobs.replay({ id, newId }, ada()), "mail.send");
        assert.deepEqual(await pictureOf(store, id), before);
        const job = await mustFind(store, newId);
        const { queue, priority, lane, maxAttempts, tags } = job;
        assert.deepEqual(
          { queue, priority, lane, maxAttempts, tags },
          { ...facts, tags: ["a", `replay-of:${id}`] },
        );
        assert.deepEqual([job.key, job.payload, job.status], [null, '"old"', "pending"]);
        assert.equal((await lineAbout(store, id)).detail, `as job ${newId}`);
        assert.equal((await claimOne(store)).id, newId);
      });
    }

    test("with another input; a replay of a replay names the last", async () => {
      const { store } = await open();
      const id = await jobIn(store, "failed");
      const newId = nextId();
      await store.jobs.replay({ id, newId, payload: '"new"' }, ada());
      const claimed = await claimOne(store);
      assert.equal(claimed.payload, '"new"');
      await settleOne(store, failed(claimed));
      const third = nextId();
      await store.jobs.replay({ id: newId, newId: third }, ada());
      const { tags, payload } = await mustFind(store, third);
      assert.deepEqual([tags, payload], [[`replay-of:${newId}`], '"new"']);
    });

    test("a job with as many tags as are allowed: all of them, and the one that leads back", async () => {
      const { store } = await open();
      const tags = Array.from({ length: TAGS_MAX }, (_, at) => `a${at}`);
      const id = await jobIn(store, "done", { tags });
      const newId = nextId();
      await store.jobs.replay({ id, newId }, ada());
      assert.deepEqual((await mustFind(store, newId)).tags, [...tags, `replay-of:${id}`]);
    });

    test("a second call with the same audit line makes no second job", async () => {
      const { store } = await open();
      const id = await jobIn(store, "done");
      const [newId, by] = [nextId(), ada()];
      await store.jobs.replay({ id, newId }, by);
      await store.jobs.replay({ id, newId }, by);
      assert.equal((await store.jobs.list({ limit: 9 })).length, 2);
    });
  });
};
