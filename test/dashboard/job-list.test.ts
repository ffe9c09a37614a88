/** The list of jobs: its rows keep their places, and what is chosen in it is kept, given to others, and taken back. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { sql } from "../../src/database/sql.ts";
import { missing } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { closeBrowser, TestServer } from "./browser.ts";

const PHONE = { viewport: { width: 375, height: 900 } };

describe("the list of jobs", { skip: missing("chromium") }, () => {
  let desk: TestServer;
  before(async () => void (desk = await TestServer.open()));
  after(async () => {
    desk.assertNoComplaints();
    await desk[Symbol.asyncDispose]();
    await closeBrowser();
  });

  /** Where each row stands, by its link, and how high it is. */
  function places(page: Page): Promise<Record<string, string>> {
    return page.locator("tbody tr").evaluateAll((all) =>
      Object.fromEntries(
        all.map((row) => {
          const { top, height } = row.getBoundingClientRect();
          return [
            row.querySelector("a")?.href ?? "",
            `${top + (row.ownerDocument.defaultView?.scrollY ?? 0)} ${height}`,
          ];
        }),
      ),
    );
  }

  for (const [name, options] of Object.entries({ desk: {}, phone: PHONE })) {
    test(`rows keep their places while jobs come and change, on a ${name}`, async () => {
      const { holdfast } = desk;
      const old = await holdfast.enqueue("part.make", {}, { queue: "parts", key: `first-${name}` });
      const page = await desk.page("jobs?queue=parts", options);
      await page
        .locator("tbody tr")
        .filter({ hasText: `first-${name}` })
        .waitFor();
      const were = await places(page);
      await holdfast.enqueue("part.make", {}, { queue: "parts", key: `new-${name}` });
      await page.getByRole("button", { name: /^1 (or more )?new since/ }).waitFor();
      await holdfast.leases.acquire({ worker: "py-1", queues: ["parts"] });
      await holdfast.jobs.cancel(old.id);
      await until("the row changed", async () => {
        const row = page.locator("tbody tr").filter({ hasText: `first-${name}` });
        return !/No live worker|No worker/.test(await row.innerText());
      });
      assert.deepEqual(await places(page), were);
      const heights = Object.values(were).map((place) => Number(place.split(" ")[1]));
      // The last row has no line below it.
      assert.ok(Math.max(...heights) - Math.min(...heights) <= 1, heights.join(", "));
      await desk.closePages();
    });
  }

  test("⇧a selects all that match, until a row is taken out; on a phone by a button", async () => {
    const page = await desk.page("jobs?status=done");
    await page.locator("tbody tr").first().waitFor();
    const bar = page.getByRole("toolbar", { name: "What to do with the selected jobs" });
    await page.keyboard.press("Shift+A");
    await bar.getByText("All that match").waitFor();
    await bar.getByRole("button", { name: "Delete all…" }).waitFor();
    await page
      .getByRole("checkbox", { name: /^Select order/ })
      .first()
      .uncheck();
    await bar.getByText(/^\d+ selected$/).waitFor();
    assert.equal(await bar.getByRole("button", { name: "Delete all…" }).count(), 0);
    const phone = await desk.page("jobs?status=done", PHONE);
    await phone.getByRole("checkbox", { name: /^Select all/ }).check();
    await phone.getByRole("button", { name: "All that match" }).click();
    await phone.getByRole("button", { name: "Delete all…" }).waitFor();
    await desk.closePages();
  });

  test("times are those of the person who looks", async () => {
    const page = await desk.page("jobs?status=failed", { timezoneId: "Asia/Tokyo" });
    await page.getByRole("button", { name: "Time…" }).click();
    const form = page.getByRole("form", { name: "Time" });
    await form.getByText("Asia/Tokyo").waitFor();
    await form.getByLabel("From").fill("2026-11-16T14:00");
    await form.getByLabel("Until, not including").fill("2026-11-16T15:30:30");
    await form.getByRole("button", { name: "Show" }).click();
    await page.waitForURL(/endedSince/);
    const { searchParams } = new URL(page.url());
    assert.equal(searchParams.get("endedSince"), String(Date.UTC(2026, 10, 16, 5)));
    assert.equal(searchParams.get("endedUntil"), String(Date.UTC(2026, 10, 16, 6, 30, 30)));
    await page.locator(".chip").filter({ hasText: "14:00" }).waitFor();
    await page.getByText("No job matches.").waitFor();
    await desk.closePages();
  });

  test("a view is saved under a name, stays in the browser, and is removed with an undo", async () => {
    const page = await desk.page("jobs?status=failed&endedSince=24h");
    await page.getByRole("button", { name: "Save view…" }).click();
    await page.getByLabel("Name").fill("failed today");
    await page.getByRole("button", { name: "Save it" }).click();
    const views = page.getByRole("navigation", { name: "Saved views" });
    await views.getByRole("link", { name: "failed today" }).waitFor();
    await page.goto(`${desk.url}jobs`);
    await views.getByRole("link", { name: "failed today" }).click();
    await page.waitForURL(/jobs\?endedSince=24h&status=failed$/);
    assert.equal(await page.getByRole("button", { name: "Save view…" }).count(), 0);
    await views.getByRole("button", { name: "Remove the view failed today" }).click();
    assert.equal(await views.count(), 0);
    await page.getByRole("button", { name: "Undo" }).click();
    await views.getByRole("link", { name: "failed today" }).waitFor();
    await desk.closePages();
  });

  test("a move is taken back; a retry says what it did, and offers no undo", async () => {
    const { pending, failed } = desk.shop.ids;
    const queueOf = async (): Promise<string | undefined> => {
      const [job] = await desk.holdfast.store.db.engine.all<{ queue: string }>(
        sql`select queue from holdfast.ready where id = ${pending}`,
      );
      return job?.queue;
    };
    const page = await desk.page("jobs?key=order-48236-paid");
    await page.getByRole("checkbox", { name: "Select order-48236-paid" }).check();
    await page.getByRole("button", { name: "Move…" }).click();
    await page.getByLabel("To queue").fill("elsewhere");
    await page.getByRole("button", { name: "Move mail.send order-48236-paid" }).click();
    await page.getByText("1 job moved.").waitFor();
    assert.equal(await queueOf(), "elsewhere");
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Taken back.").waitFor();
    assert.equal(await queueOf(), "mail");
    await page.goto(`${desk.url}jobs?id=${failed}`);
    await page.getByRole("checkbox", { name: /^Select order/ }).check();
    await page.getByRole("button", { name: "Retry 1" }).click();
    await page.getByText("1 job retried.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Undo" }).count(), 0);
    await desk.closePages();
  });
});
