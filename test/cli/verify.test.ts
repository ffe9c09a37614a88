import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { suite, test } from "node:test";
import { assertRefused, TestCli } from "./command.ts";

/** In a folder of its own, so that what is left behind is seen. */
function inOwnFolder(cli: TestCli): { env: Record<string, string> } {
  return { env: { TMPDIR: cli.folder } };
}

/** Whole runs are in test/verify. */
suite("holdfast verify", () => {
  test("Ctrl-C in the middle ends every process and removes everything", async () => {
    await using cli = new TestCli();
    const verify = cli.start(["verify"], inOwnFolder(cli));
    await verify.says(/\d+\/[\d,]+ jobs/);
    verify.child.kill("SIGINT");
    const { code, stderr } = await verify.ended;
    assert.deepEqual([code, stderr], [130, "Interrupted by SIGINT.\n"]);
    assert.deepEqual(readdirSync(cli.folder), []);
  });

  test("a database that cannot be tested is refused", async () => {
    await using cli = new TestCli();
    assertRefused(await cli.holdfast(["verify", "--url", "sqlite::memory:"]), 2, /in-memory/);
    assertRefused(await cli.holdfast(["verify", "--minutes", "0.1"]), 2, /0\.25 to 1440/);
    const nobody = ["verify", "--url", "postgres://nobody@127.0.0.1:1/none"];
    assertRefused(await cli.holdfast(nobody), 3, /create a scratch database/);
  });
});
