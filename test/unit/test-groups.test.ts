import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite, test } from "node:test";
import { evidenceOf, readEvidence, readReport } from "../../scripts/evidence.ts";
import { failedFilesIn, failuresIn, plan } from "../../scripts/test.ts";

/** What would run in a project with these files. */
function planFor(files: readonly string[], args: readonly string[]): Record<string, number> {
  const root = mkdtempSync(join(tmpdir(), "holdfast-groups-"));
  try {
    for (const file of files) {
      mkdirSync(dirname(join(root, file)), { recursive: true });
      writeFileSync(join(root, file), "");
    }
    return Object.fromEntries(
      plan(root, args).map((planned) => [planned.group, planned.files.length]),
    );
  } finally {
    rmSync(root, { recursive: true });
  }
}

suite("test groups", () => {
  const files = [
    "test/unit/a.test.ts",
    "test/unit/deep/b.test.ts",
    "test/unit/fixture.ts",
    "test/cli/c.test.ts",
  ];

  test("without a name every group runs, and an empty one is no failure yet", () => {
    const { unit, cli, ...others } = planFor(files, []);
    assert.deepEqual({ unit, cli }, { unit: 2, cli: 1 });
    assert.ok(Object.values(others).every((count) => count === 0));
  });

  test("a named group runs alone, and one can be left out", () => {
    assert.deepEqual(planFor(files, ["cli"]), { cli: 1 });
    assert.ok(!("unit" in planFor(files, ["--without", "unit"])));
  });

  test("a named group without a file is refused", () => {
    assert.throws(() => planFor(files, ["unit", "races"]), /No test file in: races/);
  });

  test("an unknown group is refused, with the ones there are", () => {
    assert.throws(() => planFor(files, ["uint"]), /'uint'.*unit, conformance/);
    assert.throws(() => planFor(files, ["--without", "uint"]), /'uint'/);
  });

  test("a test file that no group would run is refused", () => {
    assert.throws(() => planFor([...files, "test/nowhere/d.test.ts"], ["unit"]), /d\.test\.ts/);
  });
});

test("failures are repeated, from the end of the report", () => {
  const report = "▶ a suite\n✔ one\nℹ fail 1\n\n✖ failing tests:\n\n✖ two\n  broken\n";
  assert.equal(failuresIn(report), "\n✖ failing tests:\n\n✖ two\n  broken\n");
  assert.equal(failuresIn("killed in the middle"), "killed in the middle");
});

test("the page of a long run has the totals of each group and what its tests reported", () => {
  const output =
    "  ℹ seed 7, 300 runs\n✔ a test\nℹ tests 2\nℹ pass 1\nℹ fail 1\nℹ duration_ms 12\n";
  const { totals, diagnostics } = readReport(output);
  assert.deepEqual(diagnostics, ["seed 7, 300 runs"]);
  assert.deepEqual([totals.get("pass"), totals.get("fail")], [1, 1]);
  const first = { commit: "abc1234", seed: "7", before: readEvidence("") };
  const page = evidenceOf([{ group: "model", code: 1, ms: 1_600, output }], first);
  assert.match(page, /^\| model \| 1 \| 1 \| 0 \| 2 \| abc1234 \| 7 \| \*\*failed\*\* \|$/m);
  assert.match(page, /## model\n\n```\nseed 7, 300 runs\n```/);
  const again = ["test/cli/a.test.ts"];
  const later = { commit: "def5678", seed: "8", before: readEvidence(page) };
  const both = evidenceOf([{ group: "cli", code: 0, ms: 1_600, output: "", again }], later);
  assert.match(both, /^\| model \| .* \| abc1234 \| 7 \|/m);
  assert.match(
    both,
    /^\| cli \| .* \| 8 \| passed; test\/cli\/a\.test\.ts the second time, alone \|$/m,
  );
  assert.match(both, /## model\n\n```\nseed 7, 300 runs\n```/);
});

test("the files with a failure are those that the report names at its end", () => {
  const failure = (place: string): string => `test at ${place}\n✖ it\n  broken\n\n`;
  const report = [
    "test at test/cli/other.test.ts:1:1\n✔ fine\n\n✖ failing tests:\n\n",
    failure("test/cli/top.test.ts:7:3"),
    failure("test/cli/top.test.ts:9:3"),
    failure("test/cli/shared.ts:1:1"),
  ].join("");
  const importers = (module: string): string[] =>
    module === "test/cli/shared.ts" ? ["test/cli/work.test.ts", "test/cli/top.test.ts"] : [];
  assert.deepEqual(failedFilesIn(report, importers), [
    "test/cli/top.test.ts",
    "test/cli/work.test.ts",
  ]);
});
