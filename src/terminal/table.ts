/** Tables for a terminal: aligned, and truncated with … to fit its width. */
import { formatMs } from "../core/duration.ts";
import { codeFile } from "../core/version.ts";
import type { Status } from "../core/job.ts";
import { ownRedaction } from "../config/redaction.ts";
import { visible } from "../core/text.ts";
import type { Colors } from "./terminal.ts";

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

/** Names with texts below each other, indented; what is null is left out. */
export function facts(
  { dim }: Colors,
  lines: Readonly<Record<string, string | Cell | null>>,
): string[] {
  const shown = Object.entries(lines).flatMap(([name, fact]) =>
    fact === null ? [] : [{ name, ...(typeof fact === "string" ? { text: fact } : fact) }],
  );
  const width = Math.max(0, ...shown.map(({ name }) => name.length));
  return shown.map(({ name, text, paint }) => {
    const safe = printable(text);
    return `  ${dim(name.padEnd(width))}  ${paint === undefined ? safe : paint(safe)}`;
  });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

// Formats times, numbers and statuses for people.

/** "3m ago", "in 5m", "now": only the largest unit. */
export function relative(at: number, now: number): string {
  const ms = now - at;
  if (Math.abs(ms) < 1_000) return "now";
  const largest = span(Math.abs(ms));
  return ms > 0 ? `${largest} ago` : `in ${largest}`;
}

/** The largest unit of a duration: "12m". */
export function span(ms: number): string {
  return formatMs(ms).split(" ")[0] ?? "";
}

/** Local time and how long ago that is: "2027-01-31 09:00:07, 3m ago". */
export function moment(at: number, now: number): string {
  const date = new Date(at);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${day} ${time}, ${relative(at, now)}`;
}

function two(part: number): string {
  return String(part).padStart(2, "0");
}

export function count(number: number): string {
  return number.toLocaleString("en-US");
}

/** "1 job", "12 jobs". */
export function counted(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

const TONES = {
  scheduled: "cyan",
  pending: "cyan",
  processing: "blue",
  waiting: "cyan",
  retry: "yellow",
  done: "green",
  failed: "red",
  cancelled: "dim",
  expired: "dim",
} as const satisfies Record<Status, keyof Colors>;

export function statusPaint(colors: Colors, status: Status): (text: string) => string {
  return colors[TONES[status]];
}

// Stack traces reduced to the frames of the application, without those of Holdfast and Node.

/** Another host may have installed Holdfast elsewhere. */
const INSTALLED = /[\\/]node_modules[\\/]holdfast[\\/]/;
const FRAME = /^\s+at /;
/** Enough to see where it happened. */
const FRAMES_MAX = 6;

/** The message and the first frames of the application, with the number of omitted frames. */
export function applicationStack(stack: string): string {
  const lines = stack.split("\n");
  const start = lines.findIndex((line) => FRAME.test(line));
  if (start === -1) return stack;
  const frames = lines.slice(start).filter((line) => FRAME.test(line));
  const shown = frames.filter((line) => !isForeign(line)).slice(0, FRAMES_MAX);
  const left = frames.length - shown.length;
  const more = left === 0 ? [] : [`    … ${left} more with --json`];
  return [...lines.slice(0, start), ...shown, ...more].join("\n");
}

function isForeign(frame: string): boolean {
  return /\bnode:/.test(frame) || INSTALLED.test(frame) || frame.includes(`${codeFile("")}/`);
}

/** Users' data as JSON, without what the redaction rules hide. */
export function dataJson(data: unknown, indent?: number): string {
  return JSON.stringify(ownRedaction().data(data), null, indent) ?? "";
}
