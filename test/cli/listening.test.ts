import assert from "node:assert/strict";
import { createServer, type AddressInfo, type Server } from "node:net";
import { once } from "node:events";
import { after, before, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { TestCli, type Said } from "./command.ts";

/** An address for documents, which no machine has. */
const NOWHERE = "192.0.2.1";

suite("a server that cannot listen", () => {
  let other: Server;
  let port: string;
  before(async () => {
    other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    port = String((other.address() as AddressInfo).port);
  });
  after(() => void other.close());

  function refusal({ code, stderr }: Said): { exit: number | null; code: string; msg: string } {
    const last = JSON.parse(stderr.trimEnd().split("\n").at(-1) ?? "");
    return { exit: code, code: last.code, msg: last.msg };
  }

  test("is noticed before a job is claimed, and names the setting and what to do", async () => {
    await using cli = new TestCli();
    const tasks = cli.tasks(
      "tasks.ts",
      `import { writeFileSync } from "node:fs";
       export const mark = defineTask({ name: "mark", run: () => writeFileSync("ran", "") });`,
    );
    await using holdfast = await openHoldfast(cli.url);
    const { id } = await holdfast.enqueue("mark", null);
    const taken = refusal(await cli.holdfast(["start", "--tasks", tasks], { env: { PORT: port } }));
    assert.deepEqual([taken.exit, taken.code], [1, "PORT_TAKEN"]);
    assert.match(
      taken.msg,
      new RegExp(`^PORT ${port} \\(environment\\) is in use by .*127\\.0\\.0\\.1\\. .*--port`),
    );
    const job = await holdfast.jobs.get(id);
    assert.deepEqual([job?.status, job?.attempts], ["pending", 0]);
    assert.deepEqual(await holdfast.workers.list({ all: true }), [], "no worker was started");
  });

  test("exits with code 1 wherever the setting was made, because it is not malformed", async () => {
    await using cli = new TestCli();
    for (const [args, env, code, words] of [
      [["--port", port], {}, "PORT_TAKEN", /^--port \d+ \(command line\) is in use/],
      [["--host", NOWHERE], {}, "HOST_UNKNOWN", /^--host 192.* no such address.*HOLDFAST_HOST/],
      [[], { HOLDFAST_HOST: NOWHERE }, "HOST_UNKNOWN", /^HOLDFAST_HOST 192.*\(environment\)/],
      [[], { HOLDFAST_HOST: "no.such.host.invalid" }, "HOST_UNKNOWN", /no such address/],
    ] as const) {
      const said = refusal(await cli.holdfast(["serve", ...args], { env }));
      assert.deepEqual([said.exit, said.code], [1, code], said.msg);
      assert.match(said.msg, words);
    }
  });

  test("an invalid host is an invalid setting: exit code 1, or 2 on the command line", async () => {
    await using cli = new TestCli();
    const typed = refusal(await cli.holdfast(["serve", "--host", "no host"]));
    assert.deepEqual([typed.exit, typed.code], [2, "CONFIG_INVALID"]);
    const set = refusal(await cli.holdfast(["serve"], { env: { HOLDFAST_HOST: "no host" } }));
    assert.deepEqual([set.exit, set.code], [1, "CONFIG_INVALID"]);
  });

  test("a token that no header can carry is a wrong setting, too", async () => {
    await using cli = new TestCli();
    const env = { HOLDFAST_TOKEN: "sixteen!characters" };
    const said = refusal(await cli.holdfast(["serve", "--port", "0"], { env }));
    assert.deepEqual([said.exit, said.code], [1, "CONFIG_INVALID"]);
    assert.match(said.msg, /^HOLDFAST_TOKEN \(environment\) is \*\*\*: must be/);
  });
});
