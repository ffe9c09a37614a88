/** The guide tells of every check, in the words that the check itself has. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { checks as mysql } from "../../src/doctor/mysql.ts";
import { checks as postgres } from "../../src/doctor/postgres.ts";
import { checks as sqlite } from "../../src/doctor/sqlite.ts";
import { checkGroups } from "../../src/app/store.ts";

const guide = readFileSync(new URL("../../docs/guide/doctor.md", import.meta.url), "utf8")
  // As it is read: without what keeps a name in angle brackets from being taken for a tag.
  .replaceAll(String.raw`\<`, "<");

test("the guide quotes every check, and no other", () => {
  const own = [...sqlite, ...postgres, ...mysql];
  const shared = checkGroups.flatMap((group) => group.checks);
  const checks = new Map([...shared, ...own].map((check) => [check.name, check]));
  const rows = new Map(
    guide
      .split("\n")
      .filter((line) => line.startsWith("| `") && line.split("|").length > 6)
      .map((line) => {
        const [, name = "", ...cells] = line.split("|").map((cell) => cell.trim());
        return [name.replaceAll("`", ""), cells] as const;
      }),
  );
  assert.deepEqual([...rows.keys()].toSorted(), [...checks.keys()].toSorted());
  for (const [name, [severity, cost, mended, problem, remedy]] of rows) {
    const check = checks.get(name);
    assert.deepEqual([severity, cost], [check?.severity, check?.cost], name);
    assert.equal(mended, check?.fix === undefined ? "" : "yes", name);
    const told = [...own, ...shared].filter((each) => each.name === name);
    assert.ok(
      told.some((each) => problem?.startsWith(each.problem)),
      `${name}: ${problem}`,
    );
    assert.ok(
      told.some((each) => each.remedy === remedy),
      `${name}: ${remedy}`,
    );
  }
});
