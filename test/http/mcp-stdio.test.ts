/** Tools for agents over stdio: real processes, with the protocol's own clients, and with lines that no client would send. */
import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { MESSAGE_BYTES_MAX } from "../../src/mcp/stdio.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { launcher, library } from "../support/package.ts";
import { Agent, environment, generations, investigate, mend, troubles } from "./mcp-clients.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-mcp-"));
const url = `sqlite:${join(folder, "shop.db")}`;

after(() => rmSync(folder, { recursive: true, force: true }));
after(assertNothingRuns);

for (const generation of generations) {
  test(`an agent of ${generation} investigates as a viewer, and mends as an operator`, async () => {
    await using holdfast = await openHoldfast(url);
    const trouble = await troubles(holdfast);
    {
      await using agent = await Agent.stdio(generation, ["--url", url]);
      await investigate(agent, trouble);
    }
    {
      await using agent = await Agent.stdio(generation, ["--url", url, "--role", "operator"]);
      assert.equal(await mend(agent, holdfast as never, trouble.failed), "agent:inspector");
    }
    await holdfast.jobs.cancel(trouble.failed, { actor: "test" });
    const args = ["--url", url, "--role", "operator", "--agent", "night-watch"];
    await using agent = await Agent.stdio(generation, args);
    const { isError } = await agent.call("retryJob", { id: trouble.failed });
    assert.equal(isError, false);
    const lines = await holdfast.audit.list({ subject: `job ${trouble.failed}` });
    assert.ok(lines.some(({ actor }) => actor === "agent:night-watch"));
    await holdfast.jobs.cancel(trouble.failed, { actor: "test" });
  });
}

/** A process whose lines the test writes itself. */
class Wire implements AsyncDisposable {
  readonly child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<{ readonly code: number | null }>;
  log = "";
  readonly #lines: AsyncIterator<string>;

  constructor(args: readonly string[] = []) {
    this.child = spawn(process.execPath, [launcher, "mcp", "--url", url, ...args], {
      cwd: folder,
      env: environment(),
    });
    this.ended = once(this.child, "close").then(([code]) => ({ code }));
    this.child.stderr.on("data", (chunk: Buffer) => (this.log += chunk.toString()));
    this.#lines = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  write(text: string): void {
    this.child.stdin.write(text);
  }

  send(...messages: readonly object[]): void {
    this.write(messages.map((message) => `${JSON.stringify(message)}\n`).join(""));
  }

  async next(): Promise<any> {
    const { value, done } = await this.#lines.next();
    assert.equal(done, false, this.log);
    return JSON.parse(value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.stdin.end();
    await this.ended;
  }
}

const ping = (id: number) => ({ jsonrpc: "2.0", id, method: "ping" });

test("what is no message gets an error, and the next message its answer", async () => {
  await using wire = new Wire();
  for (const wrong of [
    "{",
    "[]",
    "1",
    '"x"',
    "\u0000",
    '{"jsonrpc":"2.0"}',
    `[${"[".repeat(500)}`,
  ]) {
    wire.write(`${wrong}\n`);
    const { error, id } = await wire.next();
    assert.ok(error.code === -32700 || error.code === -32600, wrong);
    assert.equal(id, undefined);
  }
  wire.write("\n  \r\n");
  wire.child.stdin.write(Buffer.from([0xff, 0xfe, 0x0a]));
  assert.equal((await wire.next()).error.code, -32700);
  // A message may come in pieces, and several at once.
  wire.write('{"jsonrpc":"2.0","id":');
  wire.write(
    `1,"method":"ping"}\r\n${JSON.stringify(ping(2))}\n${JSON.stringify(ping(3)).slice(0, 9)}`,
  );
  assert.deepEqual([(await wire.next()).id, (await wire.next()).id], [1, 2]);
  wire.write(`${JSON.stringify(ping(3)).slice(9)}\n`);
  assert.equal((await wire.next()).id, 3);
});

test("a message over the limit is dropped as it comes, and the next one answered", async () => {
  await using wire = new Wire();
  for (let sent = 0; sent < 20 * MESSAGE_BYTES_MAX; sent += MESSAGE_BYTES_MAX) {
    wire.write("x".repeat(MESSAGE_BYTES_MAX));
  }
  wire.write("\n");
  const { error } = await wire.next();
  assert.equal(error.code, -32700);
  assert.match(error.message, new RegExp(`larger than ${MESSAGE_BYTES_MAX} bytes`));
  wire.send(ping(1));
  assert.equal((await wire.next()).id, 1);
});

test("a cancelled request gets no answer", async () => {
  await using wire = new Wire();
  const cancel = (requestId: unknown) => ({
    jsonrpc: "2.0",
    method: "notifications/cancelled",
    params: { requestId, reason: "changed my mind" },
  });
  wire.send(
    { jsonrpc: "2.0", id: "a", method: "tools/call", params: { name: "listLocks" } },
    cancel("a"),
    cancel("never there"),
    cancel({}),
    ping(2),
  );
  assert.equal((await wire.next()).id, 2);
  wire.send(ping(3));
  assert.equal((await wire.next()).id, 3);
});

test("only the protocol is on stdout, whatever the modules of the user print", async () => {
  const tasks = join(folder, "tasks.ts");
  writeFileSync(
    tasks,
    `console.log("to the console");
     process.stdout.write("straight to stdout\\n");
     import { defineTask } from ${JSON.stringify(pathToFileURL(library).href)};
     export const mail = defineTask({ name: "mail.send", run: async () => {} });`,
  );
  await using wire = new Wire(["--tasks", tasks]);
  wire.send(ping(1));
  assert.equal((await wire.next()).id, 1);
  assert.match(wire.log, /to the console/);
  assert.match(wire.log, /straight to stdout/);
});

test("it ends when stdin does, with the answers to what it has read, and with a signal", async () => {
  const wire = new Wire();
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "listLocks" } };
  wire.send(call);
  wire.child.stdin.end();
  assert.equal((await wire.next()).id, 1);
  assert.deepEqual(await wire.ended, { code: 0 });
  const other = new Wire();
  other.send(ping(1));
  await other.next();
  other.child.kill("SIGTERM");
  assert.deepEqual(await other.ended, { code: 0 });
});

test("it creates no database, and says on stderr what is wrong", async () => {
  const wire = new Wire(["--url", `sqlite:${join(folder, "missing.db")}`]);
  wire.child.stdin.end();
  const { code } = await wire.ended;
  assert.equal(code, 3);
  assert.match(wire.log, /missing\.db/);
  for (const wrong of [
    ["--role", "admin"],
    ["--agent", "x".repeat(125)],
    ["--agent", "a\nb"],
  ]) {
    assert.equal((await new Wire(wrong).ended).code, 2, wrong.join(" "));
  }
});
