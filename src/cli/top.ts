/** `holdfast top`: a live view of queues, workers and failures. A failed job can be opened and retried. */
import { writeSync } from "node:fs";
import { stdin } from "node:process";
import type { ReadStream } from "node:tty";
import { Command } from "commander";
import type { Holdfast } from "../app/holdfast.ts";
import { sleep } from "../core/runtime.ts";
import { actorName } from "../terminal/arguments.ts";
import { abortOnSignal } from "../terminal/failure.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import { printable } from "../terminal/table.ts";
import { jobLines } from "./job.ts";
import {
  type Failure,
  frame,
  jobFrame,
  Observer,
  orders,
  panels,
  type Screen,
  START,
  type Stats,
  still,
  type View,
} from "./top-frame.ts";

interface TopOptions extends DatabaseOptions {
  readonly once?: boolean;
}

const REDRAW_MS = 1_000;
const COLUMNS_DEFAULT = 80;
const ROWS_DEFAULT = 24;
const CTRL_C = "\u0003";
const ENTER = "\r";
const ESCAPE = "\u001B";

export function topCommand(kit: CommandKit<Holdfast>): Command {
  return new Command("top")
    .description("live view of queues, workers and failures")
    .addOption(urlOption())
    .option("--once", "print one snapshot and exit (the default without a terminal)")
    .action((options: TopOptions) => top(kit, options));
}

async function top(
  { terminal, open }: CommandKit<Holdfast>,
  { url, once }: TopOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const observer = new Observer(holdfast);
  if (terminal.json) {
    terminal.printJson(await observer.look());
  } else if (once === true || !terminal.live || !stdin.isTTY) {
    const lines = still(await observer.look(), screenOf(terminal));
    terminal.print(...lines.map((line) => line.trimEnd()));
  } else {
    await live(terminal, observer, holdfast);
  }
}

async function live(terminal: Terminal, observer: Observer, holdfast: Holdfast): Promise<void> {
  using interrupted = abortOnSignal();
  const quit = new AbortController();
  const ending = AbortSignal.any([interrupted.signal, terminal.gone, quit.signal]);
  const session = new Session(terminal, holdfast, await observer.look());
  using screen = new FullScreen(stdin, (key) => {
    if (key === "q" || key === CTRL_C) return quit.abort();
    void session.press(key).then(draw);
    draw();
  });
  const draw = (): void => screen.draw(session.picture(screenOf(terminal)));
  using resizing = terminal.onResize(() => draw());
  void resizing; // disposed of at the end
  while (!ending.aborted) {
    draw();
    await sleep(holdfast.runtime, REDRAW_MS, { signal: ending });
    if (!ending.aborted) await session.update(await observer.look());
  }
  interrupted.signal.throwIfAborted();
}

/** What the screen shows: the overview, or one opened job. */
class Session {
  readonly #terminal: Terminal;
  readonly #holdfast: Holdfast;
  #stats: Stats;
  #view: View = START;
  #opened: { readonly id: string; lines: readonly string[] } | null = null;
  /** Set while the screen asks for confirmation of a retry. */
  #retrying: string | null = null;

  constructor(terminal: Terminal, holdfast: Holdfast, stats: Stats) {
    this.#terminal = terminal;
    this.#holdfast = holdfast;
    this.#stats = stats;
  }

  picture(screen: Screen): string[] {
    if (this.#opened !== null) return jobFrame(this.#opened.lines, this.#view, screen);
    return frame(this.#stats, this.#view, screen);
  }

  async update(stats: Stats): Promise<void> {
    this.#stats = stats;
    this.#view = within(this.#view, stats);
    if (this.#opened !== null) await this.#guarded(() => this.#open(this.#opened?.id ?? ""));
  }

  async press(key: string): Promise<void> {
    const asked = this.#retrying;
    this.#retrying = null;
    this.#view = { ...this.#view, message: null };
    if (asked !== null) {
      if (key === "y") await this.#guarded(() => this.#retry(asked));
    } else if (key === "r") this.#ask();
    else if (this.#opened !== null) this.#pressInJob(key);
    else if (key === ENTER && this.#chosen !== null) {
      const { id } = this.#chosen;
      await this.#guarded(() => this.#open(id));
    } else this.#view = within(afterKey(this.#view, key), this.#stats);
  }

  #pressInJob(key: string): void {
    if (key === ESCAPE || key === "left" || key === "h") this.#opened = null;
    const step = key === "down" || key === "j" ? 1 : key === "up" || key === "k" ? -1 : 0;
    const { scroll } = this.#view;
    const lines = this.#opened?.lines.length ?? 0;
    const job = Math.max(0, Math.min(lines, scroll.job + step));
    this.#view = { ...this.#view, scroll: { ...scroll, job: this.#opened === null ? 0 : job } };
  }

  get #chosen(): Failure | null {
    const { focus, scroll } = this.#view;
    return focus === "failures" ? (this.#stats.failures[scroll.failures] ?? null) : null;
  }

  async #open(id: string): Promise<void> {
    this.#opened = { id, lines: await jobLines(this.#terminal, this.#holdfast, id) };
  }

  #ask(): void {
    const id = this.#opened?.id ?? this.#chosen?.id;
    if (id === undefined) return;
    this.#retrying = id;
    this.#say(`Retry job ${id}? y: yes, any other key: no`);
  }

  async #retry(id: string): Promise<void> {
    await this.#holdfast.jobs.retry(id, { actor: actorName() });
    this.#say(this.#terminal.colors.green(`Pending again: ${id}`));
    if (this.#opened !== null) await this.#open(id);
  }

  /** Shows an error on the screen and continues. */
  async #guarded(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      this.#say(this.#terminal.colors.red(printable(words)));
    }
  }

  #say(message: string): void {
    this.#view = { ...this.#view, message };
  }
}

/** Keeps the selection within the existing rows. */
function within(view: View, { queues, workers, failures }: Stats): View {
  const rows = { queues, workers, failures };
  const chosen = panels.map((panel) => {
    return [panel, Math.max(0, Math.min(view.scroll[panel], rows[panel].length - 1))] as const;
  });
  return { ...view, scroll: { ...view.scroll, ...Object.fromEntries(chosen) } };
}

function screenOf({ columns, rows, colors }: Terminal): Screen {
  return { columns: columns ?? COLUMNS_DEFAULT, rows: rows ?? ROWS_DEFAULT, colors };
}

/** The next item, wrapping around. */
function next<Item>(all: readonly Item[], from: Item, step: number): Item {
  return all[(all.indexOf(from) + step + all.length) % all.length] ?? from;
}

/** Unknown keys change nothing. */
export function afterKey(view: View, key: string): View {
  const { focus, scroll, order } = view;
  const scrolled = (step: number): View => ({
    ...view,
    scroll: { ...scroll, [focus]: Math.max(0, scroll[focus] + step) },
  });
  switch (key) {
    case "right":
    case "\t":
    case "l":
      return { ...view, focus: next(panels, focus, 1) };
    case "left":
    case "h":
      return { ...view, focus: next(panels, focus, -1) };
    case "down":
    case "j":
      return scrolled(1);
    case "up":
    case "k":
      return scrolled(-1);
    case "s":
      return { ...view, order: next(orders, order, 1) };
    default:
      return view;
  }
}

// The alternate screen of the terminal, without a cursor.
//
// It is always restored, even if the process ends with an error: a terminal without a cursor is unusable.

const STDOUT = 1;
const ENTER_SCREEN = "\u001B[?1049h\u001B[?25l\u001B[H\u001B[2J";
const LEAVE = "\u001B[?25h\u001B[?1049l";

/** Everything between the two appears at once, if the terminal supports it. */
const BEGIN = "\u001B[?2026h";
const END = "\u001B[?2026l";
const CLEAR_LINE = "\u001B[K";
const CLEAR_BELOW = "\u001B[J";

class FullScreen implements Disposable {
  readonly #input: ReadStream;
  readonly #giveBack = (): void => this[Symbol.dispose]();
  #held = true;

  constructor(input: ReadStream, onKey: (key: string) => void) {
    this.#input = input;
    process.once("exit", this.#giveBack);
    put(ENTER_SCREEN);
    if (input.isTTY) input.setRawMode(true);
    input.setEncoding("utf8");
    input.on("data", (text: string | Buffer) => {
      for (const key of keysIn(String(text))) onKey(key);
    });
    input.resume();
  }

  /** Overwrites the lines without clearing the screen first, to avoid flicker. */
  draw(lines: readonly string[]): void {
    const picture = lines.map((line) => `${line}${CLEAR_LINE}`).join("\r\n");
    if (this.#held) put(`${BEGIN}\u001B[H${picture}${CLEAR_BELOW}${END}`);
  }

  [Symbol.dispose](): void {
    if (!this.#held) return;
    this.#held = false;
    process.off("exit", this.#giveBack);
    if (this.#input.isTTY) this.#input.setRawMode(false);
    this.#input.pause();
    put(LEAVE);
  }
}

const ARROWS: Readonly<Record<string, string>> = { A: "up", B: "down", C: "right", D: "left" };

/** An arrow key arrives as three characters. */
function keysIn(text: string): string[] {
  // oxlint-disable-next-line no-control-regex -- terminals send arrow keys like this
  return (text.match(/\u001B\[[A-D]|[^]/g) ?? []).map((key) => {
    return key.startsWith("\u001B[") ? (ARROWS[key.charAt(2)] ?? "") : key;
  });
}

function put(text: string): void {
  try {
    writeSync(STDOUT, text);
  } catch {
    // A closed terminal need not be restored.
  }
}
