/** The database of the pictures: what one page says of its jobs is what the other pages and SQL say. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../src/database/sql.ts";
import { missing } from "../support/servers.ts";
import { TestServer } from "./browser.ts";
import { writeHistory } from "./history.ts";

const MINUTE_MS = 60_000;

interface Told {
  readonly figures: { readonly failedHour: number; readonly errorKinds: number };
  readonly failed: readonly object[];
}

test("a written day agrees with itself", { skip: missing("chromium") }, async () => {
  await using dashboard = await TestServer.open();
  const { store } = dashboard.holdfast;
  await writeHistory(dashboard.holdfast, dashboard.shop.worker, { minutes: 90, perMinute: 20 });
  const ask = async <T>(path: string): Promise<T> =>
    (await (await fetch(`${dashboard.url}api/v1/${path}`)).json()) as T;
  // The minute that is not over, and the 59 before it.
  const from = Math.floor((await store.db.clock()) / MINUTE_MS) * MINUTE_MS - 59 * MINUTE_MS;
  const ended = await store.db.engine.all<{ status: string; n: number; lately: number }>(sql`
    select status, count(*) as n,
           sum(case when finished_at >= ${from} then 1 else 0 end) as lately
      from holdfast.finished group by status`);
  const of = (status: string) => ended.find((row) => row.status === status) ?? { n: 0, lately: 0 };
  assert.ok(of("done").n > 1_500 && of("failed").lately > 10);

  const { figures } = await ask<Told>("overview");
  assert.equal(figures.failedHour, of("failed").lately);
  const { counts } = await ask<{ counts: Record<string, number> }>("counts");
  assert.deepEqual([counts["done"], counts["failed"]], [of("done").n, of("failed").n]);
  const { points } = await ask<{ points: { done: number; failed: number }[] }>("series?range=4h");
  const sum = (what: "done" | "failed") => points.reduce((all, point) => all + point[what], 0);
  assert.deepEqual([sum("done"), sum("failed")], [of("done").n, of("failed").n]);

  // Errors of the minute that is not over are counted when it is.
  const { groups } = await ask<{ groups: { failed: number }[] }>("errors");
  assert.equal(groups.length, figures.errorKinds);
  const [open] = await store.db.engine.all<{ n: number }>(sql`
    select count(*) as n from holdfast.finished f, holdfast.counts c
     where f.status = 'failed' and f.finished_at >= c.folded_until`);
  const counted = groups.reduce((all, { failed }) => all + failed, 0);
  assert.equal(counted + (open?.n ?? 0), of("failed").n);
});
