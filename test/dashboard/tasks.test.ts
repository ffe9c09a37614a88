/**
 * What an operator comes for, each in at most three clicks from the overview, each answer held against SQL.
 *
 * A click is a press of the mouse; to type, to paste and to press Enter are none.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { clockOf } from "../../page/format.ts";
import { kindOf } from "../../src/core/error-kind.ts";
import { sql, type Sql } from "../../src/database/sql.ts";
import { missing } from "../support/servers.ts";
import { newWorker, silence } from "../support/workers.ts";
import { until } from "../worker/observe.ts";
import { closeBrowser, TestServer } from "./browser.ts";
import { writeHistory } from "./history.ts";
import { rowsOf, sorted } from "./reading.ts";

const CLICKS_MAX = 3;
const HOUR_MS = 3_600_000;

/** A person with a mouse. */
class Hand {
  readonly page: Page;
  clicks = 0;

  constructor(page: Page) {
    this.page = page;
  }

  async click(what: Locator): Promise<void> {
    this.clicks += 1;
    assert.ok(this.clicks <= CLICKS_MAX, `more than ${CLICKS_MAX} clicks`);
    await what.click();
  }

  button(name: string | RegExp): Promise<void> {
    return this.click(this.page.getByRole("button", { name, exact: true }));
  }

  link(name: string | RegExp): Promise<void> {
    return this.click(this.page.getByRole("link", { name, exact: true }).first());
  }

  /** Pastes into the box on top, and presses Enter. */
  async open(text: string, heading: string): Promise<void> {
    const box = this.page.getByPlaceholder("Search, or paste");
    await box.fill(text);
    await box.press("Enter");
    await this.page.getByRole("heading", { level: 1, name: heading, exact: true }).waitFor();
  }
}

describe("what an operator comes for", { skip: missing("chromium") }, () => {
  let desk: TestServer;
  before(async () => void (desk = await TestServer.open()));
  after(async () => {
    desk.assertNoComplaints();
    await desk[Symbol.asyncDispose]();
    await closeBrowser();
  });

  async function rows<Found>(query: Sql): Promise<Found[]> {
    return desk.holdfast.store.db.engine.all<Found>(query);
  }

  async function ids(query: Sql): Promise<string[]> {
    return (await rows<{ id: string }>(query)).map(({ id }) => id);
  }

  /** The jobs that a list shows, from the top. */
  async function listed(page: Page): Promise<string[]> {
    const links = await page.locator("tbody tr a.name").all();
    const hrefs = await Promise.all(links.map((link) => link.getAttribute("href")));
    return hrefs.map((href) => href?.split("/").at(-1) ?? "");
  }

  /** Jobs that failed, each so long ago, all with this error. They were enqueued in this order. */
  async function fail(agos: readonly number[], message: string): Promise<string[]> {
    const { holdfast } = desk;
    const task = "parcel.weigh";
    const error = { name: "ScaleError", message };
    const kind = kindOf(task, error).id;
    const made: string[] = [];
    for (const ago of agos) {
      const { id } = await holdfast.enqueue(task, {}, { queue: "scales" });
      const [lease] = await holdfast.leases.acquire({ worker: "py-1", queues: ["scales"] });
      const fence = { id, worker: "py-1", epoch: lease?.epoch ?? 0 };
      const outcome = { kind: "failed", error: JSON.stringify(error) } as const;
      await holdfast.store.jobs.settle([{ ...fence, outcome }]);
      await holdfast.store.db.engine.transaction(async (tx) => {
        const [row] = await tx.take({ table: "finished", where: sql`id = ${id}` });
        await tx.insert("finished", [{ ...row, finished_at: Date.now() - ago }]);
      });
      made.push(id);
    }
    const { engine } = holdfast.store.db;
    const [known] = await rows<{ id: string }>(
      sql`select id from holdfast.error_kind where id = ${kind}`,
    );
    if (known !== undefined) return made;
    await engine.transaction(async (tx) => {
      const job = made[0] ?? "";
      const first = { first_sample: message, first_job: job };
      const facts = { id: kind, task, name: error.name, message, sample: message, sample_job: job };
      const seen = {
        state: "open",
        first_at: Date.now() - HOUR_MS,
        last_at: Date.now() - (agos[0] ?? 0),
        builds: "[]",
      };
      const counts = { failed: agos.length, retried: 0 };
      await tx.insert("error_kind", [{ ...facts, ...first, ...seen, ...counts }]);
    });
    return made;
  }

  /** The sentence on top of the page of a job, once it is this one. */
  async function said(page: Page, sentence: RegExp): Promise<Locator> {
    const line = page.locator(".explain").filter({ hasText: sentence });
    await line.waitFor();
    return line;
  }

  test("why is this job not running? Its queue is paused, or no worker serves it", async () => {
    const { pending } = desk.shop.ids;
    const hand = new Hand(await desk.page());
    await hand.open(pending, "mail.send");
    const [queue] = await rows<{ name: string; by: string; why: string }>(sql`
      select q.name, q.paused_by as "by", q.pause_reason as why
        from holdfast.ready r
        join holdfast.queue q on q.name = r.queue
       where r.id = ${pending}`);
    const { name = "", by = "", why = "" } = queue ?? {};
    const sentence = new RegExp(
      `^Its queue ${name} is paused: ${by} paused it .* ago, “${why}”\\.$`,
    );
    const line = await said(hand.page, sentence);
    assert.match(
      (await line.getByRole("link", { name }).getAttribute("href")) ?? "",
      /\/queues\/mail$/,
    );
    // The button that mends it asks first.
    await hand.button("Resume mail…");
    await hand.button("Leave it");

    const { id } = await desk.holdfast.enqueue("mail.send", {}, { queue: "nobody-serves-it" });
    await hand.open(id, "mail.send");
    const workers = await rows<{ queues: string }>(sql`select queues from holdfast.worker`);
    assert.ok(workers.every(({ queues }) => !queues.includes("nobody-serves-it")));
    await said(
      hand.page,
      /^No live worker serves its queue nobody-serves-it; the workers that know mail.send serve billing, /,
    );
    await desk.holdfast.jobs.cancel(id);
    await desk.closePages();
  });

  test("pause a queue, then run one of its jobs", async () => {
    const hand = new Hand(await desk.page());
    await hand.open("billing", "billing");
    await hand.button("Pause… p");
    await hand.button("Pause billing");
    await hand.page.getByRole("button", { name: "Resume… p" }).waitFor();
    const calls = [
      { id: "1", cents: 1 },
      { id: "2", cents: 2 },
    ];
    const [first, second] = await Promise.all(
      calls.map((input) => desk.holdfast.enqueue("invoice.charge", input, { queue: "billing" })),
    );
    await hand.open(second?.id ?? "", "invoice.charge");
    await said(hand.page, /^Its queue billing is paused:/);
    await hand.button(/^Run now/);
    await said(hand.page, /^It was done /);
    const found = await rows<{ id: string; status: string; pausedAt: number | null }>(sql`
      select s.id, s.status, q.paused_at as "pausedAt"
        from holdfast.job_state s
        join holdfast.queue q on q.name = s.queue
       where s.queue = 'billing'
         and s.id in (${first?.id ?? ""}, ${second?.id ?? ""})`);
    assert.deepEqual(
      new Map(found.map(({ id, status }) => [id, status])),
      new Map([
        [first?.id, "pending"],
        [second?.id, "done"],
      ]),
    );
    assert.ok(found.every(({ pausedAt }) => pausedAt !== null));
    await desk.holdfast.queues.resume("billing");
    await desk.closePages();
  });

  test("who cancelled this job, and why?", async () => {
    const { scheduled } = desk.shop.ids;
    await desk.holdfast.jobs.cancel(scheduled, { actor: "grace", reason: "ordered twice" });
    const hand = new Hand(await desk.page());
    await hand.open(scheduled, "mail.send");
    const [line] = await rows<{ actor: string; reason: string }>(sql`
      select actor, reason from holdfast.audit
       where subject = ${`job ${scheduled}`} and action = 'job.cancel'`);
    await said(hand.page, new RegExp(`^${line?.actor} cancelled it .* ago: “${line?.reason}”\\.$`));
    assert.deepEqual(line, { actor: "grace", reason: "ordered twice" });
    await desk.closePages();
  });

  test("enqueue a job for a test, like the last one", async () => {
    const hand = new Hand(await desk.page());
    await hand.link("Jobs");
    await hand.link("Enqueue…");
    await hand.page.getByLabel("Task").fill("order.ship");
    await hand.click(hand.page.getByRole("button", { name: "Use" }).first());
    await hand.page.getByLabel("Tags").fill("test");
    await hand.page.getByLabel("Key").fill("for-a-test");
    await hand.page.getByLabel("Key").press("Enter");
    await hand.page.waitForURL(/\/jobs\/[0-9a-f-]{36}/);
    const [made, last] = await rows<{ id: string; payload: string; key: string | null }>(sql`
      select id, payload, job_key as "key" from holdfast.job
       where task = 'order.ship' order by id desc limit 2`);
    assert.equal(made?.key, "for-a-test");
    assert.deepEqual(JSON.parse(made.payload), JSON.parse(last?.payload ?? ""));
    assert.equal(new URL(hand.page.url()).pathname, `/jobs/${made.id}`);
    const tags = await rows(sql`select tag from holdfast.job_tag where job_id = ${made.id}`);
    assert.deepEqual(tags, [{ tag: "test" }]);
    await until(
      "it is done",
      async () => (await desk.holdfast.jobs.get(made.id))?.status === "done",
    );
    await desk.closePages();
  });

  test("what failed in the last hour, the last on top?", async () => {
    // The one that was enqueued first failed last, and one failed before this hour.
    const made = await fail([1, 2 * HOUR_MS, 60_000], "no scale");
    const hand = new Hand(await desk.page());
    await hand.link("Failed jobs");
    await hand.button("Time…");
    await hand.button("Last 1 h");
    await hand.page.getByText("ended since", { exact: true }).waitFor();
    await hand.page.getByText(/^\d+ found\.$/).waitFor();
    const wanted = await ids(sql`
      select id
        from holdfast.finished
       where status = 'failed'
         and finished_at >= ${Date.now() - HOUR_MS}
       order by finished_at desc, id desc`);
    const shown = await listed(hand.page);
    assert.deepEqual(shown, wanted);
    assert.ok(!shown.includes(made[1] ?? ""));
    assert.ok(shown.indexOf(made[0] ?? "") < shown.indexOf(made[2] ?? ""));
    assert.equal(await hand.page.locator("th[aria-sort=descending]").innerText(), "Ended");
    await desk.closePages();
  });

  test("retry everything that failed with this error after 14:00", async () => {
    const [, late = "", old = ""] = [
      await fail([HOUR_MS], "another error"),
      ...(await fail([60_000, 30 * 60_000], "no scale")),
    ];
    const since = Date.now() - 10 * 60_000;
    const wanted = await ids(sql`
      select id
        from holdfast.finished
       where error_kind = ${kindOf("parcel.weigh", { name: "ScaleError", message: "no scale" }).id}
         and finished_at >= ${Math.floor(since / 1_000) * 1_000}`);
    assert.ok(wanted.includes(late) && !wanted.includes(old));
    const hand = new Hand(await desk.page());
    await hand.link(/^Errors/);
    await hand.page.getByRole("heading", { name: "ScaleError" }).waitFor();
    await hand.page.locator(".body").getByText("no scale").waitFor();
    await hand.button(/^Retry \d+…$/);
    await hand.page.getByLabel("Ended at or after").fill(clockOf(since));
    await hand.button(`Retry ${wanted.length} jobs`);
    await hand.page.getByText(`${wanted.length} changed`).waitFor();
    const retried = await ids(sql`
      select id from holdfast.ready where queue = 'scales' order by id`);
    assert.deepEqual(retried, wanted.toSorted());
    await desk.closePages();
  });

  test("find the job of order 48211, by its key, the beginning of it, or the number alone", async () => {
    const wanted = await ids(sql`select id from holdfast.job where job_key = 'order-48211'`);
    const hand = new Hand(await desk.page());
    const box = hand.page.getByPlaceholder("Search, or paste");
    await box.fill("order-482");
    await hand.click(hand.page.getByRole("option", { name: /^order-48211 · order\.ship/ }));
    await hand.page.getByText("1 found.").waitFor();
    assert.deepEqual(await listed(hand.page), wanted);

    await box.fill("order-482");
    await hand.click(hand.page.getByRole("option", { name: /^Jobs whose key begins with/ }));
    await hand.page.getByText("key prefix", { exact: true }).waitFor();
    await hand.page.getByText(/^\d+ found\.$/).waitFor();
    const begun = await ids(sql`
      select id from holdfast.job where job_key like 'order-482%' order by id desc`);
    assert.deepEqual(await listed(hand.page), begun);

    await box.fill("48211");
    await hand.page.getByRole("option", { name: /^Jobs whose input has/ }).waitFor();
    await box.press("Enter");
    await hand.page.getByText("input has", { exact: true }).waitFor();
    await hand.page.getByText("1 found.").waitFor();
    assert.deepEqual(await listed(hand.page), wanted);
    await desk.closePages();
  });

  test("which customer eats the queue? Its lane is paused", async () => {
    for (const [lane, jobs] of [
      ["acme", 9],
      ["beta", 2],
    ] as const) {
      for (let at = 0; at < jobs; at += 1) {
        await desk.holdfast.enqueue("mail.send", {}, { queue: "mail", lane });
      }
    }
    const hand = new Hand(await desk.page());
    await hand.open("mail", "mail");
    const truth = await rows<{ lane: string; jobs: number }>(sql`
      select lane, count(*) as jobs from holdfast.ready where queue = 'mail'
       group by lane order by count(*) desc`);
    assert.deepEqual(
      sorted(await rowsOf(hand.page, "Lanes", ["Lane", "Pending", "Running"])),
      sorted(truth.map(({ lane, jobs }) => [lane || "no lane", String(jobs), "0"])),
    );
    const [{ lane, jobs } = { lane: "", jobs: 0 }] = truth;
    const all = truth.reduce((sum, one) => sum + one.jobs, 0);
    await hand.page.getByText(`${lane} has ${jobs} of ${all} pending jobs`).waitFor();
    const row = hand.page.getByRole("row", { name: /^acme/ });
    await hand.click(row.getByRole("button", { name: "Pause…" }));
    await hand.page.getByLabel("Why").fill("too many mails");
    await hand.button("Pause acme");
    await row.getByText("paused", { exact: true }).waitFor();
    assert.deepEqual(
      await rows(sql`
        select name, pause_reason as reason from holdfast.queue_rule
         where queue = 'mail' and paused_at is not null`),
      [{ name: "acme", reason: "too many mails" }],
    );
    await desk.holdfast.queues.resume("mail", { lane: "acme" });
    await desk.closePages();
  });

  test("which worker is sick, and is one missing?", async () => {
    const { store } = desk.holdfast;
    const [gone, blocked] = [newWorker({ type: "ghost" }), newWorker({ type: "images" })];
    for (const worker of [gone, blocked]) await store.workers.register(worker);
    await store.workers.closeDead({ ...silence, gone: [gone.id] });
    await store.workers.move(blocked.id, { state: "running", reason: null });
    await store.workers.noteBlocked(blocked.id, { ms: 4_200, stack: "at crunch (tasks.ts:12:3)" });
    const hand = new Hand(await desk.page());
    await hand.click(hand.page.getByRole("link", { name: / alive$/ }));
    const lost = await rows<{ id: string }>(sql`
      select id from holdfast.worker where status = 'stopped' and reason in ('gone', 'stale', 'hung')`);
    assert.deepEqual(lost, [{ id: gone.id }]);
    const note = hand.page.locator(".note").filter({ hasText: "1 worker lost in the last hour" });
    await note.getByText("process gone").waitFor();
    await note.locator(`a[title="${gone.id}"]`).waitFor();
    const [sick] = await rows<{ id: string; stack: string }>(sql`
      select id, blocked_stack as stack from holdfast.worker where blocked_ms > 0`);
    const card = hand.page.locator("article.card", { hasText: "A task blocks its event loop" });
    await hand.click(card.locator(`a[title="${sick?.id}"]`));
    await hand.page
      .getByText(sick?.stack ?? "")
      .first()
      .waitFor();
    await store.workers.move(blocked.id, { state: "stopped", reason: "end of the test" });
    await desk.closePages();
  });

  test("which lock is contended, who holds it and who waits?", async () => {
    const { locks } = desk.holdfast;
    const held = await locks.acquire("stock:7", { trace: "stock sync", ttl: "5m" });
    await assert.rejects(locks.acquire("stock:7", { wait: 20 }));
    const stop = new AbortController();
    const waits = Array.from({ length: 2 }, () =>
      locks.acquire("stock:7", { wait: "1m", signal: stop.signal }).catch(() => {}),
    );
    const hand = new Hand(await desk.page());
    await hand.click(hand.page.locator("nav.rail").getByRole("link", { name: /^Locks/ }));
    const say = "stock:7 is contended: 2 requests wait, 1 gave up in the last hour";
    await hand.page.getByText(say).waitFor();
    const [truth] = await rows<{ name: string; owner: string; waiting: number; timeouts: number }>(
      sql`select l.name, l.owner, w.waiting, w.timeouts
            from holdfast.lock l join holdfast.lock_wait w on w.name = l.name where w.waiting > 0`,
    );
    const columns = ["Key", "Held by", "Timed out, 1 h"];
    const [worst] = await rowsOf(hand.page, "Contended", columns);
    assert.deepEqual(worst, [truth?.name, `${truth?.owner}stock sync`, String(truth?.timeouts)]);
    const row = hand.page.getByRole("row", { name: /^stock:7/ }).first();
    assert.match(await row.innerText(), new RegExp(`${truth?.waiting} since \\d+ s`));
    stop.abort();
    await Promise.all(waits);
    await held.release();
    await desk.closePages();
  });

  test("change when a schedule runs, and see what that means before", async () => {
    const { schedules } = desk.holdfast;
    const given = {
      name: "stock-check",
      task: "report.merge",
      offset: "10s",
      every: "1m",
    } as const;
    await schedules.create({ ...given, missed: { all: 20 }, input: { month: "2026-12" } });
    const hand = new Hand(await desk.page());
    await hand.link("Schedules");
    await hand.link("stock-check");
    await hand.button("Change…");
    const every = hand.page.getByLabel("or every");
    assert.equal(await every.inputValue(), "1 min");
    await hand.page.getByLabel("Cron").fill("30 2 * * *");
    await hand.page.getByLabel("Time zone").fill("Europe/Berlin");
    await hand.page.getByText("At 02:30 every day (Europe/Berlin)").waitFor();
    await hand.page.getByText(/the clock goes (forward|back) from/).waitFor();
    assert.equal(await hand.page.getByRole("list", { name: "Next runs" }).locator("li").count(), 5);
    await hand.page.getByLabel("Cron").fill("");
    await hand.page.getByLabel("Time zone").fill("");
    await every.fill("1 h 30 min");
    await hand.page.getByText("Every 1 hour and 30 minutes", { exact: true }).waitFor();
    await every.press("Enter");
    await hand.page.getByText("stock-check is changed.").waitFor();
    // What the form cannot draw, and what was not touched, is as it was.
    assert.deepEqual(
      await rows(sql`
        select cron, every_ms as "everyMs", missed, missed_limit as "missedLimit", overlap, payload
          from holdfast.schedule where name = 'stock-check'`),
      [
        {
          cron: null,
          everyMs: 5_400_000,
          missed: "all",
          missedLimit: 20,
          overlap: "allow",
          payload: '{"month":"2026-12"}',
        },
      ],
    );
    await desk.closePages();
  });
});

describe("what an operator comes for after a deployment", { skip: missing("chromium") }, () => {
  const MINUTE_MS = 60_000;
  let desk: TestServer;
  before(async () => {
    desk = await TestServer.open();
    await writeHistory(desk.holdfast, desk.shop.worker, { minutes: 180, perMinute: 30 });
  });
  after(async () => {
    desk.assertNoComplaints();
    await desk[Symbol.asyncDispose]();
    await closeBrowser();
  });

  function rows<Found>(query: Sql): Promise<Found[]> {
    return desk.holdfast.store.db.engine.all<Found>(query);
  }

  /** The page and the database come to say the same: both go on. */
  async function agree(
    shown: () => Promise<unknown>,
    truth: () => Promise<unknown>,
  ): Promise<void> {
    let [said, is]: unknown[] = [];
    await until("the page says what SQL says", async () => {
      [said, is] = [await shown(), await truth()];
      return JSON.stringify(said) === JSON.stringify(is);
    }).catch(() => assert.deepEqual(said, is));
  }

  interface Ended {
    readonly build: string;
    readonly bad: number | string;
    readonly n: number | string;
  }

  /** Attempts of a task that ended in minutes that are counted, by build: [attempts, failed, retried or crashed]. */
  async function attempts(task: string, build: string): Promise<{ all: number; bad: number }> {
    const found = await rows<Ended>(sql`
      select w.version as build, f.status <> 'done' as bad, count(*) as n
        from holdfast.finished f
        join holdfast.worker w on w.id = f.worker
        join holdfast.counts c on f.finished_at < c.folded_until
       where f.task = ${task} and f.status in ('done', 'failed')
       group by w.version, f.status <> 'done'
       union all
      select w.version, 1, count(*)
        from holdfast.attempt a
        join holdfast.job j on j.id = a.job_id
        join holdfast.worker w on w.id = a.worker
        join holdfast.counts c on a.ended_at < c.folded_until
       where j.task = ${task} and a.outcome in ('retry', 'crashed')
       group by w.version`);
    const of = found.filter((one) => one.build === build);
    const sum = (some: readonly Ended[]) => some.reduce((all, { n }) => all + Number(n), 0);
    return { all: sum(of), bad: sum(of.filter(({ bad }) => Number(bad) === 1)) };
  }

  test("what did the deploy change?", async () => {
    const hand = new Hand(await desk.page());
    await hand.link(/^\d+ builds?$/);
    await hand.link("9c41d07");
    const row = hand.page.locator("tr", { hasText: "order.ship" }).first();
    const share = ({ all, bad }: { all: number; bad: number }): string => {
      const percent = (bad / all) * 100;
      return `${percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
    };
    await agree(
      async () => {
        await row.waitFor();
        const [name, is, all] = await row.locator("td").allInnerTexts();
        return [name?.split("\n")[1], is, all];
      },
      async () => {
        const [now, was] = [
          await attempts("order.ship", "9c41d07"),
          await attempts("order.ship", "7be02c1"),
        ];
        const ratio = now.bad / now.all / (was.bad / was.all);
        const shares = `(${share(now)} of attempts, ${share(was)} before)`;
        const text = `Fails ${Number(ratio.toFixed(1))} times as often ${shares} since build 9c41d07.`;
        return [text, "worse", String(now.all)];
      },
    );
    await hand.link("order.ship");
    await hand.page.getByRole("heading", { level: 1, name: "order.ship" }).waitFor();
    await hand.page.getByText(/^Fails .* times as often/).waitFor();
    await desk.closePages();
  });

  test("what failed in the last hour, and is it one bug?", async () => {
    const hand = new Hand(await desk.page());
    await hand.click(
      hand.page.locator(".figs > div", { hasText: "Failed, last hour" }).locator("a"),
    );
    await hand.page.locator("table tbody tr").first().waitFor();
    await agree(
      async () => {
        const say = await hand.page.locator(".say").innerText();
        const [failed, , kinds] = say.match(/\d+/g) ?? [];
        const first = hand.page.locator("tbody tr").first();
        const [name] = await first
          .locator("td")
          .first()
          .innerText()
          .then((text) => text.split("\n"));
        return [failed, kinds, name?.replace(/\s*new$/, "")];
      },
      async () => {
        const since = Math.floor((Date.now() - HOUR_MS) / MINUTE_MS) * MINUTE_MS;
        const found = await rows<{ kind: string; error: string; failed: string }>(sql`
          select kind, max(error) as error, sum(failed) as failed, count(*) as n
            from (select f.error_kind as kind, f.error, 1 as failed
                    from holdfast.finished f
                    join holdfast.counts c on f.finished_at < c.folded_until
                   where f.status = 'failed' and f.finished_at >= ${since}
                   union all
                  select a.error_kind, a.error, 0
                    from holdfast.attempt a
                    join holdfast.counts c on a.ended_at < c.folded_until
                   where a.outcome in ('retry', 'crashed') and a.ended_at >= ${since}) both
           group by kind
           order by count(*) desc`);
        const failed = found.reduce((all, one) => all + Number(one.failed), 0);
        const { name } = JSON.parse(found[0]?.error ?? "{}") as { name: string };
        return [String(failed), String(found.length), name];
      },
    );
    await desk.closePages();
  });

  test("a click on a bar opens the jobs of that time", async () => {
    const page = await desk.page("tasks/order.ship");
    const chart = page.getByRole("img", { name: /^Attempts by outcome/ });
    await chart.waitFor();
    const box = (await chart.boundingBox())!;
    // The last bar is that of the hour that is not over; the one before has ended.
    await page.mouse.click(box.x + 36 + ((box.width - 36) * 22.4) / 24, box.y + box.height / 2);
    await page.waitForURL(/\/jobs\?task=order\.ship&endedSince=/);
    const query = new URL(page.url()).searchParams;
    const [since, end] = ["endedSince", "endedUntil"].map((name) =>
      Date.parse(query.get(name) ?? ""),
    );
    assert.equal((end ?? 0) - (since ?? 0), HOUR_MS);
    assert.equal((since ?? 1) % HOUR_MS, 0);
    await page.getByText(/found/).first().waitFor();
    await desk.closePages();
  });
});
