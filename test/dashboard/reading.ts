/** What a page shows, read in one go: a table that is drawn anew is never half old. */
import type { Page } from "playwright-core";
import { until } from "../worker/observe.ts";

/** Runs in the browser. The text of a cell is its name, if it has one: a note may stand beside it. */
const ROWS = `(panel, columns) => {
  const text = (one) => one?.textContent.trim().replaceAll(/\\s+/g, " ") ?? "";
  const isOf = (one) => {
    const section = one.closest("section");
    const names = [one.getAttribute("aria-label"), section?.getAttribute("aria-label")];
    return names.includes(panel) || text(section?.querySelector("h2")) === panel;
  };
  const table = [...document.querySelectorAll("table")].find(isOf);
  if (table === undefined) return null;
  const titles = [...table.querySelectorAll("thead th")].map(text);
  const at = columns.map((column) => titles.indexOf(column));
  if (at.includes(-1)) return null;
  return [...table.querySelectorAll("tbody tr")].map((row) =>
    at.map((index) => {
      const cell = row.querySelectorAll("td")[index];
      return text(cell?.querySelector(".name") ?? cell);
    }),
  );
}`;

/** What a table shows: each row as the trimmed texts of the given columns. */
export function rowsOf(page: Page, panel: string, columns: readonly string[]): Promise<string[][]> {
  const script = `(${ROWS})(${JSON.stringify(panel)}, ${JSON.stringify(columns)})`;
  return until(`the table ${panel} is drawn`, () => page.evaluate<string[][] | null>(script));
}

/** The trimmed texts of all elements. */
export async function textsOf(page: Page, css: string): Promise<string[]> {
  const texts = await page.locator(css).allTextContents();
  return texts.map((text) => text.trim().replaceAll(/\s+/g, " "));
}

/** In an order that does not depend on the page's. */
export function sorted<T>(rows: readonly T[]): T[] {
  return rows.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

/** "1,209" as a number. */
export function numberIn(text: string): number {
  return Number(text.replaceAll(",", "").match(/\d+/)?.[0] ?? Number.NaN);
}
