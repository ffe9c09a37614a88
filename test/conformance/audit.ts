/** What operators do and what becomes of items is on record, and no change of the record goes unnoticed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type BreakKind, NO_HASH, type OperatorEntry } from "../../src/audit/entry.ts";
import { IllegalMoveError, StoreRefusedError } from "../../src/core/errors.ts";
import { defineWorkflow } from "../../src/workflows/workflow.ts";
import { AuditWalk, type VerifyOptions, type Verification } from "../../src/audit/verify.ts";
import { ItemChains } from "../../src/workflows/history.ts";
import { Workflows } from "../../src/workflows/workflows.ts";
import { noteAction } from "../../src/audit/store.ts";
import { sql, type Sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  claimOne,
  headOf,
  enqueueOne,
  failed,
  jobIn,
  nextId,
  settleOne,
  startOne,
  statusOf,
} from "../support/jobs.ts";
import { testRuntime } from "../support/runtime.ts";
import { takeGuardsAway } from "../support/tampering.ts";
import { start } from "../support/workers.ts";
import { mapParts, onPart } from "../worker/wrapped-store.ts";
import { isNear } from "../support/near.ts";

function by(actor: string, more: Partial<OperatorEntry> = {}): OperatorEntry {
  return { id: nextId(), actor, ...more };
}

function verify(store: Store, options: VerifyOptions = {}): Promise<Verification> {
  return new AuditWalk(store.audit, [new ItemChains(store.items)], options).run();
}

/** A store in this process: functions cannot be sent to another. */
async function plainStore({ store, another }: Bundle): Promise<Store> {
  return isNear(store) ? store : another();
}

const order = defineWorkflow({
  name: "order",
  keep: 0,
  initial: "open",
  states: { open: {}, paid: {}, shipped: { final: true } },
  moves: { pay: { from: "open", to: "paid" }, ship: { from: "paid", to: "shipped" } },
});

const orderStates = {
  initial: "open",
  states: { open: {}, ended: { final: true } },
  moves: { end: { from: "open", to: "ended" } },
} as const;

function workflowsOn(store: Store): Workflows {
  return new Workflows({ store, runtime: testRuntime(), newId: nextId, locks: null });
}

/** An item with three lines. */
async function shippedOrder(workflows: Workflows): Promise<string> {
  const item = await workflows.start(order, { data: { cents: 1999 }, actor: "shop" });
  await item.move("pay", { actor: "bank", patch: { cents: 2000 }, reason: "tip" });
  await item.move("ship", { actor: "ada" });
  return item.id;
}

export const audit: Group = (open) => {
  test("an operator's action leaves a line: who, what, to whom, from what to what, and why", async () => {
    const { store, clock } = await open();
    const pending = await enqueueOne(store);
    const ada = by("ada", { reason: "ordered twice", traceId: "ticket-7" });
    assert.equal(await store.jobs.cancel(pending.id, ada), "cancelled");
    clock.advance(1_000);
    await store.jobs.retry(pending.id, 1, by("bob"));
    const running = await startOne(store, { queue: "mails" });
    assert.equal(await store.jobs.cancel(running.id, by("bob")), "processing");
    const { id: worker } = await start(store);
    await store.workers.command({ ...by("eve"), desiredState: "drain", target: { worker } });

    const lines = await store.audit.list({ limit: 9 });
    const [first] = lines;
    assert.deepEqual(
      { ...first, seq: 0, previousHash: "", hash: "" },
      {
        ...ada,
        seq: 0,
        at: clock.now() - 1_000,
        action: "job.cancel",
        subject: `job ${pending.id}`,
        oldStatus: "pending",
        newStatus: "cancelled",
        detail: null,
        previousHash: "",
        hash: "",
      },
    );
    assert.deepEqual(
      lines.slice(1).map((line) => [line.actor, line.action, line.oldStatus, line.newStatus]),
      [
        ["bob", "job.retry", "cancelled", "pending"],
        ["bob", "job.cancel", "processing", "processing"],
        ["eve", "worker.drain", "run", "drain"],
      ],
    );
    assert.equal((await verify(store)).held, true);
  });

  test("an action without an actor leaves no line, and neither does one that changed nothing", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store);
    await assert.rejects(store.jobs.retry(id, 1, by("ada")), IllegalMoveError);
    await store.jobs.cancel(id);
    assert.equal(await store.jobs.cancel(id, by("ada")), "cancelled");
    assert.equal(await store.jobs.cancel(nextId(), by("ada")), null);
    await store.jobs.retry(id, 1);
    const target = { worker: "nobody" };
    assert.deepEqual(
      await store.workers.command({ ...by("ada"), desiredState: "stop", target }),
      [],
    );
    assert.deepEqual(await store.audit.list({ limit: 9 }), []);
  });

  test("an action that is repeated under the id of its line is not repeated, whatever happened to the job since", async () => {
    const { store } = await open();
    const id = await jobIn(store, "failed");
    const ada = by("ada");
    await store.jobs.retry(id, 1, ada);
    await store.jobs.retry(id, 1, ada);
    assert.equal(await statusOf(store, id), "pending");
    await settleOne(store, failed(await claimOne(store)));
    await store.jobs.retry(id, 1, ada);
    assert.equal(await statusOf(store, id), "failed");
    const bob = by("bob");
    await store.jobs.retry(id, 1, by("eve"));
    assert.equal(await store.jobs.cancel(id, bob), "cancelled");
    await store.jobs.retry(id, 1, by("eve"));
    assert.equal(await store.jobs.cancel(id, bob), "cancelled");
    assert.equal(await statusOf(store, id), "pending");
    const lines = await store.audit.list({ limit: 9 });
    assert.deepEqual(
      lines.map(({ actor }) => actor),
      ["ada", "eve", "bob", "eve"],
    );
    assert.equal((await verify(store)).held, true);
  });

  test("when many operators act at once, each gets a line, and no number is used twice", async () => {
    const bundle = await open();
    const { store, alone } = bundle;
    const stores = alone === null ? [store, await bundle.another()] : [store];
    const before = (await headOf(store)).seq;
    const ids: string[] = [];
    for (let count = 0; count < 20; count += 1) ids.push((await enqueueOne(store)).id);
    const cancel = (id: string, index: number): Promise<unknown> =>
      (stores[index % stores.length] ?? store).jobs.cancel(id, by(`operator-${index}`));
    await Promise.all(ids.map(cancel));
    const lines = await store.audit.list({ after: before, limit: 99 });
    assert.deepEqual(
      lines.map(({ seq }) => seq - before),
      ids.map((_, index) => index + 1),
    );
    assert.equal(new Set(lines.map(({ actor }) => actor)).size, 20);
    const { held, head } = await verify(store);
    assert.deepEqual([held, head.hash], [true, lines.at(-1)?.hash]);
  });

  test("an action about something that is elsewhere has its line, too", async () => {
    const { store } = await open();
    const release = { action: "lock.release", subject: "lock order:1", detail: "worker-a" };
    await store.audit.note(by("ada", { reason: "it hung" }), release);
    const [line] = await store.audit.list({ subject: "lock order:1", limit: 9 });
    assert.deepEqual([line?.actor, line?.detail, line?.reason], ["ada", "worker-a", "it hung"]);
  });

  test("lines are listed by page, by actor and by subject", async () => {
    const { store } = await open();
    const from = (await headOf(store)).seq;
    const jobs = [await enqueueOne(store), await enqueueOne(store), await enqueueOne(store)];
    for (const { id } of jobs) await store.jobs.cancel(id, by("ada"));
    await store.jobs.retry(jobs[1]?.id ?? "", 1, by("bob"));
    const seqs = async (filter: object, limit = 9): Promise<number[]> =>
      (await store.audit.list({ ...filter, limit })).map(({ seq }) => seq - from);
    assert.deepEqual(await seqs({}, 2), [3, 4]);
    assert.deepEqual(await seqs({ before: from + 3 }, 2), [1, 2]);
    assert.deepEqual(await seqs({ after: from }, 2), [1, 2]);
    assert.deepEqual(await seqs({ after: from + 2 }, 2), [3, 4]);
    assert.deepEqual(await seqs({ actor: "bob" }), [4]);
    assert.deepEqual(await seqs({ subject: `job ${jobs[1]?.id}` }), [2, 4]);
  });

  test("no hand-typed SQL changes, removes or forges a line, or moves the head", async () => {
    const bundle = await open();
    const { store, byHand } = bundle;
    const { engine } = (await plainStore(bundle)).db;
    const { id } = await enqueueOne(store);
    const ada = by("ada");
    await store.jobs.cancel(id, ada);
    const { seq, hash } = await headOf(store);
    const forged = (number: number, previous: string): Sql => sql`
      insert into holdfast.audit (id, seq, at, actor, action, subject, previous_hash, hash)
      values (${nextId()}, ${number}, 1, 'eve', 'job.cancel', 'job 1', ${previous}, ${NO_HASH})`;
    const attempts = [
      sql`update holdfast.audit set actor = 'eve'`,
      sql`update holdfast.audit set hash = null, previous_hash = null`,
      sql`delete from holdfast.audit`,
      forged(seq, hash),
      forged(seq + 2, hash),
      forged(seq + 1, NO_HASH),
      sql`update holdfast.audit_head set seq = seq + 1`,
      sql`update holdfast.audit_head set seq = seq + 1, hash = ${NO_HASH}`,
      sql`update holdfast.audit_head set seq = seq + 2`,
      sql`update holdfast.audit_head set seq = seq - 1`,
      sql`update holdfast.audit_head set hash = ${NO_HASH}`,
      sql`update holdfast.audit_head set pruned_seq = pruned_seq - 1`,
      sql`update holdfast.audit_head set pruned_seq = seq + 1`,
      sql`update holdfast.audit_head set pruned_seq = seq, pruned_hash = hash`,
      sql`update holdfast.audit_head set pruned_hash = hash`,
      sql`insert into holdfast.audit (id, at, actor, action, subject)
          values (${nextId()}, 1, 'eve', 'audit.prune', 'audit')`,
      sql`delete from holdfast.audit_head`,
    ];
    const { engine: kind } = engine.address ?? { engine: "sqlite" };
    if (kind === "postgres") {
      attempts.push(sql`truncate holdfast.audit`, sql`truncate holdfast.audit_head`);
    } else {
      attempts.push(
        sql`replace into holdfast.audit (id, at, actor, action, subject)
            values (${ada.id}, 1, 'eve', 'job.cancel', 'job 1')`,
        sql`replace into holdfast.audit_head (id, seq, hash, pruned_seq, pruned_hash)
            values (1, 0, ${NO_HASH}, 0, ${NO_HASH})`,
      );
    }
    for (const attempt of attempts) {
      await assert.rejects(byHand(attempt), StoreRefusedError, attempt.strings.join("?"));
    }
    const head = await headOf(store);
    assert.deepEqual([head.seq, head.hash], [seq, hash]);
    assert.equal((await store.audit.list({ limit: 9 }))[0]?.actor, "ada");
    assert.equal((await verify(store)).held, true);
  });

  test("an operator can prune the oldest lines, and the rest of the chain still verifies", async () => {
    const { store, clock, byHand } = await open();
    const { seq: from } = await headOf(store);
    for (let count = 0; count < 3; count += 1) {
      await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
      clock.advance(1_000);
    }
    const hashes = (await store.audit.list({ after: from, limit: 9 })).map(({ hash }) => hash);
    const prune = (limit: number): Promise<number> =>
      store.audit.prune({ ...by("eve"), keepMs: 1_000, limit });
    assert.equal(await prune(1), 1);
    assert.equal(await prune(9), 1); // the third is exactly so old
    assert.equal(await prune(9), 0);
    const lines = await store.audit.list({ limit: 9 });
    assert.deepEqual(
      lines.map(({ seq, action, detail }) => [seq - from, action, detail]),
      [
        [3, "job.cancel", null],
        [4, "audit.prune", `${from + 1} to ${from + 1}, hash ${hashes[0]}`],
        [5, "audit.prune", `${from + 2} to ${from + 2}, hash ${hashes[1]}`],
      ],
    );
    await assert.rejects(
      byHand(sql`delete from holdfast.audit where seq > ${from}`),
      StoreRefusedError,
    );
    const { held, pruned } = await verify(store);
    assert.deepEqual([held, pruned], [true, { upTo: from + 2, at: clock.now(), actor: "eve" }]);
  });

  test("the oldest lines can be deleted only with the line that records it", async () => {
    const bundle = await open({ migrate: false });
    const { byHand } = bundle;
    const store = await plainStore(bundle);
    const { engine } = store.db;
    await store.migrate();
    for (let count = 0; count < 3; count += 1) {
      await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
    }
    const { seq, hash, prunedSeq } = await headOf(store);
    const [first] = await store.audit.list({ after: prunedSeq, limit: 1 });
    const wrong = {
      "of another kind": {
        action: "job.cancel",
        detail: `${prunedSeq + 1} to ${seq}, hash ${hash}`,
      },
      "about less": {
        action: "audit.prune",
        detail: `${prunedSeq + 1} to ${seq - 1}, hash ${hash}`,
      },
      "that begins later": {
        action: "audit.prune",
        detail: `${prunedSeq + 2} to ${seq}, hash ${hash}`,
      },
      "with another hash": {
        action: "audit.prune",
        detail: `${prunedSeq + 1} to ${seq}, hash ${first?.hash}`,
      },
      "without a hash": { action: "audit.prune", detail: `${prunedSeq + 1} to ${seq}` },
    };
    const head = sql`update holdfast.audit_head set pruned_seq = ${seq}, pruned_hash = ${hash}`;
    for (const [what, action] of Object.entries(wrong)) {
      const tried = engine.transaction(async (tx) => {
        await noteAction(engine, tx, by("eve"), { ...action, subject: "audit" });
        await tx.run(head);
      });
      await assert.rejects(tried, StoreRefusedError, what);
    }
    const detail = `${prunedSeq + 1} to ${seq}, hash ${hash}`;
    await store.audit.note(by("eve"), { action: "audit.prune", subject: "audit", detail });
    await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
    await assert.rejects(byHand(head), StoreRefusedError, "long after it");
    assert.deepEqual(
      (await verify(store)).breaks.map(({ kind }) => kind),
      ["pruning"],
    );
  });

  test("a witness among pruned lines is covered by the pruning line, or is a violation", async () => {
    const bundle = await open({ migrate: false });
    const store = await plainStore(bundle);
    await store.migrate();
    const witnesses: { seq: number; hash: string }[] = [];
    for (let count = 0; count < 3; count += 1) {
      await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
      witnesses.push((await verify(store)).head);
    }
    bundle.clock.advance(1_000);
    assert.equal(await store.audit.prune({ ...by("eve"), keepMs: 1, limit: 2 }), 2);
    const seen = async (witness: { seq: number; hash: string } | undefined): Promise<string[]> => {
      const { breaks, pruned } = await verify(store, witness === undefined ? {} : { witness });
      assert.deepEqual([pruned?.upTo, pruned?.actor], [2, "eve"]);
      return breaks.map(({ kind, seq }) => `${kind} ${seq}`);
    };
    for (const witness of witnesses) assert.deepEqual(await seen(witness), []);
    assert.deepEqual(await seen({ seq: 2, hash: NO_HASH }), ["witness 2"]);
  });

  test("lines wiped by an account with all privileges are detected, with a witness and without", async () => {
    const bundle = await open({ migrate: false });
    const store = await plainStore(bundle);
    await store.migrate();
    for (let count = 0; count < 4; count += 1) {
      await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
    }
    const { head: witness } = await verify(store);
    const [, second] = await store.audit.list({ limit: 9 });
    await takeGuardsAway(store, ["audit", "audit_head"]);
    await bundle.byHand(sql`update holdfast.audit_head set pruned_seq = seq, pruned_hash = hash`);
    await bundle.byHand(sql`delete from holdfast.audit`);
    const found = async (options: VerifyOptions = {}): Promise<string[]> =>
      (await verify(store, options)).breaks.map(({ kind, seq }) => `${kind} ${seq}`);
    assert.deepEqual(await found(), ["pruning 4"]);
    assert.deepEqual(await found({ witness }), ["pruning 4"]);
    const older = { seq: 2, hash: second?.hash ?? "" };
    assert.deepEqual(await found({ witness: older }), ["pruning 4", "witness 2"]);
    assert.deepEqual(await found({ witness: { seq: 4, hash: NO_HASH } }), [
      "pruning 4",
      "witness 4",
    ]);
  });

  test("the retention of items changes only with an audit line, also by hand", async () => {
    const bundle = await open();
    const { store, byHand } = bundle;
    const forEver = defineWorkflow({ ...orderStates, name: "deed" });
    const workflows = workflowsOn(await plainStore(bundle)); // functions do not travel
    const item = await workflows.start(forEver, { data: {}, actor: "shop" });
    await item.move("end", { actor: "ada" });
    const [{ declaration } = { declaration: "" }] = await (
      await plainStore(bundle)
    ).db.engine.all<{ declaration: string }>(
      sql`select declaration from holdfast.workflow where name = 'deed'`,
    );
    for (const attempt of [
      sql`update holdfast.workflow set keep_ms = 1 where name = 'deed'`,
      sql`update holdfast.workflow set name = 'other' where name = 'deed'`,
      sql`delete from holdfast.workflow where name = 'deed'`,
      ...((await plainStore(bundle)).db.engine.address?.engine === "postgres"
        ? []
        : [
            sql`replace into holdfast.workflow (name, version, keep_ms, declared_at, declaration)
                values ('deed', 1, 1, 1, ${declaration})`,
          ]),
      sql`insert into holdfast.item_pruning (item_id) values (${item.id})`,
    ]) {
      await assert.rejects(byHand(attempt), StoreRefusedError, attempt.strings.join("?"));
    }
    await workflowsOn(store).declare(
      defineWorkflow({ ...orderStates, name: "deed", version: 2, keep: "1d" }),
    );
    await workflowsOn(store).declare(
      defineWorkflow({ ...orderStates, name: "deed", version: 3, keep: "2d" }),
    );
    const lines = await store.audit.list({ subject: "workflow deed", limit: 9 });
    assert.deepEqual(
      lines.map(({ actor, action, detail, reason }) => [actor, action, detail, reason]),
      [
        ["api", "workflow.keep", "forever to 86400000", "version 2 was declared"],
        ["api", "workflow.keep", "86400000 to 172800000", "version 3 was declared"],
      ],
    );
    assert.equal((await verify(store)).held, true);
  });

  test("changes to items during a verification do not disturb it", async () => {
    const bundle = await open({ migrate: false });
    const store = await plainStore(bundle);
    await store.migrate();
    const workflows = workflowsOn(store);
    const ended = await shippedOrder(workflows);
    const living = await workflows.start(order, { data: { cents: 1 }, actor: "shop" });
    await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
    let meanwhile = 0;
    const busy = between(store, {
      // The items are read by now, and these lines are not.
      "items.lines": async () => {
        meanwhile += 1;
        await living.move("pay", { actor: "bank" });
        await workflows.start(order, { data: { cents: 2 }, actor: "shop" });
        bundle.clock.advance(1_000);
        assert.equal(await store.items.prune(9), 1);
      },
      "audit.list": async () => {
        meanwhile += 1;
        await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
        assert.equal(await store.audit.prune({ ...by("eve"), keepMs: -1, limit: 1 }), 1);
      },
    });
    const verified = await verify(busy);
    assert.deepEqual([verified.breaks, meanwhile], [[], 2]);
    assert.equal(await store.items.find(ended), null);
    const again = await verify(store);
    assert.deepEqual([again.held, again.items, again.lines, again.actions], [true, 2, 3, 2]);
    const range = { after: null, upTo: living.id, limit: 9 };
    assert.equal((await store.items.lines(range)).length, 2);
    const behind = { item: living.id, seq: 1 };
    assert.equal((await store.items.lines({ ...range, after: behind })).length, 1);
  });

  test("every change to the items' audit log by an account with all privileges is found", async () => {
    const bundle = await open({ migrate: false });
    const store = await plainStore(bundle);
    await store.migrate();
    const workflows = workflowsOn(store);
    const items = new Map<string, string>();
    for (const what of Object.keys(tamperings)) items.set(what, await shippedOrder(workflows));
    assert.equal((await verify(store)).held, true);

    await takeGuardsAway(store, ["item", "item_audit"]);
    for (const [what, item] of items) {
      const change = tamperings[what]?.tamper(item);
      assert.equal(await bundle.byHand(change as Sql), what.startsWith("all") ? 3 : 1, what);
    }
    const { breaks } = await verify(store);
    for (const [what, item] of items) {
      const found = breaks.filter((one) => one.item === item).map(({ kind }) => kind);
      assert.deepEqual(found, tamperings[what]?.kinds, what);
    }
  });

  test("a hash that was removed is found, that of the first line too", async () => {
    const bundle = await open({ migrate: false });
    const store = await plainStore(bundle);
    await store.migrate();
    for (let count = 0; count < 2; count += 1) {
      await store.jobs.cancel(await jobIn(store, "pending"), by("ada"));
    }
    await takeGuardsAway(store, ["audit", "audit_head"]);
    await bundle.byHand(
      sql`update holdfast.audit set previous_hash = null, hash = null where seq = 1`,
    );
    const { breaks } = await verify(store);
    assert.deepEqual(
      breaks.map(({ kind, seq }) => `${kind} ${seq}`),
      ["hash 1", "link 2"],
    );
  });

  test("every change to the operators' audit log is found", async () => {
    const bundle = await open({ migrate: false });
    const store = await plainStore(bundle);
    await store.migrate();
    for (let count = 0; count < 4; count += 1) {
      await store.jobs.cancel(await jobIn(store, "pending"), by("ada"));
    }
    const { held, head: witness } = await verify(store);
    assert.deepEqual([held, witness.seq], [true, 4]);
    await takeGuardsAway(store, ["audit", "audit_head"]);
    const found = async (change: Sql, options: VerifyOptions = {}): Promise<string[]> => {
      assert.equal(await bundle.byHand(change), 1);
      const { breaks } = await verify(store, options);
      return breaks.map(({ kind, seq }) => `${kind} ${seq}`);
    };
    assert.deepEqual(await found(sql`update holdfast.audit set actor = 'eve' where seq = 2`), [
      "changed 2",
    ]);
    const unsigned = sql`update holdfast.audit set previous_hash = null, hash = null where seq = 2`;
    assert.deepEqual(await found(unsigned), ["hash 2", "link 3"]);
    assert.deepEqual(await found(sql`delete from holdfast.audit where seq = 2`), ["gap 3"]);
    assert.deepEqual(await found(sql`delete from holdfast.audit where seq = 4`), [
      "gap 3",
      "head 4",
    ]);
    const cut = sql`
      update holdfast.audit_head
         set seq = 3, hash = (select hash from holdfast.audit where seq = 3),
             pruned_seq = 2, pruned_hash = (select previous_hash from holdfast.audit where seq = 3)`;
    assert.deepEqual(await found(cut, { witness }), ["pruning 2", "witness 4"]);
    const forged = sql`
      insert into holdfast.audit (id, seq, at, actor, action, subject, previous_hash, hash)
      select ${nextId()}, 4, 1, 'eve', 'job.cancel', 'job 1', hash, ${NO_HASH}
        from holdfast.audit where seq = 3`;
    assert.deepEqual(await found(forged, { witness }), [
      "pruning 2",
      "changed 4",
      "witness 4",
      "head 4",
    ]);
  });

  test("a verification reports its progress, and can be aborted", async () => {
    const { store } = await open();
    await store.jobs.cancel((await enqueueOne(store)).id, by("ada"));
    const seen: number[] = [];
    await verify(store, { onProgress: ({ actions }) => seen.push(actions) });
    assert.equal(seen.at(-1), 1);
    const signal = AbortSignal.abort(new Error("enough"));
    await assert.rejects(verify(store, { signal }), /enough/);
  });
};

/** Changes to an item with three lines by hand, and what the verification finds. */
const tamperings: Record<string, { tamper: (item: string) => Sql; kinds: readonly BreakKind[] }> = {
  "a line is changed": {
    tamper: (item) => ofLine(item, 2, sql`update holdfast.item_audit set reason = 'none'`),
    kinds: ["changed"],
  },
  "a line is changed, and its hash with it": {
    tamper: (item) => ofLine(item, 2, sql`update holdfast.item_audit set hash = ${NO_HASH}`),
    kinds: ["changed", "link"],
  },
  "a line in the middle is removed": {
    tamper: (item) => ofLine(item, 2, sql`delete from holdfast.item_audit`),
    kinds: ["gap"],
  },
  "the first line is removed": {
    tamper: (item) => ofLine(item, 1, sql`delete from holdfast.item_audit`),
    kinds: ["gap"],
  },
  "the last line is removed": {
    tamper: (item) => ofLine(item, 3, sql`delete from holdfast.item_audit`),
    kinds: ["head"],
  },
  "all lines are removed": {
    tamper: (item) => sql`delete from holdfast.item_audit where item_id = ${item}`,
    kinds: ["head"],
  },
  "a line is added": {
    tamper: (item) => sql`
          insert into holdfast.item_audit
            (item_id, seq, change_id, at, actor, action, new_status, revision, jobs, data_hash, previous_hash, hash)
          select item_id, 4, change_id, at, 'eve', 'update', new_status, 4, jobs, data_hash, hash, ${NO_HASH}
            from holdfast.item_audit where item_id = ${item} and seq = 3`,
    kinds: ["changed", "head"],
  },
  "the item's status is changed": {
    tamper: (item) => sql`update holdfast.item set status = 'paid' where id = ${item}`,
    kinds: ["status"],
  },
  "the item's data is changed": {
    tamper: (item) => sql`update holdfast.item set data = '{"cents":1}' where id = ${item}`,
    kinds: ["data"],
  },
  "the item is set back by a line": {
    tamper: (item) => sql`update holdfast.item set audit_seq = 2 where id = ${item}`,
    kinds: ["head", "status", "head"],
  },
  "the item is removed": {
    tamper: (item) => sql`delete from holdfast.item where id = ${item}`,
    kinds: ["orphan"],
  },
};

function ofLine(item: string, seq: number, change: Sql): Sql {
  return sql`${change} where item_id = ${item} and seq = ${seq}`;
}

/** The same store, but something happens before the first call of each of these verbs, such as `audit.list`. */
function between(store: Store, first: Readonly<Record<string, () => Promise<void>>>): Store {
  const left = new Map(Object.entries(first));
  return mapParts(store, (part, of) =>
    onPart(part, (name, call) => {
      const verb = `${of}.${name}`;
      const happens = left.get(verb);
      if (happens === undefined || typeof call !== "function") return null;
      return async (...args: unknown[]): Promise<unknown> => {
        left.delete(verb);
        await happens();
        return call(...args) as unknown;
      };
    }),
  );
}
