/** Times, numbers and statuses the way people read them. */
import { formatMs } from "../core/duration.ts";
import type { Status } from "../core/job.ts";
import type { Colors } from "./terminal.ts";

/** "3m ago", "in 5m", "now": the largest unit says enough. */
export function relative(at: number, now: number): string {
  const ms = now - at;
  if (Math.abs(ms) < 1_000) return "now";
  const largest = span(Math.abs(ms));
  return ms > 0 ? `${largest} ago` : `in ${largest}`;
}

/** The largest unit of a span: "12m". */
export function span(ms: number): string {
  return formatMs(ms).split(" ")[0] ?? "";
}

/** The moment on this machine's clock and how long ago that is: "2027-01-31 09:00:07, 3m ago". */
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
} as const satisfies Record<Status, keyof Colors>;

export function statusPaint(colors: Colors, status: Status): (text: string) => string {
  return colors[TONES[status]];
}
