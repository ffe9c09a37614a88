/** Redaction rules on the command line: in tables, in JSON, and with a database that is named by a flag. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { HIDDEN } from "../../src/config/redaction.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestCli } from "./command.ts";

const SECRET = "4419-0000-1111";

test("no command shows what the rules hide, and each says that something is hidden", async () => {
  await using cli = new TestCli().withDatabase();
  const env = { HOLDFAST_REDACT: "card,customer.email" };
  const input = JSON.stringify({ card: SECRET, customer: { email: SECRET, name: "Ada" } });
  const { id } = await cli.json(["enqueue", "charge", input], { env });
  const url = ["--url", "sqlite:holdfast.db"];
  for (const args of [
    ["job", id],
    ["job", id, "--json"],
    ["job", id, ...url],
  ]) {
    const { stdout, stderr, code } = await cli.holdfast(args, { env });
    assert.equal(code, 0, stderr);
    assert.ok(!stdout.includes(SECRET), stdout);
    assert.ok(stdout.includes(HIDDEN) && stdout.includes("Ada"), stdout);
  }
  const every = ["schedules", "create", "nightly", "charge", input, "--every", "1h"];
  await cli.holdfast(every, { env });
  const { stdout } = await cli.holdfast(["schedules", "show", "nightly"], { env });
  assert.ok(!stdout.includes(SECRET), stdout);
  const wrong = await cli.holdfast(["job", id, ...url], { env: { HOLDFAST_REDACT: "a..b" } });
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.stderr, /HOLDFAST_REDACT/);
  assert.ok(!wrong.stdout.includes(SECRET));
});

after(assertNothingRuns);
