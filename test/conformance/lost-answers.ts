/**
 * A commit whose answer was lost: the database has it, and its caller does not know.
 *
 * Here the loss is made up right above the engine, so that every engine shows that it can be asked afterwards. With real
 * connections that break, see test/servers.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { KeyTakenError, OutcomeUnknownError, StoreRefusedError } from "../../src/core/errors.ts";
import { ALERT_QUEUE } from "../../src/core/name.ts";
import type { Engine } from "../../src/database/engine.ts";
import { composeStore, type Store } from "../../src/app/store.ts";
import { statementsFor } from "../../src/jobs/statements.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  done,
  enqueueOne,
  fenceOf,
  HOUR_MS,
  mustFind,
  newJob,
  nextId,
  outcomes,
  retry,
  startOne,
  statusOf,
  suspended,
  upTo,
} from "../support/jobs.ts";
import { carrierOf, countsOf, startBulk } from "../support/bulk.ts";
import { changeItem, orders, pay, startItem } from "../support/items.ts";
import { near } from "../support/near.ts";
import { sighting } from "../support/alerts.ts";
import { START_AT } from "../support/runtime.ts";
import { allRuns, by, definition, jobIds } from "../support/schedules.ts";
import { start } from "../support/workers.ts";

/** What is lost: the answer to something that was written, or the request before it was. */
const losses = ["answer", "request"] as const;
type Loss = (typeof losses)[number];

export const lostAnswers: Group = (open) => {
  for (const loss of losses) {
    test(`a job is accepted once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const jobs = [newJob(), newJob({ key: "k" })];
      const ours = jobs.map(({ id }) => ({ id, added: true }));
      assert.deepEqual(await losing.jobs.enqueue(jobs), ours);
      assert.equal((await store.jobs.list({ limit: 10 })).length, 2);
    });

    test(`many jobs are cancelled and retried once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const running = await startOne(store);
      const ids = [running.id, (await enqueueOne(store)).id, (await enqueueOne(store)).id];
      const cancel = await startBulk(losing, { action: "cancel", filter: { id: ids } });
      losing.loseNext();
      await carrierOf(losing).page(cancel.id);
      assert.deepEqual(countsOf(await store.bulk.get(cancel.id)), ["done", 3, 3, 3, 0]);
      const chunk = { ids, operators: ids.map(() => ({ id: nextId(), actor: "ada" })) };
      losing.loseNext();
      assert.deepEqual(await losing.jobs.cancelAll({ ...chunk, ids: [running.id] }), [running.id]);
      const again = { action: "retry", filter: { status: "cancelled", all: true } } as const;
      const retried = await startBulk(store, again);
      losing.loseNext();
      await carrierOf(losing).page(retried.id);
      assert.deepEqual(countsOf(await store.bulk.get(retried.id)), ["done", 2, 2, 2, 0]);
      for (const id of ids.slice(1)) assert.equal(await statusOf(store, id), "pending");
      assert.equal((await store.audit.list({ limit: 9 })).length, 8);
    });

    test(`schedules are changed, and their ticks have one job, when the ${loss} is lost`, async () => {
      const bundle = await open();
      const { store, losing } = await setUp(bundle, loss);
      const every = (name: string) => definition({ name, every: "10s" });
      assert.equal((await losing.schedules.create(every("nightly"), by())).revision, 1);
      losing.loseNext();
      const declared = [{ definition: every("other"), hash: "a".repeat(64) }];
      await losing.schedules.declare("mailer", declared, "code");
      bundle.clock.advance(10_000);
      losing.loseNext();
      await losing.schedules.fire("nightly");
      bundle.clock.advance(10_000);
      // Of the two writes of an edit, each is lost once: the tick that is due, and the edit.
      losing.loseNext();
      await losing.schedules.edit("nightly", { every: "5s" }, by());
      losing.loseNext();
      const edited = await losing.schedules.edit("nightly", { overlap: "queue" }, by());
      assert.equal(edited.revision, 3);
      losing.loseNext();
      const job = await losing.schedules.run("nightly", by());
      losing.loseNext();
      assert.notEqual((await losing.schedules.pause("nightly", by())).pausedAt, null);
      losing.loseNext();
      assert.equal((await losing.schedules.resume("nightly", by())).pausedAt, null);
      const runs = (await allRuns(store)).map(({ tick, manual }) => [tick - START_AT, manual]);
      assert.deepEqual(runs, [
        [10_000, false],
        [20_000, false],
        [20_000, true],
      ]);
      const jobs = await jobIds(store);
      assert.ok(jobs.includes(job) && jobs.length === 3);
      losing.loseNext();
      await losing.schedules.delete("nightly", by());
      const lines = await store.audit.list({ limit: 20 });
      assert.deepEqual(
        lines.map(({ action }) => action.slice("schedule.".length)),
        ["create", "declare", "edit", "edit", "run", "pause", "resume", "delete"],
      );
    });

    test(`a job replaces another once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const holder = await enqueueOne(store, { key: "k" });
      const jobs = [newJob({ key: "k", onConflict: "replace", keyForMs: HOUR_MS }), newJob()];
      const ours = jobs.map(({ id }) => ({ id, added: true }));
      assert.deepEqual(await losing.jobs.enqueue(jobs), ours);
      assert.equal(await statusOf(store, holder.id), "cancelled");
      for (const { id } of jobs) assert.equal(await statusOf(store, id), "pending");
    });

    test(`a job that shall be rejected is accepted once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = newJob({ key: "k", onConflict: "reject" });
      assert.deepEqual(await losing.jobs.enqueue([job]), [{ id: job.id, added: true }]);
      losing.loseNext();
      const other = newJob({ key: "k", onConflict: "reject" });
      await assert.rejects(losing.jobs.enqueue([newJob(), other]), KeyTakenError);
      assert.equal((await store.jobs.list({ limit: 10 })).length, 1);
    });

    test(`a claim is made once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await enqueueOne(store);
      const claimed = await losing.jobs.claim(upTo(5));
      // What was not claimed is there for the next claim; what was, is known to its owner.
      if (claimed.length === 0) assert.deepEqual((await claimOne(store)).epoch, 1);
      else assert.deepEqual([claimed[0]?.id, claimed[0]?.epoch], [job.id, 1]);
      assert.equal(claimed.length, loss === "answer" ? 1 : 0);
      const { status, epoch, attempts } = await mustFind(store, job.id);
      assert.deepEqual([status, epoch, attempts], ["processing", 1, 1]);
    });

    test(`a claim whose ${loss} was lost returns the same jobs`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      await enqueueOne(store, { priority: 3, maxAttempts: 7 });
      const known = (await losing.jobs.claim(upTo(5)))[0] ?? (await claimOne(store));
      const { status, lockedBy, lockedUntil, payload } = await mustFind(store, known.id);
      assert.deepEqual(
        [status, lockedBy, lockedUntil],
        ["processing", known.worker, known.lockedUntil],
      );
      assert.deepEqual([known.priority, known.maxAttempts, known.attempt], [3, 7, 1]);
      assert.equal(known.payload, payload);
    });

    for (const { name, settle, status } of outcomes) {
      test(`an attempt that ended as ${name} ends once when the ${loss} is lost`, async () => {
        const { store, losing } = await setUp(await open(), loss);
        const claimed = await startOne(store);
        const [settled] = await losing.jobs.settle([settle(claimed)]);
        assert.deepEqual(settled && [...Object.values(fenceOf(settled)), settled.status], [
          ...Object.values(fenceOf(claimed)),
          status,
        ]);
        assert.equal(await statusOf(store, claimed.id), status);
        assert.equal((await mustFind(store, claimed.id)).attempts, settled?.attempts);
      });
    }

    test(`a stale fence is refused as ever when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const claimed = await startOne(store);
      assert.deepEqual(await losing.jobs.settle([done({ ...claimed, epoch: 2 })]), []);
      assert.equal(await statusOf(store, claimed.id), "processing");
    });

    test(`a job that ended because its lease expired was not settled, even when the ${loss} is lost`, async () => {
      const bundle = await open();
      const { store, losing } = await setUp(bundle, loss);
      const claimed = await startOne(store, { maxAttempts: 1 });
      assert.equal((await crash({ ...bundle, store }, claimed)).status, "failed");
      assert.deepEqual(await losing.jobs.settle([{ ...done(claimed), claimed }]), []);
    });

    test(`a whole turn is made once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const first = await startOne(store);
      const next = await enqueueOne(store);
      const { settled, claimed } = await losing.jobs.settleAndClaim([done(first)], upTo(5));
      assert.deepEqual([settled.length, settled[0]?.status], [1, "done"]);
      assert.deepEqual(
        claimed.map(({ id, epoch }) => [id, epoch]),
        loss === "answer" ? [[next.id, 1]] : [],
      );
      assert.equal(await statusOf(store, first.id), "done");
    });

    test(`a step is written once, ended once and dropped once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await startOne(store);
      const step = { name: "a", occurrence: 1, position: 1, kind: "effect", result: null } as const;
      assert.equal(await losing.steps.put(job, { ...step, status: "begun", isNew: true }), true);
      losing.loseNext();
      assert.equal(await losing.steps.put(job, { ...step, status: "done", isNew: false }), true);
      assert.deepEqual(
        (await store.steps.list(job.id)).map(({ status }) => status),
        ["done"],
      );
      await losing.steps.put(job, {
        ...step,
        name: "b",
        position: 2,
        status: "begun",
        isNew: true,
      });
      losing.loseNext();
      assert.equal(await losing.steps.drop(job, { name: "b", occurrence: 1 }), true);
      assert.equal((await store.steps.list(job.id)).length, 1);
    });

    test(`reports are written once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await startOne(store);
      const line = { kind: "log", name: null, data: '{"text":"a"}', ageMs: 0 } as const;
      const batch = [1, 2].map((seq) => ({ ...line, seq }));
      assert.equal(await losing.reports.put(job, batch), true);
      losing.loseNext();
      assert.equal(await losing.reports.put({ ...job, epoch: 2 }, batch), false);
      const kept = await store.reports.list({ job: job.id, after: 0, limit: 9 });
      assert.deepEqual(
        kept.map(({ seq }) => seq),
        [1, 2],
      );
    });

    test(`a commit is known to have been made, or not, when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await startOne(store);
      const step = { name: "book", occurrence: 1, position: 1, kind: "commit" } as const;
      let runs = 0;
      const committing = losing.steps.commit(job, step, async () => String((runs += 1)));
      if (loss === "answer") await committing;
      else await assert.rejects(committing, StoreRefusedError);
      assert.equal((await store.steps.list(job.id)).length, loss === "answer" ? 1 : 0);
      assert.ok(runs <= 1); // what else it does is unknown
    });

    test(`a workflow is declared, and items change, once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      await losing.items.declare(orders());
      losing.loseNext();
      await losing.items.declare(orders({ version: 2, keepMs: 1 }));
      assert.equal((await store.items.findWorkflow("order"))?.keepMs, 1);
      losing.loseNext();
      const job = newJob();
      const item = await startItem(losing, { jobs: [job] });
      assert.deepEqual(await store.items.find(item.id), item);
      losing.loseNext();
      const paid = await changeItem(losing, item, pay);
      assert.deepEqual([paid.status, paid.revision, paid.auditSeq], ["paid", 2, 2]);
      assert.deepEqual(await store.items.find(item.id), paid);
      assert.equal((await store.items.history({ item: item.id, after: 0, limit: 9 })).length, 2);
      assert.deepEqual(await store.jobs.list({ limit: 9 }).then((all) => all.map(({ id }) => id)), [
        job.id,
      ]);
    });

    test(`a job goes to wait once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await startOne(store);
      const wait = { event: "packed", key: "1" };
      await store.steps.expect(wait);
      const outcome = { kind: "suspended", delayMs: null, waits: [wait] } as const;
      const [settled] = await losing.jobs.settle([{ ...fenceOf(job), outcome }]);
      assert.equal(settled?.status, "waiting");
      assert.deepEqual(await store.steps.emit({ name: "packed", key: "1", payload: null }), {
        first: true,
        woken: 1,
      });
    });

    test(`a job whose completion failed is settled once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await startOne(store);
      const [settled] = await losing.jobs.settleCompleted([retry(job)]);
      assert.equal(settled?.status, "retry");
      assert.deepEqual(await losing.jobs.settleCompleted([retry(job)]), [settled]);
      assert.equal((await store.jobs.attempts(job.id)).length, 1);
    });

    test(`an alert is raised and resolved once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const first = sighting({ holdMs: 0, targets: ["hook"] });
      assert.deepEqual(await losing.alerts.note(first), { change: "raised", id: first.id });
      losing.loseNext();
      const clearing = { id: nextId(), seenAt: 0, quietMs: 0, targets: ["hook"] };
      assert.equal(await losing.alerts.clear({ alert: first.id, ...clearing }), "resolved");
      const jobs = await store.jobs.list({ queue: ALERT_QUEUE, limit: 9 });
      const keys = ["raised", "resolved"].map((event) => `${first.id}.${event}`);
      assert.deepEqual(jobs.map(({ key }) => String(key)).toSorted(), keys);
      losing.loseNext();
      const second = sighting({ holdMs: 60_000 });
      assert.deepEqual(await losing.alerts.note(second), { change: "pending", id: second.id });
    });

    test(`a lock is taken, extended and released once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const wanted = { key: "order:42", owner: "a", trace: null, ttlMs: 1_000 };
      const [holder, contender] = [nextId(), nextId()];
      const token = await losing.locks.take({ ...wanted, holder, contender });
      assert.equal((await store.locks.find("order:42"))?.token, token);
      const hold = { key: "order:42", token: token ?? 0 };
      losing.loseNext();
      const other = { ...wanted, holder: contender, contender };
      assert.equal((await losing.locks.noteNext(other, 100))?.next, contender);
      losing.loseNext();
      assert.equal(await losing.locks.extend(hold, 2_000), true);
      losing.loseNext();
      assert.equal(await losing.locks.release(hold), true);
      assert.equal(await store.locks.find("order:42"), null);
      losing.loseNext();
      await losing.locks.abandon("order:42", holder);
    });

    test(`a cancel and a reopening come true once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await enqueueOne(store);
      assert.equal(await losing.jobs.cancel(job.id), "cancelled");
      losing.loseNext();
      await losing.jobs.retry(job.id, 1);
      assert.equal(await statusOf(store, job.id), "pending");
    });

    test(`one job is changed, run now, replayed and deleted once when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const ada = () => ({ id: nextId(), actor: "ada" });
      const { id } = await enqueueOne(store, { start: { delayMs: 3_600_000 } });
      assert.equal(await losing.jobs.edit(id, { payload: '"new"' }, ada()), "scheduled");
      losing.loseNext();
      assert.equal(await losing.jobs.runNow(id, ada()), "scheduled");
      assert.equal((await store.jobs.revisions(id)).length, 1);
      assert.equal(await store.jobs.cancel(id), "cancelled");
      losing.loseNext();
      const newId = nextId();
      assert.equal(await losing.jobs.replay({ id, newId }, ada()), "mail.send");
      losing.loseNext();
      await losing.jobs.delete(id, ada());
      assert.deepEqual(
        (await store.jobs.list({ limit: 9 })).map((one) => one.id),
        [newId],
      );
      assert.deepEqual(
        (await store.audit.list({ limit: 9 })).map(({ action }) => action),
        ["job.edit", "job.run-now", "job.replay", "job.delete"],
      );
    });

    test(`an operator's action is done once, and has one line, when the ${loss} is lost`, async () => {
      const { store, losing } = await setUp(await open(), loss);
      const job = await enqueueOne(store);
      const { id: worker } = await start(store);
      const ada = () => ({ id: nextId(), actor: "ada" });
      assert.equal(await losing.jobs.cancel(job.id, ada()), "cancelled");
      losing.loseNext();
      await losing.jobs.retry(job.id, 1, ada());
      losing.loseNext();
      const order = { ...ada(), desiredState: "pause", target: { worker } } as const;
      assert.deepEqual(await losing.workers.command(order), [worker]);
      const doubtful = await startOne(store, { queue: "doubts" });
      const step = { name: "a", occurrence: 1, position: 1, kind: "effect", result: null } as const;
      await store.steps.put(doubtful, { ...step, status: "doubt", isNew: true });
      await store.jobs.settle([suspended(doubtful)]);
      losing.loseNext();
      const said = { ...ada(), job: doubtful.id, name: "a", occurrence: 1, happened: null };
      assert.equal(await losing.steps.resolveEffect(said), true);
      losing.loseNext();
      await losing.audit.note(ada(), { action: "lock.release", subject: "lock a" });
      assert.deepEqual(
        (await store.audit.list({ limit: 9 })).map(({ action }) => action),
        ["job.cancel", "job.retry", "worker.pause", "step.not-done", "lock.release"],
      );
      losing.loseNext();
      assert.equal(await losing.audit.prune({ ...ada(), keepMs: -1, limit: 3 }), 3);
      assert.equal((await store.audit.list({ limit: 9 })).length, 3);
    });
  }
};

interface LosingStore extends Store {
  readonly loseNext: () => void;
}

async function losingStore(engine: Engine, loss: Loss): Promise<LosingStore> {
  let left = 1;
  const isLost = (): boolean => left-- > 0;
  const statements = await statementsFor(engine);
  const store = composeStore(thatLoses(engine, loss, isLost), thatLoses(statements, loss, isLost));
  // The engine belongs to the store it was taken from.
  return { ...store, loseNext: () => void (left = 1), close: async () => {} };
}

async function setUp(bundle: Bundle, loss: Loss): Promise<{ store: Store; losing: LosingStore }> {
  const plain = await near(bundle);
  return { store: plain, losing: await losingStore(plain.db.engine, loss) };
}

/** The same engine, or its hot statements, but for one answer that does not arrive. */
function thatLoses<T extends object>(engine: T, loss: Loss, isLost: () => boolean): T {
  const verbs = new Set<PropertyKey>([
    "insert",
    "put",
    "change",
    "settleAndClaim",
    "transaction",
    "run",
    "userTransaction",
  ]);
  return new Proxy(engine, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      if (!verbs.has(name)) return member.bind(target) as unknown;
      return async (...args: unknown[]): Promise<unknown> => {
        if (!isLost()) return member.apply(target, args) as unknown;
        if (loss === "answer") await member.apply(target, args);
        throw new OutcomeUnknownError({ store: "a store", session: null });
      };
    },
  });
}
