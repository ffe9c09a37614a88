/** How far the demo is: a bar that moves on a terminal, a line now and then elsewhere. */
import { formatMs } from "../../core/duration.ts";
import type { Terminal } from "../terminal.ts";
import { count, counted } from "../words.ts";
import type { Health } from "./crew.ts";

export interface Standing {
  readonly done: number;
  readonly orders: number;
  readonly crew: { readonly health: Health[]; readonly kills: number; readonly freezes: number };
  readonly elapsedMs: number;
}

const BAR_WIDTH = 24;
const LINE_EVERY_MS = 3_000;
const BACK_AND_CLEAR = "\r\u001B[K";

export class Progress {
  readonly #terminal: Terminal;
  #nextLineMs = LINE_EVERY_MS;
  #lines = 0;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  show(standing: Standing): void {
    if (this.#terminal.json) return;
    if (this.#terminal.live) return this.#terminal.write(BACK_AND_CLEAR + this.#bar(standing));
    if (standing.elapsedMs < this.#nextLineMs) return;
    this.#nextLineMs += LINE_EVERY_MS;
    this.#lines += 1;
    this.#terminal.print(lineOf(standing));
  }

  /** Takes the bar away: what follows stands in its place, or apart from the lines. */
  end(): void {
    if (this.#terminal.live) this.#terminal.write(BACK_AND_CLEAR);
    else if (this.#lines > 0) this.#terminal.print("");
  }

  #bar({ done, orders, crew, elapsedMs }: Standing): string {
    const { green, dim, red, cyan } = this.#terminal.colors;
    const filled = Math.floor((BAR_WIDTH * done) / orders);
    const bar = green("█".repeat(filled)) + dim("░".repeat(BAR_WIDTH - filled));
    const marks = { starting: dim("○"), working: green("●"), waking: green("●") };
    const people = crew.health.map(
      (health) => ({ ...marks, frozen: cyan("❄"), dead: red("✗") })[health],
    );
    const faults = `${red(`${crew.kills} killed`)}  ${cyan(`${crew.freezes} frozen`)}`;
    const howMany = `${count(done)}/${count(orders)}`;
    return `  ${bar}  ${howMany}  ${faults}  ${people.join(" ")}  ${dim(seconds(elapsedMs))}`;
  }
}

function lineOf({ done, orders, crew, elapsedMs }: Standing): string {
  const faults = `${counted(crew.kills, "worker")} killed, ${crew.freezes} frozen`;
  return `  ${count(done)} of ${count(orders)} orders done after ${seconds(elapsedMs)}; ${faults}`;
}

export function seconds(ms: number): string {
  return formatMs(Math.floor(ms / 1_000) * 1_000).replace("0ms", "0s");
}
