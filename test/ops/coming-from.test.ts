/** docs/guide/coming-from.md: its recipe makes one job a day. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { AnyTask } from "../../src/index.ts";
import type { Schedule } from "../../src/schedules/index.ts";
import { openTestHoldfast } from "../../src/testing/index.ts";
import { tempFolder } from "../support/folder.ts";

const page = readFileSync(new URL("../../docs/guide/coming-from.md", import.meta.url), "utf8");
const folder = tempFolder();

test("docs/guide/coming-from.md: one job a day", async () => {
  const [, script = ""] = /^```ts\n(.*?)^```/ms.exec(page) ?? [];
  const path = folder.file(".ts");
  const source = (file: string): string =>
    JSON.stringify(join(import.meta.dirname, "../../src", file));
  writeFileSync(
    path,
    script
      .replace('"holdfast"', () => source("index.ts"))
      .replace('"holdfast/schedules"', () => source("schedules/index.ts")),
  );
  const { daily, report } = (await import(path)) as { daily: Schedule; report: AnyTask };
  await using kit = await openTestHoldfast({ start: Date.parse("2027-03-26T12:00:00Z") });
  const { holdfast, clock } = kit;
  const worker = await holdfast.startWorker({ tasks: [report], schedules: [daily] });
  await Promise.all([worker.stop(), clock.advance("1m")]);
  for (let day = 0; day < 3; day += 1) {
    await clock.advance("1d");
    assert.equal((await kit.drain([report])).totals.done, 1);
  }
  const runs = await holdfast.schedules.runs("daily-report");
  const ticks = runs.map(({ tick }) => new Date(tick).toISOString().slice(5, 16)).toReversed();
  // On the 28th the clock is set forward.
  assert.deepEqual(ticks, ["03-27T05:00", "03-28T04:00", "03-29T04:00"]);
});
