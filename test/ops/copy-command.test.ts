/** `holdfast copy` as a user has it: a real process, killed in the middle, and run again. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { copyRow } from "../../src/copy/store.ts";
import { openEngine } from "../../src/database/open.ts";
import { assertRefused, Desk } from "../cli/command.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { contentOf, fill, plain, withoutTheCopy } from "./moved-database.ts";

after(assertNothingRuns);

const JOBS = 3_000;

/** Until the target has so many pages. */
async function pagesArrive(url: string, pages: number): Promise<void> {
  const engine = await openEngine(url);
  try {
    await until("some pages are there", async () => {
      return (await engine.hasTable("copy")) && ((await copyRow(engine))?.batches ?? 0) >= pages;
    });
  } finally {
    await engine.close();
  }
}

suite("holdfast copy", () => {
  test(
    "killed in the middle, continues when it is run again",
    { skip: missing("mysql"), timeout: 120_000 },
    async () => {
      await using desk = new Desk();
      await using target = await scratchDatabase("mysql");
      await fill(desk.url);
      {
        await using holdfast = await openHoldfast(desk.url);
        await holdfast.enqueueMany(
          plain,
          Array.from({ length: JOBS }, (_, n) => n),
        );
      }
      const first = desk.start(["copy", desk.url, target.url]);
      await pagesArrive(target.url, 3);
      first.child.kill("SIGKILL");
      assert.equal((await first.ended).signal, "SIGKILL");
      assertRefused(
        await desk.holdfast(["jobs", "--url", target.url]),
        3,
        /copy of sqlite:.* is incomplete/,
      );
      const second = await desk.json(["copy", desk.url, target.url, "--reason", "a bigger house"]);
      assert.equal(second.run, "resumed");
      assert.ok(second.rows > 2 * JOBS);
      assert.deepEqual(
        withoutTheCopy(await contentOf(target.url)),
        withoutTheCopy(await contentOf(desk.url)),
      );
      const { lines } = await desk.json(["audit", "--url", target.url]);
      const { action, subject, actor, reason } = lines.at(-1);
      assert.deepEqual([action, subject, reason], ["database.copy", "database", "a bigger house"]);
      assert.match(actor, /^cli /);
    },
  );

  test("reports what it did, and why it refuses", async () => {
    await using desk = new Desk();
    {
      await using holdfast = await openHoldfast(desk.url);
      await holdfast.enqueue(plain, 1);
    }
    const target = `sqlite:${desk.path("other.db")}`;
    const said = await desk.holdfast(["copy", desk.url, target]);
    assert.deepEqual([said.code, said.stderr], [0, ""]);
    assert.match(
      said.stdout,
      /^Copied sqlite:.*holdfast\.db to sqlite:.*other\.db: \d+ rows in \d+ tables\./,
    );
    assert.match(said.stdout, /\n {2}job: 1\n/);
    assert.match(said.stdout, /Verified: every table is identical in both databases\.\n$/);
    const again = await desk.holdfast(["copy", desk.url, target]);
    assert.equal(again.code, 0);
    assert.match(again.stdout, /Nothing to do: .* is already a complete copy of /);
    const third = `sqlite:${desk.path("third.db")}`;
    await (await openHoldfast(third)).close();
    assertRefused(await desk.holdfast(["copy", desk.url]), 2, /to-url/);
    assertRefused(
      await desk.holdfast(["copy", `sqlite:${desk.path("none.db")}`, third]),
      3,
      /none\.db/,
    );
    assertRefused(await desk.holdfast(["copy", third, desk.url]), 5, /is not empty/);
  });
});
