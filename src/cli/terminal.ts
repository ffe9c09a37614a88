/**
 * Where a command speaks: results on stdout, complaints on stderr.
 *
 * A person at a terminal gets colours and lines that fit; a pipe gets everything and no colours. Whoever stops reading
 * (`holdfast jobs | head`) has seen enough, and that is no error.
 */
import type { WriteStream } from "node:tty";
import { createColors } from "picocolors";
import { visible } from "../core/characters.ts";
import { HoldfastError } from "../core/errors.ts";

export type Colors = ReturnType<typeof createColors>;

/** Node's types say that a stream always knows whether it is a terminal; a pipe does not. */
type Stream = Omit<WriteStream, "isTTY"> & { readonly isTTY?: boolean };

export interface TerminalOptions {
  readonly json: boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: Stream;
  readonly stderr: Stream;
}

/** What was asked for has been done; only the words about it are lost. */
class OutputLost extends HoldfastError {
  constructor(cause: Error) {
    super("OUTPUT_LOST", `The output could not be written: ${cause.message}.`, cause);
  }
}

const COLUMNS_DEFAULT = 80;
const ROWS_DEFAULT = 24;

export class Terminal {
  /** The user asked for JSON: one document on stdout, and nothing else there. */
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
    stderr.on("error", () => {}); // There is nobody left to tell.
  }

  /** Somebody is looking at stdout. */
  get live(): boolean {
    return this.#stdout.isTTY === true && !this.json;
  }

  /** Somebody is looking at stderr. */
  get errorLive(): boolean {
    return this.#stderr.isTTY === true;
  }

  /** How wide a line may be; null: as wide as it likes. */
  get columns(): number | null {
    return this.#stdout.isTTY === true ? columnsOf(this.#stdout) : null;
  }

  /** How many lines fit; null: there is no screen. */
  get rows(): number | null {
    return this.#stdout.isTTY === true ? this.#stdout.rows || ROWS_DEFAULT : null;
  }

  /** Calls back whenever the terminal has another size. */
  onResize(call: () => void): Disposable {
    this.#stdout.on("resize", call);
    return { [Symbol.dispose]: () => void this.#stdout.off("resize", call) };
  }

  get errorColumns(): number {
    return columnsOf(this.#stderr);
  }

  /** Aborts when nobody reads stdout any more. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  print(...lines: readonly string[]): void {
    this.write(lines.map((line) => `${line}\n`).join(""));
  }

  write(text: string): void {
    if (!this.#gone.signal.aborted) this.#stdout.write(text);
  }

  /** One document, indented for a person. */
  printJson(value: unknown): void {
    this.#printDocument(JSON.stringify(value, null, this.#stdout.isTTY === true ? 2 : undefined));
  }

  /** One of several documents, each on a line. */
  printJsonLine(value: unknown): void {
    this.#printDocument(JSON.stringify(value));
  }

  /** JSON leaves characters as they are that a terminal obeys. */
  #printDocument(json: string): void {
    this.print(visible(json, { lines: true }));
  }

  complain(...lines: readonly string[]): void {
    this.#stderr.write(lines.map((line) => `${line}\n`).join(""));
  }

  /** One line on stderr that takes the place of the one before, for whoever looks on; empty: it goes. */
  progress(text: string): void {
    if (this.errorLive && !this.json)
      this.#stderr.write(`\r\u001B[K${text.slice(0, this.errorColumns - 1)}`);
  }

  /** Resolves once stdout has taken everything; throws when it could not. */
  async flush(): Promise<void> {
    if (!this.#gone.signal.aborted) {
      await new Promise<void>((resolve) => this.#stdout.write("", () => resolve()));
    }
    if (this.#failure !== null) throw new OutputLost(this.#failure);
  }
}

/** A terminal that does not know its width says 0. */
function columnsOf(stream: Stream): number {
  return stream.columns || COLUMNS_DEFAULT;
}

function hasColors(stream: Stream, env: NodeJS.ProcessEnv): boolean {
  return stream.isTTY === true && (env["NO_COLOR"] ?? "") === "" && env["TERM"] !== "dumb";
}
