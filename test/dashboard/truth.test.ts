/** Every figure of the page is what the database says, with long names, with more than fits, and with all workers gone. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import type { Page } from "playwright-core";
import { startServer, type Server } from "../../src/app/server.ts";
import { sql, type Sql } from "../../src/database/sql.ts";
import { defineTask, type Holdfast, openHoldfast, type Worker } from "../../src/index.ts";
import { type Monitor, startMonitor } from "../../src/monitoring/monitor.ts";
import { tempFolder } from "../support/folder.ts";
import { everyNth, notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { closeBrowser, findingsOn, SILENT, Visitors } from "./browser.ts";

const ENGINES = ["sqlite", "postgres", "mysql"] as const;

/** Names as long as people make them: 40 letters. */
const long = (start: string): string => start.padEnd(40, "-of-the-northern-warehouse");

const QUEUE = long("shipping-labels");
const PAUSED = long("letters");
const UNSERVED = long("invoices");
const CRASHED = long("images");
const CRASHED_TASK = long("image.shrink");
const WORKER = long("shop-worker");
const VICTIM = long("image-worker");

class CarrierTimeoutOfTheNorthernWarehouse extends Error {
  override readonly name = "CarrierTimeoutOfTheNorthernWarehouse";
}

interface Order {
  readonly fails?: "disk" | "address" | "refused" | "carrier";
}

function fail(how: NonNullable<Order["fails"]>): never {
  switch (how) {
    case "disk":
      throw new Error("disk full");
    case "address":
      throw new Error("no postal address");
    case "refused":
      throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    case "carrier":
      throw new CarrierTimeoutOfTheNorthernWarehouse("no answer within 10 s");
  }
}

const ship = defineTask({
  name: long("order.ship"),
  queue: QUEUE,
  retry: { maxAttempts: 1 },
  run({ fails }: Order) {
    if (fails !== undefined) fail(fails);
    return "shipped";
  },
});

const remind = defineTask({
  name: long("cart.remind"),
  queue: QUEUE,
  retry: { maxAttempts: 3, backoff: { initial: "10m", max: "1h" } },
  run() {
    fail("carrier");
  },
});

const hold = defineTask({
  name: long("report.hold"),
  queue: QUEUE,
  run: (_: unknown, ctx) => wait(600_000, undefined, { signal: ctx.signal }),
});

/** More failed jobs than a page has rows, and fewer of each kind. */
const FAILURES = { disk: 31, address: 23, refused: 12, carrier: 6 } as const;
const DONE = 60;
const HELD = 2;

/** On a busy machine a count takes half a second, and the next one is due a minute later. */
const COUNTED_MS_MAX = 100_000;

const RETRIED = 4;

/** A database that real workers filled, one of which was killed, and its server with a monitor. */
class Town implements AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly worker: Worker;
  readonly #monitor: Monitor;
  readonly #server: Server;
  readonly visitors: Visitors;

  private constructor(holdfast: Holdfast, worker: Worker, monitor: Monitor, server: Server) {
    this.holdfast = holdfast;
    this.worker = worker;
    this.#monitor = monitor;
    this.#server = server;
    this.visitors = new Visitors(`${server.url}/`);
  }

  static async open(url: string): Promise<Town> {
    const holdfast = await openHoldfast(url, { logger: SILENT });
    await holdfast.queues.pause(PAUSED, {
      actor: long("on-call"),
      reason: long("the provider is down"),
    });
    for (let at = 0; at < 3; at += 1) await holdfast.enqueue("letter", null, { queue: PAUSED });
    for (let at = 0; at < 5; at += 1) await holdfast.enqueue("bill", null, { queue: UNSERVED });
    await kill(holdfast, url);
    const worker = await holdfast.startWorker({
      name: WORKER,
      tasks: [ship, remind, hold],
      concurrency: 8,
      version: long("build"),
      shutdown: "50ms",
      maintenanceInterval: "500ms",
    });
    await holdfast.enqueueMany(
      ship,
      Array.from({ length: DONE }, () => ({})),
    );
    for (const [fails, jobs] of Object.entries(FAILURES) as ["disk", number][]) {
      await holdfast.enqueueMany(
        ship,
        Array.from({ length: jobs }, () => ({ fails })),
      );
    }
    for (let at = 0; at < RETRIED; at += 1) {
      await holdfast.enqueue(remind, null, { key: long(`cart-${at}`), tags: [long("acme")] });
    }
    for (let at = 0; at < HELD; at += 1) await holdfast.enqueue(hold, null);
    const monitor = startMonitor(holdfast, { interval: "1s" });
    const server = await startServer({ holdfast, port: 0, logger: SILENT, monitor });
    return new Town(holdfast, worker, monitor, server);
  }

  all<Row>(query: Sql): Promise<Row[]> {
    return this.holdfast.store.db.engine.all<Row>(query);
  }

  async number(query: Sql): Promise<number> {
    const [row] = await this.all<{ n: number }>(query);
    return row?.n ?? 0;
  }

  /** Every job that can end has ended, and the killed worker was found. */
  async comeToRest(): Promise<void> {
    await until(
      "all jobs have come to rest",
      async () =>
        (await this.number(sql`select count(*) as n from holdfast.finished`)) ===
          DONE + 31 + 23 + 12 + 6 &&
        (await this.number(sql`select count(*) as n from holdfast.waiting`)) === RETRIED &&
        (await this.number(sql`select count(*) as n from holdfast.lease`)) === HELD &&
        (await this.number(sql`
          select count(*) as n from holdfast.worker where status = 'stopped' and reason = 'gone'`)) ===
          1,
    );
  }

  /** Errors are counted by kind once their minute is over: they are made older. */
  async foldErrors(): Promise<void> {
    const { store } = this.holdfast;
    const ago = 180_000;
    const now = Math.floor((await store.db.clock()) / 60_000) * 60_000;
    await store.db.engine.transaction(async (tx) => {
      await tx.run(
        store.db.engine.kind === "postgres"
          ? sql`drop trigger finished_is_written_once on holdfast.finished`
          : sql`drop trigger holdfast.finished_is_written_once`,
      );
      await tx.run(sql`update holdfast.finished set finished_at = finished_at - ${ago}`);
      await tx.run(sql`
        update holdfast.attempt set ended_at = ended_at - ${ago}, started_at = started_at - ${ago}
         where ended_at is not null`);
      await tx.run(sql`update holdfast.counts set folded_until = ${now - 2 * ago} where id = 1`);
    });
    while ((await store.stats.foldMinutes({ limit: 100 })) > 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.visitors.leave();
    await this.#server.close();
    await this.#monitor.stop();
    await this.worker.stop();
    await this.holdfast.close();
  }
}

/** A process with a worker is killed while its job runs; the job is pending again when the worker is found dead. */
async function kill(holdfast: Holdfast, url: string): Promise<void> {
  await holdfast.enqueue(CRASHED_TASK, null, { queue: CRASHED });
  const program = join(import.meta.dirname, "victim.ts");
  const child = spawn(process.execPath, [program, url, VICTIM, CRASHED, CRASHED_TASK], {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: 60_000,
    killSignal: "SIGKILL",
  });
  const ended = once(child, "close");
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await ended;
}

/** In an order that does not depend on the page's. */
function sorted<T>(rows: readonly T[]): T[] {
  return rows.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

/** "1,209" as a number. */
function numberIn(text: string): number {
  return Number(text.replaceAll(",", "").match(/\d+/)?.[0] ?? Number.NaN);
}

/** What a table shows: each row as the trimmed texts of the given columns. */
async function rowsOf(page: Page, panel: string, columns: readonly string[]): Promise<string[][]> {
  const table = page
    .locator(`section:has(h2:text-is("${panel}")) table, table[aria-label="${panel}"]`)
    .first();
  // The head of a table that is still being drawn may lack some.
  const heads = table.locator("thead th");
  for (const column of columns) await heads.filter({ hasText: column }).first().waitFor();
  const titles = (await heads.allTextContents()).map((text) => text.trim());
  const rows = await table.locator("tbody tr").all();
  return Promise.all(
    rows.map(async (row) => {
      const cells = row.locator("td");
      return Promise.all(
        columns.map(async (column) => {
          const cell = cells.nth(titles.indexOf(column));
          const name = cell.locator(".name");
          const text =
            (await name.count()) > 0 ? await name.first().textContent() : await cell.textContent();
          return text?.trim() ?? "";
        }),
      );
    }),
  );
}

for (const engine of ENGINES) {
  const skip = reasonOf(
    missing("chromium"),
    engine === "sqlite" ? false : missing(engine),
    notItsTurn(engine, ENGINES),
  );
  describe(`what the page says is what SQL says, with ${engine}`, { skip }, () => {
    const folder = tempFolder();
    let database: ScratchDatabase | null = null;
    let town: Town;
    before(async () => {
      database = engine === "sqlite" ? null : await scratchDatabase(engine);
      town = await Town.open(database?.url ?? `sqlite:${folder.file(".db")}`);
      await town.comeToRest();
      await town.foldErrors();
    });
    after(async () => {
      await town[Symbol.asyncDispose]();
      await database?.drop();
      await closeBrowser();
      folder[Symbol.dispose]();
    });

    /** The page reads again by itself: it must come to say what the database says. Jobs are counted in a hundredth of the time. */
    const agree = async (what: string, shown: () => Promise<unknown>, truth: unknown) => {
      let last: unknown;
      const isSame = async (): Promise<boolean> => {
        last = await shown();
        return JSON.stringify(last) === JSON.stringify(truth);
      };
      await until(what, isSame, COUNTED_MS_MAX).catch(() => assert.deepEqual(last, truth, what));
    };

    const figure = async (page: Page, name: string): Promise<string> =>
      (await page.locator(`.figs > div:has(dt:text-is("${name}")) dd.v`).textContent()) ?? "";

    const pendingJobs = () => town.number(sql`select count(*) as n from holdfast.ready`);
    const runningJobs = () => town.number(sql`select count(*) as n from holdfast.lease`);
    const failedJobs = () =>
      town.number(sql`select count(*) as n from holdfast.finished where status = 'failed'`);
    const live = () =>
      town.all<{ id: string; slots: number }>(sql`
        select id, concurrency as slots from holdfast.worker where status <> 'stopped'`);

    /** [queue, pending, in retry, failed in the last hour] of each queue. */
    const queues = async (): Promise<string[][]> => {
      const rows = await town.all<{ queue: string; what: string; n: number }>(sql`
        select queue, 'pending' as what, count(*) as n from holdfast.ready group by queue
         union all
        select queue, 'retry', count(*) from holdfast.waiting where status = 'retry' group by queue
         union all
        select queue, 'failed', count(*) from holdfast.finished where status = 'failed' group by queue`);
      const of = (queue: string, what: string): string =>
        String(rows.find((row) => row.queue === queue && row.what === what)?.n ?? 0);
      return sorted(
        [QUEUE, PAUSED, UNSERVED, CRASHED].map((queue) => [
          queue,
          of(queue, "pending"),
          of(queue, "retry"),
          of(queue, "failed"),
        ]),
      );
    };

    const overviewSays = async (page: Page): Promise<unknown> => ({
      pending: numberIn(await figure(page, "Pending")),
      running: await figure(page, "Running"),
      failed: numberIn(await figure(page, "Failed, last hour")),
      queues: sorted(await rowsOf(page, "Queues", ["Queue", "Pending", "Retry", "Failed"])),
      workers: numberIn((await page.getByRole("link", { name: / alive$/ }).textContent()) ?? ""),
    });

    const overviewTruth = async (): Promise<unknown> => {
      const workers = await live();
      const slots = workers.reduce((sum, one) => sum + one.slots, 0);
      return {
        pending: await pendingJobs(),
        running: `${await runningJobs()}of ${slots}`,
        failed: await failedJobs(),
        queues: await queues(),
        workers: workers.length,
      };
    };

    test("the overview: its figures, its queues, its workers, and its verdict", async () => {
      const page = await town.visitors.page("");
      await agree("the overview is true", () => overviewSays(page), await overviewTruth());
      // Of the two queues without a worker, the one with more jobs is named; the rest is told beside it.
      await page
        .getByRole("heading", { name: `No worker serves queue ${UNSERVED}: 5 jobs wait` })
        .waitFor();
      const told = (await page.locator(".verdict p").textContent()) ?? "";
      assert.match(told, /1 more queue with jobs has none/);
      assert.match(told, /1 paused queue with jobs/);
      assert.match(told, new RegExp(`${await failedJobs()} jobs failed for good in the last hour`));
      assert.doesNotMatch(await page.locator("#main").innerText(), /all is well|everything else/i);
      await town.visitors.leave();
    });

    test("failed jobs: the navigation leads to them, and all of them are retried by the number that is shown", async () => {
      const page = await town.visitors.page("");
      await page.getByRole("link", { name: "Failed jobs", exact: true }).click();
      const failed = await failedJobs();
      assert.ok(failed > 50, "more than a page has");
      await page.locator("nav.tabs a", { hasText: `Failed ${failed}` }).waitFor();
      const here = page.locator('nav.rail a[aria-current="page"]');
      assert.deepEqual(await here.allInnerTexts(), ["Failed jobs"]);
      await page.getByRole("checkbox", { name: /^Select all/ }).check();
      await page.getByRole("button", { name: "All that match" }).click();
      await page.getByRole("button", { name: "Retry all…" }).click();
      await page.getByRole("button", { name: `Retry ${failed} jobs` }).waitFor();
      assert.deepEqual(await findingsOn(page), []);
      await town.visitors.leave();
    });

    test("errors: what ever failed and was retried, by kind, and no button that takes other kinds", async () => {
      const page = await town.visitors.page("errors");
      await agree(
        "errors are true",
        async () =>
          sorted(
            await rowsOf(page, "Kinds of errors", ["Error", "Task", "Failed ever", "Retried"]),
          ),
        sorted([
          ["WorkerGone", CRASHED_TASK, "0", "1"],
          ["CarrierTimeoutOfTheNorthernWarehouse", remind.name, "0", "4"],
          ["CarrierTimeoutOfTheNorthernWarehouse", ship.name, "6", "0"],
          ["Error", ship.name, "12", "0"],
          ["Error", ship.name, "23", "0"],
          ["Error", ship.name, "31", "0"],
        ]),
      );
      assert.equal(await page.getByRole("button", { name: /^Retry/ }).count(), 0);
      const kinds = await town.number(
        sql`select count(*) as n from holdfast.error_kind where state = 'open'`,
      );
      await page
        .getByRole("link", { name: `Errors ${kinds}` })
        .first()
        .waitFor();
      await town.visitors.leave();
    });

    test("queues and jobs: every count by queue and by state, and no reason that is not true", async () => {
      const page = await town.visitors.page("queues");
      await agree(
        "queues are true",
        async () =>
          sorted(await rowsOf(page, "Queues", ["Queue", "Pending", "Retry", "Failed, 1 h"])),
        await queues(),
      );
      await page.getByText(`4 queues, ${await pendingJobs()} jobs pending.`).waitFor();

      await page.goto(`${town.visitors.url}jobs?status=pending`);
      const finished = await town.all<{ status: string; n: number }>(sql`
        select status, count(*) as n from holdfast.finished group by status`);
      const done = finished.find(({ status }) => status === "done")?.n ?? 0;
      await agree(
        "the tabs are true",
        async () =>
          (await page.locator("nav.tabs a").allTextContents())
            .map((text) => text.trim().replaceAll(/\s+/g, " "))
            .filter((text) => /Pending|Running|Retry|Failed|Done/.test(text)),
        [
          `Pending ${await pendingJobs()}`,
          `Running ${await runningJobs()}`,
          `Retry ${RETRIED}`,
          `Failed ${await failedJobs()}`,
          `Done ${done}`,
        ],
      );
      const why = await rowsOf(page, "Jobs", ["Queue", "What it does, or why it does not"]);
      assert.deepEqual(
        sorted([...new Set(why.map(([queue]) => queue))]),
        sorted([UNSERVED, CRASHED, PAUSED]),
      );
      for (const [queue, reason = ""] of why) {
        if (queue === PAUSED) assert.match(reason, /is paused by/);
        else assert.equal(reason, `No worker serves queue ${queue}`);
      }
      assert.equal(
        await page.locator("[aria-sort]").count(),
        0,
        "the list is not sorted by a column",
      );

      // A bulk action compares errors in another way than the list.
      await page.goto(`${town.visitors.url}jobs?status=failed&error=disk`);
      await page.getByText("31 found.").waitFor();
      await page.getByRole("checkbox", { name: /^Select all/ }).check();
      await page.getByRole("button", { name: "Retry 31" }).waitFor();
      assert.equal(await page.getByRole("button", { name: "All that match" }).count(), 0);
      await town.visitors.leave();
    });

    test("workers: those that are alive with what they run, and those that were lost", async () => {
      const page = await town.visitors.page("workers");
      const [own] = await live();
      const lost = await town.all<{ id: string }>(sql`
        select id from holdfast.worker where status = 'stopped' and reason in ('gone', 'stale', 'hung')`);
      await page
        .getByText(`1 alive on 1 host, ${await runningJobs()} of ${own?.slots} slots in use.`)
        .waitFor();
      await page.getByText("1 worker lost in the last hour:").waitFor();
      for (const { id } of lost)
        await page.locator(`a[href*="${encodeURIComponent(id)}"]`).waitFor();
      await page.getByText(`${await runningJobs()} of ${own?.slots}`, { exact: true }).waitFor();
      await town.visitors.leave();
    });

    test("axe-core finds nothing on any page and dialog, with names of 40 letters", async () => {
      const [job] = await town.holdfast.jobs.list({ status: "failed", limit: 1 });
      const paths = [
        "",
        "jobs",
        `jobs/${job?.id}`,
        "errors",
        "jobs?status=failed",
        "queues",
        `queues/${QUEUE}`,
      ];
      const more = [
        "workers",
        `workers/${town.worker.id}`,
        "alerts",
        "audit",
        "jobs/0",
        "no/such/page",
      ];
      for (const path of everyNth(3, [...paths, ...more], "long names")) {
        const page = await town.visitors.page(path, { bypassCSP: true });
        await page.locator(".bones").waitFor({ state: "detached" });
        assert.deepEqual(await findingsOn(page), [], path);
        await town.visitors.leave();
      }
      const dialogs = [
        ["queues", /^Pause…/],
        ["workers", /^Stop…/],
        ["errors", /^Mute…/],
        [`jobs/${job?.id}`, /^Delete…/],
      ] as const;
      for (const [path, name] of everyNth(2, dialogs, "long dialogs")) {
        const page = await town.visitors.page(path, { bypassCSP: true });
        await page.getByRole("button", { name }).first().click();
        await page.getByRole("dialog").waitFor();
        assert.deepEqual(await findingsOn(page), [], `${path}, ${name.source}`);
        await town.visitors.leave();
      }
      town.visitors.complaints.length = 0; // what does not exist is 404, which the browser logs
    });

    test("with all workers gone, the page says so everywhere, and its figures stay true", async () => {
      await town.worker.stop();
      const page = await town.visitors.page("");
      const truth = await overviewTruth();
      await agree("the overview is true", () => overviewSays(page), truth);
      await page
        .getByRole("heading", { name: `No worker runs: ${await pendingJobs()} jobs wait.` })
        .waitFor();
      assert.doesNotMatch(await page.locator("#main").innerText(), /all is well|everything else/i);
      await page.goto(`${town.visitors.url}workers`);
      await page.getByText("None is alive.").waitFor();
      await page.getByText("1 worker lost in the last hour:").waitFor();
      await page.goto(`${town.visitors.url}jobs?status=pending&queue=${QUEUE}`);
      await page
        .locator("td.fill", { hasText: `No worker serves queue ${QUEUE}` })
        .first()
        .waitFor();
      await town.visitors.leave();
      town.visitors.assertNoComplaints();
    });
  });
}
