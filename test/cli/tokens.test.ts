import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { hashOf } from "../../src/http-kernel/auth.ts";
import { assertRefused, TestCli } from "./command.ts";

suite("holdfast tokens", () => {
  let cli: TestCli;
  before(() => void (cli = new TestCli().withDatabase()));
  after(() => cli[Symbol.asyncDispose]());

  const create = (...more: string[]) => ["tokens", "create", "--name", "ci", ...more];

  test("creates a token: only the token is on stdout, and only its hash is stored", async () => {
    const said = await cli.holdfast(create("--role", "operator", "--expires", "90d"));
    assert.equal(said.code, 0, said.stderr);
    const token = said.stdout.trimEnd();
    assert.match(token, /^hft_[\w-]{43}$/);
    assert.match(said.stderr, /Created token 'ci' \(operator\)\. It is shown only once/);
    await using holdfast = await openHoldfast(cli.url);
    assert.equal((await holdfast.store.tokens.find(hashOf(token)))?.name, "ci");
  });

  test("lists tokens with their expiry, but never the token itself", async () => {
    const { stdout } = await cli.holdfast(["tokens"]);
    assert.match(stdout, /^NAME +ROLE +CREATED +USED +VALID\nci +operator .+ never +for 89d$/m);
    const { tokens } = await cli.json(["tokens", "list"]);
    assert.deepEqual(Object.keys(tokens[0]).includes("hash"), false);
    assert.equal(tokens[0].role, "operator");
  });

  test("refuses a taken name, an unknown role, and a token without a name or a role", async () => {
    assertRefused(await cli.holdfast(create("--role", "viewer")), 2, /token 'ci' already exists/);
    assertRefused(await cli.holdfast(create("--role", "root")), 2, /viewer, operator/);
    const help = /'holdfast tokens create --help'/;
    assertRefused(await cli.holdfast(create()), 2, /--role <role>/, help);
    assertRefused(await cli.holdfast(["tokens", "create"]), 2, /--name/, help);
    const wrong = await cli.holdfast(create("--role", "viewer", "--expire", "1d"));
    assertRefused(wrong, 2, /'--expire'/, /--expires/, help);
  });

  test("revokes a token once, and the audit log records the actor", async () => {
    const { stdout } = await cli.holdfast(["tokens", "revoke", "ci", "--reason", "leaked"]);
    assert.equal(stdout, "Revoked token 'ci'.\n");
    assertRefused(await cli.holdfast(["tokens", "revoke", "ci"]), 4, /Token 'ci' does not exist/);
    const { stdout: listed } = await cli.holdfast(["tokens"]);
    assert.match(listed, /revoked/);
    const { lines } = await cli.json(["audit", "--subject", "token ci"]);
    assert.deepEqual(
      lines.map(({ action, reason }: { action: string; reason: string }) => [action, reason]),
      [
        ["token.create", null],
        ["token.revoke", "leaked"],
      ],
    );
  });
});
