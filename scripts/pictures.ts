/**
 * Makes the pictures of the dashboard for the README: `node scripts/pictures.ts [--out folder] [--all]`.
 *
 * They show a made-up shop in a database of its own: its jobs run, those of the day before are written, and all figures are
 * counted from these rows. With --all, every page is taken at three widths, in light and dark, to be looked at.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { closeBrowser, TestServer } from "../test/dashboard/browser.ts";
import type { Holdfast } from "../src/index.ts";
import { Gallery } from "../test/dashboard/gallery.ts";
import { writeHistory } from "../test/dashboard/history.ts";
import { viewsOf } from "../test/dashboard/views.ts";

/** A day and the two hours before, at a job a second. */
const PAST = { minutes: 26 * 60, perMinute: 60 };

/** Takes the folder of this checkout out of stacks: it says nothing to a reader. */
const WITHOUT_ROOT = `
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const { currentNode: node } = walk;
    node.data = node.data.replaceAll(${JSON.stringify(join(import.meta.dirname, "../"))}, "");
  }`;

/** A picture of the README: its page, theme and size. */
const PICTURES = [
  { name: "overview", view: "overview", theme: "light", width: 1_440, height: 1_000 },
  { name: "jobs", view: "jobs", theme: "dark", width: 1_440, height: 760 },
  { name: "job", view: "a failed job", theme: "light", width: 1_440, height: 900 },
] as const;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: "string", default: join(import.meta.dirname, "../docs/pictures") },
      all: { type: "boolean", default: false },
    },
  });
  mkdirSync(values.out, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), "pictures-"));
  const dashboard = await TestServer.open(`sqlite:${join(folder, "shop.db")}`);
  await writeHistory(dashboard.holdfast, dashboard.shop.worker, PAST);
  const views = viewsOf(dashboard.shop);
  const all = values.all
    ? views.flatMap((view) =>
        (["light", "dark"] as const).flatMap((theme) =>
          [1_280, 768, 375].map((width) => ({
            name: `${view.name.replaceAll(" ", "-")}-${width}-${theme}`,
            view: view.name,
            theme,
            width,
            height: 1_000,
          })),
        ),
      )
    : PICTURES;
  for (const { name, view, theme, width, height } of all) {
    const shown = views.find((one) => one.name === view);
    if (shown === undefined) throw new Error(`No page is called ${view}.`);
    const page = await dashboard.page(shown.path, {
      colorScheme: theme,
      viewport: { width, height },
    });
    await page.getByText(shown.shows).first().waitFor({ state: "attached" });
    await page.waitForTimeout(400);
    await page.evaluate(WITHOUT_ROOT);
    await page.screenshot({ path: join(values.out, `${name}.png`), fullPage: values.all });
    await dashboard.closePages();
    console.log(name);
  }
  if (values.all) await takeGallery(dashboard.holdfast, values.out);
  await dashboard[Symbol.asyncDispose]();
  await closeBrowser();
  rmSync(folder, { recursive: true, force: true });
}

/** Every part in every state. */
async function takeGallery(holdfast: Holdfast, folder: string): Promise<void> {
  await using gallery = await Gallery.open(holdfast);
  for (const theme of ["light", "dark"] as const) {
    for (const width of [1_280, 768, 375]) {
      const viewport = { width, height: 1_000 };
      const page = await gallery.page("", { colorScheme: theme, viewport });
      const path = join(folder, `gallery-${width}-${theme}.png`);
      await page.screenshot({ path, fullPage: true });
      await gallery.leave();
    }
  }
}

await main();
