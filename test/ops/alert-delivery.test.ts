/** Targets are told of every event once, whoever made it and whoever sends it, and again when that fails. */
import assert from "node:assert/strict";
import { after, afterEach, beforeEach, suite, test } from "node:test";
import { TRIES_MAX } from "../../src/ops/deliveries.ts";
import { until } from "../cli/command.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Hook, type Answer } from "./alert-hook.ts";
import { onFile, type Site } from "./alert-site.ts";
import { finding, MINUTE_MS, offender } from "./alert-views.ts";

const SECRET = "a secret of sixteen characters";
const RETRY_MS_MAX = 10 * MINUTE_MS;
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

  test("two monitors tell a target once that an alert is raised, and once that it is resolved", async () => {
    await open();
    for (let looks = 0; looks < 3; looks += 1) {
      await site.observe(trouble);
      site.runtime.clock.advance(MINUTE_MS / 2);
    }
    await settled(["raised 1 delivered"]);
    for (let looks = 0; looks < 4; looks += 1) {
      await site.observe({});
      site.runtime.clock.advance(MINUTE_MS / 2);
    }
    await settled(["raised 1 delivered", "resolved 1 delivered"]);
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
      remedy: "Mend it.",
    });
    assert.equal(bodies[0].alert.id, bodies[1].alert.id);
  });

  test("after 500, after a connection that broke, it is sent again under the same id, and signed anew", async () => {
    const alerts = await open(500, (response) => response.socket?.destroy(), 429);
    await site.observe(trouble);
    await settled(["raised 1 due"]);
    assert.equal(await alerts.sendDue(), 0, "it is not due yet");
    for (const tries of [2, 3]) {
      site.runtime.clock.advance(RETRY_MS_MAX);
      await alerts.sendDue();
      await settled([`raised ${tries} due`]);
    }
    site.runtime.clock.advance(RETRY_MS_MAX);
    await alerts.sendDue();
    await settled(["raised 4 delivered"]);
    assert.equal(hook.got.length, 4);
    assert.equal(new Set(hook.got.map(({ headers }) => headers["holdfast-delivery"])).size, 1);
    assert.equal(new Set(hook.got.map(({ headers }) => headers["holdfast-signature"])).size, 4);
    assert.equal(site.log.count(/was not told that an alert is raised yet/), 1);
    site.runtime.clock.advance(RETRY_MS_MAX);
    assert.equal(await alerts.sendDue(), 0);
  });

  test("where nobody listens, it is sent again until somebody does", async () => {
    hook = await Hook.open();
    const addresses = ["127.0.0.2", "127.0.0.1"]; // its port is open at the second alone
    const webhooks = {
      urls: [`http://name.invalid:${hook.port}/`],
      allowPrivate: true,
      resolve: async () => addresses.splice(0, 1),
    };
    const [alerts] = site.monitors({ webhooks });
    await site.observe(trouble);
    await settled(["raised 1 due"]);
    assert.match((await site.tried())[0]?.error ?? "", /ECONNREFUSED/);
    site.runtime.clock.advance(RETRY_MS_MAX);
    await alerts!.sendDue();
    await settled(["raised 2 delivered"]);
    assert.equal((await site.tried())[0]?.error, null);
  });

  test("after 400 it is not sent again, and the log says so", async () => {
    const alerts = await open(400);
    await site.observe(trouble);
    await settled(["raised 1 given up"]);
    site.runtime.clock.advance(RETRY_MS_MAX);
    assert.equal(await alerts.sendDue(), 0);
    assert.equal(hook.got.length, 1);
    const { level, message, facts } = site.log.lines.at(-1)!;
    assert.equal(level, "error");
    assert.match(message, /will not be: it answered with 400$/);
    assert.equal(facts["webhook"], new URL(hook.url).origin);
  });

  test(`after ${TRIES_MAX} tries it is given up`, async () => {
    const alerts = await open(...Array.from({ length: TRIES_MAX }, () => 503));
    await site.observe(trouble);
    await settled(["raised 1 due"]);
    for (let tries = 2; tries <= TRIES_MAX + 2; tries += 1) {
      site.runtime.clock.advance(RETRY_MS_MAX);
      await alerts.sendDue();
    }
    await settled([`raised ${TRIES_MAX} given up`]);
    assert.equal(hook.got.length, TRIES_MAX);
    assert.equal(site.log.count(/will not be: it answered with 503/), 1);
  });

  test("a process that ends leaves what it is sending to others", async () => {
    const alerts = await open(() => {});
    await site.observe(trouble);
    await until("it is being sent", () => hook.got.length === 1);
    await alerts.stop();
    for (const other of site.monitors({ webhooks: { urls: [hook.url], allowPrivate: true } })) {
      await other.sendDue();
    }
    await settled(["raised 2 delivered"]);
  });

  test("of an address nothing but its origin is told, anywhere", async () => {
    await open(500, 400);
    await site.observe(trouble);
    await settled(["raised 1 due"]);
    const rows = JSON.stringify([
      await site.tried(),
      await site.store.alerts({ which: "all", limit: 9 }),
    ]);
    assert.doesNotMatch(rows + JSON.stringify(site.log.lines), /s3cret|T0/);
    assert.match(JSON.stringify(site.log.lines), /127\.0\.0\.1/);
  });
});

after(() => assertNothingRuns());
