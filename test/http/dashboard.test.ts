/** The dashboard's page and files, and people who sign in. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, describe, test } from "node:test";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import {
  dashboardHandler,
  type DashboardPrincipal,
  toNodeListener,
} from "../../src/app/dashboard.ts";
import { Assets } from "../../src/dashboard/assets.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { type Asked, TestServer, type Reply, send } from "./client.ts";

const FILES = new Map(
  Object.entries({
    "index.html": `<base href="__BASE__"><script src="assets/app.js"></script>`,
    "app.js": "'use strict';".repeat(100),
    "style.css": "a{}",
    "icon.svg": "<svg/>",
  }).map(([name, text]) => [name, Buffer.from(text)]),
);

const pages = new Assets(async () => FILES);
const HTML = { accept: "text/html,*/*" };

function open(parts: object = {}): Promise<TestServer> {
  return TestServer.open(undefined, { pages, ...parts });
}

function page({ server }: TestServer, path: string, asked: Asked = {}): Promise<Reply> {
  return send(server, path, { ...asked, headers: { ...HTML, ...asked.headers } });
}

describe("the page", () => {
  test("every path that a browser opens is the page, with a policy that allows nothing inline", async () => {
    await using api = await open();
    for (const path of [
      "/",
      "/jobs",
      "/jobs/018f2c5e-9b3a-700c-91f2-4c7d9be03a58",
      "/queues/a%2Fb",
    ]) {
      const { status, text, headers } = await page(api, path);
      assert.equal(status, 200, path);
      assert.match(text, /^<base href="\/"><script src="assets\/app-[0-9a-f]{16}\.js">/);
      const policy = String(headers["content-security-policy"]);
      assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
      assert.match(policy, /frame-ancestors 'none'/);
      assert.doesNotMatch(policy, /unsafe|\*|data:/);
      assert.equal(headers["cache-control"], "no-store");
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["x-frame-options"], "DENY");
      assert.equal(headers["referrer-policy"], "no-referrer");
    }
    assert.equal((await page(api, "/", { method: "HEAD" })).text, "");
  });

  test("the first page is for all but programs that want JSON", async () => {
    await using api = await open();
    const mounted = dashboardHandler({
      holdfast: api.holdfast,
      basePath: "/admin/jobs",
      principal: () => ({ name: "ada", role: "viewer" }),
      pages,
    });
    for (const [accept, isPage] of [
      [undefined, true],
      ["*/*", true],
      ["application/json", false],
      ["application/problem+json, */*", false],
    ] as const) {
      for (const method of ["GET", "HEAD"]) {
        const headers = accept === undefined ? {} : { accept };
        const own = await send(api.server, "/", { method, headers });
        const inside = await mounted(new Request("http://shop/admin/jobs", { method, headers }));
        for (const [status, type] of [
          [own.status, own.headers["content-type"]],
          [inside.status, inside.headers.get("content-type")],
        ]) {
          assert.equal(status, isPage ? 200 : 404, `${method} ${accept}`);
          assert.match(String(type), isPage ? /^text\/html/ : /json/);
        }
      }
    }
    await mounted.close();
  });

  test("what a framework gets is not packed, because Next.js drops the header that says so", async () => {
    await using api = await open();
    const principal = (): DashboardPrincipal => ({ name: "ada", role: "viewer" });
    const mounted = dashboardHandler({ holdfast: api.holdfast, principal, pages });
    const headers = { "accept-encoding": "gzip, br", accept: "text/html" };
    const response = await mounted(new Request("http://shop/", { headers }));
    assert.equal(response.headers.get("content-encoding"), null);
    assert.match(await response.text(), /<script/);
    const server = createServer((request, answer) => void toNodeListener(mounted)(request, answer));
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const ownServer = await fetch(`http://127.0.0.1:${port}/`, { headers });
    assert.equal(ownServer.headers.get("content-encoding"), "br");
    assert.match(await ownServer.text(), /<script/);
    server.close();
    server.closeAllConnections();
    await mounted.close();
  });

  test("programs, the API, probes and other methods never get it", async () => {
    await using api = await open();
    await api.get("/jobs", 404);
    for (const path of ["/api/v1/nothing", "/api", "/assets/none.js", "/metrics/x"]) {
      const { status, headers } = await page(api, path);
      assert.equal(status, 404, path);
      assert.match(String(headers["content-type"]), /problem/);
    }
    assert.equal((await page(api, "/jobs", { method: "DELETE" })).status, 404);
  });

  test("files have their hash in the name and are kept forever, packed as the browser likes it", async () => {
    await using api = await open();
    const { text } = await page(api, "/");
    const path = `/${/src="([^"]+)"/.exec(text)?.[1]}`;
    const plain = await send(api.server, path, {});
    assert.equal(plain.headers["cache-control"], "public, max-age=31536000, immutable");
    assert.equal(plain.headers["content-type"], "text/javascript; charset=utf-8");
    assert.equal(plain.text, FILES.get("app.js")?.toString());
    for (const [encoding, unpack] of Object.entries({
      br: brotliDecompressSync,
      gzip: gunzipSync,
    })) {
      const response = await fetch(`${api.server.url}${path}`, {
        headers: { "accept-encoding": encoding },
      });
      assert.equal(response.headers.get("content-encoding"), encoding);
      assert.equal(await response.text(), plain.text); // fetch unpacks it
      assert.ok(unpack !== undefined);
    }
    const tag = String(plain.headers["etag"]);
    const again = await send(api.server, "/assets/app.js", { headers: { "if-none-match": tag } });
    assert.equal(again.status, 304);
    assert.equal(again.headers["cache-control"], "no-cache");
  });

  test("no path leads out of the files", async () => {
    await using api = await open();
    const paths = [
      "../package.json",
      "..%2fpackage.json",
      "%2e%2e/app.js",
      "app.js%00",
      ".",
      "index.html",
    ];
    for (const path of paths) {
      assert.equal((await send(api.server, `/assets/${path}`, {})).status, 404, path);
    }
  });

  test("a page that could not be built is an error, and tried again", async () => {
    let tries = 0;
    const broken = new Assets(async () => {
      tries += 1;
      if (tries === 1) throw new Error("no bundler");
      return FILES;
    });
    await using api = await open({ pages: broken });
    assert.equal((await page(api, "/")).status, 500);
    assert.equal((await page(api, "/")).status, 200);
  });
});

test("below the path of a proxy, requests may have it or not, and links have it", async () => {
  await using desk = await open({ basePath: "/tools/holdfast" });
  const forged = { "x-forwarded-prefix": "/evil" };
  for (const below of ["", "/tools/holdfast"]) {
    for (const path of ["/", "/jobs"]) {
      const { status, text } = await page(desk, `${below}${path}`, { headers: forged });
      assert.equal(status, 200, `${below}${path}`);
      assert.match(text, /^<base href="\/tools\/holdfast\/">/);
    }
    const { status, headers } = await send(desk.server, `${below}/api/v1/jobs`, {
      method: "POST",
      body: { task: "order.ship", input: null },
    });
    assert.equal(status, 201);
    assert.match(String(headers["location"]), /^\/tools\/holdfast\/api\/v1\/jobs\//);
    assert.equal((await send(desk.server, `${below}/api/v1/session`, {})).status, 200);
  }
  const document = await send(desk.server, "/api/v1/openapi.json", {});
  assert.deepEqual(document.json.servers, [{ url: "/tools/holdfast" }]);
});

test("what is read is packed from 1 kB on, and not sent again while it is the same", async () => {
  await using desk = await open();
  for (let at = 0; at < 20; at += 1) await desk.holdfast.enqueue("order.ship", { at });
  const read = async (path: string, headers: Record<string, string>): Promise<Response> =>
    fetch(`${desk.server.url}/api/v1/${path}`, { headers });
  const plain = await read("jobs", { "accept-encoding": "identity" });
  assert.equal(plain.headers.get("content-encoding"), null);
  const text = await plain.text();
  for (const [accepted, encoding] of [
    ["gzip, deflate, br", "br"],
    ["gzip;q=0.5, br;q=0", "gzip"],
    ["gzip", "gzip"],
    ["zstd, *;q=0", null],
  ] as const) {
    const response = await read("jobs", { "accept-encoding": accepted });
    assert.equal(response.headers.get("content-encoding"), encoding, accepted);
    const length = Number(response.headers.get("content-length"));
    assert.equal(length < text.length / 4, encoding !== null, `${length} bytes`);
    assert.equal(await response.text(), text); // fetch unpacks it
    const tag = response.headers.get("etag") ?? "";
    assert.equal(tag, plain.headers.get("etag"));
    const same = await read("jobs", { "if-none-match": tag, "accept-encoding": accepted });
    assert.deepEqual([same.status, await same.text()], [304, ""]);
  }
  const short = await read("session", { "accept-encoding": "br" });
  assert.equal(short.headers.get("content-encoding"), null);
  await desk.holdfast.enqueue("order.ship", null);
  const changed = await read("jobs", { "if-none-match": plain.headers.get("etag") ?? "" });
  assert.equal(changed.status, 200);
  const stream = await read("stream", { "accept-encoding": "br" });
  assert.equal(stream.headers.get("content-encoding"), null);
  await stream.body?.cancel();
});

/** The cookie that a response sets, as a browser would send it back. */
function cookieOf({ headers }: Reply): string {
  return String(headers["set-cookie"]?.[0]).split(";")[0] ?? "";
}

const BROWSER = { "sec-fetch-site": "same-origin" };

describe("a person who signs in", () => {
  test("gets a cookie that scripts cannot read, and is who the token says", async () => {
    await using api = await open();
    const token = await api.token("viewer", "ada");
    const reply = await api.ask("/api/v1/session", { body: { token }, headers: BROWSER });
    assert.equal(reply.status, 200, reply.text);
    assert.deepEqual(reply.json.principal, { name: "token ada", role: "viewer", via: "cookie" });
    const [set = ""] = reply.headers["set-cookie"] ?? [];
    assert.match(
      set,
      /^holdfast_\d+=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    assert.ok(!set.includes(token.slice(4)) && !reply.text.includes(token));
    const cookie = cookieOf(reply);
    const me = await api.get("/api/v1/session", 200, { headers: { cookie } });
    assert.deepEqual(me.principal, { name: "token ada", role: "viewer", via: "cookie" });
    assert.equal(me.canSignOut, true);
    const refused = { headers: { ...BROWSER, cookie } };
    await api.post("/api/v1/jobs", { task: "a.b" }, 403, refused);
  });

  test("over HTTPS the cookie is Secure and bound to the host", async () => {
    await using api = await open();
    const token = await api.token("operator");
    const host = `127.0.0.1:${api.server.port}`;
    const headers = { host, origin: `https://${host}` };
    const reply = await api.ask("/api/v1/session", { body: { token }, headers });
    assert.match(String(reply.headers["set-cookie"]), /^__Host-holdfast_\d+=.*Path=\/;.*; Secure$/);
    const cookie = cookieOf(reply);
    await api.post("/api/v1/jobs", { task: "a.b" }, 201, { headers: { ...headers, cookie } });
  });

  test("only pages of this origin write with the cookie", async () => {
    await using api = await open();
    const token = await api.token("operator");
    const cookie = cookieOf(
      await api.ask("/api/v1/session", { body: { token }, headers: BROWSER }),
    );
    const host = `127.0.0.1:${api.server.port}`;
    const job = { task: "a.b" };
    for (const from of [BROWSER, { origin: `http://${host}` }]) {
      await api.post("/api/v1/jobs", job, 201, { headers: { ...from, cookie } });
    }
    const foreign = [
      {},
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "none" },
      { origin: "http://evil.example" },
      { origin: "null" },
      { origin: `http://localhost:${api.server.port}` },
    ];
    for (const from of foreign) {
      const { code } = await api.post("/api/v1/jobs", job, 403, { headers: { ...from, cookie } });
      assert.equal(code, "FOREIGN_ORIGIN", JSON.stringify(from));
    }
    await api.get("/api/v1/jobs", 403, { headers: { "sec-fetch-site": "same-site", cookie } });
    await api
      .ask("/api/v1/session", { body: { token }, headers: { origin: "http://evil.example" } })
      .then(({ status }) => assert.equal(status, 403));
  });

  test("signs out, and the cookie is no longer valid", async () => {
    await using api = await open();
    const token = await api.token("operator");
    const cookie = cookieOf(
      await api.ask("/api/v1/session", { body: { token }, headers: BROWSER }),
    );
    const headers = { ...BROWSER, cookie };
    const reply = await api.ask("/api/v1/session/end", { body: {}, headers });
    assert.match(String(reply.headers["set-cookie"]), /=; Path=\/; Max-Age=0; HttpOnly/);
    await api.get("/api/v1/session", 401, { headers });
  });

  test("is signed out with the token: revoked, expired, or no longer configured", async () => {
    const limits = { tokenMs: 0 };
    await using api = await open({ limits, token: "configured-0123456789abcdef" });
    const sign = async (token: string): Promise<{ headers: Record<string, string> }> => {
      const reply = await api.ask("/api/v1/session", { body: { token }, headers: BROWSER });
      assert.equal(reply.status, 200, reply.text);
      return { headers: { cookie: cookieOf(reply) } };
    };
    const revoked = await sign(await api.token("operator", "a"));
    const expired = await sign(await api.token("operator", "b", "100ms"));
    const configured = await sign("configured-0123456789abcdef");
    await api.get("/api/v1/session", 200, revoked);
    assert.equal((await api.get("/api/v1/session", 200, configured)).principal.role, "operator");
    await api.holdfast.store.tokens.revoke("a", {
      id: "018f2c5e-9b3a-700c-91f2-4c7d9be03a58",
      actor: "t",
    });
    await api.get("/api/v1/session", 401, revoked);
    await new Promise((resolve) => setTimeout(resolve, 120));
    await api.get("/api/v1/session", 401, expired);
    // Another server on the same database with another token in its configuration.
    const { startServer } = await import("../../src/app/server.ts");
    await using other = await startServer({
      holdfast: api.holdfast,
      port: 0,
      token: "configured-fedcba9876543210",
      limits,
    });
    const cookie =
      configured.headers["cookie"]?.replace(/^holdfast_\d+/, `holdfast_${other.port}`) ?? "";
    assert.equal((await send(other, "/api/v1/session", { headers: { cookie } })).status, 401);
    const same =
      revoked.headers["cookie"]?.replace(/^holdfast_\d+/, `holdfast_${other.port}`) ?? "";
    assert.equal((await send(other, "/api/v1/session", { headers: { cookie: same } })).status, 401);
  });

  test("a wrong token is refused, and guessing is limited", async () => {
    await using api = await open({ limits: { failureBurst: 3 } });
    await api.token("operator");
    const wrong = { token: `hft_${"A".repeat(43)}` };
    for (let tries = 0; tries < 3; tries += 1) await api.post("/api/v1/session", wrong, 401);
    await api.post("/api/v1/session", wrong, 429);
    await api.post("/api/v1/session", { token: "" }, 422);
  });

  test("a stolen database has no secrets that open a session", async () => {
    await using api = await open();
    const token = await api.token("operator");
    const cookie = cookieOf(
      await api.ask("/api/v1/session", { body: { token }, headers: BROWSER }),
    );
    const { engine } = api.holdfast.store.db;
    const { sql } = await import("../../src/database/sql.ts");
    const rows = await engine.all(sql`select * from holdfast.session`);
    assert.equal(rows.length, 1);
    const secret = cookie.split("=")[1] ?? "";
    assert.ok(!JSON.stringify(rows).includes(secret));
    const hash = String(rows[0]?.["hash"]);
    await api.get("/api/v1/session", 401, {
      headers: { cookie: `holdfast_${api.server.port}=${hash.slice(0, 43)}` },
    });
  });

  test("without any token the machine's own people need none, and a stale cookie does no harm", async () => {
    await using api = await open();
    const me = await api.get("/api/v1/session", 200, {
      headers: { cookie: `holdfast_${api.server.port}=${"A".repeat(43)}; other=1` },
    });
    assert.deepEqual(me.principal, { name: "local", role: "operator", via: "open" });
    assert.equal(me.canSignOut, false);
    assert.equal(me.engine, "sqlite");
    assert.ok(Math.abs(me.now - Date.now()) < 5_000 && me.latencyMs >= 0);
  });
});

after(assertNothingRuns);
