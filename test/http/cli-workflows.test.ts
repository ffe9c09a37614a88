/** The service of the command line knows the workflows that the tasks module exports: over HTTP, and in its worker. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { defineWorkflow } from "../../src/workflows/workflow.ts";
import { sql } from "../../src/database/sql.ts";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { TestCli, until, type Started } from "../cli/command.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { workflowsLibrary } from "../support/package.ts";
import { takeGuardsAway } from "../support/tampering.ts";
import { send, type Reply } from "./client.ts";

/** As the module has it; one that is only looked at. */
const parcel = defineWorkflow({
  name: "parcel",
  initial: "open",
  states: { open: {}, packed: { limit: { after: "100ms", move: "send" } }, sent: { final: true } },
  moves: {
    pack: { from: "open", to: "packed", guard: ({ reason }) => reason !== null || "say why" },
    send: { from: "packed", to: "sent" },
  },
});

const MODULE = `
import { defineWorkflow } from ${JSON.stringify(workflowsLibrary)};
export const noop = defineTask({ name: "noop", run() {} });
export const workflows = [defineWorkflow({
  name: "parcel",
  initial: "open",
  states: { open: {}, packed: { limit: { after: "100ms", move: "send" } }, sent: { final: true } },
  moves: {
    pack: { from: "open", to: "packed", guard: ({ reason }) => reason !== null || "say why" },
    send: { from: "packed", to: "sent" },
  },
})];
`;

async function addressOf(started: Started): Promise<{ url: string }> {
  await started.says(/http:\/\/[\d.]+:\d+/);
  return { url: /http:\/\/[\d.]+:\d+/.exec(started.said)?.[0] ?? "" };
}

function move(server: { url: string }, id: string, body: object): Promise<Reply> {
  return send(server, `/api/v1/items/${id}/moves`, { method: "POST", body });
}

test("serve moves items by the rules of the module", async () => {
  await using cli = new TestCli();
  const tasks = cli.tasks("tasks.ts", MODULE);
  await using holdfast = await openHoldfast(cli.url);
  const { id } = await holdfast.workflows.start(parcel, { data: {}, actor: "shop" });
  const started = cli.start(["serve", "--tasks", tasks, "--port", "0"]);
  const server = await addressOf(started);
  const { json } = await send(server, "/api/v1/workflows/parcel", {});
  assert.equal(json.workflow.movable, true);
  assert.equal((await move(server, id, { move: "pack" })).json.code, "MOVE_REFUSED");
  const moved = await move(server, id, { move: "pack", reason: "ordered" });
  assert.deepEqual([moved.status, moved.json.item?.status], [200, "packed"]);
});

test("start moves them as well, and its worker makes the moves that are due", async () => {
  await using cli = new TestCli();
  const tasks = cli.tasks("tasks.ts", MODULE);
  await using holdfast = await openHoldfast(cli.url);
  const { id } = await holdfast.workflows.start(parcel, { data: {}, actor: "shop" });
  const server = await addressOf(cli.start(["start", "--tasks", tasks, "--port", "0"]));
  assert.equal((await move(server, id, { move: "pack", reason: "ordered" })).status, 200);
  await until("it was sent by itself", async () => {
    const { json } = await send(server, `/api/v1/items/${id}`, {});
    return json.item.status === "sent";
  });
});

test("the command line moves and updates items by the rules of the module", async () => {
  await using cli = new TestCli();
  const tasks = ["--tasks", cli.tasks("tasks.ts", MODULE)];
  await using holdfast = await openHoldfast(cli.url);
  const { id } = await holdfast.workflows.start(parcel, { data: { kg: 1 }, actor: "shop" });
  const short = id.slice(0, -2);
  const patch = ["--patch", '{"kg":2}', "--expect", "1", "--reason", "weighed"];
  const updated = await cli.json(["items", "update", short, ...patch, ...tasks]);
  assert.deepEqual([updated.item.data, updated.item.revision], [{ kg: 2 }, 2]);
  const late = await cli.holdfast(["items", "update", id, ...patch, ...tasks]);
  assert.match(late.stderr, /has revision 2, not 1/);
  const refused = await cli.holdfast(["items", "move", short, "pack", ...tasks]);
  assert.deepEqual([refused.code, refused.stderr.includes("say why")], [1, true]);
  const moved = await cli.holdfast(["items", "move", short, "pack", "--reason", "b", ...tasks]);
  assert.deepEqual([moved.code, moved.stdout], [0, `Item ${id} is 'packed' now, revision 3.\n`]);
  const [, , last] = await holdfast.workflows.history(id);
  assert.deepEqual([last?.actor.startsWith("cli "), last?.reason], [true, "b"]);
});

test("the command line changes no item without its workflow", async () => {
  await using cli = new TestCli();
  const noop = 'export const noop = defineTask({ name: "noop", run() {} });';
  const other = cli.tasks("other.ts", noop);
  await using holdfast = await openHoldfast(cli.url);
  const { id } = await holdfast.workflows.start(parcel, { data: {}, actor: "shop" });
  const pack = ["items", "move", id, "pack"];
  const unnamed = await cli.holdfast(pack);
  assert.match(unnamed.stderr, /HOLDFAST_TASKS.*not set/s);
  const lacking = await cli.holdfast([...pack, "--tasks", other]);
  assert.deepEqual([lacking.code, lacking.stderr.includes("no workflow 'parcel'")], [2, true]);
  const array = ["items", "update", id, "--patch", "[1]", "--tasks", cli.tasks("tasks.ts", MODULE)];
  assert.equal((await cli.holdfast(array)).code, 2);
});

test("data that was written by hand and is no JSON is shown as text", async () => {
  await using cli = new TestCli();
  await using holdfast = await openHoldfast(cli.url);
  const { id } = await holdfast.workflows.start(parcel, { data: {}, actor: "shop" });
  await takeGuardsAway(holdfast.store, ["item"]);
  await holdfast.store.db.engine.run(sql`update holdfast.item set data = 'heavy' where id = ${id}`);
  const { item } = await cli.json(["items", "show", id]);
  assert.equal(item.data, "heavy");
});

test("two workflows of one name are refused, with the name", async () => {
  await using cli = new TestCli();
  const tasks = cli.tasks("tasks.ts", `${MODULE}\nexport const other = { ...workflows[0] };\n`);
  const said = await cli.holdfast(["serve", "--tasks", tasks, "--port", "0"]);
  assert.notEqual(said.code, 0);
  assert.match(said.stderr, /two workflows named 'parcel'/);
});

after(() => assertNothingRuns());
