/** The service of the command line knows the workflows that the tasks module exports: over HTTP, and in its worker. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { defineWorkflow } from "../../src/workflows/workflow.ts";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { Desk, until, type Started } from "../cli/command.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { workflowsLibrary } from "../support/package.ts";
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
  await using desk = new Desk();
  const tasks = desk.tasks("tasks.ts", MODULE);
  await using holdfast = await openHoldfast(desk.url);
  const { id } = await holdfast.workflows.start(parcel, { data: {}, actor: "shop" });
  const started = desk.start(["serve", "--tasks", tasks, "--port", "0"]);
  const server = await addressOf(started);
  const { json } = await send(server, "/api/v1/workflows/parcel", {});
  assert.equal(json.workflow.movable, true);
  assert.equal((await move(server, id, { move: "pack" })).json.code, "MOVE_REFUSED");
  const moved = await move(server, id, { move: "pack", reason: "ordered" });
  assert.deepEqual([moved.status, moved.json.item?.status], [200, "packed"]);
});

test("start moves them as well, and its worker makes the moves that are due", async () => {
  await using desk = new Desk();
  const tasks = desk.tasks("tasks.ts", MODULE);
  await using holdfast = await openHoldfast(desk.url);
  const { id } = await holdfast.workflows.start(parcel, { data: {}, actor: "shop" });
  const server = await addressOf(desk.start(["start", "--tasks", tasks, "--port", "0"]));
  assert.equal((await move(server, id, { move: "pack", reason: "ordered" })).status, 200);
  await until("it was sent by itself", async () => {
    const { json } = await send(server, `/api/v1/items/${id}`, {});
    return json.item.status === "sent";
  });
});

test("two workflows of one name are refused, with the name", async () => {
  await using desk = new Desk();
  const tasks = desk.tasks("tasks.ts", `${MODULE}\nexport const other = { ...workflows[0] };\n`);
  const said = await desk.holdfast(["serve", "--tasks", tasks, "--port", "0"]);
  assert.notEqual(said.code, 0);
  assert.match(said.stderr, /two workflows named 'parcel'/);
});

after(() => assertNothingRuns());
