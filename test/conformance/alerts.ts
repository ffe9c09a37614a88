/** Alerts: raised once and resolved once, however many look; and every target is told of both, by one at a time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefused } from "../../src/core/errors.ts";
import type { AlertRecord, Cleared, Delivery, Noted } from "../../src/store/alerts.ts";
import { sql } from "../../src/store/sql.ts";
import type { Store } from "../../src/store/store.ts";
import { HOLD_MS, sighting } from "../support/alerts.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import { nextId } from "../support/jobs.ts";

const QUIET_MS = 60_000;
const SEND_MS = 30_000;
const DAY_MS = 86_400_000;
const AT_ONCE = 8;

async function openOnes(store: Store): Promise<readonly AlertRecord[]> {
  return (await store.openAlerts(100)).alerts;
}

async function onlyOne(store: Store): Promise<AlertRecord> {
  const [one, ...others] = await store.alerts({ which: "all", limit: 10 });
  assert.ok(one !== undefined && others.length === 0);
  return one;
}

async function raiseOne(store: Store, facts: Parameters<typeof sighting>[0] = {}): Promise<string> {
  const { change, id } = await store.noteAlert(sighting({ holdMs: 0, ...facts }));
  assert.equal(change, "raised");
  return id;
}

function clear(
  store: Store,
  { id, seenAt }: Pick<AlertRecord, "id" | "seenAt">,
  targets: readonly string[] = [],
): Promise<Cleared | null> {
  return store.clearAlert({ alert: id, id: nextId(), seenAt, quietMs: QUIET_MS, targets });
}

function take(store: Store, targets: readonly string[] = ["hook", "chat"]): Promise<Delivery[]> {
  return store.takeDeliveries({ targets, holdMs: SEND_MS, limit: 10 });
}

const named = (deliveries: readonly Delivery[]): string[] =>
  deliveries.map(({ event, target, tries }) => `${event} ${target} ${tries}`).toSorted();

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
  test("a condition is pending from first sight, and told with all that is known about it", async () => {
    const { store, clock } = await open();
    const first = sighting();
    assert.deepEqual(await store.noteAlert(first), { change: "pending", id: first.id });
    const now = clock.now();
    assert.deepEqual(await store.openAlerts(10), {
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
        },
      ],
    });
    assert.deepEqual(await store.alerts({ which: "all", limit: 10 }), []);
  });

  test("it is raised when it has held for as long as its rule says, and not before", async () => {
    const { store, clock } = await open();
    const { id } = await store.noteAlert(sighting());
    clock.advance(HOLD_MS - 1);
    const { change } = await store.noteAlert(sighting({ message: "It waits.", facts: "{}" }));
    assert.equal(change, "seen");
    clock.advance(1);
    const last = sighting({ severity: "critical" });
    assert.deepEqual(await store.noteAlert(last), { change: "raised", id });
    assert.deepEqual((await store.noteAlert(sighting())).change, "seen");
    const { sinceAt, raisedAt, message, severity } = await onlyOne(store);
    assert.deepEqual([raisedAt, sinceAt], [clock.now(), clock.now() - HOLD_MS]);
    assert.deepEqual([message, severity], [last.message, "warning"]); // as it was seen last
  });

  test("a rule without a duration raises at once, and so does a condition that is known to be old", async () => {
    const { store, clock } = await open();
    await raiseOne(store, { subject: "now" });
    const old = sighting({ subject: "old", sinceAt: clock.now() - HOLD_MS });
    assert.equal((await store.noteAlert(old)).change, "raised");
    const young = sighting({ subject: "young", sinceAt: clock.now() - HOLD_MS + 5 });
    assert.equal((await store.noteAlert(young)).change, "pending");
    clock.advance(5);
    assert.equal((await store.noteAlert(sighting({ subject: "young" }))).change, "raised");
    const ahead = sighting({ subject: "ahead", sinceAt: clock.now() + DAY_MS });
    await store.noteAlert(ahead);
    const found = (await openOnes(store)).find(({ subject }) => subject === "ahead");
    assert.equal(found?.sinceAt, clock.now());
  });

  // With targets, one who is late would be refused by what is to be told; without, by the status alone.
  for (const targets of [["hook", "chat"], []]) {
    test(`of many who see it at once one raises it, and all of ${targets.length} targets are told once`, async () => {
      const bundle = await open();
      const { store, clock } = bundle;
      const note = (one: Store): Promise<Noted> => one.noteAlert(sighting({ targets }));
      const first = await together(bundle, note);
      assert.equal(first.filter(({ change }) => change === "pending").length, 1);
      assert.equal(new Set(first.map(({ id }) => id)).size, 1);
      clock.advance(HOLD_MS);
      const raised = await together(bundle, note);
      assert.equal(raised.filter(({ change }) => change === "raised").length, 1);
      assert.equal((await openOnes(store)).length, 1);
      assert.deepEqual(
        named(await take(store)),
        targets.map((one) => `raised ${one} 1`).toSorted(),
      );
    });
  }

  test("of many who see at once what is raised at once one raises it", async () => {
    const bundle = await open();
    const note = (one: Store): Promise<Noted> =>
      one.noteAlert(sighting({ holdMs: 0, targets: ["hook"] }));
    const raised = await together(bundle, note);
    assert.equal(raised.filter(({ change }) => change === "raised").length, 1);
    assert.equal((await openOnes(bundle.store)).length, 1);
    assert.deepEqual(named(await take(bundle.store)), ["raised hook 1"]);
  });

  test("the database itself refuses a second open one of a rule and subject", async () => {
    const { store, byHand } = await open();
    const insert = (status: string, raisedAt: number | null): Promise<number> =>
      byHand(sql`
        insert into holdfast.alert
               (id, rule, subject, severity, status, message, facts, change_id, since_at, seen_at, raised_at)
        values (${nextId()}, 'pending-old', 'mail', 'warning', ${status}, '', '{}', ${nextId()}, 1, 1, ${raisedAt})`);
    await raiseOne(store);
    await assert.rejects(insert("pending", null), StoreRefused);
    await assert.rejects(insert("raised", 1), StoreRefused);
    await assert.rejects(insert("raised", null), StoreRefused);
    assert.equal((await openOnes(store)).length, 1);
  });

  test("a pending one whose condition went away is gone, and nobody is told", async () => {
    const { store, clock } = await open();
    await store.noteAlert(sighting({ targets: ["hook"] }));
    const [alert] = await openOnes(store);
    assert.equal(await clear(store, alert!, ["hook"]), "dropped");
    assert.deepEqual(await openOnes(store), []);
    assert.deepEqual(await take(store), []);
    clock.advance(HOLD_MS);
    assert.equal((await store.noteAlert(sighting())).change, "pending"); // it counts from anew
  });

  test("a pending one that somebody saw meanwhile is left alone", async () => {
    const { store, clock } = await open();
    await store.noteAlert(sighting());
    const [alert] = await openOnes(store);
    clock.advance(10);
    await store.noteAlert(sighting());
    assert.equal(await clear(store, alert!), null);
    assert.equal((await openOnes(store)).length, 1);
  });

  test("a raised one is resolved when nobody has seen it for a while", async () => {
    const { store, clock } = await open();
    await raiseOne(store);
    clock.advance(QUIET_MS - 1);
    const [alert] = await openOnes(store);
    assert.equal(await clear(store, alert!), null);
    await store.noteAlert(sighting());
    clock.advance(QUIET_MS - 1);
    assert.equal(await clear(store, alert!), null);
    clock.advance(1);
    assert.equal(await clear(store, alert!), "resolved");
    assert.equal(await clear(store, alert!), null);
    const { status, resolvedAt } = await onlyOne(store);
    assert.deepEqual([status, resolvedAt], ["resolved", clock.now()]);
  });

  test("of many who find it gone one resolves it, and every target is told once", async () => {
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
    assert.deepEqual(named(await take(store)), ["resolved chat 1", "resolved hook 1"]);
  });

  test("what comes back after it was resolved is another alert", async () => {
    const { store, clock } = await open();
    const first = await raiseOne(store);
    clock.advance(QUIET_MS);
    await clear(store, { id: first, seenAt: 0 });
    const second = await raiseOne(store);
    assert.notEqual(second, first);
    assert.equal((await store.alerts({ which: "all", limit: 10 })).length, 2);
  });

  test("subjects that differ in a byte are two alerts", async () => {
    const { store } = await open();
    for (const subject of ["", "cafe", "Cafe", "café", "c".repeat(255)]) {
      await raiseOne(store, { subject });
    }
    assert.equal((await openOnes(store)).length, 5);
  });

  test("lists have those that were noticed last first, page by page", async () => {
    const { store, clock } = await open();
    for (const subject of ["a", "b", "c", "d"]) await raiseOne(store, { subject });
    await store.noteAlert(sighting({ subject: "e" }));
    const b = (await openOnes(store)).find(({ subject }) => subject === "b");
    clock.advance(QUIET_MS);
    await clear(store, b!);
    const subjects = async (filter: Partial<Parameters<Store["alerts"]>[0]>): Promise<string> => {
      const rows = await store.alerts({ which: "all", limit: 10, ...filter });
      return rows.map(({ subject }) => subject).join("");
    };
    assert.equal(await subjects({ which: "open" }), "edca");
    assert.equal(await subjects({ which: "raised" }), "dca");
    assert.equal(await subjects({}), "dcba");
    const [, last] = await store.alerts({ which: "all", limit: 2 });
    assert.equal(await subjects({ before: last!.id, limit: 1 }), "b");
    assert.equal(await subjects({ before: "not an id" }), "");
    assert.equal((await store.openAlerts(2)).alerts.length, 2);
  });

  test("those resolved long ago are forgotten, and whatever was to be told about them", async () => {
    const { store, clock } = await open();
    for (const subject of ["a", "b", "c"]) {
      const id = await raiseOne(store, { subject, targets: ["hook"] });
      clock.advance(QUIET_MS);
      if (subject !== "c") await clear(store, { id, seenAt: 0 });
    }
    clock.advance(30 * DAY_MS - QUIET_MS);
    assert.equal(await store.pruneAlerts({ forMs: 30 * DAY_MS, limit: 10 }), 1);
    clock.advance(DAY_MS);
    assert.equal(await store.pruneAlerts({ forMs: 30 * DAY_MS, limit: 10 }), 1);
    assert.equal(await store.pruneAlerts({ forMs: 30 * DAY_MS, limit: 10 }), 0);
    assert.deepEqual(
      (await take(store)).map(({ record }) => record.subject),
      ["c"],
    );
  });

  test("what is due is taken by one, who has it for a moment", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const id = await raiseOne(store, { targets: ["hook", "chat"] });
    const taken = (await together(bundle, (one) => take(one, ["hook"]))).flat();
    assert.deepEqual(named(taken), ["raised hook 1"]);
    assert.deepEqual([taken[0]?.alert, taken[0]?.record.rule], [id, "pending-old"]);
    clock.advance(SEND_MS - 1);
    assert.deepEqual(await take(store, ["hook"]), []);
    clock.advance(1);
    assert.deepEqual(named(await take(store, ["hook"])), ["raised hook 2"]);
    assert.deepEqual(await take(store, ["other"]), []);
  });

  test("what was delivered is not sent again, whoever says otherwise", async () => {
    const { store, clock } = await open();
    await raiseOne(store, { targets: ["hook"] });
    const [delivery] = await take(store);
    await store.settleDelivery(delivery!, { kind: "delivered" });
    await store.settleDelivery(delivery!, { kind: "failed", error: "500", retryInMs: 0 });
    clock.advance(DAY_MS);
    assert.deepEqual(await take(store), []);
  });

  test("what failed is sent again later, or given up", async () => {
    const { store, clock } = await open();
    await raiseOne(store, { targets: ["hook"] });
    const [first] = await take(store);
    await store.settleDelivery(first!, { kind: "failed", error: "500", retryInMs: 5_000 });
    clock.advance(4_999);
    assert.deepEqual(await take(store), []);
    clock.advance(1);
    const [second] = await take(store);
    assert.equal(second?.tries, 2);
    // One that was thought dead: the try is somebody else's by now.
    await store.settleDelivery(first!, { kind: "failed", error: "late", retryInMs: null });
    await store.settleDelivery(second, { kind: "failed", error: "500", retryInMs: 0 });
    const [third] = await take(store);
    await store.settleDelivery(third!, { kind: "failed", error: "410", retryInMs: null });
    clock.advance(DAY_MS);
    assert.deepEqual(await take(store), []);
  });

  test("a target is not told that something is resolved before it was told that it was raised", async () => {
    const { store, clock } = await open();
    const id = await raiseOne(store, { targets: ["hook", "chat"] });
    const raised = await take(store);
    await store.settleDelivery(
      raised.find(({ target }) => target === "chat")!,
      {
        kind: "delivered",
      },
    );
    const late = raised.find(({ target }) => target === "hook");
    await store.settleDelivery(late!, { kind: "failed", error: "500", retryInMs: QUIET_MS + 5 });
    clock.advance(QUIET_MS);
    await clear(store, { id, seenAt: 0 }, ["hook", "chat"]);
    assert.deepEqual(named(await take(store)), ["resolved chat 1"]);
    clock.advance(5);
    const [again, ...others] = await take(store);
    assert.deepEqual([again?.event, again?.record.status, others], ["raised", "resolved", []]);
    await store.settleDelivery(again!, { kind: "failed", error: "410", retryInMs: null });
    assert.deepEqual(named(await take(store)), ["resolved hook 1"]);
  });

  test("as many are taken as are wanted, those that have been due for longest first", async () => {
    const { store, clock } = await open();
    for (const subject of ["a", "b", "c"]) {
      await raiseOne(store, { subject, targets: ["hook"] });
      clock.advance(1);
    }
    const wanted = { targets: ["hook"], holdMs: SEND_MS, limit: 2 };
    const subjects = (await store.takeDeliveries(wanted)).map(({ record }) => record.subject);
    assert.deepEqual(subjects, ["a", "b"]);
    assert.equal((await store.takeDeliveries(wanted)).length, 1);
  });
};
