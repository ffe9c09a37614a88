/** Every figure of the page is what the database says, with long names, with more than fits, and with all workers gone. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { decodeError } from "../../src/core/error-record.ts";
import { sql } from "../../src/database/sql.ts";
import { tempFolder } from "../support/folder.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { closeBrowser, findingsOn } from "./browser.ts";
import { numberIn, rowsOf, sorted, textsOf } from "./reading.ts";
import { CRASHED, FULL, LANE, LANED, PAUSED, QUEUE, Town, UNSERVED } from "./town.ts";

const ENGINES = ["sqlite", "postgres", "mysql"] as const;

/** On a busy machine a count takes half a second, and the next one is due a minute later. */
const COUNTED_MS_MAX = 100_000;

/** What the list of jobs says of a pending job, by its queue. */
const HELD: ReadonlyMap<string, RegExp> = new Map([
  [PAUSED, /^Queue .* is paused by on-call/],
  [UNSERVED, new RegExp(`^No worker serves queue ${UNSERVED}$`)],
  [CRASHED, new RegExp(`^No worker serves queue ${CRASHED}$`)],
  [
    LANED,
    new RegExp(`^Its lane “${LANE}” in the queue .* runs at most 1 job at once, and 1 runs: `),
  ],
  [FULL, /^Worker video-worker-.* runs 1 job, as many as it may$/],
]);

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
    const agree = async (
      what: string,
      shown: () => Promise<unknown>,
      truth: () => Promise<unknown>,
    ) => {
      let [last, actual]: unknown[] = [];
      const isSame = async (): Promise<boolean> => {
        [last, actual] = [await shown(), await truth()];
        return JSON.stringify(last) === JSON.stringify(actual);
      };
      await until(what, isSame, COUNTED_MS_MAX).catch((error: unknown) => {
        assert.deepEqual(last, actual, what);
        throw error;
      });
    };

    const figure = async (page: Page, name: string): Promise<string> =>
      (await page.locator(`.figs > div:has(dt:text-is("${name}")) dd.v`).textContent()) ?? "";

    const pendingJobs = () => town.number(sql`select count(*) as n from holdfast.ready`);
    const runningJobs = () => town.number(sql`select count(*) as n from holdfast.lease`);
    const failedJobs = () =>
      town.number(sql`select count(*) as n from holdfast.finished where status = 'failed'`);
    const retriedJobs = () =>
      town.number(sql`select count(*) as n from holdfast.waiting where status = 'retry'`);
    const live = () =>
      town.all<{ id: string; slots: number; running: number }>(sql`
        select w.id, w.concurrency as slots,
               (select count(*) from holdfast.lease l where l.locked_by = w.id) as running
          from holdfast.worker w where w.status <> 'stopped'`);

    const lostAreListed = async (page: Page): Promise<void> => {
      const lost = await town.all<{ id: string }>(sql`
        select id from holdfast.worker where status = 'stopped' and reason in ('gone', 'stale', 'hung')`);
      const workers = lost.length === 1 ? "worker" : "workers";
      await page.getByText(`${lost.length} ${workers} lost in the last hour:`).waitFor();
      for (const { id } of lost)
        await page.locator(`a[href*="${encodeURIComponent(id)}"]`).waitFor();
    };

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
      const named = await town.all<{ queue: string }>(sql`
        select queue from holdfast.ready union select queue from holdfast.waiting
         union select queue from holdfast.lease union select queue from holdfast.finished
         union select name as queue from holdfast.queue`);
      return sorted(
        named.map(({ queue }) => [
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
      await agree("the overview is true", () => overviewSays(page), overviewTruth);
      // Of the two queues without a worker, the one with more jobs is named; the rest is told beside it.
      await page
        .getByRole("heading", { name: `No worker serves queue ${UNSERVED}: 5 jobs wait` })
        .waitFor();
      const told = (await page.locator(".verdict p").textContent()) ?? "";
      assert.match(told, /1 more queue with jobs has none/);
      const also = (await page.getByRole("list", { name: "Also" }).textContent()) ?? "";
      assert.match(also, /1 paused queue with jobs/);
      assert.match(also, new RegExp(`${await failedJobs()} jobs failed`));
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

    /** [name, task, failed, retried] of each kind: of a kind, the messages of the town are the same but for values. */
    const errorKinds = async (): Promise<string[][]> => {
      const rows = await town.all<{ task: string; what: "failed" | "retried"; error: string }>(sql`
        select task, 'failed' as what, error from holdfast.finished where status = 'failed'
         union all
        select j.task, 'retried', a.error
          from holdfast.attempt a join holdfast.job j on j.id = a.job_id
         where a.outcome in ('retry', 'crashed')`);
      const errors = rows.map((row) => ({ ...row, ...decodeError(row.error) }));
      const kinds = Map.groupBy(errors, ({ task, name, message }) =>
        JSON.stringify([task, name, message.replaceAll(/[\w-]*\d[\w-]*/g, "…")]),
      );
      return sorted(
        [...kinds.values()].map((same) => {
          const count = (of: string) => String(same.filter(({ what }) => what === of).length);
          const [{ name, code } = { name: "", code: undefined }] = same;
          const title = code === undefined || code === name ? name : `${name} (${code})`;
          return [title, count("failed"), count("failed"), count("retried")];
        }),
      );
    };

    const openKinds = () =>
      town.number(sql`select count(*) as n from holdfast.error_kind where state = 'open'`);

    test("errors: what ever failed and was retried, by kind, and its failed jobs are retried by the number that is shown", async () => {
      const page = await town.visitors.page("errors");
      const columns = ["Error", "Failed now", "Ever", "Retried"];
      let kinds: string[][] = [];
      await agree(
        "errors are true",
        async () => sorted(await rowsOf(page, "Kinds of errors", columns)),
        async () => (kinds = await errorKinds()), // a job may be retried meanwhile
      );
      assert.equal(kinds.length, await openKinds());
      await page.getByText(`${kinds.length} open kinds; ${kinds.length} are new`).waitFor();
      for (const [name = "", , failed, retried] of kinds) {
        const number = (n = "") => ({
          has: page.locator("td.num", { hasText: new RegExp(`^${n}$`) }),
        });
        await page
          .locator("tbody tr")
          .filter(number(failed))
          .filter(number(retried))
          .getByRole("link", { name, exact: true })
          .first()
          .click();
        const jobs = `${failed} ${failed === "1" ? "job" : "jobs"} failed`;
        await page
          .getByText(`${jobs}, ${retried} ${retried === "1" ? "attempt" : "attempts"} retried`)
          .waitFor();
        const retry = page.getByRole("button", { name: /^Retry/ });
        const label = failed === "0" ? [] : [`Retry ${failed}…`];
        await agree(
          "the button is true",
          () => retry.allInnerTexts(),
          async () => label,
        );
      }
      const [muted] = await town.all<{ id: string }>(sql`select id from holdfast.error_kind`);
      await town.holdfast.errors.mute(muted?.id ?? "", { actor: "ada" });
      for (const [state, n] of [
        ["Open", kinds.length - 1],
        ["Resolved", 0],
        ["Muted", 1],
      ] as const) {
        await page.getByRole("link", { name: `${state} ${n}`, exact: true }).waitFor();
      }
      await page
        .locator("nav.rail")
        .getByRole("link", { name: `Errors ${await openKinds()}` })
        .waitFor();
      await page.goto(town.visitors.url);
      await page.getByText(`${await openKinds()} kinds, ${await openKinds()} new`).waitFor();
      await town.visitors.leave();
    });

    test("alerts: those that are raised, those that may be soon, and those that were", async () => {
      const of = (...states: readonly string[]) =>
        town.all<{ rule: string; subject: string }>(sql`
          select rule, subject from holdfast.alert
           where ${town.holdfast.store.db.engine.among(sql`status`, states)}`);
      const raised = () => of("raised");
      await until("alerts are raised", async () => (await raised()).length > 2, COUNTED_MS_MAX);
      const page = await town.visitors.page("alerts");
      const listed = async (title: string): Promise<string[][]> => {
        const lines = `section:has(h2:text-is("${title}")) li > .grow >`;
        const subjects = await textsOf(page, `${lines} strong + *`);
        const rules = await textsOf(page, `${lines} strong`);
        return sorted(rules.map((rule, at) => [rule, subjects[at] ?? ""]));
      };
      const rows = (alerts: readonly { rule: string; subject: string }[]) =>
        sorted(alerts.map(({ rule, subject }) => [rule, subject]));
      await agree(
        "alerts are true",
        async () => ({
          rows: await listed("Open"),
          soon: await listed("Not raised yet").catch(() => []),
          said: (await page.locator(".say").textContent())?.split(".")[0],
          counted: await page.locator("nav.rail .count.bad").textContent(),
        }),
        async () => {
          const { length } = await raised();
          return {
            rows: rows(await raised()),
            soon: rows(await of("pending")),
            said: `${length} alerts are open`,
            counted: String(length),
          };
        },
      );
      await page.getByRole("link", { name: "All", exact: true }).click();
      await agree(
        "all are listed",
        () => listed("Newest first"),
        async () => rows(await of("raised", "resolved", "pending")),
      );
      await page.goto(town.visitors.url);
      await agree(
        "the overview counts them",
        () => textsOf(page, 'section:has(h2:text-is("Alerts")) > header'),
        async () => [`Alerts${(await raised()).length} openAll`],
      );
      await town.visitors.leave();
    });

    test("schedules: how many, which are paused, and what became of their runs", async () => {
      const page = await town.visitors.page("schedules");
      const schedules = await town.all<{ name: string; paused: number | null; runs: number }>(sql`
        select s.name, s.paused_at as paused,
               (select count(*) from holdfast.schedule_run r where r.schedule = s.name) as runs
          from holdfast.schedule s`);
      const paused = schedules.filter((one) => one.paused !== null).length;
      await page.getByText(`${schedules.length} schedules, ${paused} paused.`).waitFor();
      await agree(
        "schedules are true",
        async () => sorted(await rowsOf(page, "All schedules", ["Schedule", "Action"])),
        async () =>
          sorted(
            schedules.map((one) => [
              one.name,
              `Run now${one.paused === null ? "Pause" : "Resume"}`,
            ]),
          ),
      );
      for (const { name, runs } of schedules) {
        const row = page.locator("tbody tr").filter({ hasText: name });
        assert.equal(await row.locator("svg.runs rect").count(), runs, name);
        await row.getByLabel(`Last ${runs} runs`, { exact: true }).waitFor();
      }
      for (const { name } of schedules) {
        await page.goto(`${town.visitors.url}schedules/${name}`);
        const outcomes = await town.all<{ status: string }>(sql`
          select j.status from holdfast.schedule_run r join holdfast.job_state j on j.id = r.job_id
           where r.schedule = ${name}`);
        await agree(
          `the runs of ${name} are true`,
          async () => sorted(await textsOf(page, 'section:has(h2:text-is("Runs")) tbody .st')),
          async () => sorted(outcomes.map(({ status }) => status)),
        );
      }
      await town.visitors.leave();
    });

    test("flows: how much of each is done, failed and left, and the state of every job", async () => {
      const jobs = await town.all<{ flow: string; task: string; job: string; status: string }>(sql`
        select m.flow_id as flow, m.name as job, j.task, j.status
          from holdfast.flow_job m join holdfast.job_state j on j.id = m.job_id
         where m.flow_id is not null`);
      const flows = await town.all<{ id: string; name: string; kind: string }>(
        sql`select id, name, kind from holdfast.flow`,
      );
      assert.equal(flows.length, 4);
      const truth = flows.map(({ id, name, kind }) => {
        const own = jobs.filter(({ flow }) => flow === id);
        const count = (...of: string[]) => own.filter(({ status }) => of.includes(status)).length;
        const [done, failed] = [count("done"), count("failed")];
        const left = own.length - done - failed;
        const state = left > 0 ? "running" : failed > 0 ? "failed" : "done";
        return {
          id,
          own,
          done,
          failed,
          left,
          row: [name, kind, state, `${done} of ${own.length}`],
        };
      });
      const page = await town.visitors.page("flows");
      await agree(
        "flows are true",
        async () =>
          sorted(await rowsOf(page, "Flows and batches", ["Name", "Kind", "State", "Jobs"])),
        async () => sorted(truth.map(({ row }) => row)),
      );
      for (const { id, own, done, failed, left } of truth) {
        await page.goto(`${town.visitors.url}flows/${id}`);
        const [all, more] = [
          `${done} of ${own.length} ${own.length === 1 ? "job" : "jobs"} done`,
          `${failed > 0 ? `, ${failed} failed` : ""}${left > 0 ? `, ${left} to go` : ""}.`,
        ];
        await page.getByText(all + more, { exact: true }).waitFor();
        await page.getByLabel(`${done} of ${own.length} done, ${failed} failed`).waitFor();
        await agree(
          "its jobs are true",
          async () => sorted(await rowsOf(page, "Jobs", ["State", "Job", "Task"])),
          async () => sorted(own.map(({ job, task, status }) => [status, job ?? task, task])),
        );
      }
      await town.visitors.leave();
    });

    test("locks: those that are held, and how often each type was taken and not got in time", async () => {
      await town.holdfast.locks.stats();
      const held = await town.all<{ key: string }>(sql`
        select name as "key" from holdfast.lock where holder is not null`);
      assert.equal(held.length, 2);
      const types = await town.all<{ type: string; taken: number; timeouts: number }>(sql`
        select type, sum(acquisitions) as taken, sum(timeouts) as timeouts
          from holdfast.lock_stat group by type`);
      const page = await town.visitors.page("locks");
      await agree(
        "locks are true",
        async () => ({
          said: await page.locator(".say").textContent(),
          held: sorted(await textsOf(page, 'section:has(h2:text-is("Held now")) td .mono')),
          types: sorted(await rowsOf(page, "By type, last 4 h", ["Type", "Acquired", "Time-outs"])),
        }),
        async () => {
          const [first, ...others] = await town.all<{ key: string; timeouts: number }>(sql`
            select name as "key", timeouts from holdfast.lock_wait`);
          assert.deepEqual(others, []);
          return {
            said: `${held.length} held now. ${first?.key} is contended: ${first?.timeouts} gave up in the last hour.`,
            held: sorted(held.map(({ key }) => key)),
            types: sorted(types.map((one) => [one.type, String(one.taken), String(one.timeouts)])),
          };
        },
      );
      await town.visitors.leave();
    });

    test("queues and jobs: every count by queue and by state, and no reason that is not true", async () => {
      const page = await town.visitors.page("queues");
      await agree(
        "queues are true",
        async () =>
          sorted(await rowsOf(page, "Queues", ["Queue", "Pending", "Retry", "Failed, 1 h"])),
        queues,
      );
      const { length } = await queues();
      await page.getByText(`${length} queues, ${await pendingJobs()} jobs pending.`).waitFor();

      await page.goto(`${town.visitors.url}jobs?status=pending`);
      const finished = await town.all<{ status: string; n: number }>(sql`
        select status, count(*) as n from holdfast.finished group by status`);
      const done = finished.find(({ status }) => status === "done")?.n ?? 0;
      await agree(
        "the tabs are true",
        async () =>
          (await textsOf(page, "nav.tabs a")).filter((text) =>
            /Pending|Running|Retry|Failed|Done/.test(text),
          ),
        async () => [
          `Pending ${await pendingJobs()}`,
          `Running ${await runningJobs()}`,
          `Retry ${await retriedJobs()}`,
          `Failed ${await failedJobs()}`,
          `Done ${done}`,
        ],
      );
      const held = () => rowsOf(page, "Jobs", ["Queue", "What it does, or why it does not"]);
      const untold = async () =>
        (await held()).filter(([queue = "", why = ""]) => HELD.get(queue)?.test(why) !== true);
      await agree("every job says what holds it", untold, async () => []);
      assert.equal(new Set((await held()).map(([queue]) => queue)).size, HELD.size);
      assert.deepEqual(
        await page.locator("[aria-sort=descending]").allTextContents(),
        ["Enqueued"],
        "the list is sorted by the column that says so",
      );

      // A bulk action compares errors as the list does.
      await page.goto(`${town.visitors.url}jobs?status=failed&error=disk`);
      await page.getByText("31 found.").waitFor();
      await page.getByRole("checkbox", { name: /^Select all/ }).check();
      await page.getByRole("button", { name: "All that match" }).click();
      await page.getByRole("button", { name: "Retry all…" }).click();
      await page.getByRole("button", { name: "Retry 31 jobs" }).waitFor();
      await town.visitors.leave();
    });

    test("workers: those that are alive with what they run, and those that were lost", async () => {
      const page = await town.visitors.page("workers");
      const workers = await live();
      const slots = workers.reduce((sum, one) => sum + one.slots, 0);
      await page
        .getByText(
          `${workers.length} alive on 1 host, ${await runningJobs()} of ${slots} slots in use.`,
        )
        .waitFor();
      for (const { id, slots: own, running } of workers) {
        await page
          .locator("article.card")
          .filter({ has: page.locator(`a[title="${id}"]`) })
          .getByText(`${running} of ${own}`, { exact: true })
          .waitFor();
      }
      await lostAreListed(page);
      await town.visitors.leave();
    });

    test("a worker whose event loop is blocked: what it runs is counted from its leases", async () => {
      const blocked = await town.startBlocked();
      const theirs = async () => {
        const [row] = await town.all<{
          id: string;
          reported: number;
          running: number;
          ms: number;
        }>(sql`
          select w.id, w.running as reported, w.blocked_ms as ms,
                 (select count(*) from holdfast.lease l where l.locked_by = w.id) as running
            from holdfast.worker w where w.type = ${blocked.name}`);
        return row;
      };
      await until("it is seen that it is blocked", async () => {
        const { running = 0, ms = 0 } = (await theirs()) ?? {};
        return running === 2 && ms > 0;
      });
      const { id = "", reported } = (await theirs()) ?? {};
      assert.notEqual(reported, 2, "its last heartbeat was before it took its jobs");
      const page = await town.visitors.page("workers");
      const card = page.locator("article.card").filter({ has: page.locator(`a[title="${id}"]`) });
      await card.getByText("2 of 3", { exact: true }).waitFor();
      await card.getByLabel("2 of 3 slots in use").waitFor();
      await card.getByText("A task blocks its event loop").waitFor();
      await page.getByText("1 alive · 2 of 3 slots").waitFor();
      await page.goto(`${town.visitors.url}workers/${encodeURIComponent(id)}`);
      await page.getByRole("heading", { name: "A task blocks the event loop" }).waitFor();
      await page.locator("section header", { hasText: "Runs now2 jobs" }).waitFor();
      await page.locator("article.card").getByText("2 of 3", { exact: true }).waitFor();
      await page.goto(town.visitors.url);
      await agree("the overview is true", () => overviewSays(page), overviewTruth);
      await page.getByLabel(`${blocked.name}: 2 of 3`, { exact: true }).waitFor();
      const lost = await town.lost();
      await blocked.kill();
      await until("it is found dead", async () => (await town.lost()) > lost);
      await town.visitors.leave();
    });

    test("with all workers gone, the page says so everywhere, and its figures stay true", async () => {
      for (const worker of town.workers) await worker.stop();
      // Of the program that acquired a lease it is known for a minute that it may come again.
      await town.holdfast.store.workers.forgetUnregistered("py-1");
      const page = await town.visitors.page("");
      await agree("the overview is true", () => overviewSays(page), overviewTruth);
      await page
        .getByRole("heading", { name: `No worker runs: ${await pendingJobs()} jobs wait.` })
        .waitFor();
      assert.doesNotMatch(await page.locator("#main").innerText(), /all is well|everything else/i);
      await page.goto(`${town.visitors.url}workers`);
      await page.getByText("None is alive.").waitFor();
      await lostAreListed(page);
      await page.goto(`${town.visitors.url}jobs?status=pending&queue=${QUEUE}`);
      await page
        .locator("td.dim", { hasText: `No worker serves queue ${QUEUE}` })
        .first()
        .waitFor();
      await town.visitors.leave();
    });

    // Without a worker, what is retried stays pending.
    test("the button of a kind of error retries exactly the jobs of the kind", async () => {
      const failed = () =>
        town.all<{ id: string; error: string }>(
          sql`select id, error from holdfast.finished where status = 'failed' order by id`,
        );
      const muted = await town.all<{ id: string }>(
        sql`select id from holdfast.error_kind where state = 'muted'`,
      );
      for (const { id } of muted) await town.holdfast.errors.reopen(id, { actor: "ada" });
      const all = await failed();
      const isOfKind = ({ error }: { error: string }) => decodeError(error).message === "disk full";
      const theirs = all.filter(isOfKind);
      assert.ok(theirs.length > 0 && theirs.length < all.length);
      const pending = await pendingJobs();
      const page = await town.visitors.page("errors");
      await page
        .locator("tbody tr")
        .filter({ hasText: "disk full" })
        .getByRole("link", { name: "Error", exact: true })
        .click();
      await page.getByRole("button", { name: `Retry ${theirs.length}…`, exact: true }).click();
      await page.getByRole("button", { name: `Retry ${theirs.length} jobs` }).click();
      await page.waitForURL(/\/bulk\//);
      await until(
        "they are pending",
        async () => (await pendingJobs()) === pending + theirs.length,
      );
      assert.deepEqual(
        await failed(),
        all.filter((job) => !isOfKind(job)),
      );
      for (const { id } of theirs) {
        assert.equal((await town.holdfast.jobs.get(id))?.status, "pending");
      }
      await town.visitors.leave();
      town.visitors.assertNoComplaints();
    });
  });
}
