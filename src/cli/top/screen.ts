/**
 * The whole terminal, for as long as it is held: a screen of its own, without a cursor.
 *
 * It is given back on every way out, also when the process ends by an error: a terminal that stays without cursor is of no use to anybody.
 */
import { writeSync } from "node:fs";
import type { ReadStream } from "node:tty";

const STDOUT = 1;
const ENTER = "\u001B[?1049h\u001B[?25l\u001B[H\u001B[2J";
const LEAVE = "\u001B[?25h\u001B[?1049l";
/** What stands between the two appears at once, where the terminal knows how. */
const BEGIN = "\u001B[?2026h";
const END = "\u001B[?2026l";
const CLEAR_LINE = "\u001B[K";
const CLEAR_BELOW = "\u001B[J";

export class FullScreen implements Disposable {
  readonly #input: ReadStream;
  readonly #giveBack = (): void => this[Symbol.dispose]();
  #held = true;

  constructor(input: ReadStream, onKey: (key: string) => void) {
    this.#input = input;
    process.once("exit", this.#giveBack);
    put(ENTER);
    if (input.isTTY) input.setRawMode(true);
    input.setEncoding("utf8");
    input.on("data", (text: string | Buffer) => {
      for (const key of keysIn(String(text))) onKey(key);
    });
    input.resume();
  }

  /** Line over line, without clearing first: nothing flickers. */
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

/** The arrows come as three characters. */
function keysIn(text: string): string[] {
  // oxlint-disable-next-line no-control-regex -- that is how keys come
  return (text.match(/\u001B\[[A-D]|[^]/g) ?? []).map((key) => {
    return key.startsWith("\u001B[") ? (ARROWS[key.charAt(2)] ?? "") : key;
  });
}

function put(text: string): void {
  try {
    writeSync(STDOUT, text);
  } catch {
    // A terminal that went away need not be given back.
  }
}
