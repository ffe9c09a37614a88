/** The dashboard inside of an application: behind five frameworks, below a base path, behind the application's own login. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { after, describe, test } from "node:test";
import { dashboardHandler, toNodeListener } from "../../src/app/dashboard.ts";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { Assets } from "../../src/dashboard/assets.ts";
import { DEFAULT_LIMITS } from "../../src/http-kernel/limits.ts";
import { Connections, httpServer } from "../../src/http-kernel/server.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { within } from "../support/waiting.ts";
import { BASE, frameworks, principal } from "./mounts.ts";

const FILES = new Map(
  Object.entries({
    "index.html": `<base href="__BASE__"><script src="assets/app.js"></script>`,
    "app.js": "1;",
  }).map(([name, text]) => [name, Buffer.from(text)]),
);

for (const [name, serve] of Object.entries(frameworks)) {
  test(`behind ${name}: the page, its files, the API, changes and live events`, async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const pages = new Assets(async () => FILES);
    const dashboard = dashboardHandler({ holdfast, basePath: BASE, principal, pages });
    const served = await serve(dashboard);
    try {
      const ask = (path: string, init: RequestInit = {}): Promise<Response> =>
        fetch(`${served.url}${BASE}${path}`, init);
      const as = (user: string): RequestInit => ({ headers: { "x-user": user } });
      const html = { headers: { accept: "text/html" } };
      for (const path of ["", "/", "/jobs"]) {
        const page = await ask(path, html);
        assert.equal(page.status, 200, path);
        const text = await page.text();
        assert.match(text, /<base href="\/admin\/jobs\/">/);
        const src = /src="([^"]+)"/.exec(text)?.[1] ?? "";
        const file = await ask(`/${src}`);
        assert.equal(await file.text(), "1;");
        assert.match(page.headers.get("content-security-policy") ?? "", /script-src 'self'/);
      }
      assert.equal((await ask("/api/v1/session")).status, 401);
      const me = (await (await ask("/api/v1/session", as("ada"))).json()) as any;
      assert.deepEqual(me.principal, { name: "app ada", role: "operator", via: "app" });
      const post = (user: string, headers: Record<string, string> = {}): RequestInit => ({
        method: "POST",
        headers: { "x-user": user, "content-type": "application/json", ...headers },
        body: JSON.stringify({ task: "mail.send", input: { to: "ö" } }),
      });
      assert.equal((await ask("/api/v1/jobs", post("eve"))).status, 403);
      for (const origin of ["http://evil.example", "http://host.invalid", "http://localhost"]) {
        assert.equal((await ask("/api/v1/jobs", post("ada", { origin }))).status, 403, origin);
      }
      const accepted = await ask("/api/v1/jobs", post("ada", { origin: served.url }));
      assert.equal(accepted.status, 201, await accepted.clone().text());
      const { id } = (await accepted.json()) as { id: string };
      assert.deepEqual((await holdfast.jobs.get(id))?.input, { to: "ö" });
      await ask(`/api/v1/jobs/${id}/cancel`, { ...post("ada"), body: '{"reason":"by hand"}' });
      const [line] = await holdfast.audit.list({ subject: `job ${id}` });
      assert.deepEqual([line?.actor, line?.reason], ["app ada", "by hand"]);
      const leaving = new AbortController();
      const stream = await ask("/api/v1/stream", { ...as("eve"), signal: leaving.signal });
      const reader = stream.body?.getReader();
      const { value } = (await reader?.read()) ?? {};
      assert.match(Buffer.from(value ?? []).toString(), /retry:/);
      leaving.abort();
      // Outside of the base path, the application answers.
      assert.notEqual((await fetch(`${served.url}/api/v1/jobs`, as("ada"))).status, 200);
    } finally {
      await dashboard.close();
      await served.close();
    }
  });
}

const CLOSED_MS_MAX = 5_000;

describe("a mounted handler", () => {
  test("asks the application for every request, and ends streams of people who signed out", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    let isSignedIn = true;
    const pages = new Assets(async () => FILES);
    const dashboard = dashboardHandler({
      holdfast,
      pages,
      principal: () => (isSignedIn ? { name: "ada", role: "viewer" } : null),
    });
    const ask = (path: string): Promise<Response> =>
      dashboard(new Request(`http://app.example${path}`));
    assert.equal((await ask("/api/v1/jobs")).status, 200);
    isSignedIn = false;
    const refused = await ask("/api/v1/jobs");
    assert.equal(refused.status, 401);
    assert.equal(((await refused.json()) as { code: string }).code, "NO_PRINCIPAL");
    assert.equal((await ask("/jobs")).status, 404); // a program did not ask for HTML
    await dashboard.close();
  });

  const signedOut = {
    "returns null": () => null,
    "returns nothing": () => undefined as never,
    "keeps failing": () => {
      throw new Error("the sessions are away");
    },
  };
  for (const [how, answer] of Object.entries(signedOut)) {
    test(`a stream ends when the login ${how}`, async () => {
      await using holdfast = await openHoldfast("sqlite::memory:");
      let isSignedIn = true;
      const dashboard = dashboardHandler({
        holdfast,
        limits: { heartbeatMs: 5 },
        principal: () => (isSignedIn ? { name: "ada", role: "viewer" } : answer()),
      });
      const { status, body } = await dashboard(new Request("http://app.example/api/v1/stream"));
      assert.equal(status, 200);
      const reader = body?.getReader();
      await reader?.read();
      isSignedIn = false;
      const ended = (async (): Promise<true> => {
        while (!((await reader?.read())?.done ?? true));
        return true;
      })();
      assert.equal(await within(CLOSED_MS_MAX, ended), true, "it is still open");
      await dashboard.close();
    });
  }

  test("a person whom the application cannot name is an error of the application", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const dashboard = dashboardHandler({
      holdfast,
      principal: () => ({ name: "", role: "boss" }) as never,
    });
    assert.equal((await dashboard(new Request("http://a/api/v1/jobs"))).status, 500);
    await dashboard.close();
    for (const basePath of ["admin", "/a b", "//a", "/a/../b", "/<b>"]) {
      assert.throws(
        () => dashboardHandler({ holdfast, principal, basePath }),
        { code: "INVALID_ARGUMENT" },
        basePath,
      );
    }
    assert.throws(() => dashboardHandler({ holdfast } as never), /principal/);
    assert.throws(() => dashboardHandler({ holdfast, principal, path: "/" } as never), /path/);
  });

  test("a proxy that changes the Host header does not look like another origin", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const dashboard = dashboardHandler({
      holdfast,
      principal: () => ({ name: "a", role: "operator" }),
    });
    const post = (headers: Record<string, string>): Promise<Response> =>
      dashboard(
        new Request("http://10.0.0.7:3000/api/v1/jobs", {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: '{"task":"a.b"}',
        }),
      );
    const origin = "https://jobs.example";
    assert.equal((await post({ origin })).status, 403);
    assert.equal((await post({ origin, "x-forwarded-host": "jobs.example" })).status, 201);
    assert.equal((await post({ origin, "sec-fetch-site": "same-origin" })).status, 201);
    assert.equal(
      (await post({ origin: "https://evil.example", "x-forwarded-host": "jobs.example" })).status,
      403,
    );
    await dashboard.close();
  });

  test("bodies have the limits of the server", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:");
    const dashboard = dashboardHandler({
      holdfast,
      principal: () => ({ name: "a", role: "operator" }),
    });
    const big = JSON.stringify({ task: "a.b", input: "x".repeat(2_000_000) });
    const headers = { "content-type": "application/json" };
    const response = await dashboard(
      new Request("http://a/api/v1/jobs", { method: "POST", headers, body: big }),
    );
    assert.equal(response.status, 413);
    const form = await dashboard(
      new Request("http://a/api/v1/jobs", { method: "POST", body: "task=a.b" }),
    );
    assert.equal(form.status, 415);
    await dashboard.close();
  });
});

test("toNodeListener answers 500 for what an application put around the handler, and warns of it", async () => {
  const listener = toNodeListener(async () => {
    throw new Error("a login that fails");
  });
  const server = createServer((incoming, outgoing) => void listener(incoming, outgoing));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const warned = once(process, "warning") as Promise<[Error]>;
  const { port } = server.address() as AddressInfo;
  const response = await fetch(`http://127.0.0.1:${port}/`);
  assert.equal(response.status, 500);
  assert.doesNotMatch(await response.text(), /a login that fails/);
  assert.equal((await warned)[0].message, "a login that fails");
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
});

/** More than the system buffers, so that a write waits when the stream fails. */
const CHUNKS = 50;
const CHUNK_BYTES = 1_000_000;
const FAILS_AFTER_MS = 200;

function failing(): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (let at = 0; at < CHUNKS; at += 1) controller.enqueue(new Uint8Array(CHUNK_BYTES));
      setTimeout(() => controller.error(new Error("The client is too slow.")), FAILS_AFTER_MS);
    },
  });
}

const servers: Readonly<Record<string, () => Server>> = {
  toNodeListener: () => {
    const listener = toNodeListener(async () => new Response(failing()));
    return createServer((incoming, outgoing) => void listener(incoming, outgoing));
  },
  "the server": () => {
    const limits = DEFAULT_LIMITS;
    const connections = new Connections(systemRuntime, limits);
    const app = { answer: async () => ({ status: 200, headers: {}, body: failing() }) };
    return httpServer({ app, connections, limits, runtime: systemRuntime });
  },
};

for (const [name, open] of Object.entries(servers)) {
  test(`${name} closes the connection of a stream that failed, also of a client that does not read`, async () => {
    const server = open();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const accepted = once(server, "connection") as Promise<[Socket]>;
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    client.on("error", () => {}).pause();
    client.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const [socket] = await accepted;
    assert.ok((await within(CLOSED_MS_MAX, once(socket, "close"))) !== null, "it is still open");
    client.destroy();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
}

after(assertNothingRuns);
