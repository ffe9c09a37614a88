/** Queues, their settings and their lanes in the words of commands. */
import { statuses } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import type * as s from "../operations/shape.ts";
import { count, counted, printable, relative, span } from "../terminal/table.ts";
import type { Limits, Queue } from "./queues.ts";
import type { lanes as laneList, View } from "./shapes.ts";

export function factsOf({ queue: name, counts, oldestPendingAt, settings: set }: View): string[] {
  const held = statuses.filter((status) => counts[status] > 0);
  const facts: readonly (readonly [string, string])[] = [
    ["Queue", name],
    ["Jobs", held.map((status) => `${count(counts[status])} ${status}`).join(", ") || "none"],
    ["Oldest", oldestPendingAt === null ? "" : `pending since ${ago(oldestPendingAt)}`],
    ["Settings", set === null ? "" : stateOf(set)],
    ["Why", set?.paused?.reason ?? ""],
  ];
  return facts
    .filter(([, text]) => text !== "")
    .map(([title, text]) => `${title.padEnd(10)}${printable(text)}`);
}

export function ago(at: number | null): string {
  return at === null ? "" : relative(at, systemRuntime.now());
}

/** In words, such as `paused by ada; at most 5 at once; each lane: 10 per 1s`. */
export function stateOf({ paused, limits: own, eachLane, lanes, tasks, ageingMs }: Queue): string {
  const ofEach = limitWords(eachLane);
  return [
    paused === null ? "" : `paused by ${paused.by} ${ago(paused.at)}`,
    limitWords(own),
    ofEach === "" ? "" : `each lane: ${ofEach}`,
    ...Object.entries(lanes).map(([name, lane]) => `lane ${name}: ${laneWords(lane)}`),
    ...Object.entries(tasks).map(([name, limit]) => `task ${name}: ${limitWords(limit)}`),
    ageingMs === null ? "" : `ageing ${span(ageingMs)}`,
  ]
    .filter((part) => part !== "")
    .join("; ");
}

function laneWords({ paused, ...limit }: Queue["lanes"][string]): string {
  const pause = paused === null ? "" : `paused by ${paused.by} ${ago(paused.at)}`;
  return [pause, limitWords(limit)].filter((part) => part !== "").join(", ");
}

function limitWords(limit: Limits & { readonly weight?: number }): string {
  const { concurrency: most, rate: starts, weight = 1 } = limit;
  return [
    most === null ? "" : `at most ${most} running`,
    starts === null ? "" : `${starts.count} per ${span(starts.periodMs)}`,
    weight === 1 ? "" : `weight ${weight}`,
  ]
    .filter((part) => part !== "")
    .join(", ");
}

/** "10,000+" */
export function atLeast(jobs: number, isMore: boolean): string {
  return `${count(jobs)}${isMore ? "+" : ""}`;
}

export function totalOf({ total, isComplete }: s.TypeOf<typeof laneList>): string {
  const jobs = `${atLeast(total.pending, total.isMore)} pending ${total.pending === 1 ? "job" : "jobs"}`;
  const more = isComplete ? "" : ". The queue has more: not all lanes were counted";
  return `${jobs} in ${counted(total.lanes, "lane")}${more}`;
}
