/** `holdfast job <id> --follow`: what a job reports, line by line, until it has ended. */
import type { ProgressReport, WatchEntry } from "../core/report.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { Interrupted } from "./failure.ts";
import { exitCodeAfter, listenForSignals, type EndSignal } from "./signals.ts";
import { cut, printable } from "./table.ts";
import type { Colors, Terminal } from "./terminal.ts";
import { count, statusPaint } from "./words.ts";

/** Ends with the job's own end: one that failed is an error here, as it is for whoever waits for its result. */
export async function follow(terminal: Terminal, { jobs }: Holdfast, id: string): Promise<void> {
  using signals = listenForSignals();
  const ending = new AbortController();
  let signal: EndSignal | null = null;
  void signals.first.then((first) => {
    signal = first;
    ending.abort();
  });
  const enough = AbortSignal.any([ending.signal, terminal.gone]);
  for await (const entry of jobs.watch(id, { signal: enough })) {
    if (terminal.json) terminal.printJsonLine(entry);
    else terminal.print(entryLine(terminal, entry));
  }
  if (signal !== null) throw new Interrupted({ signal, exitCode: exitCodeAfter(signal) });
  if (terminal.gone.aborted) return;
  const result = await jobs.result(id);
  if (terminal.json || result === null || result === undefined) return;
  terminal.print(printable(JSON.stringify(result, null, 2), { lines: true }));
}

/** `12:03:04  progress  42 %, 420 of 1,000, reading`: as wide as the terminal at most. */
export function entryLine(
  { colors, columns }: Pick<Terminal, "colors" | "columns">,
  entry: WatchEntry,
): string {
  const clock = new Date(entry.at).toTimeString().slice(0, CLOCK_WIDTH);
  const { what, words, paint } = told(colors, entry);
  const label = printable(what).padEnd(LABEL_WIDTH);
  const taken = CLOCK_WIDTH + label.length + 4;
  const text = printable(words);
  const shown = columns === null ? text : cut(text, Math.max(1, columns - taken));
  return `${colors.dim(clock)}  ${paint(label)}  ${shown}`.trimEnd();
}

const CLOCK_WIDTH = "12:03:04".length;
const LABEL_WIDTH = "processing".length;

interface Told {
  readonly what: string;
  readonly words: string;
  readonly paint: (text: string) => string;
}

function told(colors: Colors, entry: WatchEntry): Told {
  switch (entry.kind) {
    case "status": {
      const words = entry.attempts > 1 ? `attempt ${entry.attempts}` : "";
      return { what: entry.status, words, paint: statusPaint(colors, entry.status) };
    }
    case "progress":
      return { what: "progress", words: progressText(entry), paint: colors.cyan };
    case "log":
      return { what: "log", words: `${entry.text}${dataText(entry.data)}`, paint: colors.dim };
    case "report":
      return { what: entry.name, words: dataText(entry.data).trimStart(), paint: colors.dim };
    case "dropped":
      return { what: "dropped", words: `${count(entry.count)} more`, paint: colors.yellow };
  }
}

/** `42 %, 420 of 1,000, reading`. */
export function progressText({ share, done, total, text }: ProgressReport): string {
  const parts = [
    `${Math.floor(share * 100)} %`,
    ...(done === null || total === null ? [] : [`${count(done)} of ${count(total)}`]),
    ...(text === null ? [] : [text]),
  ];
  return parts.join(", ");
}

function dataText(data: unknown): string {
  return data === undefined ? "" : `  ${JSON.stringify(data)}`;
}
