/** What is written down about the API is well-formed, and is all there is. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Desk } from "./client.ts";

test("the document is public, and has nothing that the recommended rules of Redocly complain about", async () => {
  await using desk = await Desk.open(undefined, { token: "0123456789abcdef0123" });
  const document = await desk.get("/api/v1/openapi.json");
  assert.equal(document.openapi, "3.1.0");
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source: JSON.stringify(document), config });
  assert.deepEqual(
    problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer]),
    [],
  );
});

test("every route is in the document, and nothing else is", async () => {
  await using desk = await Desk.open();
  const { paths } = await desk.get("/api/v1/openapi.json");
  const written = Object.entries(paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const routed = desk.server.routes.map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(written.toSorted(), routed.toSorted());
});

test("every operation says which role it takes, and has a name of its own", async () => {
  await using desk = await Desk.open();
  const names = desk.server.routes.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  const { paths } = await desk.get("/api/v1/openapi.json");
  for (const { path, method, access } of desk.server.routes) {
    const operation = paths[path][method.toLowerCase()];
    assert.equal(operation["x-role"] ?? "public", access);
    assert.equal(operation.security.length, access === "public" ? 0 : 1);
  }
});

test("a change takes an operator, and looking does not", async () => {
  await using desk = await Desk.open();
  for (const { method, access, path } of desk.server.routes) {
    if (path.startsWith("/api/v1/session")) continue; // signing in or out changes one's own session only
    assert.equal(method === "POST", access === "operator", `${method} ${path}`);
  }
});

after(assertNothingRuns);
