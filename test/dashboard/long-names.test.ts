/** Every page and every dialog can be used by all people, with names as long as people make them. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { type PagePath, titles } from "../../page/paths.ts";
import { sql } from "../../src/database/sql.ts";
import { tempFolder } from "../support/folder.ts";
import { everyNth } from "../support/scale.ts";
import { missing } from "../support/servers.ts";
import { closeBrowser, findingsOn } from "./browser.ts";
import { LANED, long, PAUSED, QUEUE, Town } from "./town.ts";

/** Addresses of each page: of a new page there must be one. */
function addressesOf({ ids, workers }: Town, jobs: Jobs): Record<PagePath, readonly string[]> {
  return {
    "": ["", "?range=7d"],
    jobs: ["jobs", "jobs?status=pending", "jobs?status=failed", "jobs?task=nothing"],
    "jobs/": [jobs.failed, jobs.running, jobs.retry, ids.packed, ids.doubt, "0"].map(
      (id) => `jobs/${id}`,
    ),
    enqueue: ["enqueue"],
    bulk: ["bulk"],
    "bulk/": [`bulk/${ids.bulk}`],
    errors: ["errors", "errors?state=muted"],
    tasks: ["tasks", "tasks?range=7d"],
    "tasks/": [`tasks/${long("order.ship")}`, `tasks/${long("cart.remind")}`],
    builds: ["builds"],
    "builds/": [`builds/${long("build")}`],
    queues: ["queues"],
    "queues/": [`queues/${QUEUE}`, `queues/${PAUSED}`],
    schedules: ["schedules"],
    "schedules/": [`schedules/${ids.schedule}`],
    flows: ["flows", "flows?kind=batch"],
    "flows/": [ids.flow, ids.failedFlow].map((id) => `flows/${id}`),
    workflows: ["workflows"],
    "workflows/": [`workflows/${ids.workflow}`],
    "items/": [`items/${ids.item}`],
    workers: ["workers", "workers?stopped=true"],
    "workers/": [`workers/${workers[0]?.id}`, `workers/${jobs.lostWorker}`],
    locks: ["locks"],
    alerts: ["alerts", "alerts?which=all"],
    audit: ["audit"],
  };
}

interface Jobs {
  readonly failed: string;
  readonly running: string;
  readonly retry: string;
  readonly lostWorker: string;
}

interface Dialog {
  readonly path: string;
  /** The buttons that lead to it, the last of which opens it. */
  readonly press: readonly RegExp[];
  readonly prepare?: (page: Page) => Promise<void>;
}

async function selectAll(page: Page): Promise<void> {
  await page.getByRole("checkbox", { name: /^Select all/ }).check();
}

/** The server never leaves it like this for as long as a test takes. */
async function answers(page: Page, url: RegExp, change: (json: never) => object): Promise<void> {
  await page.route(url, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: change((await response.json()) as never) });
  });
  await page.reload();
}

const running = (page: Page) =>
  answers(page, /\/api\/v1\/bulk\/[^/]+$/, (action: object) => ({ ...action, status: "running" }));

const allPaused = (page: Page) =>
  answers(page, /\/api\/v1\/overview$/, (overview: { queues: object[] }) => ({
    ...overview,
    queues: overview.queues.map((queue) => ({
      ...queue,
      paused: { at: 1_800_000_000_000, by: "ada", reason: null, isOfAll: true },
    })),
  }));

/** As if this were why the job does not run. */
const explained =
  (reason: string, facts: object) =>
  (page: Page): Promise<void> =>
    answers(page, /\/story$/, (story: object) => ({
      ...story,
      explanation: { reason, sentence: "", facts },
    }));

const AWAITED = { events: [{ name: long("order.paid"), key: long("order") }], until: null };
const IDLE = { workers: [long("mailer"), long("shipper")] };

async function sessionEnds(page: Page): Promise<void> {
  await page.route(/\/api\/v1\//, (route) =>
    route.fulfill({ status: 401, json: { status: 401, code: "UNAUTHORIZED" } }),
  );
}

/** The queue itself has a button of the same name. */
async function pressInLanes(page: Page, name: RegExp): Promise<void> {
  const lanes = page.locator('section:has(h2:text-is("Lanes"))');
  await lanes.getByRole("button", { name }).first().click();
}

async function resumeLane(page: Page): Promise<void> {
  const paused = { at: 1_800_000_000_000, by: "ada", reason: null };
  await answers(page, /\/lanes$/, (found: { lanes: object[] }) => ({
    ...found,
    lanes: found.lanes.map((lane) => ({ ...lane, paused })),
  }));
  await pressInLanes(page, /^Resume…/);
}

/** By the function that asks: of each there must be one. */
function dialogsOf({ ids, workers }: Town, jobs: Jobs): Record<string, readonly Dialog[]> {
  const [failed, pending] = ["jobs?status=failed", "jobs?status=pending"];
  return {
    "frame.tsx Keys": [{ path: "", press: [/^(Keyboard|\?)/] }],
    "bulk.tsx askStop": [{ path: `bulk/${ids.bulk}`, press: [/^Stop…/], prepare: running }],
    "errors.tsx askResolve": [{ path: "errors", press: [/^Resolve…/] }],
    "errors.tsx askState": [{ path: "errors", press: [/^Mute…/] }],
    "alert-row.tsx askAcknowledge": [{ path: "alerts", press: [/^Acknowledge…/] }],
    "alert-row.tsx askSilence": [{ path: "alerts", press: [/^Silence…/] }],
    "flow.tsx askFlow": [
      { path: `flows/${ids.flow}`, press: [/^Cancel…/] },
      { path: `flows/${ids.failedFlow}`, press: [/^Retry .*…/] },
    ],
    "item.tsx askMove": [{ path: `items/${ids.item}`, press: [/→ .*…$/] }],
    "item.tsx askData": [{ path: `items/${ids.item}`, press: [/^Change…/] }],
    "job-actions.tsx askAct": [
      { path: `jobs/${jobs.failed}`, press: [/^Delete…/] },
      { path: pending, prepare: selectAll, press: [/^Move…/] },
    ],
    "job-actions.tsx askAll": [
      { path: failed, prepare: selectAll, press: [/^All that match/, /^Retry all…/] },
    ],
    "job-buttons.tsx askCancel": [{ path: `jobs/${jobs.running}`, press: [/^Cancel…/] }],
    "job-buttons.tsx askChange": [{ path: `jobs/${jobs.retry}`, press: [/^Edit…/] }],
    "job-buttons.tsx askReplay": [{ path: `jobs/${jobs.failed}`, press: [/^Replay…/] }],
    "job-buttons.tsx askEdit": [{ path: `jobs/${jobs.failed}`, press: [/^Edit…/] }],
    "job-buttons.tsx askRerun": [{ path: `jobs/${ids.packed}`, press: [/^Rerun from a step…/] }],
    "job-buttons.tsx askPlanned": [
      { path: `jobs/${ids.packed}`, press: [/^Rerun from a step…/, /^See what would happen/] },
    ],
    "job-buttons.tsx resolveEffect": [{ path: `jobs/${ids.doubt}`, press: [/^It happened…/] }],
    "mend.tsx askEmit": [
      {
        path: `jobs/${jobs.retry}`,
        press: [/^Emit the event…/],
        prepare: explained("waits-for-event", AWAITED),
      },
    ],
    "mend.tsx askResumeWorkers": [
      {
        path: `jobs/${jobs.retry}`,
        press: [/^Resume 2 workers…/],
        prepare: explained("workers-paused", IDLE),
      },
    ],
    "release-lock.tsx askRelease": [{ path: "locks", press: [/^Release…/] }],
    "queues.tsx askLimit": [{ path: "queues", press: [/^New limit…/] }],
    "queue-lanes.tsx askPauseLane": [
      { path: `queues/${LANED}`, press: [], prepare: (page) => pressInLanes(page, /^Pause…/) },
    ],
    "queue-lanes.tsx askResumeLane": [{ path: `queues/${LANED}`, press: [], prepare: resumeLane }],
    "queue-lanes.tsx askWeight": [{ path: `queues/${LANED}`, press: [/^1×/] }],
    "saved-views.tsx askName": [{ path: failed, press: [/^Save view…/] }],
    "schedule-form.tsx askNew": [{ path: "schedules", press: [/^New schedule…/] }],
    "schedule-form.tsx askEdit": [{ path: `schedules/${ids.schedule}`, press: [/^Change…/] }],
    "schedule-form.tsx askDelete": [{ path: `schedules/${ids.schedule}`, press: [/^Delete…/] }],
    "verdict.tsx askResume": [{ path: `queues/${PAUSED}`, press: [/^Resume…/] }],
    "verdict.tsx askPause": [{ path: `queues/${QUEUE}`, press: [/^Pause…/] }],
    "verdict.tsx askPauseAll": [{ path: "", press: [/^Pause everything…/] }],
    "verdict.tsx askResumeAll": [{ path: "", press: [/^Resume everything…/], prepare: allPaused }],
    "sign-in.tsx SessionEnded": [{ path: "", press: [], prepare: sessionEnds }],
    "workers.tsx askWorkers": [{ path: `workers/${workers[0]?.id}`, press: [/^Stop…/] }],
  };
}

/** "errors.tsx askState" of every function of the page that opens a dialog; notice-view.tsx draws what they ask. */
function asking(): string[] {
  const folder = join(import.meta.dirname, "../../page");
  const files = globSync("**/*.tsx", { cwd: folder }).filter((file) => file !== "notice-view.tsx");
  const found = files.flatMap((file) => {
    let name = "";
    return readFileSync(join(folder, file), "utf8")
      .split("\n")
      .flatMap((line) => {
        name = /^(?:export )?(?:async )?function (\w+)/.exec(line)?.[1] ?? name;
        return /\bask\(\{|<dialog/.test(line) ? [`${file.replace("pages/", "")} ${name}`] : [];
      });
  });
  return [...new Set(found)].toSorted();
}

/** As wide as people make windows; 720: 1,440 pixels at 200 percent. */
const WIDTHS = [1_280, 768, 720, 375];

/** A page is not wider than its window, a table than its panel, and a name has a third of its width: less cannot be read. */
const CUT = `(() => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the window");
  for (const box of document.querySelectorAll(".tablebox")) {
    if (box.scrollWidth > box.clientWidth + 1) found.push("scrolls: " + box.innerText.slice(0, 80));
  }
  for (const one of document.querySelectorAll("td, td .name, td .clip")) {
    const wanted = Math.min(one.scrollWidth, 320);
    if (one.clientWidth > 0 && one.clientWidth < wanted / 3) found.push("too narrow: " + one.innerText);
  }
  return found;
})()`;

describe("names of 40 letters", { skip: missing("chromium") }, () => {
  const folder = tempFolder();
  let town: Town;
  let jobs: Jobs;
  before(async () => {
    town = await Town.open(`sqlite:${folder.file(".db")}`);
    await town.comeToRest();
    await town.foldErrors();
    const [failed, busy, retry] = await Promise.all(
      (["failed", "processing", "retry"] as const).map(async (status) => {
        const [job] = await town.holdfast.jobs.list({ status, limit: 1 });
        return job?.id ?? "";
      }),
    );
    const [lost] = await town.all<{ id: string }>(
      sql`select id from holdfast.worker where status = 'stopped'`,
    );
    jobs = { failed, running: busy, retry, lostWorker: lost?.id ?? "" } as Jobs;
  });
  after(async () => {
    await town[Symbol.asyncDispose]();
    await closeBrowser();
    folder[Symbol.dispose]();
  });

  const open = async (path: string): Promise<Page> => {
    const page = await town.visitors.page(path, { bypassCSP: true });
    await page.locator(".bones").first().waitFor({ state: "detached" });
    return page;
  };

  const findings = async (page: Page): Promise<string[]> => {
    const found = await findingsOn(page);
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 1_000 });
      const cut = await page.evaluate<string[]>(CUT);
      found.push(...cut.map((one) => `${width}: ${one}`));
    }
    return found;
  };

  test("axe-core finds nothing on any page, and no table is cut", async () => {
    const addresses = addressesOf(town, jobs);
    assert.deepEqual(Object.keys(addresses), Object.keys(titles));
    const found: string[] = [];
    const all = [...Object.values(addresses).flat(), "no/such/page"];
    for (const path of everyNth(12, all, "long names")) {
      const page = await open(path);
      found.push(...(await findings(page)).map((one) => `${path}: ${one}`));
      await town.visitors.leave();
    }
    assert.deepEqual(found, []);
  });

  test("nor in any dialog", async () => {
    const dialogs = dialogsOf(town, jobs);
    assert.deepEqual(Object.keys(dialogs).toSorted(), asking());
    const found: string[] = [];
    const all = Object.entries(dialogs).flatMap(([name, some]) =>
      some.map((one) => ({ name, ...one })),
    );
    for (const { name, path, press, prepare } of everyNth(12, all, "long dialogs")) {
      const page = await open(path);
      await prepare?.(page);
      for (const button of press) {
        await page.getByRole("button", { name: button }).first().click();
      }
      await page.getByRole("dialog").waitFor();
      found.push(...(await findingsOn(page)).map((one) => `${name}: ${one}`));
      await town.visitors.leave();
    }
    assert.deepEqual(found, []);
  });

  test("nor where a person signs in, or an application names none", async () => {
    for (const [code, heading] of [
      ["UNAUTHORIZED", "Sign in"],
      ["NO_PRINCIPAL", "…"],
    ] as const) {
      const page = await open("audit");
      await page.route(/\/api\/v1\//, (route) =>
        route.fulfill({ status: 401, json: { status: 401, code, title: heading, detail: code } }),
      );
      await page.reload();
      await page.locator("main.signin h1").waitFor();
      assert.deepEqual(await findings(page), [], code);
      await town.visitors.leave();
    }
    town.visitors.complaints.length = 0; // 401 is logged by the browser, as is 404.
  });
});
