/**
 * Makes the pictures of the dashboard for the README: `node scripts/pictures.ts [--out folder] [--all]`.
 *
 * They show a made-up shop in a database of their own: the jobs are real and run, the hour before is written. With --all,
 * every page is taken at three widths, in light and dark, to be looked at.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Histogram } from "../src/core/histogram.ts";
import type { Holdfast } from "../src/index.ts";
import { closeBrowser, Desk } from "../test/dashboard/browser.ts";
import { viewsOf } from "../test/dashboard/views.ts";

const MINUTE_MS = 60_000;
const MINUTES = 26 * 60;

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

/** Chance that is the same every time. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

function crashedWorker(at: number): Record<string, string | number> {
  return {
    id: "shop-worker-5",
    type: "shop-worker",
    instance: 1,
    status: "stopped",
    reason: "gone",
    hostname: "node-c",
    pid: 77,
    version: "9c41d07",
    node_version: "24.21.0",
    platform: "linux",
    arch: "arm64",
    queues: "[]",
    tasks: "[]",
    concurrency: 20,
    started_at: at - 1_200_000,
    heartbeat_at: at - 30_000,
    stopped_at: at,
  };
}

/** One minute of all queues, as the database has it. */
interface Row {
  readonly [column: string]: string | number;
  readonly step_ms: number;
  readonly at: number;
  readonly done: number;
  readonly failed: number;
}

/** Jobs of the queue that is paused, as the shop has them. */
const PAUSED_JOBS = 13;

/** A few at any time, a wave after the crash, and at last those of the paused queue. */
function pendingAt(ago: number, random: number, isAfterCrash: boolean): number {
  if (ago < PAUSED_JOBS / 2) return Math.min(PAUSED_JOBS, Math.round(PAUSED_JOBS - (ago - 1) * 2));
  return Math.round(random * 3 + (isAfterCrash ? 48 : 0));
}

/** A day as a shop has it: a steady stream, a deploy, a crash, and a queue that was paused. */
async function writeHistory({ store }: Holdfast): Promise<void> {
  const random = chance(7);
  const now = Math.floor((await store.db.clock()) / MINUTE_MS) * MINUTE_MS;
  const rows: Row[] = [];
  // Of the minute that is not over, as much as has passed.
  const passed = ((await store.db.clock()) - now) / MINUTE_MS;
  for (let ago = MINUTES; ago >= 0; ago -= 1) {
    const isCrash = ago === 18;
    const isAfter = ago < 18 && ago > 13;
    const share = ago === 0 ? passed : 1;
    const done = Math.round(share * ((isCrash ? 1_500 : 2_400) + random() * 350));
    const retried = Math.round(share * random() * 40 + (isAfter ? 240 : 0));
    const failed = ago < 38 && ago > 26 ? Math.round(random() * 4) : random() > 0.9 ? 1 : 0;
    const pickups = new Histogram();
    for (let job = 0; job < 60; job += 1) pickups.add(2 + random() * 3);
    pickups.add(isAfter ? 420 + random() * 100 : 30 + random() * 30);
    rows.push({
      step_ms: MINUTE_MS,
      at: now - ago * MINUTE_MS,
      queue: "",
      arrived: done + failed,
      done,
      failed,
      cancelled: 0,
      expired: 0,
      retried,
      crashed: isCrash ? 1 : 0,
      run_ms_sum: done * 40,
      run_ms_max: 900,
      pickups: pickups.toText(),
      pending: pendingAt(ago, random(), isAfter),
    });
  }
  const minutes = rows.flatMap(({ step_ms: _step, at, ...row }) =>
    ["orders", "billing", "reports"].map((queue, index) => ({
      ...row,
      queue,
      minute: at,
      done: Math.round(row.done / (index + 2) + random() * 60),
      failed: index === 0 ? row.failed : 0,
    })),
  );
  await store.db.engine.transaction(async (tx) => {
    await tx.insert("span_total", rows);
    await tx.insert("minute_total", minutes.slice(-3 * 90));
    await tx.insert("build", [
      { version: "9c41d07", first_at: now - 38 * MINUTE_MS, last_at: now + 3_600_000 },
    ]);
    await tx.insert("worker", [crashedWorker(now - 18 * MINUTE_MS)]);
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: "string", default: join(import.meta.dirname, "../docs/pictures") },
      all: { type: "boolean", default: false },
    },
  });
  mkdirSync(values.out, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), "pictures-"));
  const desk = await Desk.open(`sqlite:${join(folder, "shop.db")}`);
  await writeHistory(desk.holdfast);
  const views = viewsOf(desk.shop);
  const all = values.all
    ? views.flatMap((view) =>
        (["light", "dark"] as const).flatMap((theme) =>
          [1_440, 768, 375].map((width) => ({
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
    const page = await desk.page(shown.path, { colorScheme: theme, viewport: { width, height } });
    await page.getByText(shown.shows).first().waitFor({ state: "attached" });
    await page.waitForTimeout(400);
    await page.evaluate(WITHOUT_ROOT);
    await page.screenshot({ path: join(values.out, `${name}.png`), fullPage: values.all });
    await desk.closePages();
    console.log(name);
  }
  await desk[Symbol.asyncDispose]();
  await closeBrowser();
  rmSync(folder, { recursive: true, force: true });
}

await main();
