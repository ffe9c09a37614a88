/** `holdfast status`: whether all is well, as its exit code too, and the same answer over HTTP. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { dashboardHandler } from "../../src/app/dashboard.ts";
import { openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { start } from "../support/workers.ts";
import { TestCli } from "./command.ts";

const kinds = ["sqlite", "postgres", "mysql"] as const;

for (const kind of kinds) {
  suite(`holdfast status on ${kind}`, { skip: kind === "sqlite" ? false : missing(kind) }, () => {
    test("all is well while nothing is wrong; a paused queue with a job is told with what mends it", async () => {
      using folder = tempFolder();
      await using database =
        kind === "sqlite"
          ? { url: `sqlite:${folder.file(".db")}`, [Symbol.asyncDispose]: async () => {} }
          : await scratchDatabase(kind);
      const { url } = database;
      await using cli = new TestCli();
      await using holdfast = await openHoldfast(url);
      await start(holdfast.store, { id: "mailer-1", tasks: ["mail.send"], queues: ["mail"] });
      const status = (...args: string[]) => cli.holdfast(["status", "--url", url, ...args]);
      const well = await status();
      assert.deepEqual([well.code, well.stderr], [0, ""], well.stdout);
      assert.match(well.stdout, /^All is well\.\n1 worker, /);

      await holdfast.enqueue("mail.send", null, { queue: "mail" });
      await holdfast.queues.pause("mail", { actor: "ada" });
      const paused = await status();
      assert.deepEqual([paused.code, paused.stderr], [1, ""]);
      const [title, command] = paused.stdout.split("\n");
      assert.match(title ?? "", /^Queue mail is paused: 1 job waits, the oldest for /);
      assert.equal(command, "  → holdfast queues resume mail");

      const told = JSON.parse((await status("--json")).stdout);
      const handler = dashboardHandler({
        holdfast,
        principal: () => ({ name: "ada", role: "viewer" }),
      });
      const answer: any = await (
        await handler(new Request("http://localhost/api/v1/status"))
      ).json();
      await handler.close();
      const kindsOf = ({ findings }: any): string[] => findings.map((one: any) => one.kind);
      assert.deepEqual(kindsOf(told), ["paused"]);
      assert.deepEqual(kindsOf(answer), kindsOf(told));
    });
  });
}
