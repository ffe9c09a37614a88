/** Operations load fast, and the checks of their results notice what a shape does not name. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { test } from "node:test";
import { operationsOf } from "../../src/operations/operation.ts";
import * as s from "../../src/operations/shape.ts";
import { allOperations, checkResults } from "../golden/shapes.ts";

const SRC = join(import.meta.dirname, "../../src");

/** What these files load, in a process of their own. */
function packagesOf(files: readonly string[]): string[] {
  const urls = files.map((file) => pathToFileURL(join(SRC, file)).href);
  const program = `
    import { registerHooks } from "node:module";
    const loaded = new Set();
    registerHooks({ resolve(name, context, next) {
      if (!name.startsWith(".") && !name.startsWith("node:") && !name.startsWith("file:")) loaded.add(name);
      return next(name, context);
    } });
    for (const url of ${JSON.stringify(urls)}) await import(url);
    console.log(JSON.stringify([...loaded]));`;
  const args = ["--input-type=module", "--eval", program];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" })) as string[];
}

test("no operation loads a validator or the parser of commands", () => {
  const files = globSync("*/*operations.ts", { cwd: SRC });
  assert.ok(files.length > 1, files.join(" "));
  const slow = ["zod", "commander"];
  assert.deepEqual(
    packagesOf(files).filter((name) => slow.includes(name)),
    [],
  );
  // The hook sees what the adapters load.
  const adapters = packagesOf(["operations/route.ts", "operations/command.ts"]);
  for (const name of slow) assert.ok(adapters.includes(name), name);
});

test("operations have different names, and a verb that changes something is an operator's", async () => {
  const operations = await allOperations();
  const names = operations.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  for (const { name, access, isAudited } of operations) {
    if (isAudited === true) assert.equal(access, "operator", name);
  }
});

test("a result with a field that its shape does not name is a misfit", async () => {
  const count = operationsOf<{ readonly extra: object }>("test")({
    name: "count",
    summary: "Count",
    access: "viewer",
    returns: "A count.",
    result: s.object({ list: s.list(s.object({ n: s.count }).named("N", "A number.")) }),
    run: async ({ extra }) => ({ list: [{ n: 1, ...extra }] }),
  });
  const checked = checkResults([count]);
  await count.run({ extra: {} }, {}, { by: { actor: "ada" }, ids: [] });
  assert.deepEqual([[...checked.ran], checked.misfits], [["count"], []]);
  await count.run({ extra: { m: 2 } }, {}, { by: { actor: "ada" }, ids: [] });
  assert.equal(checked.misfits.length, 1);
  assert.match(checked.misfits[0] ?? "", /^count: .*"m"/s);
});
