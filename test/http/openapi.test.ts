/** What is written down about the API is well-formed, and is all there is. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { TEXT } from "../../src/core/name.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { TestServer } from "./client.ts";

test("the document is public, and has nothing that the recommended rules of Redocly complain about", async () => {
  await using api = await TestServer.open(undefined, { token: "0123456789abcdef0123" });
  const document = await api.get("/api/v1/openapi.json");
  assert.equal(document.openapi, "3.1.0");
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source: JSON.stringify(document), config });
  assert.deepEqual(
    problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer]),
    [],
  );
});

test("every route is in the document, and nothing else is", async () => {
  await using api = await TestServer.open();
  const { paths } = await api.get("/api/v1/openapi.json");
  const written = Object.entries(paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const routed = api.server.routes.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(written.toSorted(), routed.toSorted());
});

test("every operation says which role it takes, and has a name of its own", async () => {
  await using api = await TestServer.open();
  const names = api.server.routes.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  const { paths } = await api.get("/api/v1/openapi.json");
  for (const { path, method, access } of api.server.routes) {
    const operation = paths[path][method.toLowerCase()];
    assert.equal(operation["x-role"] ?? "public", access);
    assert.equal(operation.security.length, access === "public" ? 0 : 1);
  }
});

test("a change takes an operator, and looking does not", async () => {
  await using api = await TestServer.open();
  for (const { method, access, path } of api.server.routes) {
    if (path.startsWith("/api/v1/session")) continue; // signing in or out changes one's own session only
    if (path === "/mcp") continue; // a tool that changes something asks a route for operators
    if (path === "/api/v1/tokens") continue; // who may come is not everyone's business
    assert.equal(method === "POST", access === "operator", `${method} ${path}`);
  }
});

test("every body and every JSON response has a schema with a name", async () => {
  await using api = await TestServer.open();
  const { paths, components } = await api.get("/api/v1/openapi.json");
  for (const { path, method, body } of api.server.routes) {
    const { requestBody, responses } = paths[path][method.toLowerCase()];
    assert.equal(requestBody === undefined, body === null);
    const contents = [requestBody, ...Object.values<any>(responses)].map((one) => one?.content);
    for (const content of contents) {
      const schema = content?.["application/json"]?.schema ?? { $ref: REFERENCE + "Problem" };
      const name = String(schema.$ref);
      assert.ok(name.startsWith(REFERENCE), `${method} ${path}: ${name}`);
      assert.ok(name.slice(REFERENCE.length) in components.schemas, name);
    }
  }
});

test("every pattern is one that other languages can compile", async () => {
  await using api = await TestServer.open();
  const patterns = [...new Set(patternsIn(api.server.document))];
  assert.ok(patterns.length > 3);
  for (const pattern of patterns) {
    // Unicode properties and escapes, look-behind and named groups have another form, or none, elsewhere.
    assert.doesNotMatch(pattern, /\\[pPukcdDwWsS]|\(\?/, pattern);
    assert.doesNotThrow(() => new RegExp(pattern));
  }
});

test("names may hold every character but control characters", () => {
  for (let code = 0; code <= 0x10_ff_ff; code += code < 0x3_00 ? 1 : 0x61) {
    const text = String.fromCodePoint(code);
    assert.equal(TEXT.test(text), /^\P{Cc}$/u.test(text), `U+${code.toString(16)}`);
  }
});

const REFERENCE = "#/components/schemas/";

function patternsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === "pattern" && typeof inner === "string" ? [inner] : patternsIn(inner),
  );
}

after(assertNothingRuns);
