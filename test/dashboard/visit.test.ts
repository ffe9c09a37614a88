/** A visit: by keyboard alone, as a viewer, through a restart of the server, and among hostile texts. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Tokens } from "../../src/tokens/tokens.ts";
import { startServer } from "../../src/app/server.ts";
import { prefixProxy } from "../support/prefix-proxy.ts";
import { everyNth } from "../support/scale.ts";
import { missing } from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { closeBrowser, SILENT, TestServer, Visitors } from "./browser.ts";
import { HOSTILE, hostileShop } from "./hostile.ts";
import { viewsOf } from "./views.ts";

/** What only a string that became HTML could have made. */
const MADE = "script:not([src]), img, iframe, a[href^='javascript:'], body style";

/** Without what the browser logs of a request that the server refused. */
function withoutRefusals(complaints: readonly string[]): readonly string[] {
  return complaints.filter((one) => !one.includes("Failed to load resource"));
}

describe("a visit to the dashboard", { skip: missing("chromium") }, () => {
  let dashboard: TestServer;
  before(async () => {
    dashboard = await TestServer.open();
  });
  after(async () => {
    await dashboard[Symbol.asyncDispose]();
    await closeBrowser();
  });

  test("the keyboard alone retries a job and stops a worker", async () => {
    const { failed } = dashboard.shop.ids;
    const page = await dashboard.page("");
    const press = async (...keys: readonly string[]): Promise<void> => {
      for (const key of keys) await page.keyboard.press(key);
    };
    await press("g", "j");
    await page.getByRole("heading", { name: "Jobs" }).waitFor();
    const box = page.locator("[role=search] input:focus");
    // A key that is pressed before the page listens is lost.
    await until("the search has the focus", async () => {
      if ((await box.count()) === 0) await press("/");
      return (await box.count()) > 0;
    });
    await page.keyboard.type("key:order-48211");
    await press("Enter");
    await page.waitForURL(/key=order-48211/);
    await page.getByText("1 found").waitFor();
    await press("Escape", "j", "Enter");
    await page.waitForURL(new RegExp(failed));
    await page.getByRole("button", { name: /^Retry/ }).waitFor();
    const { epoch } = (await dashboard.holdfast.jobs.get(failed))!;
    await press("r");
    await until(
      "it runs again",
      async () => (await dashboard.holdfast.jobs.get(failed))!.epoch > epoch,
    );
    await press("g", "w");
    await page.getByRole("heading", { name: "Workers" }).waitFor();
    await page
      .getByText(/^\d of 20$/)
      .first()
      .waitFor();
    await press("j", "s");
    await page.locator("dialog :focus").waitFor();
    await page.keyboard.type("by keyboard");
    await press("Enter");
    await until(
      "it is told to stop",
      async () => (await dashboard.holdfast.workers.list({}))[0]?.desiredState === "stop",
    );
    assert.equal(
      (
        await dashboard.holdfast.audit.list({
          subject: `worker ${dashboard.shop.worker.id}`,
          limit: 5,
        })
      ).at(-1)?.reason,
      "by keyboard",
    );
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await dashboard.closePages();
  });

  test("going back restores the place, the filter and the selection", async () => {
    const page = await dashboard.page("jobs?status=pending", {
      viewport: { width: 1_440, height: 500 },
    });
    await page
      .getByRole("checkbox", { name: /^Select (?!all)/ })
      .nth(2)
      .check();
    await page.evaluate("scrollTo(0, 200)");
    await page.locator("tbody a.name").nth(3).click();
    await page.getByText("What happened").waitFor();
    await page.goBack();
    await page.getByText("1 selected").waitFor();
    assert.match(page.url(), /status=pending/);
    await until("it has scrolled back", async () => (await page.evaluate<number>("scrollY")) > 0);
    await dashboard.closePages();
  });

  test("contended locks, findings of the monitor and the state of the audit log are shown", async () => {
    const page = await dashboard.page("locks");
    await page.getByText("stock:9 is contended: 8 gave up in the last hour").waitFor();
    const cells = page.getByRole("img", { name: /^stock: waits of at most .* 8 time-outs$/ });
    await cells.focus();
    for (let steps = 0; steps < 6; steps += 1) await page.keyboard.press("ArrowLeft");
    await page.getByText(/^stock, .*: p99 .*, 2 time-outs$/).waitFor();
    await page.getByRole("link", { name: "7 d" }).click();
    await page.getByText("Wait for a lock, p99 by 2 h").waitFor();

    await page.goto(`${dashboard.url}alerts`);
    await page.getByText(/blocked by an effect in doubt/).waitFor();
    await page.getByText(/Check in the external system/).waitFor();

    await page.goto(`${dashboard.url}audit`);
    await page.getByRole("button", { name: "Verify the log" }).click();
    await page.getByText(/^The log is whole: \d+ lines verified/).waitFor();
    await dashboard.closePages();
  });

  test("a restart of the server is told, and the page recovers by itself", async () => {
    const page = await dashboard.page("");
    await page.clock.install();
    await dashboard.stopServer();
    await page.clock.runFor(20_000);
    await page.getByText(/No connection to Holdfast for/).waitFor();
    assert.equal(await page.getByText("It is not known how things are right now.").count(), 1);
    await dashboard.startServer();
    await page.clock.runFor(9_000);
    await page
      .getByText(/The connection is back|is paused/)
      .first()
      .waitFor();
    await until("the page is live", async () => {
      await page.clock.runFor(500);
      return (await page.getByText(/No connection to Holdfast for/).count()) === 0;
    });
    await dashboard.closePages();
    dashboard.complaints.length = 0; // Requests failed, as they should.
  });

  test("an address with the name of a property of objects does not exist, and says so", async () => {
    const page = await dashboard.page("");
    for (const path of ["constructor", "__proto__", "toString", "hasOwnProperty", "no/such/page"]) {
      await page.goto(dashboard.url + path);
      await page.getByRole("heading", { level: 1, name: "This page does not exist" }).waitFor();
    }
    for (const status of ["constructor", "__proto__"]) {
      await page.goto(`${dashboard.url}jobs?status=${status}&state=${status}&range=${status}`);
      await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
    }
    await dashboard.closePages(); // The browser may complain of the last address until then.
    assert.deepEqual(withoutRefusals(dashboard.complaints.splice(0)), []);
  });

  test("any attempt of a job can be chosen, with all causes of its error, on a phone too", async () => {
    const { holdfast } = dashboard;
    const { id } = await holdfast.enqueue("outside.try", {}, { queue: "tries", maxAttempts: 13 });
    for (let attempt = 1; attempt <= 13; attempt += 1) {
      const [lease] = await holdfast.leases.acquire({ worker: "py-1", queues: ["tries"] });
      const fence = { id, worker: "py-1", epoch: lease?.epoch ?? 0 };
      const first = {
        name: "TypeError",
        message: "no address",
        stack: "TypeError\n    at look (dns.js:7:1)",
      };
      const cause = { name: "Error", message: "no printer", cause: first };
      const step = { name: `label ${attempt}`, occurrence: 1, tookMs: 1 };
      const error = { name: "Error", message: `failure ${attempt}`, code: "E_LABEL", cause, step };
      const outcome = { kind: "retry", delayMs: 0, error: JSON.stringify(error) } as const;
      await holdfast.store.jobs.settle([{ ...fence, outcome }]);
      await holdfast.store.jobs.promoteDue({ limit: 9 });
    }
    const page = await dashboard.page(`jobs/${id}`, { viewport: { width: 375, height: 800 } });
    await page.locator(".explain").getByText("at label 13 with Error: failure 13.").waitFor();
    const choice = page.getByRole("combobox", { name: "Attempt" });
    assert.equal(await choice.locator("option").count(), 11, "ten, and the comparison");
    await page.getByRole("button", { name: "Earlier" }).click();
    await choice.locator("option", { hasText: "label 1" }).last().waitFor({ state: "attached" });
    await choice.selectOption("1");
    const stack = page.locator("pre.code").filter({ hasText: "failure 1" }).first();
    await stack.getByText("Error (E_LABEL): failure 1", { exact: true }).waitFor();
    const text = (await stack.textContent()) ?? "";
    assert.match(
      text,
      /caused by Error: no printer\s+caused by TypeError: no address\s+at look \(dns\.js:7:1\)/,
    );
    await page.getByRole("button", { name: "Copy stack" }).click();
    await page.getByText(/^Copied: Error: failure 1/).waitFor();
    assert.equal(await page.evaluate("document.documentElement.scrollWidth - innerWidth"), 0);
    await dashboard.closePages();
    dashboard.assertNoComplaints();
  });

  test("the event that a job waits for is emitted by hand, and the job goes on", async () => {
    const { holdfast } = dashboard;
    const { id } = await holdfast.enqueue("outside.wait", {}, { queue: "waits" });
    const [lease] = await holdfast.leases.acquire({ worker: "py-1", queues: ["waits"] });
    const fence = { id, worker: "py-1", epoch: lease?.epoch ?? 0 };
    const of = { event: "order.paid", key: "42" };
    await holdfast.store.steps.expect(of);
    await holdfast.store.jobs.settle([
      { ...fence, outcome: { kind: "suspended", delayMs: null, waits: [of] } },
    ]);
    const page = await dashboard.page(`jobs/${id}`);
    await page
      .locator(".explain")
      .getByText("It waits for the event order.paid with the key 42.")
      .waitFor();
    await page.getByRole("button", { name: "Emit the event…" }).click();
    await page.getByLabel(/^Payload/).fill('{ "cents": 500 }');
    await page.getByRole("button", { name: "Emit it" }).click();
    await page.getByText("Emitted: 1 job went on.").waitFor();
    assert.equal((await holdfast.jobs.get(id))?.status, "pending");
    const event = await holdfast.store.steps.findEvent("order.paid", "42");
    assert.deepEqual(JSON.parse(event?.payload ?? ""), { cents: 500 });
    await dashboard.closePages();
  });

  test("a job that does not exist is asked for once, and its page has a heading", async () => {
    const missingJob = "01890000-0000-7000-8000-000000000000";
    const page = await dashboard.page("");
    await page.clock.install();
    let asked = 0;
    page.on("request", (request) => {
      if (request.url().endsWith(`jobs/${missingJob}/story`)) asked += 1;
    });
    await page.goto(`${dashboard.url}jobs/${missingJob}`);
    await page.getByText(`There is no job ${missingJob}`).waitFor();
    await page.getByRole("heading", { level: 1, name: "Job" }).waitFor();
    await page.clock.runFor(60_000);
    // A connection that comes back reads all again, which a busy machine may need once.
    assert.ok(asked <= 2, `it was asked for ${asked} times in a minute`);
    const untilThen = asked;
    await page.getByRole("button", { name: "Try again" }).first().click();
    await until("it is asked again", () => asked > untilThen);
    await dashboard.closePages();
    dashboard.complaints.length = 0; // 404 is logged by the browser.
  });

  test("behind a proxy that serves it below a prefix, every request has the prefix", async () => {
    const { failed } = dashboard.shop.ids;
    const prefix = "/tools/holdfast";
    await using server = await startServer({
      holdfast: dashboard.holdfast,
      port: 0,
      basePath: prefix,
      logger: SILENT,
    });
    for (const keeps of [true, false]) {
      await using proxy = await prefixProxy(server.url, { prefix, keeps });
      const visitors = new Visitors(proxy.url);
      const page = await visitors.page(`jobs/${failed}`);
      await page.getByText("What happened").waitFor();
      await page.getByText(/^Live/).waitFor();
      await page.getByRole("link", { name: "Queues", exact: true }).click();
      await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
      assert.equal(page.url(), `${proxy.url}queues`);
      await page.reload();
      await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
      await visitors.leave();
      assert.deepEqual(proxy.strays, []);
      visitors.assertNoComplaints();
    }
  });

  test("hostile texts in every field stay text", async () => {
    await hostileShop(dashboard.holdfast);
    const jobs = await dashboard.holdfast.jobs.list({ limit: 200 });
    const hostile = jobs.filter(({ tags }) => tags.includes("hostile"));
    const paths = [
      ...viewsOf(dashboard.shop).map(({ path }) => path),
      ...hostile.map(({ id }) => `jobs/${id}`),
      `jobs?task=${encodeURIComponent(HOSTILE[0] ?? "")}`,
    ];
    const page = await dashboard.page("");
    for (const path of everyNth(4, paths, "hostile")) {
      await page.goto(dashboard.url + path);
      await page.locator("h1").first().waitFor();
      await page.waitForTimeout(30);
      const harm = await page.evaluate(
        `({ ran: "pwned" in globalThis, made: document.querySelectorAll("${MADE}").length })`,
      );
      assert.deepEqual(harm, { ran: false, made: 0 }, path);
    }
    await dashboard.closePages();
    dashboard.assertNoComplaints();
  });

  test("a session that ends leaves the page and what was typed, says why, and goes on", async () => {
    await using own = await TestServer.open();
    const { store, runtime } = own.holdfast;
    const tokens = new Tokens({ store, runtime });
    const create = (name: string): Promise<string> => tokens.create({ name, role: "operator" });
    const [first, second] = [await create("ada"), await create("ada again")];
    const page = await own.page(`jobs/${own.shop.ids.failed}`);
    const signIn = async (token: string): Promise<void> => {
      await page.getByLabel("Token").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
    };
    await signIn(first);
    await page
      .getByRole("button", { name: /^Delete…/ })
      .first()
      .click();
    await page.getByLabel("Why").fill("ordered twice");
    await tokens.revoke("ada");
    await page.getByRole("heading", { name: "Your session ended" }).waitFor();
    await page.getByText("What happened").waitFor();
    await signIn(second);
    await page.getByRole("heading", { name: "Your session ended" }).waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Why").inputValue(), "ordered twice");
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Delete/ })
      .click();
    await until(
      "it is deleted",
      async () => (await own.holdfast.jobs.get(own.shop.ids.failed)) === null,
    );
    await own.closePages();
    own.complaints.length = 0; // 401 is logged by the browser.
  });

  test("with a token, a viewer signs in, sees everything, and has no button that changes anything", async () => {
    await using own = await TestServer.open();
    const { store, runtime } = own.holdfast;
    const tokens = new Tokens({ store, runtime });
    const viewer = await tokens.create({ name: "ada", role: "viewer" });
    const page = await own.page("");
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByLabel("Token").fill("hft_wrong-wrong-wrong-wrong-wrong-wrong-wrong-wro");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Token").fill(viewer);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("viewer", { exact: true }).waitFor();
    for (const { path, shows, name } of everyNth(6, viewsOf(own.shop), "viewer")) {
      if (path === "enqueue" || path.startsWith("items/")) continue;
      await page.goto(own.url + path);
      await page.getByText(shows).first().waitFor({ state: "attached" });
      const buttons = await page
        .getByRole("button", {
          name: /Retry|Cancel|Pause|Resume|Stop|Drain|Delete|Release|Edit|Enqueue|New |Change|Run now/,
        })
        .allInnerTexts();
      assert.deepEqual(buttons, [], name);
    }
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await own.closePages();
    own.complaints.length = 0; // 401 is logged by the browser.
  });
});
