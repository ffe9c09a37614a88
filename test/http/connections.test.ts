/** Clients without a token that hold connections, pipeline, or do not read: others are served all the same, and memory stays. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import type { Limits } from "../../src/http-kernel/limits.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";
import { ServerProcess } from "./child.ts";
import { TestServer, Ear, send } from "./client.ts";

const LIMIT_MS = 10_000;
const POKE_MS = 20;
const MIB = 1_024 * 1_024;
const GET_LIVE = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n";
const GET_METRICS = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
const GET_DOCUMENT = "GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
const UPGRADE =
  "GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

describe("a client that keeps its half of the connection open loses it", () => {
  const cases: Readonly<Record<string, string>> = {
    "after 408": "GET /live HTTP/1.1\r\nHost: loc",
    "after 408, having sent nothing": "",
    "after 400": "nonsense\r\n\r\n",
    "after 431": `GET /live HTTP/1.1\r\nX-Big: ${"x".repeat(20_000)}\r\n`,
    "after Upgrade": UPGRADE,
    "after CONNECT": "CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "after an expectation": "GET /live HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\n\r\n",
  };
  let api: TestServer;
  before(async () => {
    api = await TestServer.open(undefined, { limits: { headersMs: 200, requestMs: 400 } });
  });
  after(() => api[Symbol.asyncDispose]());
  for (const [when, text] of Object.entries(cases)) {
    test(when, async () => {
      const socket = await halfOpen(api);
      socket.write(text);
      assert.ok(await within(LIMIT_MS, once(socket, "end")), "the server ended its half");
      assert.ok(await isCutOff(socket), "the server still holds the connection");
    });
  }
});

test("a thousand half-open connections do not lock out other clients", async () => {
  await using api = await TestServer.open();
  const sockets: Socket[] = [];
  try {
    for (let round = 0; round < 10; round += 1) {
      const more = Array.from({ length: 100 }, () => halfOpen(api));
      sockets.push(...(await Promise.all(more)));
    }
    sockets.forEach((socket, index) => index % 2 === 0 && socket.write(UPGRADE));
    for (const path of ["/live", "/ready", "/health", "/api/v1/jobs"]) {
      assert.equal((await api.ask(path)).status, 200, path);
    }
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

test("an address with too many connections loses its least recently used ones, and no other address does", async () => {
  await using api = await TestServer.open(undefined, { limits: { connectionsEach: 3 } });
  const neighbour = await dial(api, "127.0.0.2");
  const sockets: Socket[] = [];
  for (let count = 0; count < 3; count += 1) sockets.push(await dial(api));
  const [first, second, third] = sockets as [Socket, Socket, Socket];
  first.write(GET_LIVE); // now it is the one that was used last
  await once(first, "data");
  const lost = once(second, "close");
  const fourth = await dial(api);
  assert.ok(await within(LIMIT_MS, lost), "the one that was used least is closed");
  for (const socket of [first, third, fourth, neighbour]) {
    socket.write(GET_LIVE);
    assert.ok(await within(LIMIT_MS, once(socket, "data")));
  }
  for (const socket of [...sockets, fourth, neighbour]) socket.destroy();
});

test("connections that carry a request of an authorized client are not counted, and not closed", async () => {
  const limits = { connectionsEach: 2, connections: 6 };
  await using api = await TestServer.open(undefined, { limits });
  const ears = [];
  for (let count = 0; count < 4; count += 1) {
    const ear = await Ear.open(api.server, "/api/v1/stream");
    await ear.until("hello");
    ears.push(ear);
  }
  const sockets: Socket[] = [];
  for (let count = 0; count < 10; count += 1) sockets.push(await dial(api));
  assert.equal((await api.ask("/live")).status, 200);
  await api.post("/api/v1/jobs", { task: "a.b" }, 201);
  for (const ear of ears) await ear.until("enqueued");
  for (const ear of ears) await ear[Symbol.asyncDispose]();
  for (const socket of sockets) socket.destroy();
});

test("a full server closes a connection of the address that has most", async () => {
  const limits = { connections: 5, connectionsEach: 5 };
  await using api = await TestServer.open(undefined, { limits });
  const neighbour = await dial(api, "127.0.0.2");
  const sockets: Socket[] = [];
  for (let count = 0; count < 4; count += 1) sockets.push(await dial(api));
  const lost = once(sockets[0] as Socket, "close");
  const late = await dial(api, "127.0.0.3");
  assert.ok(await within(LIMIT_MS, lost));
  for (const socket of [neighbour, late]) {
    socket.write(GET_LIVE);
    assert.ok(await within(LIMIT_MS, once(socket, "data")));
  }
  for (const socket of [...sockets, neighbour, late]) socket.destroy();
});

test("a client may send a few requests ahead, and is cut off when it sends many", async () => {
  const limits = { pipelinedEach: 4 };
  await using api = await TestServer.open(undefined, { limits });
  const few = await dial(api);
  const answers = answersOn(few, 4);
  few.write(GET_LIVE.repeat(4));
  assert.ok(await within(LIMIT_MS, answers));
  const many = await dial(api);
  const closed = once(many, "close");
  many.write(GET_LIVE.repeat(5));
  assert.ok(await within(LIMIT_MS, closed));
  few.destroy();
});

test("all clients together may send so many requests ahead and no more", async () => {
  const health = { ...healthy(), health: () => new Promise<never>(() => {}) };
  const limits = { pipelined: 3, pipelinedEach: 4 };
  await using api = await TestServer.open(undefined, { limits, health });
  const hanging = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const first = await dial(api);
  first.write(hanging.repeat(4));
  const second = await dial(api);
  second.write(hanging);
  await api.ask("/live"); // by now they are under way
  const closed = once(second, "close");
  second.write(hanging);
  assert.ok(await within(LIMIT_MS, closed));
  assert.equal(first.destroyed, false);
  first.destroy();
});

test("unreadable bytes after a request do not replace its response", async () => {
  const health = { ...healthy(), health: () => new Promise<never>(() => {}) };
  await using api = await TestServer.open(undefined, { health });
  const asks = ["/health", "/api/v1/stream"].map(
    (path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  );
  for (const ask of asks) {
    const socket = await dial(api);
    let answer = "";
    socket.setEncoding("utf8").on("data", (text: string) => void (answer += text));
    const closed = once(socket, "close");
    socket.write(ask);
    await api.ask("/live"); // by now it is under way
    socket.write("nonsense\r\n\r\n");
    assert.ok(await within(LIMIT_MS, closed));
    assert.doesNotMatch(answer, /HTTP\/1\.1 400/);
  }
});

test("a client that does not read an answer is cut off in time", async () => {
  const ahead = { unreadBytes: 1_000 * MIB, pipelined: 10_000, pipelinedEach: 10_000 };
  await using api = await large({ stallMs: 300, ...ahead });
  const socket = await dial(api);
  socket.pause();
  socket.write(GET_METRICS);
  assert.ok(await isCutOff(socket, GET_LIVE));
});

test("a client with unread responses must read them before it gets another", async () => {
  await using api = await large({ stallMs: 60_000 });
  const socket = await dial(api);
  socket.write(GET_METRICS);
  await once(socket, "readable"); // and reads no more of it
  socket.write(GET_METRICS);
  assert.ok(await isCutOff(socket, GET_LIVE));
  const reader = await dial(api);
  reader.write(GET_METRICS);
  let bytes = 0;
  for await (const chunk of reader) {
    bytes += (chunk as Buffer).length;
    if (bytes > 20 * MIB) break;
  }
  assert.ok(bytes > 20 * MIB);
});

describe("a server in a process of its own", () => {
  let server: ServerProcess;
  before(async () => {
    server = await ServerProcess.start({ url: "sqlite::memory:" });
  });
  after(() => server.kill());

  test("a client that resets the connection after an upgrade does not end the process", async () => {
    for (let count = 0; count < 50; count += 1) {
      const socket = connect(server.port, "127.0.0.1");
      socket.on("error", () => {});
      await once(socket, "connect");
      socket.write(UPGRADE);
      if (count % 2 === 0) await once(socket, "data");
      socket.resetAndDestroy();
    }
    assert.equal((await send(server, "/live", {})).status, 200);
    assert.deepEqual((await server.facts()).errors, []);
  });

  test("pipelining for the document without reading it does not fill the memory", async () => {
    await send(server, "/api/v1/openapi.json", {});
    const { rss } = await server.facts();
    const sockets: Socket[] = [];
    for (let round = 0; round < 4; round += 1) {
      for (let count = 0; count < 25; count += 1) {
        const socket = connect(server.port, "127.0.0.1");
        socket.on("error", () => {}).pause();
        await once(socket, "connect");
        socket.write(GET_DOCUMENT.repeat(round === 0 ? 190 : 8));
        sockets.push(socket);
      }
      assert.equal((await send(server, "/live", {})).status, 200);
    }
    const grown = (await server.facts()).rss - rss;
    for (const socket of sockets) socket.destroy();
    assert.ok(grown < 40 * MIB, `${Math.round(grown / MIB)} MiB more`);
  });
});

test("the document is generated once, however often it is requested", async () => {
  await using api = await TestServer.open();
  const [one, two] = [await api.ask("/api/v1/openapi.json"), await api.ask("/api/v1/openapi.json")];
  assert.ok(one.text === JSON.stringify(api.server.document) && two.text === one.text);
  assert.equal(Number(one.headers["content-length"]), Buffer.byteLength(one.text));
  const head = await api.ask("/api/v1/openapi.json", { method: "HEAD" });
  assert.deepEqual([head.status, head.text], [200, ""]);
});

test("a request with two Host headers is refused", async () => {
  await using api = await TestServer.open();
  for (const path of ["/live", "/api/v1/jobs", "/nothing"]) {
    const socket = await dial(api);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n`);
    const [data] = (await once(socket, "data")) as [Buffer];
    assert.match(data.toString(), /^HTTP\/1\.1 400 /, path);
    socket.destroy();
  }
});

/** A server whose metrics are larger than what the system buffers. */
function large(limits: Partial<Limits>): Promise<TestServer> {
  const text = "x".repeat(21 * MIB);
  return TestServer.open(undefined, { limits, metrics: { text: async () => text } });
}

function healthy() {
  const ok = () => ({ status: "ok" });
  return { health: ok, live: ok, ready: ok };
}

async function dial({ server }: TestServer, localAddress = "127.0.0.1"): Promise<Socket> {
  const socket = connect({ port: server.port, host: "127.0.0.1", localAddress });
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

async function halfOpen({ server }: TestServer): Promise<Socket> {
  const socket = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => {}).resume();
  await once(socket, "connect");
  return socket;
}

/** A connection that the other side has forgotten is noticed by the next write. */
async function isCutOff(socket: Socket, text = " "): Promise<boolean> {
  const closed = new Promise<true>((resolve) => void socket.once("close", () => resolve(true)));
  for (let tries = 0; tries < LIMIT_MS / POKE_MS; tries += 1) {
    if ((await within(POKE_MS, closed)) === true) return true;
    socket.write(text);
  }
  socket.destroy();
  return false;
}

async function answersOn(socket: Socket, count: number): Promise<true> {
  let text = "";
  while (text.split("HTTP/1.1 200").length <= count) {
    const [data] = (await once(socket, "data")) as [Buffer];
    text += data.toString();
  }
  return true;
}

after(assertNothingRuns);
