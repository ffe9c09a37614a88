/** `holdfast copy` as a user has it: a real process, killed in the middle, and run again. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { copyRow } from "../../src/copy/store.ts";
import { openEngine } from "../../src/database/open.ts";
import { assertRefused, TestCli } from "../cli/command.ts";
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
      await using cli = new TestCli();
      await using target = await scratchDatabase("mysql");
      await fill(cli.url);
      {
        await using holdfast = await openHoldfast(cli.url);
        await holdfast.enqueueMany(
          plain,
          Array.from({ length: JOBS }, (_, n) => n),
        );
      }
      const first = cli.start(["copy", cli.url, target.url]);
      await pagesArrive(target.url, 3);
      first.child.kill("SIGKILL");
      assert.equal((await first.ended).signal, "SIGKILL");
      assertRefused(
        await cli.holdfast(["jobs", "--url", target.url]),
        3,
        /copy of sqlite:.* is incomplete/,
      );
      const second = await cli.json(["copy", cli.url, target.url, "--reason", "a bigger house"]);
      assert.equal(second.run, "resumed");
      assert.ok(second.rows > 2 * JOBS);
      assert.deepEqual(
        withoutTheCopy(await contentOf(target.url)),
        withoutTheCopy(await contentOf(cli.url)),
      );
      const { lines } = await cli.json(["audit", "--url", target.url]);
      const { action, subject, actor, reason } = lines.at(-1);
      assert.deepEqual([action, subject, reason], ["database.copy", "database", "a bigger house"]);
      assert.match(actor, /^cli /);
    },
  );

  test("reports what it did, and why it refuses", async () => {
    await using cli = new TestCli();
    {
      await using holdfast = await openHoldfast(cli.url);
      await holdfast.enqueue(plain, 1);
    }
    const target = `sqlite:${cli.path("other.db")}`;
    const said = await cli.holdfast(["copy", cli.url, target]);
    assert.deepEqual([said.code, said.stderr], [0, ""]);
    assert.match(
      said.stdout,
      /^Copied sqlite:.*holdfast\.db to sqlite:.*other\.db: \d+ rows in \d+ tables\./,
    );
    assert.match(said.stdout, /\n {2}job: 1\n/);
    assert.match(said.stdout, /Verified: every table is identical in both databases\.\n$/);
    const again = await cli.holdfast(["copy", cli.url, target]);
    assert.equal(again.code, 0);
    assert.match(again.stdout, /Nothing to do: .* is already a complete copy of /);
    const third = `sqlite:${cli.path("third.db")}`;
    await (await openHoldfast(third)).close();
    assertRefused(await cli.holdfast(["copy", cli.url]), 2, /to-url/);
    assertRefused(
      await cli.holdfast(["copy", `sqlite:${cli.path("none.db")}`, third]),
      3,
      /none\.db/,
    );
    assertRefused(await cli.holdfast(["copy", third, cli.url]), 5, /is not empty/);
  });
});
