/** `holdfast alerts` as people have it. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { alertRules } from "../../src/alerts/rules.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import { assertRefused, TestCli } from "../cli/command.ts";
import { sighting } from "../support/alerts.ts";
import { Hook } from "./alert-hook.ts";

suite("holdfast alerts", { timeout: 60_000 }, () => {
  let cli: TestCli;
  let store: Store;
  before(async () => {
    cli = new TestCli();
    store = await openStore(cli.url);
    await store.migrate();
  });
  after(async () => {
    await store.close();
    await cli[Symbol.asyncDispose]();
  });

  test("lists what is raised, and with --all what was, and every field as JSON", async () => {
    assert.equal((await cli.holdfast(["alerts"])).stdout, "No alerts.\n");
    const over = sighting({ rule: "canary-lost", severity: "critical", holdMs: 0 });
    await store.alerts.note(over);
    await store.alerts.clear({ alert: over.id, id: over.id, seenAt: 0, quietMs: 0, targets: [] });
    await store.alerts.note(sighting({ holdMs: 0, subject: "a\u001B[31mb" }));
    await store.alerts.note(sighting({ rule: "version-drift" }));

    const { stdout } = await cli.holdfast(["alerts"]);
    assert.match(stdout, /^ID +SEVERITY +RULE +SUBJECT +SINCE +KNOWN +MESSAGE\n/);
    assert.match(
      stdout,
      /^[0-9a-f-]{36} +warning +pending-old +a\\u001b\[31mb +(?:now|\d+s ago) +The oldest pending/m,
    );
    assert.match(stdout, /^1 alert$/m);
    const all = await cli.holdfast(["alerts", "list", "--all"]);
    assert.match(all.stdout, /^ID +SEVERITY +RULE +SUBJECT +SINCE +RESOLVED +KNOWN +MESSAGE\n/);
    assert.match(
      all.stdout,
      /^[0-9a-f-]{36} +critical +canary-lost +mail +(?:now|\d+s ago) +(?:now|\d+s ago) +The/m,
    );

    const { alerts } = await cli.json(["alerts", "--all", "--limit", "2"]);
    assert.deepEqual(
      [alerts.length, alerts[0].rule, alerts[0].status, alerts[1].rule, alerts[1].facts],
      [2, "version-drift", "pending", "pending-old", { waitsMs: 360_000 }],
    );
    const next = await cli.json(["alerts", "--all", "--before", alerts[1].id]);
    assert.deepEqual(
      next.alerts.map(({ status }: { status: string }) => status),
      ["resolved"],
    );
    assertRefused(await cli.holdfast(["alerts", "--before", "x"]), 2, /before/);
  });

  test("says when alerts are raised", async () => {
    const { stdout } = await cli.holdfast(["alerts", "rules"]);
    assert.match(
      stdout,
      /^worker-stale +warning +1m +another worker found it dead, or it has sent no heartbeat for 1m$/m,
    );
    const { rules } = await cli.json(["alerts", "rules"]);
    assert.equal(rules.length, alertRules().length);
  });

  test("tries whether webhooks hear of them, and says what came back without their address", async () => {
    await using good = await Hook.open();
    await using bad = await Hook.open(404);
    const env = {
      HOLDFAST_WEBHOOK_URLS: `${good.url}, ${bad.url}`,
      HOLDFAST_WEBHOOK_PRIVATE: "true",
      HOLDFAST_WEBHOOK_SECRET: "a secret of sixteen characters",
    };
    const { code, stdout, stderr } = await cli.holdfast(["alerts", "test"], { env });
    assert.equal(code, 1);
    assert.match(
      stdout,
      new RegExp(`^ok  http://127.0.0.1:${good.port}: answered with status 200  this is 200$`, "m"),
    );
    assert.match(
      stdout,
      new RegExp(`^failed  http://127.0.0.1:${bad.port}: it answered with 404`, "m"),
    );
    assert.equal(stderr, "1 webhook did not accept the test alert.\n");
    assert.doesNotMatch(stdout + stderr, /s3cret/);
    const [{ headers, body }] = good.got as [(typeof good.got)[0]];
    assert.match(String(headers["holdfast-signature"]), /^t=\d+,v1=[0-9a-f]{64}$/);
    assert.match(JSON.parse(body).text, /^\[test\] test: This is a test/);
  });

  test("says which webhooks cannot be used", async () => {
    const run = (url: string) =>
      cli.holdfast(["alerts", "test"], { env: { HOLDFAST_WEBHOOK_URLS: url } });
    assertRefused(await run(""), 2, /HOLDFAST_WEBHOOK_URLS/);
    const said = await run("https://127.0.0.1/s3cret");
    assertRefused(said, 2, /not a public address/);
    assert.doesNotMatch(said.stderr, /s3cret/);
  });
});
