/** The log for a terminal: one short line per entry. The JSON log has the omitted fields. */
import { systemRuntime, type Timer } from "../core/runtime.ts";
import { counted, span } from "../terminal/format.ts";
import { cut, printable, widthOf } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";

interface Entry {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
  readonly event?: string;
  readonly job?: string;
  readonly task?: string;
  readonly attempt?: number;
  readonly durationMs?: number;
  readonly retryAt?: number | null;
  readonly err?: { readonly type?: string; readonly message?: string; readonly stack?: string };
  readonly process?: number;
  /** An uncaught error: only its stack shows where it comes from. */
  readonly uncaught?: true;
  readonly source?: string;
}

type Screen = Pick<Terminal, "errorColors" | "errorColumns">;

/** Above this rate, done jobs are counted instead of listed. */
const DONE_A_SECOND_MAX = 8;
const SECOND_MS = 1_000;
/** `2027-01-31T09:00:07` */
const SECOND_LENGTH = 19;

export class PersonLog {
  readonly #screen: Screen;
  readonly #write: (line: string) => void;
  #second = "";
  #done = 0;
  #left = 0;
  #timer: Timer | null = null;

  constructor(screen: Screen, write: (line: string) => void) {
    this.#screen = screen;
    this.#write = write;
  }

  /** Takes one JSON line. */
  write(json: string): void {
    const entry = JSON.parse(json) as Entry;
    if (entry.event === "job:done" && this.#isOneTooMany(entry)) return;
    this.#writeLeft();
    this.#write(lineOf(entry, this.#screen));
  }

  #isOneTooMany({ time }: Entry): boolean {
    const second = time.slice(0, SECOND_LENGTH);
    if (second !== this.#second) this.#done = 0;
    this.#second = second;
    this.#done += 1;
    if (this.#done <= DONE_A_SECOND_MAX) return false;
    this.#left += 1;
    this.#timer ??= systemRuntime.timer(SECOND_MS, () => this.#writeLeft(), "background");
    return true;
  }

  #writeLeft(): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#left === 0) return;
    const msg = `${counted(this.#left, "more job")} done`;
    this.#left = 0;
    this.#write(lineOf({ level: "info", time: `${this.#second}Z`, msg }, this.#screen));
  }
}

const TONES = { debug: "dim", info: "green", warn: "yellow", error: "red", fatal: "red" } as const;

/** Fields that are shown elsewhere in the line. */
const SHOWN = "level time msg err process uncaught source job durationMs retryAt".split(" ");
/** Fields for machines, and fields that the sentence already contains. */
const NOT_NEEDED = "pid hostname event queue signal limitMs exitCode command".split(" ");
const HIDDEN = new Set([...SHOWN, ...NOT_NEEDED]);
const HIDDEN_OF_JOBS = new Set(["worker", "task", "status", "epoch", "attempt"]);

/** Long enough to tell apart the ids of one process, short enough to type: `holdfast job 01a1e5ed-5337-7002`. */
const ID_LENGTH = 18;

/** `12:03:04 info  mail.send done 12ms  job=01a1e5ed-5337-7002`, and other fields as far as they fit. */
function lineOf(entry: Entry, { errorColors: colors, errorColumns }: Screen): string {
  const { level, time, process: number, job, uncaught, source, err } = entry;
  const clock = new Date(time).toTimeString().slice(0, 8);
  const tone = colors[TONES[level as keyof typeof TONES] ?? "reset"];
  const which = number === undefined ? "" : `[${number}] `;
  const id = job === undefined ? "" : `  job=${job.slice(0, ID_LENGTH)}`;
  const words = printable(`${which}${sentenceOf(entry)}${causeOf(entry)}${id}`, {
    lines: source === "console",
  });
  const taken = widthOf(`${clock} ${level.padEnd(5)} ${words}  `) % errorColumns;
  const rest = cut(printable(factsOf(entry).join(" ")), errorColumns - taken);
  const start = `${colors.dim(clock)} ${tone(level.padEnd(5))} ${words}`;
  const line = rest === "" ? start : `${start}  ${colors.dim(rest)}`;
  if (uncaught !== true || err?.stack === undefined) return line;
  return `${line}\n${colors.dim(printable(err.stack, { lines: true }))}`;
}

/** `job done` becomes `mail.send done 12ms`. */
function sentenceOf({ msg, task, event, time, durationMs, retryAt }: Entry): string {
  const words = task === undefined ? msg : msg.replace(/^job (?=\w)/, `${task} `);
  if (event === "job:done" && durationMs !== undefined) return `${words} ${span(durationMs)}`;
  if (typeof retryAt !== "number") return words;
  return `${words} in ${span(Math.max(0, retryAt - Date.parse(time)))}`;
}

function causeOf({ err }: Entry): string {
  if (err === undefined) return "";
  const kind = err.type === undefined || err.type === "Error" ? "" : `${err.type}: `;
  return `: ${kind}${err.message ?? ""}`;
}

function factsOf(entry: Entry): string[] {
  const { event, job, attempt = 1 } = entry;
  if (event === "queues:counted") return []; // its sentence contains every number
  const again = job !== undefined && attempt > 1 ? [`attempt=${attempt}`] : [];
  const shown = Object.entries(entry as object as Record<string, unknown>)
    .filter(([name, value]) => !HIDDEN.has(name) && value !== 0 && value !== null)
    .filter(([name]) => job === undefined || !HIDDEN_OF_JOBS.has(name))
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [...again, ...shown];
}
