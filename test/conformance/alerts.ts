/** Alerts: raised once and resolved once, however many look; and a job for every target delivers both. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { OperatorEntry } from "../../src/audit/entry.ts";
import { StoreRefusedError } from "../../src/core/errors.ts";
import { targetOf, type AlertRecord, type Cleared, type Noted } from "../../src/alerts/alert.ts";
import { ALERT_QUEUE } from "../../src/core/name.ts";
import type { Status } from "../../src/core/job.ts";
import { sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import { HOLD_MS, sighting } from "../support/alerts.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import { done, idsOf, mustFind, nextId, settleOne, startOne, upTo } from "../support/jobs.ts";

const QUIET_MS = 60_000;
const DAY_MS = 86_400_000;
const AT_ONCE = 8;

async function openOnes(store: Store): Promise<readonly AlertRecord[]> {
  return (await store.alerts.open(100)).alerts;
}

async function onlyOne(store: Store): Promise<AlertRecord> {
  const [one, ...others] = await store.alerts.list({ which: "all", limit: 10 });
  assert.ok(one !== undefined && others.length === 0);
  return one;
}

async function raiseOne(store: Store, facts: Parameters<typeof sighting>[0] = {}): Promise<string> {
  const { change, id } = await store.alerts.note(sighting({ holdMs: 0, ...facts }));
  assert.equal(change, "raised");
  return id;
}

function clear(
  store: Store,
  { id, seenAt }: Pick<AlertRecord, "id" | "seenAt">,
  targets: readonly string[] = [],
): Promise<Cleared | null> {
  return store.alerts.clear({ alert: id, id: nextId(), seenAt, quietMs: QUIET_MS, targets });
}

/** The jobs that deliver, as `event target`. */
async function deliveries(store: Store, status?: Status): Promise<string[]> {
  const filter = { queue: ALERT_QUEUE, limit: 100, ...(status === undefined ? {} : { status }) };
  const jobs = await store.jobs.list(filter);
  return jobs.map(({ key, task }) => `${key?.split(".")[1] ?? ""} ${targetOf(task)}`).toSorted();
}

/** Several who make the same call at the same moment, from as many processes as there can be. */
async function together<T>(
  { store, alone, another }: Bundle,
  call: (one: Store) => Promise<T>,
): Promise<T[]> {
  const stores = alone === null ? [store, await another(), await another()] : [store];
  const calls = Array.from({ length: AT_ONCE }, (_, index) =>
    call(stores[index % stores.length] as Store),
  );
  return Promise.all(calls);
}

export const alerts: Group = (open) => {
  test("a condition is pending when it is first seen, and is listed with all its facts", async () => {
    const { store, clock } = await open();
    const first = sighting();
    assert.deepEqual(await store.alerts.note(first), { change: "pending", id: first.id });
    const now = clock.now();
    assert.deepEqual(await store.alerts.open(10), {
      now,
      alerts: [
        {
          id: first.id,
          rule: "pending-old",
          subject: "mail",
          severity: "warning",
          status: "pending",
          message: first.message,
          facts: first.facts,
          sinceAt: now,
          seenAt: now,
          raisedAt: null,
          resolvedAt: null,
          notifiedAt: null,
          acknowledgedAt: null,
          acknowledgedBy: null,
          silencedUntil: null,
          silencedBy: null,
          note: null,
        },
      ],
    });
    assert.deepEqual(await store.alerts.list({ which: "raised", limit: 10 }), []);
    assert.deepEqual(await store.alerts.count(), { raised: 0, pending: 1, silenced: 0 });
  });

  test("it is raised when it has held for as long as its rule says, and not before", async () => {
    const { store, clock } = await open();
    const { id } = await store.alerts.note(sighting());
    clock.advance(HOLD_MS - 1);
    const { change } = await store.alerts.note(sighting({ message: "It waits.", facts: "{}" }));
    assert.equal(change, "seen");
    clock.advance(1);
    const last = sighting({ severity: "critical" });
    assert.deepEqual(await store.alerts.note(last), { change: "raised", id });
    assert.deepEqual((await store.alerts.note(sighting())).change, "seen");
    const { sinceAt, raisedAt, message, severity } = await onlyOne(store);
    assert.deepEqual([raisedAt, sinceAt], [clock.now(), clock.now() - HOLD_MS]);
    assert.deepEqual([message, severity], [last.message, "warning"]); // as it was seen last
  });

  test("a rule without a duration raises at once, and so does a condition that is known to be old", async () => {
    const { store, clock } = await open();
    await raiseOne(store, { subject: "now" });
    const old = sighting({ subject: "old", sinceAt: clock.now() - HOLD_MS });
    assert.equal((await store.alerts.note(old)).change, "raised");
    const young = sighting({ subject: "young", sinceAt: clock.now() - HOLD_MS + 5 });
    assert.equal((await store.alerts.note(young)).change, "pending");
    clock.advance(5);
    assert.equal((await store.alerts.note(sighting({ subject: "young" }))).change, "raised");
    const ahead = sighting({ subject: "ahead", sinceAt: clock.now() + DAY_MS });
    await store.alerts.note(ahead);
    const found = (await openOnes(store)).find(({ subject }) => subject === "ahead");
    assert.equal(found?.sinceAt, clock.now());
  });

  // With targets, one who is late would be refused by what is to be told; without, by the status alone.
  for (const targets of [["hook", "chat"], []]) {
    test(`when many processes see it at once, one raises it, and each of ${targets.length} targets is notified once`, async () => {
      const bundle = await open();
      const { store, clock } = bundle;
      const note = (one: Store): Promise<Noted> => one.alerts.note(sighting({ targets }));
      const first = await together(bundle, note);
      assert.equal(first.filter(({ change }) => change === "pending").length, 1);
      assert.equal(new Set(first.map(({ id }) => id)).size, 1);
      clock.advance(HOLD_MS);
      const raised = await together(bundle, note);
      assert.equal(raised.filter(({ change }) => change === "raised").length, 1);
      assert.equal((await openOnes(store)).length, 1);
      assert.deepEqual(await deliveries(store), targets.map((one) => `raised ${one}`).toSorted());
    });
  }

  test("when many processes see a condition without a duration at once, one raises it", async () => {
    const bundle = await open();
    const note = (one: Store): Promise<Noted> =>
      one.alerts.note(sighting({ holdMs: 0, targets: ["hook"] }));
    const raised = await together(bundle, note);
    assert.equal(raised.filter(({ change }) => change === "raised").length, 1);
    assert.equal((await openOnes(bundle.store)).length, 1);
    assert.deepEqual(await deliveries(bundle.store), ["raised hook"]);
  });

  test("the database itself refuses a second open one of a rule and subject", async () => {
    const { store, byHand } = await open();
    const insert = (status: string, raisedAt: number | null): Promise<number> =>
      byHand(sql`
        insert into holdfast.alert
               (id, rule, subject, severity, status, message, facts, change_id, since_at, seen_at, raised_at)
        values (${nextId()}, 'pending-old', 'mail', 'warning', ${status}, '', '{}', ${nextId()}, 1, 1, ${raisedAt})`);
    await raiseOne(store);
    await assert.rejects(insert("pending", null), StoreRefusedError);
    await assert.rejects(insert("raised", 1), StoreRefusedError);
    await assert.rejects(insert("raised", null), StoreRefusedError);
    assert.equal((await openOnes(store)).length, 1);
  });

  test("a pending alert whose condition went away is deleted, and no target is notified", async () => {
    const { store, clock } = await open();
    await store.alerts.note(sighting({ targets: ["hook"] }));
    const [alert] = await openOnes(store);
    assert.equal(await clear(store, alert!, ["hook"]), "dropped");
    assert.deepEqual(await openOnes(store), []);
    assert.deepEqual(await deliveries(store), []);
    clock.advance(HOLD_MS);
    assert.equal((await store.alerts.note(sighting())).change, "pending"); // it counts from anew
  });

  test("a pending alert that another process has seen meanwhile stays", async () => {
    const { store, clock } = await open();
    await store.alerts.note(sighting());
    const [alert] = await openOnes(store);
    clock.advance(10);
    await store.alerts.note(sighting());
    assert.equal(await clear(store, alert!), null);
    assert.equal((await openOnes(store)).length, 1);
  });

  test("a raised alert is resolved when no process has seen its condition for a while", async () => {
    const { store, clock } = await open();
    await raiseOne(store);
    clock.advance(QUIET_MS - 1);
    const [alert] = await openOnes(store);
    assert.equal(await clear(store, alert!), null);
    await store.alerts.note(sighting());
    clock.advance(QUIET_MS - 1);
    assert.equal(await clear(store, alert!), null);
    clock.advance(1);
    assert.equal(await clear(store, alert!), "resolved");
    assert.equal(await clear(store, alert!), null);
    const { status, resolvedAt } = await onlyOne(store);
    assert.deepEqual([status, resolvedAt], ["resolved", clock.now()]);
  });

  test("when many processes find it gone, one resolves it, and each target is notified once", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    await raiseOne(store);
    const [alert] = await openOnes(store);
    clock.advance(QUIET_MS);
    const cleared = await together(bundle, (one) => clear(one, alert!, ["hook", "chat"]));
    assert.deepEqual(
      cleared.filter((change) => change !== null),
      ["resolved"],
    );
    assert.deepEqual(await deliveries(store), ["resolved chat", "resolved hook"]);
  });

  test("a condition that returns after it was resolved is a new alert", async () => {
    const { store, clock } = await open();
    const first = await raiseOne(store);
    clock.advance(QUIET_MS);
    await clear(store, { id: first, seenAt: 0 });
    const second = await raiseOne(store);
    assert.notEqual(second, first);
    assert.equal((await store.alerts.list({ which: "all", limit: 10 })).length, 2);
  });

  test("subjects that differ in a byte are two alerts", async () => {
    const { store } = await open();
    for (const subject of ["", "cafe", "Cafe", "café", "c".repeat(255)]) {
      await raiseOne(store, { subject });
    }
    assert.equal((await openOnes(store)).length, 5);
  });

  test("open alerts are listed worst first and then oldest first, all of them newest first, page by page", async () => {
    const { store, clock } = await open();
    for (const subject of ["a", "b", "c", "d"]) await raiseOne(store, { subject });
    await store.alerts.note(sighting({ subject: "e" }));
    for (const [subject, severity] of [
      ["c", "critical"],
      ["a", "info"],
    ] as const)
      await store.alerts.note(sighting({ subject, severity, holdMs: 0 }));
    const b = (await openOnes(store)).find(({ subject }) => subject === "b");
    clock.advance(QUIET_MS);
    await clear(store, b!);
    const subjects = async (
      filter: Partial<Parameters<Store["alerts"]["list"]>[0]>,
    ): Promise<string> => {
      const rows = await store.alerts.list({ which: "all", limit: 10, ...filter });
      return rows.map(({ subject }) => subject).join("");
    };
    assert.equal(await subjects({ which: "open" }), "cdea");
    assert.equal(await subjects({ which: "raised" }), "cda");
    assert.equal(await subjects({}), "edcba");
    const open1 = await openOnes(store);
    for (const [at, { id }] of open1.entries())
      assert.equal(await subjects({ which: "open", before: id }), "cdea".slice(at + 1));
    const [, last] = await store.alerts.list({ which: "all", limit: 2 });
    assert.equal(await subjects({ before: last!.id, limit: 1 }), "c");
    assert.equal(await subjects({ which: "open", id: open1[1]!.id }), "d");
    assert.equal(await subjects({ which: "open", id: "not an id" }), "");
    assert.equal(await subjects({ before: "not an id" }), "");
    assert.equal((await store.alerts.open(2)).alerts.length, 2);
  });

  test("a silenced alert is not delivered, and comes back by itself when its time is over; an acknowledged one does not", async () => {
    const { store, clock } = await open();
    const see = async (subject: string): Promise<string> => {
      const { change } = await store.alerts.note(sighting({ subject, targets: ["hook"] }));
      return change;
    };
    const ada = (): OperatorEntry => ({ id: nextId(), actor: "ada", reason: "known" });
    const silence = { kind: "silence", forMs: 10 * HOLD_MS } as const;
    for (const subject of ["a", "b", "c"]) await see(subject);
    const [a, b, c] = await openOnes(store);
    assert.equal(await store.alerts.change(a!.id, silence, ada()), true);
    const repeated = ada();
    for (const entry of [repeated, repeated, ada()])
      assert.equal(await store.alerts.change(b!.id, { kind: "acknowledge" }, entry), true);
    assert.equal(await store.alerts.change(b!.id, silence, ada()), true);
    assert.equal(await store.alerts.change(nextId(), silence, ada()), false);
    clock.advance(HOLD_MS);
    for (const subject of ["a", "b", "c"]) assert.equal(await see(subject), "raised");
    assert.deepEqual(await store.alerts.count(), { raised: 3, pending: 0, silenced: 2 });
    assert.deepEqual(await deliveries(store), ["raised hook"]); // c
    // What was not told of is not taken back, and the silence outlives the alert.
    clock.advance(QUIET_MS);
    assert.equal(await clear(store, { id: a!.id, seenAt: 0 }, ["hook"]), "resolved");
    assert.equal(await store.alerts.change(a!.id, silence, ada()), false);
    await see("a");
    const again = (await openOnes(store)).find(({ subject }) => subject === "a");
    assert.deepEqual([again?.silencedBy, again?.note], ["ada", "known"]);
    clock.advance(10 * HOLD_MS - 1 - HOLD_MS - QUIET_MS);
    assert.equal(await see("a"), "raised");
    assert.deepEqual(await deliveries(store), ["raised hook"]);
    clock.advance(1);
    assert.deepEqual([await see("a"), await see("b"), await see("c")], ["raised", "seen", "seen"]);
    assert.deepEqual(await deliveries(store), ["raised hook", "raised hook"]);
    assert.equal(await see("a"), "seen");
    const late = await store.alerts.find(again!.id);
    assert.deepEqual([late?.silencedUntil, late?.notifiedAt], [null, clock.now()]);
    assert.equal(await store.alerts.change(c!.id, silence, ada()), true);
    const lines = await store.audit.list({ limit: 10 });
    assert.deepEqual(
      lines.map(({ action, detail }) => [action, detail]),
      [
        ["alert.silence", "for 10m"],
        ["alert.acknowledge", null],
        ["alert.acknowledge", null],
        ["alert.silence", "for 10m"],
        ["alert.silence", "for 10m"],
      ],
    );
  });

  test("alerts resolved long ago are deleted, and their pending deliveries are cancelled", async () => {
    const { store, clock } = await open();
    for (const subject of ["a", "b", "c"]) {
      const id = await raiseOne(store, { subject, targets: [subject] });
      clock.advance(QUIET_MS);
      if (subject !== "c") await clear(store, { id, seenAt: 0 });
    }
    clock.advance(30 * DAY_MS - QUIET_MS);
    assert.equal(await store.alerts.prune({ forMs: 30 * DAY_MS, limit: 10 }), 1);
    clock.advance(DAY_MS);
    assert.equal(await store.alerts.prune({ forMs: 30 * DAY_MS, limit: 10 }), 1);
    assert.equal(await store.alerts.prune({ forMs: 30 * DAY_MS, limit: 10 }), 0);
    assert.deepEqual(await deliveries(store, "pending"), ["raised c"]);
    assert.deepEqual(await deliveries(store, "cancelled"), ["raised a", "raised b"]);
  });

  test("a delivery is a job that names the alert, and holds nothing else of it", async () => {
    const { store } = await open();
    const id = await raiseOne(store, { targets: ["hook"] });
    const [job] = await store.jobs.list({ queue: ALERT_QUEUE, limit: 10 });
    const { payload, task, maxAttempts } = await mustFind(store, job!.id);
    assert.deepEqual(JSON.parse(payload), { alert: id, event: "raised" });
    assert.deepEqual([task, maxAttempts], ["holdfast.alert:hook", 12]);
    assert.equal((await store.alerts.find(id))?.rule, "pending-old");
    assert.equal(await store.alerts.find(nextId()), null);
    assert.equal(await store.alerts.find("not an id"), null);
  });

  test("statistics, lists and checks leave the reserved queue out, unless it is named", async () => {
    const { store, clock } = await open();
    await raiseOne(store, { targets: ["hook", "chat"] });
    const [sent] = await store.jobs.claim(upTo(1, { queues: [ALERT_QUEUE] }));
    await settleOne(store, done(sent!));
    assert.deepEqual(await store.jobs.stats(), []);
    assert.deepEqual((await store.stats.takeCounts({ everyMs: 0 }))?.queues, []);
    clock.advance(3 * 60_000);
    await store.stats.foldMinutes({ limit: 60 });
    assert.deepEqual(await store.stats.minutes({ forMs: DAY_MS, limit: 100 }), []);
    assert.deepEqual(await store.workers.unclaimable(), []);
    for (const status of [undefined, "pending", "done"] as const) {
      const filter = status === undefined ? {} : { status };
      assert.deepEqual(await store.jobs.list({ ...filter, limit: 10 }), [], status);
      const named = await store.jobs.list({ ...filter, queue: ALERT_QUEUE, limit: 10 });
      assert.equal(named.length, status === undefined ? 2 : 1, status);
    }
    assert.equal(
      (await store.jobs.list({ id: sent!.id.slice(0, 30), limit: 10 })).length > 0,
      true,
    );
  });

  test("expired leases of one queue are reclaimed without those of others", async () => {
    const { store, clock } = await open();
    await raiseOne(store, { targets: ["hook"] });
    const other = await startOne(store);
    const [sent] = await store.jobs.claim(upTo(1, { queues: [ALERT_QUEUE] }));
    clock.advance(DAY_MS);
    const chore = { graceMs: 0, maxCrashes: 3, limit: 10 };
    const taken = await store.jobs.reclaimExpired({ ...chore, queue: ALERT_QUEUE });
    assert.deepEqual(idsOf(taken), [sent!.id]);
    assert.deepEqual(idsOf(await store.jobs.reclaimExpired(chore)), [other.id]);
  });
};
