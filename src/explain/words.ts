/** Times, numbers and lists as the sentences of an explanation have them. */
import { visible } from "../core/characters.ts";
import type { Bounded } from "../core/explanation.ts";
import { formatMs } from "../core/duration.ts";

/** An error in a sentence is cut after this many characters. */
const ERROR_LENGTH_MAX = 200;

/** "2027-01-31 09:00:07 UTC". */
function instant(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** "2027-01-31 09:00:07 UTC, in 5m". */
export function moment(at: number, now: number): string {
  return `${instant(at)}, ${at > now ? `in ${formatMs(at - now)}` : ago(at, now)}`;
}

/** "3m 20s ago". */
export function ago(at: number, now: number): string {
  return now - at < 1_000 ? "just now" : `${lasting(at, now)} ago`;
}

/** How long it has lasted: "3m 20s". */
export function lasting(at: number, now: number): string {
  return formatMs(Math.max(0, now - at));
}

/** "1 job", "1,000 jobs", "more than 1,000 jobs". */
export function jobs({ count, isMore }: Bounded): string {
  const number = count.toLocaleString("en-US");
  return `${isMore ? "more than " : ""}${number} job${count === 1 ? "" : "s"}`;
}

/** "a", "a and b", "a, b and c". */
export function listed(parts: readonly string[]): string {
  const last = parts.at(-1) ?? "";
  return parts.length < 2 ? last : `${parts.slice(0, -1).join(", ")} and ${last}`;
}

export function quoted(name: string): string {
  return `'${visible(name)}'`;
}

/** The first line of a text that a program or a person wrote, without its full stop. */
export function clause(text: string): string {
  const [line = ""] = text.trim().split("\n");
  const shown = visible(line.trim());
  const cut = shown.length > ERROR_LENGTH_MAX ? `${shown.slice(0, ERROR_LENGTH_MAX)}…` : shown;
  return cut.replace(/\.$/, "");
}

export function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function uncapitalised(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1);
}
