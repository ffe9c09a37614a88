/** What the pages of the dashboard ask is bounded: each statement reads a key, an aggregate, or at most so many rows. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { startServer } from "../../src/app/server.ts";
import { silentLogger } from "../../src/core/log.ts";
import { defineTask } from "../../src/core/task.ts";
import { openHoldfast } from "../../src/index.ts";
import { ERROR_KIND, openShop, orders, type Shop, shopTasks } from "../dashboard/shop.ts";
import { tempFolder } from "../support/folder.ts";
import { listenToSqliteTexts } from "../support/sql-texts.ts";

const requestsOf = ({ ids, worker }: Shop): readonly string[] =>
  [
    `overview series?range=7d names limits tasks errors errors/${ERROR_KIND} counts alerts effects`,
    "jobs jobs?status=failed jobs?key=a jobs?tag=acme jobs?worker=w jobs?build=b",
    "jobs?error=x jobs?input=x jobs/count?queue=mail find?text=order audit audit/verify bulk",
    `jobs/${ids.failed}/story jobs/${ids.running}/story jobs/${ids.failed}/events`,
    `workers worker-types drift workers/${worker.id} leases?worker=${worker.id}`,
    "queues queues/mail queues/mail/explanation queues/mail/settings",
    "schedules?limit=200&runs=24 schedules/stock-sync schedules/stock-sync/runs?limit=50",
    `flows flows/${ids.flow} flows/${ids.flow}/jobs?limit=200 locks locks/heat locks/heat?range=7d`,
    `workflows workflows/order workflows/order/counts items?workflow=order items/${ids.item}`,
  ].flatMap((line) => line.split(" "));

/** By a key, or by a list of keys of our own; or a figure. */
const BOUNDED =
  /\blimit\b|= \?|in \(select value from json_each\(\?\)\)|\bcount\(\*\)|as now$|t\.n < \?/i;

/** As many rows as there are queues or live workers; of queues, those with the most jobs are counted. At most a thousand alerts are open. */
const FEW = [
  /from holdfast_counts c\s+left join holdfast_depth/,
  /^select distinct (?:l\.)?queues?\b/,
  /from holdfast_alert where status <> 'resolved'/,
];

/** More than one request looks at. */
const JOBS = 110_000;

const OLDEST = "00000000-0000-7000-8000-000000000001";

/** As many pending jobs, made of one; they are older, and the oldest is of another task. */
function multiply(file: string): void {
  const made: Readonly<Record<string, string>> = {
    id: "printf('00000000-%04x-7000-8000-%012x', n / 60000, n)",
    task: "case when n = 1 then 'rare' else task end",
  };
  const db = new DatabaseSync(file);
  for (const table of ["holdfast_job", "holdfast_ready"]) {
    const columns = db.prepare(`select name from pragma_table_info('${table}')`).all();
    const names = columns.map(({ name }) => String(name));
    db.exec(`
      with recursive n (n) as (select 1 union all select n + 1 from n where n < ${JOBS})
      insert into ${table} (${names.join(", ")})
      select ${names.map((name) => made[name] ?? name).join(", ")} from n, ${table}`);
  }
  db.close();
}

test("a list with a filter that no job matches looks at some jobs, and says where it goes on", async () => {
  using folder = tempFolder();
  const file = folder.file(".db");
  const rare = defineTask({ name: "rare", run: async () => {} });
  const common = defineTask({ name: "common", run: async () => {} });
  const open = () => openHoldfast(`sqlite:${file}`, { logger: silentLogger });
  {
    await using first = await open();
    await first.enqueue(common, null);
  }
  multiply(file);
  await using holdfast = await open();
  await using server = await startServer({ holdfast, port: 0, production: false });
  for (const filter of ["task=none", "queue=none", "task=none&status=pending", "task=rare"]) {
    let before = "";
    let requests = 0;
    const found: string[] = [];
    for (;;) {
      const page = await fetch(`${server.url}/api/v1/jobs?${filter}${before}`);
      const { jobs, next } = (await page.json()) as { jobs: { id: string }[]; next: string | null };
      found.push(...jobs.map((job) => job.id));
      requests += 1;
      if (next === null) break;
      before = `&before=${next}`;
    }
    assert.ok(requests > 1, `${filter}: one request looked at all`);
    assert.deepEqual(found, filter === "task=rare" ? [OLDEST] : [], filter);
  }
  // In the process, a list goes on by itself.
  const listed = await holdfast.jobs.list({ task: rare.name });
  assert.deepEqual(
    listed.map((job) => job.id),
    [OLDEST],
  );
  assert.deepEqual(await holdfast.jobs.list({ queue: "none" }), []);
});

test("every statement of a page's requests has a bound", async () => {
  await using holdfast = await openHoldfast("sqlite::memory:", { logger: silentLogger });
  const shop = await openShop(holdfast);
  const server = await startServer({
    holdfast,
    port: 0,
    production: false,
    tasks: shopTasks,
    workflows: [orders],
  });
  const listening = listenToSqliteTexts();
  try {
    for (const path of requestsOf(shop)) {
      const response = await fetch(`${server.url}/api/v1/${path}`);
      assert.equal(response.status, 200, `${path}: ${await response.text()}`);
    }
  } finally {
    await server.close();
    await shop.worker.stop();
  }
  const reads = listening
    .stop()
    .map((text) => text.replaceAll(/\s+/g, " ").trim())
    .filter((text) => /^(?:select|with)\b/i.test(text));
  assert.ok(reads.length > 80, `${reads.length} statements`);
  const unbounded = reads.filter(
    (text) => !BOUNDED.test(text) && !FEW.some((few) => few.test(text)),
  );
  assert.deepEqual(unbounded, []);
});
