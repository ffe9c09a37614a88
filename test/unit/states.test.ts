import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { finalStatuses, home, mayMove, moves, statuses, type Move } from "../../src/core/job.ts";

const names = Object.keys(moves) as Move[];

suite("the states of a job", () => {
  test("are documented as they are: every move, with where it leads", () => {
    const page = readFileSync(new URL("../../docs/design/states.md", import.meta.url), "utf8");
    for (const name of names) {
      const { from, to } = moves[name];
      const row = `| ${name} | ${from.join(", ")} | ${to} |`;
      assert.ok(page.includes(row), `docs/design/states.md lacks: ${row}`);
    }
  });

  test("can all be reached, and all can be left", () => {
    const begun = ["scheduled", "pending"];
    const reached = new Set([...begun, ...names.map((name) => moves[name].to)]);
    assert.deepEqual([...reached].toSorted(), [...statuses].toSorted());
    const left = new Set(names.flatMap((name): readonly string[] => moves[name].from));
    assert.deepEqual(
      statuses.filter((status) => !left.has(status)),
      [],
    );
  });

  test("end in one table: what is finished can only be retried or run again", () => {
    for (const status of finalStatuses) {
      assert.equal(home[status], "finished");
      const allowed = names.filter((name) => mayMove(name, status));
      assert.deepEqual(allowed, status === "done" ? ["rerun"] : ["reopen", "rerun"]);
    }
  });
});
