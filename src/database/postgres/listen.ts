/**
 * Push between processes through LISTEN and NOTIFY.
 *
 * Listening needs its own connection. A dead connection is silent, so now and then a note to ourselves must come back;
 * while it does not, or if listening is impossible (PgBouncer), a poll takes over. Notes are coalesced, because every
 * NOTIFY takes a lock that all commits of the server share (see notify.ts).
 */
import { type Runtime, sleep } from "../../core/runtime.ts";
import type { Hint, PushState } from "../engine.ts";
import { Poll, readNote } from "../notify.ts";
import type { Line, Pg, PostgresAddress } from "./address.ts";
import type { Sessions } from "./session.ts";

/** A connection that is silent for this long is probed … */
const PROBE_EVERY_MS = 120_000;

/** … and is dead if its echo takes longer than this. */
const ECHO_MS_MAX = 5_000;

const RECONNECT_MS_FIRST = 250;

const RECONNECT_MS_MAX = 30_000;

const CONNECT_MS_MAX = 10_000;

const GOODBYE_MS_MAX = 500;

const PROBE = "probe";

export interface PushParts {
  readonly pg: Pg;
  readonly address: PostgresAddress | null;
  readonly sessions: Sessions;
  readonly runtime: Runtime;
  /** Marks our own notes. */
  readonly sender: string;
}

export class Listener {
  readonly #parts: PushParts;
  readonly #onHint: (hint: Hint) => void;
  readonly #stopped = new AbortController();
  readonly #poll: Poll;
  #line: Line | null = null;
  #heardAt = 0;
  /** The connection is open, and the last note to ourselves came back. */
  #isHeard = false;
  #echo: (() => void) | null = null;

  constructor(parts: PushParts, onHint: (hint: Hint) => void) {
    this.#parts = parts;
    this.#onHint = onHint;
    this.#poll = new Poll(parts.runtime, () => onHint({ kind: "unknown" }));
    if (parts.address !== null) void this.#keepListening(parts.address);
  }

  get state(): PushState {
    if (this.#parts.address === null) return "off";
    return this.#isHeard ? "up" : "down";
  }

  pollSoon(): void {
    this.#poll.pollSoon();
  }

  stop(): void {
    this.#stopped.abort();
    this.#poll.stop();
    void this.#hangUp();
  }

  async #keepListening(address: PostgresAddress): Promise<void> {
    const { signal } = this.#stopped;
    const { runtime } = this.#parts;
    let failures = 0;
    while (!signal.aborted) {
      if (await this.#open(address)) {
        failures = 0;
        this.#isHeard = true;
        await this.#whileItLives();
        this.#isHeard = false;
      }
      await this.#hangUp();
      this.#poll.resume();
      const waitMs = Math.min(RECONNECT_MS_MAX, RECONNECT_MS_FIRST * 2 ** failures);
      failures += 1;
      await sleep(runtime, waitMs * (0.5 + runtime.random() / 2), { signal, kind: "background" });
    }
  }

  async #open({ connection, schema }: PostgresAddress): Promise<boolean> {
    const { pg } = this.#parts;
    const line = new pg.Client({
      application_name: "holdfast listen",
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_MS_MAX,
      ...connection,
    });
    line.on("error", () => {});
    line.on("notification", ({ payload = "" }) => this.#receive(payload));
    try {
      await line.connect();
      await line.query(`listen "${schema}"`);
      this.#line = line;
      return await this.#answers();
    } catch {
      await line.end().catch(() => {});
      return false;
    }
  }

  /** Until the connection is dead or the listener is stopped. */
  async #whileItLives(): Promise<void> {
    const { runtime } = this.#parts;
    const over = new AbortController();
    this.#line?.on("end", () => over.abort());
    const signal = AbortSignal.any([this.#stopped.signal, over.signal]);
    this.#poll.pause();
    // Notes that were sent before this were missed.
    this.#onHint({ kind: "unknown" });
    while (!signal.aborted) {
      const silentMs = runtime.monotonic() - this.#heardAt;
      await sleep(runtime, Math.max(0, PROBE_EVERY_MS - silentMs), { signal, kind: "background" });
      if (signal.aborted) return;
      const isSilent = runtime.monotonic() - this.#heardAt >= PROBE_EVERY_MS;
      if (isSilent && !(await this.#answers())) return;
    }
  }

  /** Whether a note to ourselves comes back. */
  async #answers(): Promise<boolean> {
    const { runtime, sender, sessions, address } = this.#parts;
    const echoed = new AbortController();
    this.#echo = () => echoed.abort();
    const signal = AbortSignal.any([this.#stopped.signal, echoed.signal]);
    try {
      await notify(sessions, address?.schema ?? "", [`${sender}:${PROBE}`]);
    } catch {
      return false; // the database is unavailable: listening will be tried again
    }
    await sleep(runtime, ECHO_MS_MAX, { signal, kind: "background" });
    this.#echo = null;
    return echoed.signal.aborted;
  }

  #receive(payload: string): void {
    this.#heardAt = this.#parts.runtime.monotonic();
    const { sender, note, hint } = readNote(payload);
    if (sender === this.#parts.sender) {
      if (note === PROBE) this.#echo?.();
    } else if (note !== PROBE) this.#onHint(hint);
  }

  async #hangUp(): Promise<void> {
    const line = this.#line;
    this.#line = null;
    if (line === null) return;
    // A dead connection does not close properly.
    const ended = line.end().catch(() => {});
    await Promise.race([ended, sleep(this.#parts.runtime, GOODBYE_MS_MAX, { kind: "background" })]);
    line.connection?.stream?.destroy();
  }
}

/** A note need not survive a crash of the server, so the commit does not wait for the disk. */
export async function notify(
  sessions: Sessions,
  channel: string,
  notes: readonly string[],
): Promise<void> {
  await sessions.read({
    text: `select set_config('synchronous_commit', 'off', true), pg_notify($1, note)
             from unnest($2::text[]) as n (note)`,
    name: "holdfast_notify",
    values: [channel, notes],
  });
}
