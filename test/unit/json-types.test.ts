/** What the compiler says about an input or a result that JSON would change: the path to it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";

const ROOT = join(import.meta.dirname, "../..");
const OPTIONS =
  "--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --target es2024 --types node --allowImportingTsExtensions";

const FLAWS: Readonly<Record<string, string>> = {
  "run: async () => ({ at: new Date() })": "result.at is a Date.",
  "run: () => [{ rows: [{ at: new Date() as Date | null }] }]": "result[].rows[].at is a Date.",
  "run: (input: { from?: Date }) => input.from?.getTime()": "input.from is a Date.",
  "run: (input: bigint) => Number(input)": "input is a bigint.",
  "run: () => ({ totals: new Map([[1, 2]]) })": "result.totals is a Map.",
  "run: () => ({ seen: new Set([1]) })": "result.seen is a Set.",
  "run: () => ({ next: () => 1 })": "result.next is a function.",
  "run: () => ({ mark: Symbol() })": "result.mark is a symbol.",
  "run: () => Buffer.from('a')": "result is no plain object.",
  "run: () => ({ deep: node })": "result.deep.at is a Date.",
  "input: schema, run: () => 1": "input.when is a Date.",
};

function messages(): string[] {
  const folder = mkdtempSync(join(ROOT, "node_modules/.types-"));
  try {
    const file = join(folder, "flaws.ts");
    const definitions = Object.keys(FLAWS).map((text) => `defineTask({ name: "t", ${text} });`);
    const lines = [
      `import { defineTask } from "${join(ROOT, "src/core/task.ts")}";`,
      `import type { StandardSchemaV1 } from "@standard-schema/spec";`,
      "interface Node { at: Date; children: Node[]; parent?: Node | null }",
      "declare const node: Node; declare const schema: StandardSchemaV1<{ when: Date }, string>;",
      ...definitions,
    ];
    writeFileSync(file, lines.join("\n"));
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [tsc, ...OPTIONS.split(" "), file], {
      encoding: "utf8",
      timeout: 120_000,
    });
    return stdout.split(/^(?=\S.*: error TS)/m).filter((text) => text.includes("error TS"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

suite("the compiler", () => {
  test("names the path of each value that JSON would change, and nothing else", () => {
    const told = messages();
    const expected = Object.entries(FLAWS);
    assert.equal(told.length, expected.length, told.join("\n"));
    for (const [index, [definition, text]] of expected.entries()) {
      assert.ok(told[index]?.includes(`NotJson<"${text}"`), `${definition}\n${told[index]}`);
    }
  });
});
