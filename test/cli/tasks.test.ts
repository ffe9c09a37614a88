/** What is said about a tasks module that Node cannot load as it stands, though TypeScript accepts it. */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { after, suite, test } from "node:test";
import { loadTasks } from "../../src/cli/tasks.ts";
import { tempFolder } from "../support/folder.ts";
import { withCode } from "../worker/observe.ts";

const folder = tempFolder();
const path = dirname(folder.file(""));
after(() => folder[Symbol.dispose]());

async function said(lines: string): Promise<string> {
  const file = folder.file(".ts");
  writeFileSync(file, `${lines}\nexport const tasks = [];\n`);
  return loadTasks(file).then(
    () => assert.fail("it was loaded"),
    (error: unknown) => {
      withCode("TASKS_NOT_LOADED")(error);
      return (error as Error).message;
    },
  );
}

const WAYS = /name the compiled file, or set NODE_OPTIONS="--import tsx"/;

suite("a tasks module that imports as TypeScript projects do", () => {
  test("is refused with the file name that Node needs", async () => {
    writeFileSync(`${path}/util.ts`, "export const one = 1;");
    mkdirSync(`${path}/parts`);
    writeFileSync(`${path}/parts/index.ts`, "export const one = 1;");
    const cases = {
      "./util": /write "\.\/util\.ts"/,
      "./util.js": /write "\.\/util\.ts"/,
      "./parts": /write "\.\/parts\/index\.ts"/,
    };
    for (const [specifier, wanted] of Object.entries(cases)) {
      const message = await said(`import { one } from "${specifier}"; void one;`);
      assert.match(message, wanted);
      assert.match(message, WAYS);
    }
  });

  test("gets no such hint if the file does not exist", async () => {
    assert.doesNotMatch(await said('import "./nowhere.js";'), WAYS);
    assert.doesNotMatch(await said('import "no-such-package";'), WAYS);
  });
});

suite("a tasks module that imports a package that is not installed", () => {
  test("is refused with the command that installs it", async () => {
    const cases = {
      'import "no-such-package";': "npm install no-such-package",
      'import "@no-such/package/part.js";': "npm install @no-such/package",
      'import { createRequire } from "node:module"; createRequire(import.meta.url)("no-such/x");':
        "npm install no-such",
    };
    for (const [lines, command] of Object.entries(cases)) {
      assert.ok((await said(lines)).endsWith(`Install the package: ${command}`), lines);
    }
    for (const lines of ['import "./nowhere.js";', 'import "/nowhere/at-all.js";']) {
      assert.doesNotMatch(await said(lines), /npm install/);
    }
  });
});

suite("a tasks module with TypeScript syntax that Node does not support", () => {
  test("gets a hint about the syntax", async () => {
    for (const lines of [
      "export enum Colour { Red }",
      "class A { constructor(readonly a: number) {} }\nvoid A;",
      "const mark = (c: unknown) => c;\n@mark class B {}\nvoid B;",
    ]) {
      const message = await said(lines);
      assert.match(message, /Node only strips types/);
      assert.match(message, WAYS);
    }
  });
});
