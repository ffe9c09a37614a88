/** The examples in comments compile: editors show them, and people copy them. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";

const ROOT = join(import.meta.dirname, "../..");
const SOURCES = join(ROOT, "src");
const EXAMPLES_MIN = 20;

/** What the examples refer to. */
const PRELUDE = `
import assert from "node:assert/strict";
import { Client } from "pg";
import * as z from "zod";
import { defineEvent, defineTask, openHoldfast, type Context, type Holdfast, type Job } from "../../src/index.ts";
import { defineSchedule } from "../../src/schedules/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
declare const holdfast: Holdfast;
declare const ctx: Context;
declare const job: Job<string>;
declare const client: Client;
declare const bank: {
  charge(order: string, cents: number, key: string): Promise<string>;
  find(key: string): Promise<string | null>;
};
declare const invoices: { create(order: string): Promise<{ id: number }> };
const ping = defineTask({ name: "ping", run: () => 1 });
const charge = defineTask({
  name: "charge",
  run: async (order: { order: string; cents: number }) => order.order,
});
const paid = defineEvent<{ cents: number }>({ name: "paid" });
`;

function examples(): { readonly file: string; readonly code: string }[] {
  return globSync("**/*.ts", { cwd: SOURCES }).flatMap((file) => {
    const text = readFileSync(join(SOURCES, file), "utf8");
    const found = text.matchAll(/@example\n\s*\* ```ts\n(?<code>(?:\s*\*.*\n)+?)\s*\* ```/g);
    return [...found].map(({ groups }) => {
      return { file, code: `${groups?.["code"]}`.replaceAll(/^\s*\* ?/gm, "") };
    });
  });
}

suite("the examples in comments", () => {
  test("compile", () => {
    const all = examples();
    assert.ok(all.length >= EXAMPLES_MIN, `${all.length} examples`);
    const folder = mkdtempSync(join(ROOT, "node_modules/.examples-"));
    try {
      const functions = all.map(({ file, code }, index) => {
        return `// ${file}\nexport async function example${index}() {\n${code}}\n`;
      });
      writeFileSync(join(folder, "examples.ts"), PRELUDE + functions.join(""));
      const config = { extends: "../../tsconfig.json", include: ["examples.ts"] };
      const compilerOptions = { noUnusedLocals: false, paths: {} };
      const path = join(folder, "tsconfig.json");
      writeFileSync(path, JSON.stringify({ ...config, compilerOptions }));
      const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
      const { stdout, status } = spawnSync(process.execPath, [tsc, "--project", path], {
        encoding: "utf8",
      });
      assert.equal(status, 0, stdout);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
