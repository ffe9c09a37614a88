/** How commands show schedules. */
import { systemRuntime } from "../core/runtime.ts";
import { type Columns, flexible, right } from "../operations/show.ts";
import { dataJson, moment, printable, relative } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Details, Run, Schedule } from "./shapes.ts";

export const SCHEDULES: Columns<Schedule> = [
  flexible("NAME", ({ name }) => name),
  flexible("WHEN", ({ words }) => words),
  flexible("TASK", ({ task }) => task),
  right("LAST", ({ lastAt }) => (lastAt === null ? "" : relative(lastAt, systemRuntime.now()))),
  right("NEXT", ({ pausedAt, error, nextAt }, { colors }) => {
    if (pausedAt !== null) return { text: "paused", paint: colors.yellow };
    if (error !== null) return { text: "failing", paint: colors.red };
    if (nextAt === null) return { text: "never", paint: colors.dim };
    return relative(nextAt, systemRuntime.now());
  }),
];

export function sentence(done: string, { name, words, nextAt }: Schedule): string {
  const when = nextAt === null ? "" : ` Next run: ${moment(nextAt, systemRuntime.now())}.`;
  return `${done} schedule '${printable(name)}': ${printable(words)}.${when}`;
}

export function factsOf(found: Details): string[] {
  const now = systemRuntime.now();
  const { pausedAt, pausedBy, missed: policy, error, description, declaredBy } = found;
  const known: readonly (readonly [string, string | null])[] = [
    ["Schedule", found.name],
    ["What for", description],
    ["When", found.words],
    ["Cron", found.cron],
    ["Task", found.task],
    ["Input", dataJson(found.input)],
    ["Options", JSON.stringify(found.options)],
    ["Missed", typeof policy === "string" ? policy : `all, at most ${policy.all}`],
    ["Overlap", found.overlap],
    ["Declared by", declaredBy === null ? null : `the code of workers named ${declaredBy}`],
    ["Paused", pausedAt === null ? null : `${moment(pausedAt, now)}, by ${pausedBy ?? ""}`],
    ["Missed runs", found.missedCount === 0 ? null : String(found.missedCount)],
    ["Waiting runs", found.queuedCount === 0 ? null : String(found.queuedCount)],
    ["Error", error],
    ...found.nextRuns.map(
      (at, index) => [index === 0 ? "Next runs" : "", moment(at, now)] as const,
    ),
    ["Clock", found.clock],
  ];
  const shown = known.filter((line): line is readonly [string, string] => line[1] !== null);
  return shown.map(([title, text]) => `${title.padEnd(13)}${printable(text)}`);
}

export function runLine({ tick, manual, outcome, job }: Run, { colors }: Terminal): string {
  const paint = outcome === "enqueued" ? colors.green : colors.yellow;
  const how = manual ? " by hand" : "";
  return `${moment(tick, systemRuntime.now())}  ${paint(outcome)}${how}  ${job ?? ""}`.trimEnd();
}
