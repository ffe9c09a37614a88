/** What operators do on the page happens in the database, with who and why; viewers have no buttons. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { sql } from "../../src/database/sql.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { until } from "../worker/observe.ts";
import { closeBrowser, TestServer } from "./browser.ts";
import { ERROR_KIND, jobInDoubt, orders } from "./shop.ts";

const ENGINES = ["sqlite", "postgres", "mysql"] as const;

for (const engine of ENGINES) {
  const skip = reasonOf(
    missing("chromium"),
    engine === "sqlite" ? false : missing(engine),
    notItsTurn(engine, ENGINES),
  );
  describe(`actions on the page, with ${engine}`, { skip }, () => {
    let dashboard: TestServer;
    let database: ScratchDatabase | null = null;
    before(async () => {
      database = engine === "sqlite" ? null : await scratchDatabase(engine);
      dashboard = await TestServer.open(database?.url);
    });
    after(async () => {
      await dashboard[Symbol.asyncDispose]();
      await database?.drop();
      await closeBrowser();
    });

    /** The newest line of the audit log about something. */
    const lineAbout = async (subject: string): Promise<any> => {
      const lines = await dashboard.holdfast.audit.list({ subject, limit: 10 });
      return lines.at(-1);
    };
    const statusOf = async (id: string): Promise<string | undefined> =>
      (await dashboard.holdfast.jobs.get(id))?.status;

    test("a failed job is retried, runs again, and its page says who did it", async () => {
      const { failed } = dashboard.shop.ids;
      const page = await dashboard.page(`jobs/${failed}`);
      await page.getByRole("button", { name: /^Retry/ }).click();
      await until(
        "it has run again",
        async () =>
          (await dashboard.holdfast.jobs.get(failed))!.epoch > 3 &&
          (await statusOf(failed)) === "failed",
      );
      assert.equal((await lineAbout(`job ${failed}`)).action, "job.retry");
      await page.getByText("job.retry").waitFor();
      await dashboard.closePages();
    });

    test("a failed job is edited: its payload is replaced, and it succeeds", async () => {
      const { failed } = dashboard.shop.ids;
      const page = await dashboard.page(`jobs/${failed}`);
      await page.getByRole("button", { name: "Edit…" }).click();
      await page
        .getByLabel(/^Payload \(JSON\)/)
        .fill('{ "id": "48211", "cents": 700, "carrier": "dhl" }');
      await page.getByLabel("Why").fill("ups is on strike");
      await page.getByRole("button", { name: "Retry with this payload" }).click();
      await until("it is done", async () => (await statusOf(failed)) === "done");
      assert.equal((await lineAbout(`job ${failed}`)).reason, "ups is on strike");
      await dashboard.closePages();
    });

    test("a job that waits is cancelled after a question, with the reason in the audit log", async () => {
      const { sleeping } = dashboard.shop.ids;
      const page = await dashboard.page(`jobs/${sleeping}`);
      await page.getByRole("button", { name: "Cancel…" }).click();
      await page.getByLabel("Why").fill("ordered twice");
      await page.getByRole("button", { name: "Cancel it" }).click();
      await until("it is cancelled", async () => (await statusOf(sleeping)) === "cancelled");
      assert.equal((await lineAbout(`job ${sleeping}`)).reason, "ordered twice");
      await page
        .locator(".explain")
        .getByText(/ cancelled it .*: “ordered twice”\.$/)
        .waitFor();
      await dashboard.closePages();
    });

    test("what is left of a flow is cancelled, and retried", async () => {
      const { flow } = dashboard.shop.ids;
      const statusOfFlow = async (): Promise<string | undefined> =>
        (await dashboard.holdfast.flows.get(flow))?.status;
      const page = await dashboard.page(`flows/${flow}`);
      await page.getByRole("button", { name: "Cancel…" }).click();
      await page.getByLabel("Why").fill("wrong month");
      await page.getByRole("button", { name: /^Cancel \d jobs?$/ }).click();
      await until("it is cancelled", async () => (await statusOfFlow()) === "cancelled");
      await page.getByRole("button", { name: /^Retry \d…/ }).click();
      await page.getByRole("button", { name: "Retry them" }).click();
      await until("it goes on", async () => (await statusOfFlow()) === "running");
      await dashboard.closePages();
    });

    test("jobs that are selected in the list are cancelled together", async () => {
      const page = await dashboard.page("jobs?status=pending&queue=mail");
      const boxes = page.getByRole("checkbox", { name: /^Select (?!all)/ });
      await boxes.nth(0).check();
      await boxes.nth(1).check();
      await page.getByRole("button", { name: "Cancel 2…" }).click();
      await page.getByRole("button", { name: "Cancel 2 jobs" }).click();
      await page.getByText("2 jobs cancelled").waitFor();
      const left = await dashboard.holdfast.jobs.list({ status: "cancelled", queue: "mail" });
      assert.equal(left.length, 2);
      await dashboard.closePages();
    });

    test("all that match are counted first, then carried out on a page of its own", async () => {
      const page = await dashboard.page("jobs?status=pending&queue=mail");
      await page.getByRole("checkbox", { name: /^Select all/ }).check();
      await page.getByRole("button", { name: "All that match" }).click();
      await page.getByRole("button", { name: "Priority…" }).click();
      await page.getByLabel(/^Priority/).fill("7");
      await page.getByRole("button", { name: /^Change \d+ jobs/ }).click();
      await page.waitForURL(/\/bulk\//);
      await page
        .getByText(/^done$/)
        .first()
        .waitFor();
      const jobs = await dashboard.holdfast.jobs.list({ status: "pending", queue: "mail" });
      assert.ok(jobs.length > 0 && jobs.every(({ priority }) => priority === 7));
      await dashboard.closePages();
    });

    test("a bulk action that another process carries out is stopped, and resumed to its end", async () => {
      const { bulk, store } = dashboard.holdfast;
      const filter = { status: "pending", queue: "mail" } as const;
      const { id } = await bulk.start({ action: "priority", filter, priority: 3 });
      await bulk.run(id);
      const { db } = store;
      await db.engine.transaction((tx) =>
        tx.run(sql`
          update holdfast.bulk_action
             set status = 'running', carrier = 'elsewhere', ended_at = null, changed_at = ${db.engine.now()}
           where id = ${id}`),
      );
      const page = await dashboard.page(`bulk/${id}`);
      await page.getByRole("button", { name: "Stop…" }).click();
      await page.getByLabel("Why").fill("wrong queue");
      await page.getByRole("button", { name: "Stop it" }).click();
      await until("it is stopped", async () => (await bulk.get(id)).status === "stopped");
      assert.equal((await lineAbout(`bulk ${id}`)).reason, "wrong queue");
      await page.getByRole("button", { name: "Resume", exact: true }).click();
      await until("it is done", async () => (await bulk.get(id)).status === "done");
      await dashboard.closePages();
    });

    test("a scheduled job is changed, and only what was changed is on record", async () => {
      const { scheduled } = dashboard.shop.ids;
      const page = await dashboard.page(`jobs/${scheduled}`);
      await page.getByRole("button", { name: "Edit…" }).click();
      await page.getByLabel("Priority").fill("5");
      await page.getByLabel("Why").fill("it is urgent");
      await page.getByRole("button", { name: "Change it" }).click();
      await until("it is changed", async () => {
        return (await dashboard.holdfast.jobs.get(scheduled))?.priority === 5;
      });
      const { action, detail, reason } = await lineAbout(`job ${scheduled}`);
      assert.deepEqual([action, detail, reason], ["job.edit", "priority 0 to 5", "it is urgent"]);
      await dashboard.closePages();
    });

    test("an ended job is replayed as a new job", async () => {
      const { failed } = dashboard.shop.ids;
      const page = await dashboard.page(`jobs/${failed}`);
      await page.getByRole("button", { name: "Replay…" }).click();
      await page.getByRole("button", { name: "Replay it" }).click();
      await until("there is a new job", async () => {
        const [replay] = await dashboard.holdfast.jobs.list({ tag: [`replay-of:${failed}`] });
        return replay !== undefined && page.url().includes(replay.id);
      });
      await dashboard.closePages();
    });

    test("a scheduled job is moved to another queue, and made due", async () => {
      const { scheduled } = dashboard.shop.ids;
      const page = await dashboard.page("jobs?key=cart-9033-reminder");
      await page.getByRole("checkbox", { name: /^Select (?!all)/ }).check();
      await page.getByRole("button", { name: "Move…" }).click();
      await page.getByLabel("To queue").fill("letters");
      await page.getByRole("button", { name: /^Move mail.send/ }).click();
      await until(
        "it is moved",
        async () => (await dashboard.holdfast.jobs.get(scheduled))?.queue === "letters",
      );
      await page.goto(`${dashboard.url}jobs/${scheduled}`);
      await page.getByRole("button", { name: /^Run now/ }).click();
      await until("it is due", async () => (await statusOf(scheduled)) === "pending");
      assert.equal((await lineAbout(`job ${scheduled}`)).action, "job.run-now");
      // No worker serves that queue, which the overview would say first.
      await dashboard.holdfast.jobs.cancel(scheduled);
      await dashboard.closePages();
    });

    test("a job is enqueued by the form", async () => {
      const page = await dashboard.page("enqueue");
      assert.equal(await page.getByLabel("Task").inputValue(), "", "no task is chosen");
      await page.getByLabel("Task").fill("mail.send");
      // The newest of its jobs is that of the flow.
      await page.getByRole("button", { name: "Use" }).first().click();
      const example = await page.getByLabel(/^Payload/).inputValue();
      assert.deepEqual(JSON.parse(example), { to: "report@example.com" });
      await page.getByLabel(/^Payload/).fill(example.replace("report@", "radia@"));
      await page.getByLabel("Key").fill("from-the-form");
      await page.getByRole("button", { name: "Enqueue" }).click();
      await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/);
      const [job] = await dashboard.holdfast.jobs.list({ key: "from-the-form" });
      assert.equal(job?.task, "mail.send");
      const { input } = (await dashboard.holdfast.jobs.get(job.id))!;
      assert.deepEqual(input, { to: "radia@example.com" });
      await dashboard.closePages();
    });

    test("an effect in doubt: an operator says that it happened, and the job goes on with the result", async () => {
      const { doubt: id } = dashboard.shop.ids;
      const page = await dashboard.page(`jobs/${id}`);
      await page.getByRole("button", { name: "It happened…" }).click();
      await page.getByLabel("Its result (JSON)").fill('{ "receipt": 7 }');
      await page.getByLabel("Why").fill("asked the bank");
      await page.getByRole("button", { name: "It happened", exact: true }).click();
      await until("it waits for a worker", async () => (await statusOf(id)) === "pending");
      const [charged] = await dashboard.holdfast.jobs.steps(id);
      assert.deepEqual([charged?.status, charged?.result], ["done", { receipt: 7 }]);
      assert.equal((await lineAbout(`job ${id}`)).reason, "asked the bank");
      await dashboard.holdfast.jobs.cancel(id);
      await dashboard.closePages();
    });

    test("an effect in doubt: an operator says that it did not happen, and the job does it", async () => {
      const id = await jobInDoubt(dashboard.holdfast);
      const page = await dashboard.page(`jobs/${id}`);
      await page.getByRole("button", { name: "It did not…" }).click();
      await page.getByLabel("Why").fill("no such charge");
      await page.getByRole("button", { name: "It did not: do it" }).click();
      await until("it waits for a worker", async () => (await statusOf(id)) === "pending");
      assert.deepEqual(
        (await dashboard.holdfast.jobs.steps(id)).filter(({ status }) => status !== "begun"),
        [],
      );
      assert.equal((await lineAbout(`job ${id}`)).reason, "no such charge");
      await dashboard.holdfast.jobs.cancel(id);
      await dashboard.closePages();
    });

    test("a job is rerun from a step, after the effects that would happen again were confirmed", async () => {
      const { done: id } = dashboard.shop.ids;
      const { epoch } = (await dashboard.holdfast.jobs.get(id))!;
      const page = await dashboard.page(`jobs/${id}`);
      await page.getByRole("button", { name: "Rerun from a step…" }).click();
      await page.getByLabel("From", { exact: true }).selectOption({ label: "charge (effect)" });
      await page.getByRole("button", { name: "See what would happen" }).click();
      await page.getByText("Kept, and not done again: quote.").waitFor();
      await page.getByText(/change something outside.*charge/).waitFor();
      await page.getByLabel("Why").fill("refunded by mistake");
      await page.getByRole("button", { name: "Rerun, and repeat 1 effect" }).click();
      await until(
        "it has run again",
        async () =>
          (await dashboard.holdfast.jobs.get(id))!.epoch > epoch && (await statusOf(id)) === "done",
      );
      const steps = await dashboard.holdfast.jobs.steps(id);
      assert.deepEqual(
        steps.map((step) => [step.name, step.epoch > epoch]),
        [
          ["quote", false],
          ["charge", true],
          ["shipping label", true],
        ],
      );
      assert.equal((await lineAbout(`job ${id}`)).reason, "refunded by mistake");
      await dashboard.closePages();
    });

    test("a kind of error is resolved in a build, opened again, and muted", async () => {
      const page = await dashboard.page("errors");
      await page.getByRole("button", { name: "Resolve…" }).click();
      await page.getByLabel("Resolved in build").fill("9c41d07");
      await page.getByRole("button", { name: "Resolve it" }).click();
      await page.getByText("No error is open.").waitFor();
      const resolved = await dashboard.holdfast.store.errorKinds.find(ERROR_KIND);
      assert.deepEqual([resolved?.state, resolved?.resolvedIn], ["resolved", "9c41d07"]);
      await page.getByRole("link", { name: "Resolved 1" }).click();
      await page.getByRole("button", { name: "Reopen…" }).click();
      await page.getByRole("button", { name: "Reopen it" }).click();
      await until(
        "it is open",
        async () => (await dashboard.holdfast.store.errorKinds.find(ERROR_KIND))?.state === "open",
      );
      await page.goto(`${dashboard.url}errors`);
      await page.getByRole("button", { name: "Mute…" }).click();
      await page.getByLabel("Why").fill("the carrier knows");
      await page.getByRole("button", { name: "Mute it" }).click();
      await page.getByText("No error is open.").waitFor();
      const muted = await dashboard.holdfast.store.errorKinds.find(ERROR_KIND);
      assert.equal(muted?.state, "muted");
      await dashboard.closePages();
    });

    test("a limit is set for a queue, and changed for each of its lanes", async () => {
      const page = await dashboard.page("queues");
      await page.getByRole("button", { name: "New limit…" }).click();
      await page.getByLabel(/^Queue/).fill("reports");
      await page.getByLabel("For").selectOption({ label: "each lane of it" });
      await page.getByLabel("At most at once").fill("3");
      await page.getByRole("button", { name: "Set the limit" }).click();
      const row = page.getByRole("row", { name: /At most 3 at once/ });
      await row.getByRole("button", { name: "Change…" }).click();
      await page.getByLabel("Starts").fill("10");
      await page.getByLabel("per", { exact: true }).fill("1m");
      await page.getByLabel("Why").fill("the warehouse is slow");
      await page.getByRole("button", { name: "Set the limit" }).click();
      await page.getByText("At most 3 at once, 10 starts per minute").waitFor();
      const { eachLane, limits } = await dashboard.holdfast.queues.get("reports");
      assert.deepEqual([eachLane.concurrency, eachLane.rate?.count], [3, 10]);
      assert.equal(limits.concurrency, null);
      assert.equal((await lineAbout("queue reports")).reason, "the warehouse is slow");
      await dashboard.closePages();
    });

    test("everything is paused, and resumed but for what was paused before", async () => {
      const page = await dashboard.page("");
      await page.getByRole("button", { name: "Pause everything…" }).click();
      await page.getByLabel("Why").fill("bad deploy");
      await page.getByRole("button", { name: /^Pause \d queues$/ }).click();
      await page.getByRole("heading", { name: /^Everything is paused/ }).waitFor();
      const paused = await dashboard.holdfast.queues.list();
      assert.deepEqual(
        paused.filter((queue) => queue.paused === null),
        [],
      );
      const mail = await dashboard.holdfast.queues.get("mail");
      assert.equal(mail.paused?.reason, "provider is down");
      assert.equal((await lineAbout("queue billing")).reason, "bad deploy");
      await page.getByRole("button", { name: "Resume everything…" }).first().click();
      await page.getByText(/mail was paused before, and stays paused/).waitFor();
      await page.getByRole("button", { name: /^Resume \d queues$/ }).click();
      await page.getByText(/queues resumed; still paused: mail/).waitFor();
      const left = (await dashboard.holdfast.queues.list()).filter(
        (queue) => queue.paused !== null,
      );
      assert.deepEqual(
        left.map(({ name }) => name),
        ["mail"],
      );
      await page.getByRole("heading", { name: /^Queue mail is paused/ }).waitFor();
      await dashboard.closePages();
    });

    test("a paused queue is resumed from the overview, and its jobs run", async () => {
      const page = await dashboard.page("");
      await page.getByRole("button", { name: "Resume mail…" }).click();
      await page.getByLabel("Why").fill("provider is back");
      await page.getByRole("button", { name: "Resume mail", exact: true }).click();
      await until(
        "its jobs have run",
        async () =>
          (await dashboard.holdfast.jobs.list({ status: "pending", queue: "mail" })).length === 0,
      );
      assert.equal((await lineAbout("queue mail")).reason, "provider is back");
      await dashboard.closePages();
    });

    test("a queue is paused from the list of queues", async () => {
      const page = await dashboard.page("queues");
      const row = page.getByRole("row", { name: /^billing/ }).first();
      await row.getByRole("button", { name: "Pause…" }).click();
      await page.getByLabel("Why").fill("the bank is down");
      await page.getByRole("button", { name: /^Pause billing/ }).click();
      await row.getByRole("button", { name: "Resume…" }).waitFor();
      const { paused } = await dashboard.holdfast.queues.get("billing");
      assert.equal(paused?.reason, "the bank is down");
      await dashboard.holdfast.queues.resume("billing");
      await dashboard.closePages();
    });

    test("a schedule is paused at once, and the undo takes it back", async () => {
      const page = await dashboard.page("schedules");
      await page
        .getByRole("row", { name: /stock-sync/ })
        .getByRole("button", { name: "Pause" })
        .click();
      await until(
        "it is paused",
        async () => (await dashboard.holdfast.schedules.get("stock-sync"))?.pausedAt !== null,
      );
      await page.getByRole("button", { name: "Undo" }).click();
      await until(
        "it runs again",
        async () => (await dashboard.holdfast.schedules.get("stock-sync"))?.pausedAt === null,
      );
      await dashboard.closePages();
    });

    test("a schedule is created, run, changed and deleted by forms", async () => {
      const page = await dashboard.page("schedules");
      await page.getByRole("button", { name: "New schedule…" }).click();
      await page.getByLabel(/^Name/).fill("hourly-merge");
      await page.getByLabel(/^Task/).fill("report.merge");
      await page.getByLabel("or every").fill("1h");
      await page.getByLabel("Payload (JSON)").fill('{ "month": "2026-12" }');
      await page.getByRole("button", { name: "Create it" }).click();
      await page.getByRole("link", { name: "hourly-merge" }).first().click();
      await page.getByRole("button", { name: /^Run now/ }).click();
      await page.getByRole("link", { name: "Open it" }).waitFor();
      const [run] = await dashboard.holdfast.schedules.runs("hourly-merge");
      assert.equal(run?.manual, true);
      await page.getByRole("button", { name: "Change…" }).click();
      await page.getByLabel("Cron", { exact: true }).first().fill("15 * * * *");
      await page.getByLabel("Why").fill("off the full hour");
      await page.getByRole("button", { name: "Change it" }).click();
      const scheduleOf = () => dashboard.holdfast.schedules.get("hourly-merge");
      await until("it is changed", async () => (await scheduleOf())?.cron === "15 * * * *");
      assert.deepEqual((await scheduleOf())?.input, { month: "2026-12" });
      await page.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("button", { name: "Delete it" }).click();
      await page.getByRole("heading", { name: "Schedules" }).waitFor();
      assert.equal(await scheduleOf(), null);
      assert.equal((await lineAbout("schedule hourly-merge")).action, "schedule.delete");
      await dashboard.closePages();
      dashboard.complaints.length = 0; // Its page asks for it once more, and 404 is logged.
    });

    test("all failed jobs of a task are retried together, and ended ones deleted", async () => {
      const page = await dashboard.page("jobs?status=failed&task=order.ship");
      await page.getByRole("checkbox", { name: /^Select all/ }).check();
      await page.getByRole("button", { name: "All that match" }).click();
      await page.getByRole("button", { name: "Retry all…" }).click();
      await page.getByRole("button", { name: "Retry 1 job" }).click();
      await page.waitForURL(/\/bulk\//);
      const [again] = await dashboard.holdfast.jobs.list({ key: "order-48207" });
      await until("it has failed again", async () => {
        const job = await dashboard.holdfast.jobs.get(again!.id);
        return job?.status === "failed" && job.epoch > 3;
      });
      await page.goto(`${dashboard.url}jobs/${again!.id}`);
      await page.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("button", { name: /^Delete order.ship/ }).click();
      await page.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
      assert.equal(await dashboard.holdfast.jobs.get(again!.id), null);
      await dashboard.closePages();
      dashboard.complaints.length = 0; // 404, as above.
    });

    test("the data of an item is changed, and it is moved by a button that is a legal move", async () => {
      const { item } = dashboard.shop.ids;
      const page = await dashboard.page(`items/${item}`);
      await page.getByRole("button", { name: "Change…" }).click();
      await page.getByLabel("Changes (JSON)").fill('{ "cents": 2499 }');
      await page.getByLabel("Why").fill("express");
      await page.getByRole("button", { name: "Change it" }).click();
      await until("it is changed", async () => {
        const { data } = await dashboard.holdfast.workflows.item(orders, item);
        return (data as { cents?: number }).cents === 2_499;
      });
      await page.getByText("refused as it is: a manager must approve it").waitFor();
      await page.getByRole("button", { name: "ship → shipped…" }).click();
      await page.getByRole("button", { name: "ship → shipped", exact: true }).click();
      await page.getByText("paid → shipped").waitFor();
      await page.getByRole("button", { name: "deliver → delivered…" }).waitFor();
      await dashboard.closePages();
    });

    test("a held lock is released by force", async () => {
      await dashboard.holdfast.locks.acquire("stock:7", { ttl: "1m", trace: "sync" });
      const page = await dashboard.page("locks");
      await page.getByRole("button", { name: "Release…" }).click();
      await page.getByRole("button", { name: "Release it" }).click();
      await page.getByText("No lock is held.").waitFor();
      assert.equal(await dashboard.holdfast.locks.inspect("stock:7"), null);
      assert.equal((await lineAbout("lock stock:7")).action, "lock.release");
      await dashboard.closePages();
    });

    test("a job's row changes in place, and new rows are counted until they are asked for", async () => {
      const page = await dashboard.page("jobs");
      const first = await page.locator("tbody tr").first().innerText();
      await dashboard.holdfast.enqueue("nobody.runs.this", {}, { key: "brand-new" });
      await page.getByRole("button", { name: /^1 new since/ }).waitFor();
      assert.equal(
        await page
          .locator("tbody tr")
          .first()
          .innerText()
          .then((text) => text.split("\n")[1]),
        first.split("\n")[1],
      );
      await page.keyboard.press(".");
      await page.locator("td.mono", { hasText: "brand-new" }).waitFor();
      await dashboard.closePages();
    });

    test("where a task blocks the event loop is shown with the job and with its worker", async () => {
      const { worker, ids } = dashboard.shop;
      const { workers } = dashboard.holdfast.store;
      const stack = "at sum (/app/report.ts:12:5)\nat run (/app/report.ts:40:9)";
      await workers.noteBlocked(worker.id, { ms: 2_300, stack });
      const page = await dashboard.page(`jobs/${ids.running}`);
      for (const path of [`jobs/${ids.running}`, `workers/${worker.id}`]) {
        await page.goto(dashboard.url + path);
        await page.getByRole("heading", { name: "A task blocks the event loop" }).waitFor();
        await page.getByText("/app/report.ts:40:9").waitFor();
      }
      await workers.noteBlocked(worker.id, null);
      await dashboard.closePages();
    });

    test("a worker is paused and resumed, and sees it", async () => {
      const { worker } = dashboard.shop;
      const page = await dashboard.page(`workers/${worker.id}`);
      for (const [button, state] of [
        ["Pause", "pause"],
        ["Resume", "run"],
      ] as const) {
        await page.getByRole("button", { name: new RegExp(`^${button}…`) }).click();
        await page.getByRole("button", { name: new RegExp(`^${button} shop-worker`) }).click();
        await until(
          `the worker's state is ${state}`,
          async () => (await dashboard.holdfast.workers.list({}))[0]?.desiredState === state,
        );
      }
      await dashboard.closePages();
    });

    test("a worker is drained: it ends what it has begun, and claims nothing more", async () => {
      const { worker } = dashboard.shop;
      const page = await dashboard.page(`workers/${worker.id}`);
      await page.getByRole("button", { name: "Drain…" }).click();
      await page.getByLabel("Why").fill("new machine");
      await page.getByRole("button", { name: /^Drain shop-worker/ }).click();
      await until(
        "it is to drain",
        async () => (await dashboard.holdfast.workers.list({}))[0]?.desiredState === "drain",
      );
      assert.equal((await lineAbout(`worker ${worker.id}`)).reason, "new machine");
      await dashboard.closePages();
      dashboard.assertNoComplaints();
    });
  });
}
