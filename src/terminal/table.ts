/** Tables for a terminal: aligned, and truncated with … to fit its width. */
import { visible } from "../core/characters.ts";

export interface Column {
  readonly title: string;
  readonly align?: "right";
  /** Shrinks if the table is too wide. */
  readonly flexible?: boolean;
}

export interface Cell {
  readonly text: string;
  /** Colours the cell after it was truncated and padded. */
  readonly paint?: (text: string) => string;
}

export interface TableOptions {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly (string | Cell)[])[];
  /** The maximum width; null: no limit. */
  readonly width: number | null;
  readonly paintTitle?: (text: string) => string;
}

const FLEXIBLE_MIN = 8;

/** The lines of the table, the titles first. */
export function table({ columns, rows, width, paintTitle }: TableOptions): string[] {
  const cells = rows.map((row) =>
    row.map((cell): Cell => {
      const { text, ...style } = typeof cell === "string" ? { text: cell } : cell;
      return { ...style, text: printable(text) };
    }),
  );
  const natural = columns.map(({ title }, index) =>
    Math.max(widthOf(title), ...cells.map((row) => widthOf(row[index]?.text ?? ""))),
  );
  const { widths, gap } = fit(columns, natural, width);
  const line = (row: readonly Cell[]): string =>
    row
      .map((cell, index) => laidOut(cell, columns[index], widths[index] ?? 0))
      .join(" ".repeat(gap))
      .trimEnd();
  const titles = columns.map(({ title }): Cell => {
    return paintTitle === undefined ? { text: title } : { text: title, paint: paintTitle };
  });
  return [line(titles), ...cells.map(line)];
}

/** Shrinks the flexible columns, the widest first, then the gaps. */
function fit(
  columns: readonly Column[],
  natural: readonly number[],
  width: number | null,
): { widths: number[]; gap: number } {
  const widths = [...natural];
  const total = (gap: number): number => sum(widths) + gap * (widths.length - 1);
  if (width === null || total(2) <= width) return { widths, gap: 2 };
  while (total(2) > width) {
    const widest = indexOfWidest(columns, widths);
    if (widest === -1) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return { widths, gap: total(2) <= width ? 2 : 1 };
}

function indexOfWidest(columns: readonly Column[], widths: readonly number[]): number {
  const shrinkable = widths.map((width, index) =>
    columns[index]?.flexible === true && width > FLEXIBLE_MIN ? width : 0,
  );
  const most = Math.max(...shrinkable);
  return most === 0 ? -1 : shrinkable.indexOf(most);
}

function laidOut(cell: Cell, column: Column | undefined, width: number): string {
  const text = cut(cell.text, width);
  const padding = " ".repeat(Math.max(0, width - widthOf(text)));
  const painted = cell.paint === undefined || text === "" ? text : cell.paint(text);
  return column?.align === "right" ? padding + painted : painted + padding;
}

/** Truncates the text to `width` columns, with … at the end. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let short = "";
  let taken = 0;
  for (const character of characters(text)) {
    taken += widthOf(character);
    if (taken > width - 1) break;
    short += character;
  }
  return `${short}…`;
}

/** East Asian characters and emoji take two columns. */
const WIDE =
  /[\u1100-\u115F\u2E80-\uA4CF\uA960-\uA97F\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}/u;

/** Created on demand: it takes two megabytes, which an idle worker should not hold. */
let segmenter: Intl.Segmenter | null = null;

/** The width of the text on a terminal. */
export function widthOf(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  return sum(characters(text).map((character) => (WIDE.test(character) ? 2 : 1)));
}

function characters(text: string): string[] {
  segmenter ??= new Intl.Segmenter();
  return [...segmenter.segment(text)].map(({ segment }) => segment);
}

/** The data of a job may contain terminal escape sequences: they are shown, not executed. */
export function printable(text: string, options: { readonly lines?: boolean } = {}): string {
  return visible(text, options);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
