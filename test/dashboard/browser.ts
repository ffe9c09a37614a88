/** A real browser, and a real server with a shop behind it. Anything that the browser complains about fails the test. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Doctor } from "../../src/doctor/doctor.ts";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { startServer, type Server } from "../../src/app/server.ts";
import type { Limits } from "../../src/http-kernel/limits.ts";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import type { Observation } from "../../src/monitoring/monitor.ts";
import { urlOf } from "../support/servers.ts";
import { openShop, orders, type Shop, shopTasks } from "./shop.ts";

const STEP_LIMIT_MS = 15_000;

let browser: Browser | null = null;

export async function openBrowser(): Promise<Browser> {
  browser ??= await chromium.launch({
    executablePath: urlOf("chromium"),
    // As root there is no sandbox; and the browser reaches no other host.
    args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update"],
  });
  return browser;
}

export async function closeBrowser(): Promise<void> {
  await browser?.close();
  browser = null;
}

export const SILENT = { debug() {}, info() {}, warn() {}, error() {}, fatal() {} };

type Options = NonNullable<Parameters<Browser["newContext"]>[0]>;

/** A page in a browser of its own. */
class Visit {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Where it began, for complaints. */
  path = "";
  /** Whether somebody else may have it afterwards. */
  #isPlain: boolean;

  private constructor(parts: { context: BrowserContext; page: Page; isPlain: boolean }) {
    this.context = parts.context;
    this.page = parts.page;
    this.#isPlain = parts.isPlain;
    const { clock } = this.page;
    // It stops the time of every page that is opened there afterwards.
    const install = clock.install.bind(clock);
    clock.install = (...args) => {
      this.#isPlain = false;
      return install(...args);
    };
  }

  static async open(options: Options, complain: (text: string) => void): Promise<Visit> {
    const context = await (
      await openBrowser()
    ).newContext({
      viewport: { width: 1_440, height: 1_000 },
      reducedMotion: "reduce",
      ...options,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(STEP_LIMIT_MS);
    const visit = new Visit({ context, page, isPlain: Object.keys(options).length === 0 });
    page.on("pageerror", (error) => complain(`${visit.path}: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error") {
        complain(`${visit.path}: ${message.text()} ${message.location().url}`);
      }
    });
    return visit;
  }

  /** Whether it is as it was when it was opened; if not, it is closed. */
  async leave(): Promise<boolean> {
    if (this.#isPlain) {
      try {
        await this.page.unrouteAll({ behavior: "ignoreErrors" });
        await this.page.evaluate("localStorage.clear()");
        await this.context.clearCookies();
        await this.page.mouse.move(0, 0);
        await this.page.goto("about:blank");
        return true;
      } catch {
        // What does not let go is not used again.
      }
    }
    await this.context.close();
    return false;
  }
}

/** Pages that look at a server. One that was left is used again: to open one takes as long as to show it. */
export class Visitors {
  readonly url: string;
  readonly #visits: Visit[] = [];
  readonly #idle: Visit[] = [];
  /** What browsers complained about. */
  readonly complaints: string[] = [];

  constructor(url: string) {
    this.url = url;
  }

  /** Opens an address of the dashboard. */
  async page(path = "", options: Options = {}): Promise<Page> {
    const known = Object.keys(options).length === 0 ? this.#idle.pop() : undefined;
    const visit = known ?? (await Visit.open(options, (text) => this.complaints.push(text)));
    this.#visits.push(visit);
    visit.path = path;
    await visit.page.goto(this.url + path);
    await visit.page.locator("h1").first().waitFor();
    return visit.page;
  }

  async leave(): Promise<void> {
    for (const visit of this.#visits.splice(0)) {
      if (await visit.leave()) this.#idle.push(visit);
    }
  }

  assertNoComplaints(): void {
    assert.deepEqual(this.complaints.splice(0), [], "the browser complained");
  }
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe-core finds, in a line each. */
export async function findingsOn(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate(
    `axe.run(document, { resultTypes: ["violations"] })`,
  )) as {
    violations: { id: string; nodes: { html: string }[] }[];
  };
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes
        .map(({ html }) => html.slice(0, 160))
        .slice(0, 3)
        .join(" | ")}`,
  );
}

/** A shop, its server, and pages that look at it. */
export class TestServer implements AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly shop: Shop;
  #server: Server | null = null;
  #visitors = new Visitors("");
  /** What the server's monitor saw last. */
  seen: Observation | null = null;
  readonly #limits: Partial<Limits>;

  private constructor(holdfast: Holdfast, shop: Shop, limits: Partial<Limits>) {
    this.holdfast = holdfast;
    this.shop = shop;
    this.#limits = limits;
  }

  static async open(url = "sqlite::memory:", limits: Partial<Limits> = {}): Promise<TestServer> {
    const holdfast = await openHoldfast(url, { logger: SILENT });
    const dashboard = new TestServer(holdfast, await openShop(holdfast), limits);
    await dashboard.startServer();
    dashboard.#visitors = new Visitors(dashboard.url);
    const findings = await new Doctor(holdfast).quick();
    dashboard.seen = { at: Date.now(), counts: null, minutes: [], findings, canaries: [] };
    return dashboard;
  }

  get url(): string {
    return `${this.#server?.url}/`;
  }

  /** What browsers complained about. */
  get complaints(): string[] {
    return this.#visitors.complaints;
  }

  /** Opens an address of the dashboard. */
  page(path = "", options: Parameters<Browser["newContext"]>[0] = {}): Promise<Page> {
    return this.#visitors.page(path, options);
  }

  /** The server ends, as in a deploy; jobs go on. */
  async stopServer(): Promise<void> {
    await this.#server?.close();
  }

  async startServer(): Promise<void> {
    this.#server = await startServer({
      holdfast: this.holdfast,
      port: this.#server?.port ?? 0,
      tasks: shopTasks,
      workflows: [orders],
      logger: SILENT,
      limits: this.#limits,
      monitor: { latest: () => this.seen },
    });
  }

  closePages(): Promise<void> {
    return this.#visitors.leave();
  }

  assertNoComplaints(): void {
    this.#visitors.assertNoComplaints();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.closePages();
    await this.stopServer();
    await this.shop.worker.stop();
    await this.holdfast.close();
  }
}
