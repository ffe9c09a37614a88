/**
 * The output of a command: results on stdout, errors on stderr.
 *
 * A terminal gets colours and lines that fit; a pipe gets full lines without colours. A reader that closes the pipe
 * (`holdfast jobs | head`) is not an error.
 */
import { constants } from "node:os";
import type { WriteStream } from "node:tty";
import { Option } from "commander";
import { createColors } from "picocolors";
import { HoldfastError } from "../core/errors.ts";
import { ownRedaction } from "../config/redaction.ts";
import { endBySignal, systemRuntime } from "../core/runtime.ts";
import { visible } from "../core/text.ts";
import { DEFAULT_URL } from "../database/options.ts";

export type Colors = ReturnType<typeof createColors>;

/** In Node's types `isTTY` is always present; a pipe does not have it. */
type Stream = Omit<WriteStream, "isTTY"> & { readonly isTTY?: boolean };

interface TerminalOptions {
  readonly json: boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: Stream;
  readonly stderr: Stream;
}

/** The command succeeded, but its output was lost. */
class OutputLostError extends HoldfastError {
  constructor(cause: Error) {
    super("OUTPUT_LOST", `Cannot write the output: ${cause.message}.`, cause);
  }
}

const COLUMNS_DEFAULT = 80;
const ROWS_DEFAULT = 24;

export class Terminal {
  /** --json: one document on stdout and nothing else. */
  readonly json: boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly colors: Colors;
  readonly errorColors: Colors;
  readonly #stdout: Stream;
  readonly #stderr: Stream;
  readonly #gone = new AbortController();
  #failure: Error | null = null;

  constructor({ json, env, stdout, stderr }: TerminalOptions) {
    this.json = json;
    this.env = env;
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.colors = createColors(hasColors(stdout, env));
    this.errorColors = createColors(hasColors(stderr, env));
    stdout.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") this.#failure ??= error;
      this.#gone.abort();
    });
    stderr.on("error", () => {}); // there is nowhere left to report to
  }

  /** stdout is a terminal, and JSON was not requested. */
  get live(): boolean {
    return this.#stdout.isTTY === true && !this.json;
  }

  /** stderr is a terminal. */
  get errorLive(): boolean {
    return this.#stderr.isTTY === true;
  }

  /** The maximum width of a line; null: no limit. */
  get columns(): number | null {
    return this.#stdout.isTTY === true ? columnsOf(this.#stdout) : null;
  }

  /** The height of the screen; null: there is none. */
  get rows(): number | null {
    return this.#stdout.isTTY === true ? this.#stdout.rows || ROWS_DEFAULT : null;
  }

  /** Calls back when the size of the terminal changes. */
  onResize(call: () => void): Disposable {
    this.#stdout.on("resize", call);
    return { [Symbol.dispose]: () => void this.#stdout.off("resize", call) };
  }

  get errorColumns(): number {
    return columnsOf(this.#stderr);
  }

  /** Aborts when stdout is closed. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  print(...lines: readonly string[]): void {
    this.write(lines.map((line) => `${line}\n`).join(""));
  }

  write(text: string): void {
    if (!this.#gone.signal.aborted) this.#stdout.write(text);
  }

  /** One document, indented on a terminal. */
  printJson(value: unknown): void {
    const shown = ownRedaction().answer(value);
    this.#printDocument(JSON.stringify(shown, null, this.#stdout.isTTY === true ? 2 : undefined));
  }

  /** One of several documents, one per line. */
  printJsonLine(value: unknown): void {
    this.#printDocument(JSON.stringify(ownRedaction().answer(value)));
  }

  /** JSON does not escape all characters that control a terminal. */
  #printDocument(json: string): void {
    this.print(visible(json, { lines: true }));
  }

  complain(...lines: readonly string[]): void {
    this.#stderr.write(lines.map((line) => `${line}\n`).join(""));
  }

  /** Replaces the progress line on a terminal; an empty text removes it. */
  progress(text: string): void {
    if (this.errorLive && !this.json)
      this.#stderr.write(`\r\u001B[K${text.slice(0, this.errorColumns - 1)}`);
  }

  /** Resolves when stdout has accepted all output; throws if it could not. */
  async flush(): Promise<void> {
    if (!this.#gone.signal.aborted) {
      await new Promise<void>((resolve) => this.#stdout.write("", () => resolve()));
    }
    if (this.#failure !== null) throw new OutputLostError(this.#failure);
  }
}

/** A terminal of unknown width reports 0. */
function columnsOf(stream: Stream): number {
  return stream.columns || COLUMNS_DEFAULT;
}

function hasColors(stream: Stream, env: NodeJS.ProcessEnv): boolean {
  return stream.isTTY === true && (env["NO_COLOR"] ?? "") === "" && env["TERM"] !== "dumb";
}

const PROGRESS_EVERY_MS = 5_000;
const BACK_AND_CLEAR = "\r\u001B[K";

/** A terminal gets one line that is updated and cleared, a pipe gets a line every few seconds. */
export function progressLine(terminal: Terminal): { show(line: string): void; clear(): void } {
  let nextAt = systemRuntime.monotonic() + PROGRESS_EVERY_MS;
  return {
    show(line) {
      if (terminal.live) terminal.write(BACK_AND_CLEAR + line);
      if (terminal.live || terminal.json || systemRuntime.monotonic() < nextAt) return;
      nextAt = systemRuntime.monotonic() + PROGRESS_EVERY_MS;
      terminal.print(line);
    },
    clear() {
      if (terminal.live) terminal.write(BACK_AND_CLEAR);
    },
  };
}

// SIGINT, SIGTERM and SIGHUP: the first asks a command to stop, the second ends it immediately.

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export type EndSignal = (typeof SIGNALS)[number];

/** The code that a shell reports for a process ended by a signal. */
export function exitCodeAfter(signal: EndSignal): number {
  return 128 + constants.signals[signal];
}

export interface Signals extends Disposable {
  /** The first one. */
  readonly first: Promise<EndSignal>;
}

/** Listens until disposed of. `beforeEnd` is called on the second signal. */
export function listenForSignals(beforeEnd: (signal: EndSignal) => void = () => {}): Signals {
  const { promise: first, resolve } = Promise.withResolvers<EndSignal>();
  let asked = false;
  const hear = (signal: EndSignal): void => {
    if (asked) {
      beforeEnd(signal);
      return endBySignal(signal);
    }
    asked = true;
    resolve(signal);
  };
  for (const signal of SIGNALS) process.on(signal, hear);
  return {
    first,
    [Symbol.dispose]() {
      for (const signal of SIGNALS) process.off(signal, hear);
    },
  };
}

// What a command is given: a terminal, and a way to open the database.

/** `App` is the part of Holdfast that the command uses. */
export interface CommandKit<App> {
  readonly terminal: Terminal;
  /** For commands that need an existing database of this version. */
  readonly open: (url: string) => Promise<App & AsyncDisposable>;
  /** For commands that enqueue or configure: creates a missing database that was named, migrates an old one, and says so. */
  readonly openForWork: (
    url: string,
    say: (line: string) => void,
  ) => Promise<App & AsyncDisposable>;
}

export interface DatabaseOptions {
  readonly url: string;
}

/** The option --url; if it is missing, the database comes from the settings. */
export class UrlOption extends Option {
  constructor() {
    super("--url <url>", `the database (default: ${DEFAULT_URL})`);
  }
}

export function urlOption(): UrlOption {
  return new UrlOption();
}
