/** docs/guide/coming-from.md: its recipe makes one job a day. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { tempFolder } from "../support/folder.ts";

const page = readFileSync(new URL("../../docs/guide/coming-from.md", import.meta.url), "utf8");
const folder = tempFolder();

test("docs/guide/coming-from.md: of three that ask, one adds the job of the day", async () => {
  const [, script = ""] = /^```ts\n(.*?)^```/ms.exec(page) ?? [];
  const path = folder.file(".ts");
  const library = join(import.meta.dirname, "../../src/index.ts");
  writeFileSync(path, script.replace('"holdfast"', JSON.stringify(library)));
  const { askForToday, everyMinute, report } = await import(path);
  await using holdfast = await openHoldfast(`sqlite:${folder.file(".db")}`);
  const today = new Date();
  const ask = (day: Date): Promise<boolean> => askForToday(holdfast, day);
  assert.deepEqual(await Promise.all([ask(today), ask(today), ask(today)]), [true, false, false]);
  const worker = await holdfast.startWorker({ tasks: [report] });
  const [job] = await holdfast.jobs.list({ task: "report" });
  assert.match(
    String(await holdfast.jobs.result(job?.id ?? "", { timeout: "20s" })),
    /^report of /,
  );
  assert.equal(await ask(today), false, "its key is kept");
  assert.equal(await ask(new Date(today.getTime() + 86_400_000)), true);
  everyMinute(holdfast)();
  await worker.stop();
});
