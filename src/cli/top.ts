/** `holdfast top`: what is going on, once a second; a failed job can be opened and retried. */
import { stdin } from "node:process";
import { Command } from "commander";
import { sleep } from "../core/runtime.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { actorName } from "./actor.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { Interrupted } from "./failure.ts";
import { jobLines } from "./job.ts";
import { exitCodeAfter, listenForSignals, type EndSignal } from "./signals.ts";
import { printable } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { Observer, type Failure, type Figures } from "./top/figures.ts";
import {
  frame,
  jobFrame,
  orders,
  panels,
  START,
  still,
  type Screen,
  type View,
} from "./top/frame.ts";
import { FullScreen } from "./top/screen.ts";

interface TopOptions extends DatabaseOptions {
  readonly once?: boolean;
}

const REDRAW_MS = 1_000;
const COLUMNS_DEFAULT = 80;
const ROWS_DEFAULT = 24;
const CTRL_C = "\u0003";
const ENTER = "\r";
const ESCAPE = "\u001B";

export function topCommand(terminal: Terminal): Command {
  return new Command("top")
    .description("watch queues, workers and failures, live")
    .addOption(urlOption())
    .option("--once", "one picture, then exit; so it is without a terminal too")
    .action((options: TopOptions) => top(terminal, options));
}

async function top(terminal: Terminal, { url, once }: TopOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
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
  using signals = listenForSignals();
  let signal: EndSignal | null = null;
  const ending = new AbortController();
  void signals.first.then((first) => {
    signal = first;
    ending.abort();
  });
  terminal.gone.addEventListener("abort", () => ending.abort());
  const session = new Session(terminal, holdfast, await observer.look());
  using screen = new FullScreen(stdin, (key) => {
    if (key === "q" || key === CTRL_C) return ending.abort();
    void session.press(key).then(draw);
    draw();
  });
  const draw = (): void => screen.draw(session.picture(screenOf(terminal)));
  using resizing = terminal.onResize(() => draw());
  void resizing; // until we are told to stop
  while (!ending.signal.aborted) {
    draw();
    await sleep(holdfast.runtime, REDRAW_MS, { signal: ending.signal });
    if (!ending.signal.aborted) await session.update(await observer.look());
  }
  if (signal !== null) throw new Interrupted({ signal, exitCode: exitCodeAfter(signal) });
}

/** What the operator looks at: the overview, or one job that was opened. */
class Session {
  readonly #terminal: Terminal;
  readonly #holdfast: Holdfast;
  #figures: Figures;
  #view: View = START;
  #opened: { readonly id: string; lines: readonly string[] } | null = null;
  /** Set while the operator is asked whether to retry it. */
  #retrying: string | null = null;

  constructor(terminal: Terminal, holdfast: Holdfast, figures: Figures) {
    this.#terminal = terminal;
    this.#holdfast = holdfast;
    this.#figures = figures;
  }

  picture(screen: Screen): string[] {
    if (this.#opened !== null) return jobFrame(this.#opened.lines, this.#view, screen);
    return frame(this.#figures, this.#view, screen);
  }

  async update(figures: Figures): Promise<void> {
    this.#figures = figures;
    this.#view = within(this.#view, figures);
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
    } else this.#view = within(afterKey(this.#view, key), this.#figures);
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
    return focus === "failures" ? (this.#figures.failures[scroll.failures] ?? null) : null;
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

  /** What goes wrong is told on the screen, and the rest goes on. */
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

/** No row is chosen that is not there. */
function within(view: View, { queues, workers, failures }: Figures): View {
  const rows = { queues, workers, failures };
  const chosen = panels.map((panel) => {
    return [panel, Math.max(0, Math.min(view.scroll[panel], rows[panel].length - 1))] as const;
  });
  return { ...view, scroll: { ...view.scroll, ...Object.fromEntries(chosen) } };
}

function screenOf({ columns, rows, colors }: Terminal): Screen {
  return { columns: columns ?? COLUMNS_DEFAULT, rows: rows ?? ROWS_DEFAULT, colors };
}

/** The one after it, and after the last the first. */
function next<Item>(all: readonly Item[], from: Item, step: number): Item {
  return all[(all.indexOf(from) + step + all.length) % all.length] ?? from;
}

/** Keys that nobody knows change nothing. */
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
