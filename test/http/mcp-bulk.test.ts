/** Bulk actions of agents: only with the token of a preview, for the jobs that it counted, and once. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { sql } from "../../src/database/sql.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { TestServer } from "./client.ts";
import { Agent } from "./mcp-clients.ts";

const databases: ScratchDatabase[] = [];

const engines = [
  { name: "SQLite", skip: false as const, url: async () => "sqlite::memory:" },
  ...(["postgres", "mysql"] as const).map((need) => ({
    name: need,
    skip: missing(need),
    url: async () => {
      const database = await scratchDatabase(need);
      databases.push(database);
      return database.url;
    },
  })),
];

const RETRY = { action: "cancel", filter: { queue: "mail" } };

for (const { name, skip, url } of engines) {
  describe(`bulk actions of agents on ${name}`, { skip }, () => {
    test("a preview counts, and its token starts the action once, for the jobs that it counted", async () => {
      await using api = await TestServer.open(await url());
      const enqueue = (): Promise<any> =>
        api.post("/api/v1/jobs", { task: "mail.send", options: { queue: "mail" } }, 201);
      const counted = [await enqueue(), await enqueue(), await enqueue()].map(({ id }) => id);
      await using agent = await Agent.http("2026-07-28", api.server.url);
      const { json, text } = await agent.call("previewBulk", RETRY);
      const { token, preview } = json;
      assert.deepEqual([preview.status, preview.matched, preview.changed], ["done", 3, 0], text);
      assert.deepEqual(preview.sample.toSorted(), counted);
      const { id: later } = await enqueue();
      const started = await agent.call("startPreviewedBulk", { token, reason: "wrong template" });
      assert.equal(started.isError, false, started.text);
      const again = await agent.call("startPreviewedBulk", { token, reason: "wrong template" });
      assert.equal(again.json.id, started.json.id);
      await until("the action is done", async () => {
        const { json: now } = await agent.call("getBulk", { id: started.json.id });
        return now.status === "done";
      });
      const { json: done } = await agent.call("getBulk", { id: started.json.id });
      assert.deepEqual([done.matched, done.changed], [3, 3]);
      assert.equal((await api.get(`/api/v1/jobs/${later}`)).job.status, "pending");
      const { actions } = await api.get("/api/v1/bulk");
      assert.equal(actions.length, 2, "the preview, and one action");
      const { lines } = await api.get(`/api/v1/audit?subject=job%20${counted[0]}`);
      assert.deepEqual([lines[0].actor, lines[0].reason], ["agent:inspector", "wrong template"]);
    });
  });
}

test("what starts nothing: an action, a preview of another agent, an old one, one that counts, and none", async () => {
  await using api = await TestServer.open();
  const [ada, ben, reader] = await Promise.all([
    api.token("operator", "ada"),
    api.token("operator", "ben"),
    api.token("viewer", "reader"),
  ]);
  const { url } = api.server;
  const { engine } = api.holdfast.store.db;
  await using agent = await Agent.http("2026-07-28", url, ada);
  await using other = await Agent.http("2026-07-28", url, ben);
  await using viewer = await Agent.http("2026-07-28", url, reader);
  const start = (who: Agent, token: string) => who.call("startPreviewedBulk", { token });
  assert.match((await viewer.call("previewBulk", RETRY)).text, /^FORBIDDEN/);
  const { token } = (await agent.call("previewBulk", RETRY)).json;
  assert.match((await start(viewer, token)).text, /^FORBIDDEN/);
  assert.match((await start(other, token)).text, /^PREVIEW_UNUSABLE: .*'agent:ada' made it.*again/);
  const action = await api.post("/api/v1/bulk", RETRY, 201, { token: ada });
  assert.match((await start(agent, action.id)).text, /^PREVIEW_UNUSABLE: .*not to a preview/);
  assert.match((await start(agent, action.id.replace(/^./, "f"))).text, /^BULK_NOT_FOUND/);
  await engine.run(sql`update holdfast.bulk_action set status = 'stopped' where id = ${token}`);
  assert.match((await start(agent, token)).text, /the preview is stopped/);
  await engine.run(sql`
    update holdfast.bulk_action set status = 'done', created_at = created_at - 601000 where id = ${token}`);
  assert.match((await start(agent, token)).text, /older than 10 minutes/);
  const tools = (await agent.tools()).map(({ name }) => name);
  assert.equal(tools.includes("startBulk"), false, "there is no way without a preview");
  const wrong = await agent.call("previewBulk", { action: "delete", filter: { queue: "mail" } });
  assert.match(wrong.text, /^INVALID_ARGUMENT: .*status.*required/);
});

after(async () => {
  for (const database of databases) await database.drop();
  await assertNothingRuns();
});
