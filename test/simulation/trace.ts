/** What happened, as lines and as one SHA-256 over all of them: the same seed must give the same. */
import { createHash } from "node:crypto";

/** Hashing many small texts costs more than joining them. */
const CHUNK_LINES = 512;

/** A decision of the scheduler. */
interface Decision {
  readonly owner: { readonly name: string };
  readonly label: string;
  readonly number: number;
}

export class Trace {
  readonly #hash = createHash("sha256");
  readonly #print: ((line: string) => void) | null;
  #lines: string[] = [];
  #nowMs = 0;

  constructor(print: ((line: string) => void) | null = null) {
    this.#print = print;
  }

  moment({ owner, label, number }: Decision, nowMs: number): void {
    this.#nowMs = nowMs;
    this.#add(`${Math.round(nowMs * 1_000)} ${number} ${owner.name} ${label}`);
    // Timers that find nothing to do would hide the rest.
    if (this.#print !== null && !QUIET.has(label)) this.show(owner.name, label);
  }

  /** Something that came of it. */
  say(who: string, what: string): void {
    this.#add(`${who} ${what}`);
    if (this.#print !== null) this.show(who, what);
  }

  get isPrinted(): boolean {
    return this.#print !== null;
  }

  digest(): string {
    this.#flush();
    return this.#hash.digest("hex");
  }

  #add(line: string): void {
    this.#lines.push(line);
    if (this.#lines.length >= CHUNK_LINES) this.#flush();
  }

  #flush(): void {
    if (this.#lines.length > 0) this.#hash.update(this.#lines.join("\n"));
    this.#lines = [];
  }

  /** Shown and not hashed. */
  show(who: string, what: string): void {
    this.#print?.(`${(this.#nowMs / 1_000).toFixed(3).padStart(9)} s  ${who.padEnd(10)} ${what}`);
  }
}

const QUIET = new Set(["timer", "after io", "answer"]);
