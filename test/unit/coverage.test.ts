import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { Coverage, type Figures } from "../../scripts/coverage.ts";

const SIZE = `interface Sized { readonly size: number }

export function word({ size }: Sized): string {
  if (size > 1) {
    return "big";
  }
  return "small";
}
`;

/** What is counted in a project with this source when processes run these programs. */
function counted(programs: readonly string[], { text = SIZE } = {}): Map<string, Figures> {
  const root = mkdtempSync(join(tmpdir(), "holdfast-counted-"));
  try {
    mkdirSync(join(root, "src/core"), { recursive: true });
    writeFileSync(join(root, "src/core/size.ts"), SIZE);
    writeFileSync(join(root, "src/core/unused.ts"), "export const one = 1;\n");
    const coverage = new Coverage(root);
    writeFileSync(join(root, "src/core/size.ts"), text);
    for (const program of programs) {
      writeFileSync(
        join(root, "program.ts"),
        `import { word } from "./src/core/size.ts"; ${program}`,
      );
      execFileSync(process.execPath, [join(root, "program.ts")], { env: coverage.env });
    }
    return new Map(coverage.end().map((figures) => [figures.file, figures]));
  } finally {
    rmSync(root, { recursive: true });
  }
}

suite("coverage", () => {
  test("counts the lines and branches that a process ran, and files that none loaded", () => {
    const figures = counted(["word({ size: 1 });"]);
    const size = { lines: 4, linesRun: 3, branches: 2, branchesRun: 1 };
    assert.deepEqual(figures.get("src/core/size.ts"), { file: "src/core/size.ts", ...size });
    const unused = { lines: 1, linesRun: 0, branches: 0, branchesRun: 0 };
    assert.deepEqual(figures.get("src/core/unused.ts"), { file: "src/core/unused.ts", ...unused });
  });

  test("adds up what several processes ran", () => {
    const figures = counted(["word({ size: 1 });", "word({ size: 2 });"]).get("src/core/size.ts");
    assert.equal(figures?.linesRun, 4);
    assert.equal(figures?.branchesRun, figures?.branches);
  });

  test("leaves out a process that ran another text", () => {
    const figures = counted(["word({ size: 1 });"], { text: SIZE.replace("> 1", "> 100") });
    assert.equal(figures.get("src/core/size.ts")?.linesRun, 0);
  });
});
