/** Targets get every event once, whichever process raised it or sends it, and again when that fails. */
import assert from "node:assert/strict";
import { after, afterEach, beforeEach, suite, test } from "node:test";
import { DELIVERY_ATTEMPTS_MAX, deliveryTask } from "../../src/alerts/alert.ts";
import { ALERT_QUEUE } from "../../src/core/name.ts";
import { Webhooks } from "../../src/alerts/webhook.ts";
import { sighting } from "../support/alerts.ts";
import { newJob, nextId } from "../support/jobs.ts";
import { testRuntime } from "../support/runtime.ts";
import { until } from "../cli/command.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Hook, type Answer } from "./alert-hook.ts";
import { onFile, type Site } from "./alert-site.ts";
import { finding, MINUTE_MS, offender } from "./alert-views.ts";

const SECRET = "a secret of sixteen characters";
const RETRY_MS_MAX = 10 * MINUTE_MS;
const targetsOf = ({ url }: Hook): readonly string[] =>
  new Webhooks({ urls: [url], allowPrivate: true }, testRuntime()).targets;
const trouble = { findings: [finding("worker-too-many", [offender("billing")])] };

suite("deliveries", { timeout: 60_000 }, () => {
  let site: Site;
  let hook: Hook;
  beforeEach(async () => void (site = await onFile()));
  afterEach(async () => {
    await site[Symbol.asyncDispose]();
    await hook[Symbol.asyncDispose]();
  });

  async function open(...answers: readonly Answer[]) {
    hook = await Hook.open(...answers);
    const webhooks = { urls: [hook.url], secret: SECRET, allowPrivate: true };
    const [first] = site.monitors({ webhooks });
    return first!;
  }

  /** Until the last of what was sent has been answered, and that is written. */
  const settled = (states: readonly string[]): Promise<void> =>
    until(`deliveries are ${states.join(", ")}`, async () => {
      const tried = await site.tried();
      return (
        JSON.stringify(tried.map(({ event, tries, state }) => `${event} ${tries} ${state}`)) ===
        JSON.stringify(states)
      );
    });

  test("two monitors notify a target once that an alert is raised, and once that it is resolved", async () => {
    await open();
    for (let looks = 0; looks < 3; looks += 1) {
      await site.observe(trouble);
      site.runtime.clock.advance(MINUTE_MS / 2);
    }
    await settled(["raised 1 done"]);
    for (let looks = 0; looks < 4; looks += 1) {
      await site.observe({});
      site.runtime.clock.advance(MINUTE_MS / 2);
    }
    await settled(["raised 1 done", "resolved 1 done"]);
    const bodies = hook.got.map(({ body }) => JSON.parse(body));
    assert.deepEqual(
      bodies.map(({ event, alert }) => [event, alert.rule, alert.subject, alert.status]),
      [
        ["raised", "singleton-exceeded", "billing", "raised"],
        ["resolved", "singleton-exceeded", "billing", "resolved"],
      ],
    );
    assert.deepEqual(bodies[0].alert.facts, {
      detail: "it is not as it should be",
      remedy: "Fix it.",
    });
    assert.equal(bodies[0].alert.id, bodies[1].alert.id);
  });

  test("after 500, after a connection that broke, it is sent again under the same id, and signed anew", async () => {
    const alerts = await open(500, (response) => response.socket?.destroy(), 429);
    await site.observe(trouble);
    await settled(["raised 1 retry"]);
    assert.equal(await alerts.sendDue(), 0, "it is not due yet");
    for (const tries of [2, 3]) {
      site.runtime.clock.advance(RETRY_MS_MAX);
      await alerts.sendDue();
      await settled([`raised ${tries} retry`]);
    }
    site.runtime.clock.advance(RETRY_MS_MAX);
    await alerts.sendDue();
    await settled(["raised 4 done"]);
    assert.equal(hook.got.length, 4);
    assert.equal(new Set(hook.got.map(({ headers }) => headers["holdfast-delivery"])).size, 1);
    assert.equal(new Set(hook.got.map(({ headers }) => headers["holdfast-signature"])).size, 4);
    assert.equal(site.log.count(/alert not delivered \(raised\) to .*, retrying/), 1);
    site.runtime.clock.advance(RETRY_MS_MAX);
    assert.equal(await alerts.sendDue(), 0);
  });

  test("where no server listens, it is sent again until one does", async () => {
    hook = await Hook.open();
    const addresses = ["127.0.0.2", "127.0.0.1"]; // its port is open at the second alone
    const webhooks = {
      urls: [`http://name.invalid:${hook.port}/`],
      allowPrivate: true,
      resolve: async () => addresses.splice(0, 1),
    };
    const [alerts] = site.monitors({ webhooks });
    await site.observe(trouble);
    await settled(["raised 1 retry"]);
    assert.match((await site.tried())[0]?.error ?? "", /ECONNREFUSED/);
    site.runtime.clock.advance(RETRY_MS_MAX);
    await alerts!.sendDue();
    await settled(["raised 2 done"]);
  });

  test("after 400 it is not sent again, and the log says so", async () => {
    const alerts = await open(400);
    await site.observe(trouble);
    await settled(["raised 1 failed"]);
    site.runtime.clock.advance(RETRY_MS_MAX);
    assert.equal(await alerts.sendDue(), 0);
    assert.equal(hook.got.length, 1);
    const { level, message, facts } = site.log.lines.at(-1)!;
    assert.equal(level, "error");
    assert.match(message, /giving up: it answered with 400$/);
    assert.equal(facts["webhook"], new URL(hook.url).origin);
  });

  test(`after ${DELIVERY_ATTEMPTS_MAX} tries it is given up`, async () => {
    const alerts = await open(...Array.from({ length: DELIVERY_ATTEMPTS_MAX }, () => 503));
    await site.observe(trouble);
    await settled(["raised 1 retry"]);
    for (let tries = 2; tries <= DELIVERY_ATTEMPTS_MAX + 2; tries += 1) {
      site.runtime.clock.advance(RETRY_MS_MAX);
      await alerts.sendDue();
    }
    await settled([`raised ${DELIVERY_ATTEMPTS_MAX} failed`]);
    assert.equal(hook.got.length, DELIVERY_ATTEMPTS_MAX);
    assert.equal(site.log.count(/giving up: it answered with 503/), 1);
  });

  test("a process that ends leaves its deliveries to others", async () => {
    const alerts = await open(() => {});
    await site.observe(trouble);
    await until("it is being sent", () => hook.got.length === 1);
    await alerts.stop();
    for (const other of site.monitors({ webhooks: { urls: [hook.url], allowPrivate: true } })) {
      await other.sendDue();
    }
    await settled(["raised 1 done"]);
  });

  test("resolved is not sent before raised was delivered or given up", async () => {
    const alerts = await open(500, 500);
    await site.observe(trouble);
    await settled(["raised 1 retry"]);
    for (let looks = 0; looks < 4; looks += 1) {
      site.runtime.clock.advance(MINUTE_MS / 2);
      await site.observe({});
    }
    await settled(["raised 2 retry", "resolved 0 waiting"]);
    site.runtime.clock.advance(RETRY_MS_MAX);
    await alerts.sendDue();
    await until("both were sent", async () => {
      site.runtime.clock.advance(MINUTE_MS);
      await alerts.sendDue();
      return hook.got.length >= 4;
    });
    await settled(["raised 3 done", "resolved 1 done"]);
    const events = hook.got.map(({ body }) => JSON.parse(body).event);
    assert.deepEqual(events, ["raised", "raised", "raised", "resolved"]);
  });

  test("the delivery of a process that died is sent by another", async () => {
    await open();
    const [store] = site.stores;
    const alert = await store!.alerts.note(sighting({ holdMs: 0, targets: targetsOf(hook) }));
    const dead = { worker: "dead", queues: [ALERT_QUEUE], tasks: null, limit: 1, leaseMs: 1_000 };
    const [claimed] = await store!.jobs.claim(dead);
    assert.ok(claimed !== undefined);
    site.runtime.clock.advance(MINUTE_MS);
    const [alerts] = site.monitors({ webhooks: { urls: [hook.url], allowPrivate: true } });
    await until("it was sent", async () => {
      site.runtime.clock.advance(MINUTE_MS);
      await alerts!.sendDue();
      return hook.got.length > 0;
    });
    assert.equal(hook.got[0]?.headers["holdfast-delivery"], `${alert.id}.raised`);
    await settled(["raised 2 done"]);
  });

  test("a delivery that was given up can be retried as any job can", async () => {
    const alerts = await open(400);
    await site.observe(trouble);
    await settled(["raised 1 failed"]);
    const [job] = await site.store.jobs.list({ queue: ALERT_QUEUE, limit: 1 });
    assert.deepEqual(
      (await site.store.jobs.attempts(job!.id)).map(({ outcome }) => outcome),
      ["failed"],
    );
    await site.store.jobs.retry(job!.id, 1);
    await alerts.sendDue();
    await settled(["raised 2 done"]);
  });

  test("a foreign job in the queue fails, and does not disturb deliveries", async () => {
    const alerts = await open();
    await site.store.jobs.enqueue(
      ["null", "[]", '{"alert":"x","event":"raised"}', '{"alert":1}'].map((payload) =>
        newJob({ queue: ALERT_QUEUE, task: deliveryTask(targetsOf(hook)[0]!), payload }),
      ),
    );
    await alerts.sendDue();
    await settled(["", "", "", ""].map((event) => `${event} 1 failed`));
    assert.equal(hook.got.length, 0);
  });

  test("an acknowledged alert is not sent again, and a silenced one is sent under another id when its time is over", async () => {
    const alerts = await open(500);
    await site.observe(trouble);
    await settled(["raised 1 retry"]);
    const [alert] = await alerts.list();
    const operator = { id: nextId(), actor: "ada" };
    await site.store.alerts.change(alert!.id, { kind: "silence", forMs: 60 * MINUTE_MS }, operator);
    site.runtime.clock.advance(RETRY_MS_MAX);
    await alerts.sendDue();
    await settled(["raised 2 done"]); // and was not sent
    assert.equal(hook.got.length, 1);
    site.runtime.clock.advance(50 * MINUTE_MS);
    await site.observe(trouble);
    await until("it was sent", () => hook.got.length === 2);
    assert.match(String(hook.got[1]?.headers["holdfast-delivery"]), /\.raised\.\d+$/);
    await site.store.alerts.change(
      alert!.id,
      { kind: "acknowledge" },
      { ...operator, id: nextId() },
    );
    await site.observe(trouble);
    assert.equal(hook.got.length, 2);
  });

  test("only the origin of a webhook's URL is shown, everywhere", async () => {
    await open(500, 400);
    await site.observe(trouble);
    await settled(["raised 1 retry"]);
    const rows = JSON.stringify([
      await site.tried(),
      await site.store.alerts.list({ which: "all", limit: 9 }),
    ]);
    assert.doesNotMatch(rows + JSON.stringify(site.log.lines), /s3cret|T0/);
    assert.match(JSON.stringify(site.log.lines), /127\.0\.0\.1/);
  });
});

after(() => assertNothingRuns());
