/** The gallery of the page's parts, served as the dashboard is. */
import { bundleDashboard } from "../../scripts/dashboard.ts";
import { startServer } from "../../src/app/server.ts";
import { Assets } from "../../src/dashboard/assets.ts";
import type { Holdfast } from "../../src/index.ts";
import { SILENT, Visitors } from "./browser.ts";

export class Gallery extends Visitors implements AsyncDisposable {
  readonly #close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    super(url);
    this.#close = close;
  }

  static async open(holdfast: Holdfast): Promise<Gallery> {
    const pages = new Assets(() => bundleDashboard("gallery.tsx"));
    const server = await startServer({ holdfast, pages, port: 0, logger: SILENT });
    return new Gallery(`${server.url}/`, () => server.close());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave();
    await this.#close();
  }
}
