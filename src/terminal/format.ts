/** Formats times, numbers and statuses for people. */
import { formatMs } from "../core/duration.ts";
import { packageCode } from "../core/files.ts";
import type { Status } from "../core/job.ts";
import { ownRedaction } from "../core/redaction.ts";
import type { Colors } from "./terminal.ts";

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
  return /\bnode:/.test(frame) || INSTALLED.test(frame) || frame.includes(`${packageCode}/`);
}

/** Users' data as JSON, without what the redaction rules hide. */
export function dataJson(data: unknown, indent?: number): string {
  return JSON.stringify(ownRedaction().data(data), null, indent) ?? "";
}
