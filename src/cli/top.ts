/** `holdfast top`: what is going on, once a second. */
import { stdin } from "node:process";
import { Command } from "commander";
import { sleep } from "../core/runtime.ts";
import type { Holdfast } from "../worker/holdfast.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { Interrupted } from "./failure.ts";
import { exitCodeAfter, listenForSignals, type EndSignal } from "./signals.ts";
import type { Terminal } from "./terminal.ts";
import { Observer, type Figures } from "./top/figures.ts";
import { frame, orders, panels, START, still, type Screen, type View } from "./top/frame.ts";
import { FullScreen } from "./top/screen.ts";

interface TopOptions extends DatabaseOptions {
  readonly once?: boolean;
}

const REDRAW_MS = 1_000;
const COLUMNS_DEFAULT = 80;
const ROWS_DEFAULT = 24;
const CTRL_C = "\u0003";

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
  let view = START;
  let figures: Figures = await observer.look();
  const ending = new AbortController();
  void signals.first.then((first) => {
    signal = first;
    ending.abort();
  });
  terminal.gone.addEventListener("abort", () => ending.abort());
  using screen = new FullScreen(stdin, (key) => {
    if (key === "q" || key === CTRL_C) return ending.abort();
    view = afterKey(view, key);
    draw();
  });
  const draw = (): void => screen.draw(frame(figures, view, screenOf(terminal)));
  using resizing = terminal.onResize(() => draw());
  void resizing; // until we are told to stop
  while (!ending.signal.aborted) {
    draw();
    await sleep(holdfast.runtime, REDRAW_MS, { signal: ending.signal });
    if (!ending.signal.aborted) figures = await observer.look();
  }
  if (signal !== null) throw new Interrupted({ signal, exitCode: exitCodeAfter(signal) });
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
