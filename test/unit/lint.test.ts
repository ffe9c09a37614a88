import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, suite, test } from "node:test";

const project = join(import.meta.dirname, "../..");

/** Each file holds one violation; the rule that must see it stands beside it. */
const planted: Record<string, readonly [rule: string, source: string]> = {
  "src/core/date-now.ts": ["no-restricted-properties", "export const a = Date.now();"],
  "src/core/destructured.ts": ["no-restricted-properties", "export const { now } = Date;"],
  "src/core/random.ts": ["no-restricted-properties", "export const a = Math.random();"],
  "src/core/performance.ts": ["no-restricted-properties", "export const a = performance.now();"],
  "src/core/hrtime.ts": ["no-restricted-properties", "export const a = process.hrtime.bigint();"],
  "src/core/abort.ts": ["no-restricted-properties", "export const a = AbortSignal.timeout(5);"],
  "src/core/uuid.ts": ["no-restricted-properties", "export const a = crypto.randomUUID();"],
  "src/core/global-uuid.ts": [
    "no-restricted-properties",
    "export const a = globalThis.crypto.randomUUID();",
  ],
  "src/core/bytes.ts": [
    "no-restricted-properties",
    `import * as c from "node:crypto";\nexport const a = c.randomBytes(8);`,
  ],
  "src/core/values.ts": [
    "no-restricted-properties",
    "export const a = crypto.getRandomValues(new Uint8Array(8));",
  ],
  "src/core/named-uuid.ts": [
    "no-restricted-imports",
    `import { randomUUID } from "node:crypto";\nexport const a = randomUUID();`,
  ],
  "src/core/timers.ts": [
    "no-restricted-imports",
    `import { setTimeout as wait } from "node:timers/promises";\nexport const a = wait;`,
  ],
  "src/core/timeout.ts": ["no-restricted-globals", "setTimeout(() => {}, 5);"],
  "src/core/global-timeout.ts": ["no-restricted-globals", "globalThis.setTimeout(() => {}, 5);"],
  "src/core/interval.ts": ["no-restricted-globals", "setInterval(() => {}, 5);"],
  "src/core/immediate.ts": ["no-restricted-globals", "setImmediate(() => {});"],
  "src/core/default.ts": ["no-default-export", "export default 5;"],
  "src/core/any.ts": ["no-explicit-any", "export const a = (b: any): string => String(b);"],
  "src/core/console.ts": ["no-console", `console.log("hello");`],
  "src/core/floating.ts": [
    "no-floating-promises",
    "async function a(): Promise<void> {}\nexport function b(): void {\n  a();\n}",
  ],
  "src/core/circle-a.ts": [
    "no-cycle",
    `import { b } from "./circle-b.ts";\nexport const a = (): number => b();`,
  ],
  "src/core/circle-b.ts": [
    "no-cycle",
    `import { a } from "./circle-a.ts";\nexport const b = (): number => a();`,
  ],
  "src/core/type-circle-a.ts": [
    "no-cycle",
    `import type { B } from "./type-circle-b.ts";\nexport interface A {\n  b: B;\n}`,
  ],
  "src/core/type-circle-b.ts": [
    "no-cycle",
    `import type { A } from "./type-circle-a.ts";\nexport interface B {\n  a: A;\n}`,
  ],
  "src/core/long-file.ts": ["max-lines", "export {};\n".repeat(501)],
  "src/core/long-function.ts": [
    "max-lines-per-function",
    `export function a(): void {${"\n  // line".repeat(70)}\n}`,
  ],
};

/** What must pass: the runtime's own file, the code around src/, tests as node:test wants them. */
const allowed: Record<string, string> = {
  "src/core/runtime.ts": "export const a = [Date.now(), Math.random(), setTimeout];",
  "test/unit/a.test.ts": `import { suite, test } from "node:test";\nsuite("a", () => {\n  test("b", async () => {});\n});`,
  "bench/drain.ts": "console.log(performance.now(), Date.now(), Math.random());",
};

interface Report {
  diagnostics: { filename: string; code: string }[];
}

suite("lint", () => {
  let found = new Map<string, string[]>();
  let root = "";

  before(() => {
    root = mkdtempSync(join(tmpdir(), "holdfast-lint-"));
    for (const name of [".oxlintrc.json", "tsconfig.json", "package.json"]) {
      cpSync(join(project, name), join(root, name));
    }
    symlinkSync(join(project, "node_modules"), join(root, "node_modules"));
    const sources = Object.entries(planted).map(([file, [, source]]) => [file, source] as const);
    for (const [file, source] of [...sources, ...Object.entries(allowed)]) {
      mkdirSync(dirname(join(root, file)), { recursive: true });
      writeFileSync(join(root, file), `${source}\n`);
    }
    found = lint(root);
  });

  after(() => rmSync(root, { recursive: true }));

  for (const [file, [rule]] of Object.entries(planted)) {
    test(`${rule} sees ${file}`, () => {
      const codes = found.get(file) ?? [];
      assert.ok(
        codes.some((code) => code.includes(`(${rule})`)),
        `found only: ${codes.join(", ")}`,
      );
    });
  }

  for (const file of Object.keys(allowed)) {
    test(`there are no warnings about ${file}`, () => assert.deepEqual(found.get(file) ?? [], []));
  }
});

function lint(root: string): Map<string, string[]> {
  const oxlint = join(project, "node_modules/oxlint/bin/oxlint");
  // Folders by name: the linked node_modules is not for the linter to walk through.
  const args = [oxlint, "--format=json", "src", "test", "bench"];
  const { stdout } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: "utf8",
  });
  const report = JSON.parse(stdout) as Report;
  const found = new Map<string, string[]>();
  for (const { filename, code } of report.diagnostics) {
    found.set(filename, [...(found.get(filename) ?? []), code]);
  }
  return found;
}
