/**
 * Server-sent events: one stream per client, with a bounded buffer.
 *
 * A slow client is cut off. It reconnects with the id of the last event it saw and resumes from there.
 */
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Limits } from "./limits.ts";
import { Problem, retryAfter } from "./problem.ts";

export interface ServerEvent {
  /** Where to resume; without an id, the previous one still applies. */
  readonly id?: string;
  readonly event: string;
  readonly data: unknown;
}

/** Writes events until they end or the signal aborts. */
export type EventSource = (stream: EventStream) => Promise<void>;

/** How soon a browser reconnects. */
const RETRY_MS = 2_000;
const HEARTBEAT = ": still here\n\n";

export class EventStream {
  readonly body: ReadableStream<Uint8Array>;
  readonly #runtime: Runtime;
  readonly #limits: Limits;
  readonly #isAdmitted: () => Promise<boolean>;
  readonly #shown: (data: unknown) => unknown;
  readonly #ended = new AbortController();
  readonly #encoder = new TextEncoder();
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #room: PromiseWithResolvers<void> | null = null;
  #heartbeatTimer: Timer | null = null;
  #isChecking = false;

  /** Every heartbeat calls `isAdmitted` to check whether the client may still listen. */
  constructor(
    runtime: Runtime,
    limits: Limits,
    {
      isAdmitted = async () => true,
      shown = (data) => data,
    }: Partial<Pick<StreamTerms, "isAdmitted" | "shown">> = {},
  ) {
    this.#shown = shown;
    this.#runtime = runtime;
    this.#limits = limits;
    this.#isAdmitted = isAdmitted;
    this.body = new ReadableStream(
      {
        start: (controller) => void (this.#controller = controller),
        pull: () => this.#room?.resolve(),
        cancel: () => this.#leave(),
      },
      new CountQueuingStrategy({ highWaterMark: limits.streamBuffer }),
    );
    this.#put(`retry: ${RETRY_MS}\n\n`);
    this.#heartbeat();
  }

  /** Aborts when the client is gone. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Sends at once; a client with a full buffer is cut off. */
  send(event: ServerEvent): void {
    if (this.signal.aborted) return;
    if (this.#isFull) return this.#cutOff();
    this.#put(textOf({ ...event, data: this.#shown(event.data) }));
  }

  /** Waits for room in the buffer, up to the stall limit. */
  async sendInTime(event: ServerEvent): Promise<void> {
    if (this.signal.aborted) return; // no reader will make room
    if (this.#isFull) await this.#waitForRoom();
    this.send(event);
  }

  end(): void {
    if (this.signal.aborted) return;
    this.#leave();
    this.#controller?.close();
  }

  get #isFull(): boolean {
    return (this.#controller?.desiredSize ?? 0) <= 0;
  }

  #put(text: string): void {
    this.#controller?.enqueue(this.#encoder.encode(text));
  }

  async #waitForRoom(): Promise<void> {
    const room = Promise.withResolvers<void>();
    this.#room = room;
    const { stallMs } = this.#limits;
    const timer = this.#runtime.timer(stallMs, () => room.resolve(), "background");
    const end = (): void => room.resolve();
    this.signal.addEventListener("abort", end, { once: true });
    await room.promise;
    this.signal.removeEventListener("abort", end);
    timer.cancel();
    this.#room = null;
  }

  #cutOff(): void {
    this.#leave();
    this.#controller?.error(new Error("The client is too slow."));
  }

  #leave(): void {
    this.#heartbeatTimer?.cancel();
    this.#ended.abort();
  }

  /** Proxies and clients give up on a silent connection. */
  #heartbeat(): void {
    this.#heartbeatTimer = this.#runtime.timer(
      this.#limits.heartbeatMs,
      () => {
        if (!this.#isFull) this.#put(HEARTBEAT);
        void this.#endUnlessAdmitted();
        this.#heartbeat();
      },
      "background",
    );
  }

  /** A revoked or expired token ends the stream. One check at a time: the database may be slow. */
  async #endUnlessAdmitted(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    const isAdmitted = await this.#isAdmitted();
    this.#isChecking = false;
    if (!isAdmitted) this.end();
  }
}

function textOf({ id, event, data }: ServerEvent): string {
  // JSON has no line breaks outside of its strings, and none inside.
  const lines = [`event: ${event}`, `data: ${JSON.stringify(data)}`];
  return `${id === undefined ? "" : `id: ${id}\n`}${lines.join("\n")}\n\n`;
}

interface StreamTerms {
  readonly onError: (error: unknown) => void;
  /** Does not throw. */
  readonly isAdmitted: () => Promise<boolean>;
  /** What of an event's data the client may see. */
  readonly shown?: (data: unknown) => unknown;
}

/** The open streams. */
export class Streams {
  readonly #runtime: Runtime;
  readonly #limits: Limits;
  readonly #open = new Map<EventStream, string>();

  constructor(runtime: Runtime, limits: Limits) {
    this.#runtime = runtime;
    this.#limits = limits;
  }

  /** Opens a stream for a principal and feeds it from the source. Throws 503 when too many are open. */
  open(principal: string, source: EventSource, terms: StreamTerms): EventStream {
    const theirs = [...this.#open.values()].filter((one) => one === principal).length;
    if (this.#open.size >= this.#limits.streams || theirs >= this.#limits.streamsEach) {
      throw full();
    }
    const stream = new EventStream(this.#runtime, this.#limits, terms);
    this.#open.set(stream, principal);
    stream.signal.addEventListener("abort", () => this.#open.delete(stream), { once: true });
    void source(stream)
      .catch(terms.onError)
      .finally(() => stream.end());
    return stream;
  }

  closeAll(): void {
    for (const stream of this.#open.keys()) stream.end();
  }
}

export const TOO_MANY_STREAMS = "TOO_MANY_STREAMS";

function full(): Problem {
  const detail = "Too many open event streams. Close one or retry later.";
  return new Problem({ status: 503, code: TOO_MANY_STREAMS, detail, headers: retryAfter("10") });
}
