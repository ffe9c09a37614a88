/** Without a token: open to direct requests of this machine while developing, and to nothing else. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, test } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer } from "./client.ts";

const JOB = { task: "a.b" };
const FORWARDED: Readonly<Record<string, string>> = {
  forwarded: "for=203.0.113.9",
  "x-forwarded-for": "203.0.113.9",
  "x-forwarded-proto": "https",
  "x-forwarded-host": "jobs.example",
  "X-Forwarded-Anything": "1",
  "x-real-ip": "203.0.113.9",
  via: "1.1 proxy",
};

test("a proxied request needs a token, and the response says why and what to do", async () => {
  await using api = await TestServer.open();
  for (const [name, value] of Object.entries(FORWARDED)) {
    const headers = { [name]: value };
    const { detail, code } = await api.post("/api/v1/jobs", JOB, 401, { headers });
    assert.equal(code, "UNAUTHORIZED");
    assert.match(detail, new RegExp(`proxy.*${name}.*holdfast tokens create`, "i"), name);
    await api.get("/api/v1/jobs", 401, { headers });
    await api.get("/live", 200, { headers });
  }
  await api.post("/api/v1/jobs", JOB, 201);
  const token = await api.token("operator");
  await api.post("/api/v1/jobs", JOB, 201, { token, headers: FORWARDED });
});

test("a proxy that adds no headers is recognized by HTTP/1.0", async () => {
  await using api = await TestServer.open();
  // As nginx' proxy_pass sends it, unless it is told otherwise.
  const host = `127.0.0.1:${api.server.port}`;
  const body = JSON.stringify(JOB);
  const head = `Host: ${host}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  assert.match(
    await raw(api, `POST /api/v1/jobs HTTP/1.0\r\n${head}\r\n\r\n${body}`),
    /^HTTP\/1\.1 401 [\s\S]*HTTP\/1\.0/,
  );
  assert.match(
    await raw(api, `POST /api/v1/jobs HTTP/1.1\r\n${head}\r\n\r\n${body}`),
    /^HTTP\/1\.1 201 /,
  );
  assert.match(await raw(api, `GET /live HTTP/1.0\r\nHost: ${host}\r\n\r\n`), /^HTTP\/1\.1 200 /);
});

test("in production every request needs a token", async () => {
  await using api = await TestServer.open(undefined, { production: true });
  const { detail } = await api.post("/api/v1/jobs", JOB, 401);
  assert.match(detail, /NODE_ENV=production.*holdfast tokens create/);
  await api.get("/api/v1/jobs", 401);
  await api.get("/live", 200);
  const token = await api.token("operator");
  await api.post("/api/v1/jobs", JOB, 201, { token });
});

test("every start without a token logs a warning that explains the consequence", async () => {
  const openly = /^warn .*no API token.*any program on this machine.*holdfast tokens create/;
  const shut = /^warn .*no API token.*refuses every request.*holdfast tokens create/;
  await using open = await TestServer.open();
  assert.equal(open.log.filter((line) => openly.test(line)).length, 1);
  for (const parts of [{ production: true }, { host: "0.0.0.0" }]) {
    await using api = await TestServer.open(undefined, parts);
    assert.equal(api.log.filter((line) => shut.test(line)).length, 1, JSON.stringify(parts));
  }
  await using guarded = await TestServer.open(undefined, { token: "0123456789abcdef0123" });
  assert.ok(!guarded.log.some((line) => line.startsWith("warn")));
});

async function raw({ server }: TestServer, text: string): Promise<string> {
  const socket = connect(server.port, "127.0.0.1");
  socket.write(text);
  const [data] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return data.toString();
}

after(assertNothingRuns);
