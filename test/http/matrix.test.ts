/** Who may ask for what: every route there is, with every kind of token, on every kind of address. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { type Node, nodesOf } from "../../src/operations/shape.ts";
import { allOperations } from "../golden/shapes.ts";
import { TestServer, type Asked } from "./client.ts";

const ID = "018f2c5e-9b3a-700c-91f2-4c7d9be03a58";
const fence = { worker: "w-1", epoch: 1 };

/** A well-formed request for each route that is no operation. One that is not here fails the test. */
const BY_HAND: Readonly<Record<string, object | null>> = {
  "GET /health": null,
  "GET /live": null,
  "GET /ready": null,
  "GET /metrics": null,
  "GET /api/v1/openapi.json": null,
  "GET /api/v1/session": null,
  "POST /api/v1/session": { token: `hft_${"A".repeat(43)}` },
  "POST /api/v1/session/end": {},
  "GET /api/v1/jobs": null,
  "GET /api/v1/jobs/{id}/events": null,
  "POST /api/v1/flows": { name: "f", jobs: [{ name: "a", task: "a.b" }] },
  "POST /api/v1/flows/{id}/jobs": { jobs: [{ name: "a", task: "a.b" }] },
  "POST /api/v1/batches": { name: "b", jobs: [{ task: "a.b" }], callback: { task: "a.c" } },
  "POST /api/v1/bulk": { action: "retry", filter: { task: "mail" }, dryRun: true },
  "GET /api/v1/bulk": null,
  "GET /api/v1/bulk/{id}": null,
  "POST /api/v1/bulk/{id}/stop": {},
  "POST /api/v1/bulk/preview": { action: "retry", filter: { task: "mail" } },
  "POST /api/v1/bulk/start": { token: ID },
  "POST /api/v1/bulk/{id}/resume": {},
  "POST /api/v1/leases/reset-expired": {},
  "POST /api/v1/leases/acquire": { worker: "w-1", queues: ["none"] },
  "POST /api/v1/leases/{id}/extend": fence,
  "POST /api/v1/leases/{id}/settle": { ...fence, as: "done" },
  "GET /api/v1/stats": null,
  "GET /api/v1/counts": null,
  "GET /api/v1/series": null,
  "GET /api/v1/overview": null,
  "GET /api/v1/jobs/count": null,
  "GET /api/v1/names": null,
  "GET /api/v1/find": null,
  "GET /api/v1/tasks": null,
  "GET /api/v1/jobs/{id}/story": null,
  "GET /api/v1/errors": null,
  "GET /api/v1/errors/{id}": null,
  "POST /api/v1/errors/{id}/resolve": {},
  "POST /api/v1/errors/{id}/mute": {},
  "POST /api/v1/errors/{id}/reopen": {},
  "POST /api/v1/items/{id}/moves": { move: "pay" },
  "POST /api/v1/items/{id}/update": { patch: {} },
  "POST /api/v1/items/{id}/children": { changes: [{ id: ID, patch: {} }] },
  "POST /api/v1/workflows/{name}/items": { data: {} },
  "POST /api/v1/workflows/{name}/items/bulk": { items: [{ data: {} }] },
  "GET /api/v1/stream": null,
  "POST /mcp": { jsonrpc: "2.0", id: 1, method: "tools/list" },
};

/** The same for operations, by the shapes of their inputs. */
async function samples(): Promise<ReadonlyMap<string, object | null>> {
  const made = (await allOperations()).flatMap(({ http, input, isAudited }) => {
    if (http === undefined) return [];
    const { method, path } = http;
    const body = Object.entries(nodesOf(input)).filter(([name, { kind }]) => {
      return kind !== "optional" && !path.includes(`{${name}}`);
    });
    const sample = Object.fromEntries(body.map(([name, node]) => [name, sampleOf(node)]));
    const reason = isAudited === true ? { reason: "why" } : {};
    return [[`${method} ${path}`, method === "GET" ? null : { ...sample, ...reason }] as const];
  });
  return new Map([...made, ...Object.entries(BY_HAND)]);
}

function sampleOf(node: Node): unknown {
  switch (node.kind) {
    case "text":
      return node.pattern?.test("a.b") === false ? ID : "a.b";
    case "integer":
    case "number":
      return node.min ?? 1;
    case "boolean":
      return false;
    case "choice":
      return node.values[0];
    case "constant":
      return node.value;
    case "list":
      return [sampleOf(node.of)];
    case "map":
      return {};
    case "union":
      return sampleOf(node.of[0] as Node);
    case "object": {
      const fields = Object.entries(node.fields).filter(([, { kind }]) => kind !== "optional");
      return Object.fromEntries(fields.map(([name, of]) => [name, sampleOf(of)]));
    }
    case "anything":
      return null;
    case "optional":
    case "nullable":
    case "about":
      return sampleOf(node.of);
  }
}

const WRONG = `hft_${"A".repeat(43)}`;
const CONFIGURED = "configured-0123456789abcdef";
const limits = { failureBurst: 10_000 };

type Shown = "none" | "wrong" | "viewer" | "operator" | "configured";

interface Mode {
  readonly name: string;
  readonly host: string;
  readonly hasTokens: boolean;
  readonly token?: string;
  readonly shown: readonly Shown[];
  /** The role of a request without a token. */
  readonly anonymous: "operator" | null;
}

const modes: readonly Mode[] = [
  {
    name: "on the loopback interface, before there was a token",
    host: "127.0.0.1",
    hasTokens: false,
    shown: ["none", "wrong"],
    anonymous: "operator",
  },
  {
    name: "on the loopback interface, with tokens",
    host: "127.0.0.1",
    hasTokens: true,
    shown: ["none", "wrong", "viewer", "operator"],
    anonymous: null,
  },
  {
    name: "on the loopback interface, with a configured token",
    host: "localhost",
    hasTokens: false,
    token: CONFIGURED,
    shown: ["none", "wrong", "configured"],
    anonymous: null,
  },
  {
    name: "beyond it, with tokens",
    host: "0.0.0.0",
    hasTokens: true,
    token: CONFIGURED,
    shown: ["none", "wrong", "viewer", "operator", "configured"],
    anonymous: null,
  },
  {
    name: "beyond it, without any token",
    host: "0.0.0.0",
    hasTokens: false,
    shown: ["none", "wrong"],
    anonymous: null,
  },
];

for (const mode of modes) {
  describe(mode.name, () => {
    for (const shown of mode.shown) {
      test(`a client with ${shown === "none" ? "no token" : `a token (${shown})`}`, async () => {
        const { host, token } = mode;
        const metrics = { text: async () => "up 1\n" };
        const given = { host, limits, metrics, ...(token === undefined ? {} : { token }) };
        await using api = await TestServer.open(undefined, given);
        const tokens = mode.hasTokens
          ? { viewer: await api.token("viewer"), operator: await api.token("operator") }
          : { viewer: "", operator: "" };
        const shows: Record<Shown, Asked> = {
          none: {},
          wrong: { token: WRONG },
          viewer: { token: tokens.viewer },
          operator: { token: tokens.operator },
          configured: { token: CONFIGURED },
        };
        const known = await samples();
        for (const { method, path, access } of api.server.routes) {
          const sample = known.get(`${method} ${path}`);
          assert.ok(sample !== undefined, `the matrix has no row for ${method} ${path}`);
          const target = path.replace("{id}", ID).replace("{name}", "none");
          const asked = { method, ...shows[shown], ...(sample === null ? {} : { body: sample }) };
          const { status, headers } = await api.ask(target, asked);
          const what = `${method} ${path}: ${status}`;
          const wanted =
            path === "/api/v1/session" && method === "POST" ? 401 : statusFor(access, shown, mode);
          if (wanted === null) assert.ok(![401, 403, 429].includes(status) && status < 500, what);
          else assert.equal(status, wanted, what);
          assert.equal("www-authenticate" in headers, status === 401, what);
        }
      });
    }
  });
}

/** Null: whatever the route itself says. */
function statusFor(access: string, shown: Shown, { anonymous }: Mode): number | null {
  if (access === "public") return null;
  if (shown === "wrong") return 401;
  const role = shown === "none" ? anonymous : shown === "viewer" ? "viewer" : "operator";
  if (role === null) return 401;
  return access === "operator" && role === "viewer" ? 403 : null;
}

test("the matrix has no row for a route that there is not", async () => {
  await using api = await TestServer.open();
  const routed = api.server.routes.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual([...(await samples()).keys()].toSorted(), routed.toSorted());
});

after(assertNothingRuns);
