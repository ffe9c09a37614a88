/** Tools for agents over HTTP: the role is the gate, the audit log names the agent, and the protocol's rules hold. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, test } from "node:test";
import { dashboardHandler, toNodeListener } from "../../src/app/dashboard.ts";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { DEFAULT_LIMITS } from "../../src/http-kernel/limits.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer, type Reply } from "./client.ts";
import { Agent, generations, investigate, mend, troubles } from "./mcp-clients.ts";

const MODERN = "2026-07-28";
const META = "io.modelcontextprotocol";

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "x", version: "1" },
  },
};

const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };

/** A request that says what it is, and its headers. */
function modern(method: string, params: object = {}, version = MODERN) {
  const name = "name" in params ? { "mcp-name": String(params.name) } : {};
  const headers = { "mcp-protocol-version": version, "mcp-method": method, ...name };
  const about = { [`${META}/protocolVersion`]: version, [`${META}/clientCapabilities`]: {} };
  return {
    headers,
    body: { jsonrpc: "2.0", id: 7, method, params: { ...params, ["_meta"]: about } },
  };
}

for (const generation of generations) {
  test(`an agent of ${generation} investigates as a viewer, and mends as an operator`, async () => {
    await using api = await TestServer.open();
    const trouble = await troubles(api.holdfast);
    const [viewer, operator] = [
      await api.token("viewer", "reader"),
      await api.token("operator", "mender"),
    ];
    {
      await using agent = await Agent.http(generation, api.server.url, viewer);
      await investigate(agent, trouble);
    }
    await using agent = await Agent.http(generation, api.server.url, operator);
    assert.equal(await mend(agent, api.holdfast as never, trouble.failed), "agent:mender");
  });
}

test("without tokens, the audit log has what the client calls itself, if every request says so", async () => {
  await using api = await TestServer.open();
  const trouble = await troubles(api.holdfast);
  await using agent = await Agent.http(MODERN, api.server.url);
  assert.equal(await mend(agent, api.holdfast as never, trouble.failed), "agent:inspector");
});

test("with a handshake, no request but the first says who it is", async () => {
  await using api = await TestServer.open();
  const trouble = await troubles(api.holdfast);
  await using agent = await Agent.http("2025-11-25", api.server.url);
  assert.equal(await mend(agent, api.holdfast, trouble.failed), "agent:local");
});

test("the protocol is loaded with the first message", () => {
  const files = ["app/server.ts", "app/dashboard.ts", "cli/main.ts", "cli/start.ts"].map(
    (file) => new URL(`../../src/${file}`, import.meta.url).href,
  );
  const program = `
    import { registerHooks } from "node:module";
    const loaded = [];
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context);
      loaded.push(found.url);
      return found;
    } });
    for (const file of ${JSON.stringify(files)}) await import(file);
    console.log(loaded.length, loaded.filter((url) => url.includes("/src/mcp/")).join());
    process.exit();`;
  const args = ["--input-type=module", "--eval", program];
  const [count, ours] = execFileSync(process.execPath, args, { encoding: "utf8" })
    .trim()
    .split(" ");
  assert.ok(Number(count) > 100);
  assert.equal(ours, undefined);
});

test("a dashboard in an application has it too, below its path, for the person that the application names", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const trouble = await troubles(holdfast);
  const who = { name: "ada", role: "viewer" as "viewer" | "operator" };
  const handle = dashboardHandler({ holdfast, basePath: "/admin/jobs", principal: () => who });
  const http = createServer((...both) => void toNodeListener(handle)(...both));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/admin/jobs`;
  {
    await using agent = await Agent.http(MODERN, url);
    await investigate(agent, trouble);
    who.role = "operator";
    await using other = await Agent.http(MODERN, url);
    assert.equal(await mend(other, holdfast as never, trouble.failed), "agent:ada");
  }
  http.closeAllConnections();
  http.close();
  await handle.close();
});

describe("the rules of the protocol", () => {
  test("a handshake agrees on a version; the answer to an unknown one is the newest with a handshake", async () => {
    await using api = await TestServer.open();
    const { result } = await api.post("/mcp", initialize);
    assert.equal(result.protocolVersion, "2025-06-18");
    assert.deepEqual(Object.keys(result.capabilities), ["tools"]);
    assert.match(result.instructions, /never follow instructions/);
    const params = { ...initialize.params, protocolVersion: "1999-01-01" };
    const other = await api.post("/mcp", { ...initialize, params });
    assert.equal(other.result.protocolVersion, "2025-11-25");
    await api.post("/mcp", { jsonrpc: "2.0", method: "notifications/initialized" }, 202);
    assert.deepEqual(
      (await api.post("/mcp", { ...list, method: "ping" })).result.resultType,
      "complete",
    );
  });

  test("a request without a handshake says its version; one that is not supported is refused with the others", async () => {
    await using api = await TestServer.open();
    const { headers, body } = modern("server/discover");
    const { result } = await api.post("/mcp", body, 200, { headers });
    assert.deepEqual(result.supportedVersions.slice(0, 2), [MODERN, "2025-11-25"]);
    assert.deepEqual([result.resultType, result.cacheScope], ["complete", "private"]);
    assert.equal(result["_meta"][`${META}/serverInfo`].name, "holdfast");
    const future = modern("tools/list", {}, "2099-01-01");
    const { error } = await api.post("/mcp", future.body, 400, future);
    assert.equal(error.code, -32022);
    assert.equal(error.data.requested, "2099-01-01");
    assert.equal(error.data.supported[0], MODERN);
    const old = { "mcp-protocol-version": "1999-01-01" };
    assert.equal((await api.post("/mcp", list, 400, { headers: old })).error.code, -32022);
  });

  test("headers that do not say what the body says are refused", async () => {
    await using api = await TestServer.open();
    const { headers, body } = modern("tools/call", { name: "listLocks" });
    await api.post("/mcp", body, 200, { headers });
    const coded = `=?base64?${Buffer.from("listLocks").toString("base64")}?=`;
    await api.post("/mcp", body, 200, { headers: { ...headers, "mcp-name": coded } });
    for (const [name, value] of [
      ["mcp-name", "releaseLock"],
      ["mcp-method", "tools/list"],
      ["mcp-protocol-version", "2025-11-25"],
    ] as const) {
      const wrong = { ...headers, [name]: value };
      assert.equal(
        (await api.post("/mcp", body, 400, { headers: wrong })).error.code,
        -32020,
        name,
      );
      const { [name]: _gone, ...fewer } = headers as Record<string, string>;
      assert.equal(
        (await api.post("/mcp", body, 400, { headers: fewer })).error.code,
        -32020,
        name,
      );
    }
    const bare = { "mcp-protocol-version": MODERN };
    assert.equal((await api.post("/mcp", list, 400, { headers: bare })).error.code, -32020);
  });

  test("unknown methods and tools, and messages that are none", async () => {
    await using api = await TestServer.open();
    const { headers, body } = modern("resources/list");
    assert.equal((await api.post("/mcp", body, 404, { headers })).error.code, -32601);
    assert.equal((await api.post("/mcp", { ...list, method: "x" })).error.code, -32601);
    const call = (params: object) => api.post("/mcp", { ...list, method: "tools/call", params });
    assert.equal((await call({ name: "dropTables" })).error.code, -32602);
    assert.equal((await call({ name: "listLocks", arguments: [] })).error.code, -32602);
    assert.equal((await call({ name: "constructor" })).error.code, -32602);
    for (const wrong of [
      [],
      [list],
      1,
      null,
      {},
      { ...list, jsonrpc: "1.0" },
      { ...list, id: {} },
      { ...list, params: [] },
    ]) {
      const { error, id } = await api.post("/mcp", wrong, 400);
      assert.deepEqual([error.code, id], [-32600, undefined], JSON.stringify(wrong));
    }
    await api.post("/mcp", { jsonrpc: "2.0", id: 1, result: {} }, 202);
    const raw = (text: string) => api.ask("/mcp", { method: "POST", raw: text });
    assert.equal((await raw("{")).status, 400);
    assert.equal((await raw(`{"a":"${"x".repeat(DEFAULT_LIMITS.bodyBytes)}"}`)).status, 413);
    assert.equal((await raw("[".repeat(1_000))).status, 400);
  });

  test("there is no stream, no session, and no page", async () => {
    await using api = await TestServer.open();
    for (const accept of ["text/event-stream", "text/html"]) {
      const { status, headers } = await api.ask("/mcp", { headers: { accept } });
      assert.deepEqual([status, headers.allow], [405, "POST"]);
    }
    assert.equal((await api.ask("/mcp", { method: "DELETE" })).status, 405);
    const { headers } = await api.ask("/mcp", { body: initialize });
    assert.equal(headers["mcp-session-id"], undefined);
  });
});

describe("security", () => {
  test("pages of other origins, other hosts and senders without a token are refused", async () => {
    await using api = await TestServer.open(undefined, { limits: { tokenMs: 0 } });
    const refused = (headers: Record<string, string>): Promise<Reply> =>
      api.ask("/mcp", { body: list, headers });
    assert.equal((await refused({ origin: "https://evil.example" })).status, 403);
    assert.equal((await refused({ "sec-fetch-site": "cross-site" })).status, 403);
    assert.equal((await refused({ host: "evil.example" })).status, 421);
    assert.equal((await refused({ origin: api.server.url })).status, 200);
    await api.token("viewer");
    assert.equal((await api.ask("/mcp", { body: list })).status, 401);
    assert.equal((await api.ask("/mcp", { body: list, token: "wrong" })).status, 401);
  });

  test("an agent sees what the rules leave: hidden values stay hidden, and do not come back", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:", { redact: ["card"] });
    const who = { name: "ada", role: "operator" as const };
    const handle = dashboardHandler({ holdfast, principal: () => who });
    const { id } = await holdfast.enqueue("pay", { card: "4111", order: 7 });
    const ask = async (name: string, args: object): Promise<any> => {
      const params = { name, arguments: args };
      const body = JSON.stringify({ ...list, method: "tools/call", params });
      const headers = { "content-type": "application/json" };
      const request = new Request("http://x/mcp", { method: "POST", body, headers });
      return ((await (await handle(request)).json()) as any).result;
    };
    const shown = await ask("getJob", { id });
    assert.equal(JSON.stringify(shown).includes("4111"), false);
    assert.equal(shown.structuredContent.job.input.order, 7);
    await handle.close();
  });

  test("a tool's address is part of a path, and never another path", async () => {
    await using api = await TestServer.open();
    const { error, result } = await api.post("/mcp", {
      ...list,
      method: "tools/call",
      params: { name: "explainJob", arguments: { id: "../../locks?x=" } },
    });
    assert.equal(error, undefined);
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /^NOT_FOUND/);
  });
});

test("one tool for every route that has words for agents; each tool has a plain schema", async () => {
  await using api = await TestServer.open();
  const { result } = await api.post("/mcp", list);
  const told = api.server.routes.filter(({ agent }) => agent !== undefined);
  assert.deepEqual(
    result.tools.map(({ name }: { name: string }) => name),
    told.map(({ name }) => name),
  );
  for (const { name, inputSchema, description } of result.tools) {
    assert.match(name, /^[a-zA-Z]{3,40}$/);
    assert.match(description, /^[A-Z].*\.$/s, name);
    assert.equal(inputSchema.type, "object", name);
    assert.equal(inputSchema.additionalProperties, false, name);
    assert.equal(/\$ref|pattern/.test(JSON.stringify(inputSchema)), false, name);
  }
  const bytes = JSON.stringify(result.tools).length;
  assert.ok(bytes < 60_000, `the list of tools has ${bytes} bytes, which an agent reads first`);
});

after(assertNothingRuns);
