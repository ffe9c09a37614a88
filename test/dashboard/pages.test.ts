/** Every page of the dashboard, in a real browser: it shows what it should, and all people can use it. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { everyNth } from "../support/scale.ts";
import { missing } from "../support/servers.ts";
import { closeBrowser, findingsOn, TestServer } from "./browser.ts";
import { Gallery } from "./gallery.ts";
import { type View, viewsOf } from "./views.ts";

const THEMES = ["light", "dark"] as const;
const WIDTHS = [1_440, 768, 375];

async function see(page: Page, { shows }: View): Promise<void> {
  await page.getByText(shows).first().waitFor({ state: "attached" });
}

describe("the pages of the dashboard", { skip: missing("chromium") }, () => {
  let dashboard: TestServer;
  before(async () => {
    dashboard = await TestServer.open();
  });
  after(async () => {
    await dashboard[Symbol.asyncDispose]();
    await closeBrowser();
  });

  test("each shows what it is for, by its own address, and the browser has no complaint", async () => {
    const page = await dashboard.page();
    for (const view of viewsOf(dashboard.shop)) {
      await page.goto(dashboard.url + view.path);
      await see(page, view);
      assert.match(await page.title(), /· Holdfast$/, view.name);
    }
    await dashboard.closePages();
    dashboard.assertNoComplaints();
  });

  test("axe-core finds nothing, in light and dark, on wide and narrow screens", async () => {
    const cases = THEMES.flatMap((theme) =>
      WIDTHS.flatMap((width) => viewsOf(dashboard.shop).map((view) => ({ theme, width, view }))),
    );
    const findings: string[] = [];
    for (const { theme, width, view } of everyNth(48, cases, "axe")) {
      const page = await dashboard.page(view.path, {
        colorScheme: theme,
        viewport: { width, height: 900 },
        bypassCSP: true,
      });
      await see(page, view);
      const found = await findingsOn(page);
      findings.push(...found.map((one) => `${view.name}, ${theme}, ${width} px: ${one}`));
      await dashboard.closePages();
    }
    assert.deepEqual(findings, []);
  });

  test("the first load is small, and an open page hardly takes any bytes", async () => {
    const page = await dashboard.page("audit");
    const browser = await page.context().newCDPSession(page);
    await browser.send("Network.enable");
    await browser.send("Network.setCacheDisabled", { cacheDisabled: true });
    let bytes = 0;
    browser.on("Network.loadingFinished", ({ encodedDataLength: all }) => void (bytes += all));
    await page.goto(dashboard.url);
    await page.locator(".figs").waitFor();
    await page.waitForTimeout(500);
    assert.ok(bytes > 30_000 && bytes < 150_000, `${bytes} bytes`);
    bytes = 0;
    await page.waitForTimeout(6_000);
    assert.ok(bytes > 0 && bytes / 6 < 2_000, `${bytes / 6} bytes a second`);
    await dashboard.closePages();
  });

  test("every part in every state: axe-core finds nothing, and nothing is wider than its window", async () => {
    await using gallery = await Gallery.open(dashboard.holdfast);
    const page = await gallery.page("", { bypassCSP: true });
    const findings: string[] = [];
    for (const colorScheme of THEMES) {
      for (const width of WIDTHS) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        // It shows four verdicts, a page of the dashboard one.
        const found = (await findingsOn(page)).filter((one) => !one.startsWith("landmark-unique"));
        const wide = await page.evaluate("document.documentElement.scrollWidth");
        if (wide !== width) found.push(`${String(wide)} px wide`);
        findings.push(...found.map((one) => `${colorScheme}, ${width} px: ${one}`));
      }
    }
    assert.deepEqual(findings, []);
    // A name that is cut is told whole.
    const name = page.locator("td a.name").last();
    await name.hover();
    assert.match(
      (await name.locator("xpath=ancestor::td").getAttribute("title")) ?? "",
      /warehouse/,
    );
    gallery.assertNoComplaints();
  });

  test("nothing is wider than a phone", async () => {
    const views = viewsOf(dashboard.shop);
    const page = await dashboard.page("", { viewport: { width: 375, height: 812 } });
    for (const view of everyNth(6, views, "phone")) {
      await page.goto(dashboard.url + view.path);
      await see(page, view);
      const width = await page.evaluate("document.documentElement.scrollWidth");
      assert.equal(width, 375, view.name);
    }
    await dashboard.closePages();
  });
});
