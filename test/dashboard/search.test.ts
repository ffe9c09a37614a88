/** The list of jobs says "no job" only when all were looked at, and the box on top opens what was typed. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { missing } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { closeBrowser, TestServer } from "./browser.ts";

/** One request of a search looks at so many jobs: as in a database of millions, where its time is over. */
const LOOK = 25;

const NEWER = 200;

describe("searching on the page", { skip: missing("chromium") }, () => {
  let dashboard: TestServer;
  let oldest = "";
  before(async () => {
    dashboard = await TestServer.open();
    const { holdfast } = dashboard;
    const now = Date.now();
    const build = { version: "9c41d07", first_at: now, last_at: now };
    await holdfast.store.db.engine.transaction((tx) => tx.insert("build", [build]));
    const job = await holdfast.enqueue("old.one", { note: "needle-1" }, { queue: "history" });
    oldest = job.id;
    const newer = Array.from({ length: NEWER }, (_, at) => ({ at }));
    for (const input of newer) await holdfast.enqueue("new.one", input, { queue: "history" });
  });
  after(async () => {
    await dashboard[Symbol.asyncDispose]();
    await closeBrowser();
  });

  /** Searches look at few jobs each; the one with this number waits until it is released. */
  async function inSlices(page: Page, held = Number.POSITIVE_INFINITY) {
    let requests = 0;
    let release = (): void => {};
    const released = new Promise<void>((resolve) => void (release = resolve));
    await page.route(/\/api\/v1\/jobs\?(?!id=)/, async (route) => {
      const url = new URL(route.request().url());
      url.searchParams.set("examine", String(LOOK));
      if (url.searchParams.has("before") && ++requests >= held) await released;
      await route.continue({ url: url.href });
    });
    return { release, requests: () => requests };
  }

  test("a search goes on by itself until it has found the oldest job", async () => {
    const page = await dashboard.page("");
    const { requests } = await inSlices(page);
    await page.goto(`${dashboard.url}jobs?input=needle-1`);
    await page.locator(`tbody a[href*="${oldest}"]`).waitFor();
    await page.getByText("1 found.").waitFor();
    assert.ok(requests() >= NEWER / LOOK - 1, `it took ${requests()} requests`);
    await dashboard.closePages();
  });

  test("a search that is not over says so, is stopped, and goes on; then no job matches", async () => {
    const page = await dashboard.page("");
    const { release, requests } = await inSlices(page, 3);
    await page.goto(`${dashboard.url}jobs?input=needle-2`);
    await page.getByText("Not found yet.").waitFor();
    await page.getByText(/^0 found so far\. Looked at the newest 75 of [\d,]+ jobs\./).waitFor();
    await page.getByRole("progressbar", { name: /^Looked at 75 of [\d,]+$/ }).waitFor();
    assert.equal(await page.getByText("No job matches.").count(), 0);
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await page.getByText(/^0 found\. Looked at the newest 75/).waitFor();
    await page.getByText("The search was not over.").waitFor();
    release();
    const stoppedAt = requests();
    await page.getByRole("button", { name: "Look further back" }).click();
    await page.getByText("No job matches.").waitFor();
    assert.ok(requests() > stoppedAt);
    const all = await dashboard.holdfast.jobs.list({ limit: 1_000 });
    assert.ok(requests() >= Math.floor(all.length / LOOK) - 1, "all jobs were looked at");
    await dashboard.closePages();
  });

  test("further back, a search that is not over does not say that there are no older jobs", async () => {
    const newest = (await dashboard.holdfast.jobs.list({ limit: 1 }))[0]?.id ?? "";
    const page = await dashboard.page("");
    const { release } = await inSlices(page, 3);
    await page.goto(`${dashboard.url}jobs?input=needle-2&before=${newest}`);
    await page.getByText(/^0 found so far\. Looked at the next 50 of/).waitFor();
    await page.getByText("Not found yet.").waitFor();
    assert.equal(await page.getByText(/no older job/i).count(), 0);
    release();
    await page.getByText("No older job matches.").waitFor();
    await dashboard.closePages();
  });

  test("a page of a list that has no more jobs says so, and one that was left goes on", async () => {
    const page = await dashboard.page("");
    const { requests, release } = await inSlices(page, 2);
    await page.goto(`${dashboard.url}jobs?queue=history&task=old.one`);
    await page.getByText("Not found yet.").waitFor();
    await page.getByRole("link", { name: "Workers", exact: true }).first().click();
    await page.getByRole("heading", { name: "Workers" }).waitFor();
    release();
    const left = requests();
    await page.goBack();
    await page.getByText("1 found.").waitFor();
    await until("the search went on", () => requests() > left);
    await dashboard.closePages();
    dashboard.assertNoComplaints();
  });

  test("the box on top opens what was typed, at once and after a change", async () => {
    const { failed, item } = dashboard.shop.ids;
    const page = await dashboard.page("");
    // Answers come late, as from a busy server: nothing on the page may be of the text before.
    await page.route(/\/api\/v1\/find\?/, async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 400));
      await route.continue();
    });
    const box = page.getByRole("combobox", { name: "Search" });
    const find = async (text: string, leads: RegExp): Promise<void> => {
      await box.fill(text);
      await box.press("Enter");
      await page.waitForURL(leads);
      await page.goto(dashboard.url);
    };
    await box.fill("order-48211");
    await page.getByRole("option", { name: /order-48211 · order\.ship/ }).waitFor();
    await find("order-48100", /jobs\?key=order-48100$/);
    await find(failed, new RegExp(`jobs/${failed}$`));
    await find(item, new RegExp(`items/${item}$`));
    await find("9c41d07", /builds\/9c41d07$/);
    await find("nothing has this name", /jobs\?error=nothing/);
    const unknown = "01890000-0000-7000-8000-000000000000";
    await find(unknown, new RegExp(`jobs/${unknown}$`));
    // Pages and actions that begin with the text are there at once.
    await find("audi", /\/audit$/);
    await page.locator("h1").waitFor();
    await page.keyboard.press("Control+k");
    await page.locator("input:focus").waitFor();
    await page.keyboard.type("resume queue mail");
    await page.getByRole("option", { name: /^Resume queue mail…/ }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Resume queue mail?" }).waitFor();
    await page.keyboard.press("Escape");
    await dashboard.closePages();
    dashboard.complaints.length = 0; // The job that is not there is 404, which the browser logs.
  });
});
