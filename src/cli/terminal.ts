/**
 * Where a command speaks: results on stdout, complaints on stderr.
 *
 * A person at a terminal gets colours and lines that fit; a pipe gets everything and no colours. Whoever stops reading
 * (`holdfast jobs | head`) has seen enough, and that is no error.
 */
import type { WriteStream } from "node:tty";
import { createColors } from "picocolors";

export type Colors = ReturnType<typeof createColors>;

type Stream = NodeJS.WriteStream | WriteStream;

export interface TerminalOptions {
  readonly json: boolean;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: Stream;
  readonly stderr: Stream;
}

const COLUMNS_DEFAULT = 80;

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
    return this.#stdout.isTTY && !this.json;
  }

  /** Somebody is looking at stderr. */
  get errorLive(): boolean {
    return this.#stderr.isTTY;
  }

  /** How wide a line may be; null: as wide as it likes. */
  get columns(): number | null {
    // A terminal that does not know its width says 0.
    return this.#stdout.isTTY ? this.#stdout.columns || COLUMNS_DEFAULT : null;
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
    this.print(JSON.stringify(value, null, this.#stdout.isTTY ? 2 : undefined));
  }

  complain(...lines: readonly string[]): void {
    this.#stderr.write(lines.map((line) => `${line}\n`).join(""));
  }

  /** Resolves once stdout has taken everything; throws when it could not. */
  async flush(): Promise<void> {
    if (!this.#gone.signal.aborted) {
      await new Promise<void>((resolve) => this.#stdout.write("", () => resolve()));
    }
    if (this.#failure !== null) throw this.#failure;
  }
}

function hasColors(stream: Stream, env: NodeJS.ProcessEnv): boolean {
  return stream.isTTY && (env["NO_COLOR"] ?? "") === "" && env["TERM"] !== "dumb";
}
