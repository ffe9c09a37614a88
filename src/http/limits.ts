/** Every limit of the server, by name. */
import type { Runtime } from "../core/runtime.ts";

const SECOND_MS = 1_000;
const KIB = 1_024;

export const DEFAULT_LIMITS = {
  /** Per request. A job's input has its own limit, 256 KiB. */
  bodyBytes: 1_024 * KIB,
  headerBytes: 16 * KIB,
  /** Nesting depth and total keys of a body, counted before it is parsed. */
  jsonDepth: 64,
  jsonKeys: 100_000,
  /** How long a client may take to send the headers, and the whole request. */
  headersMs: 10 * SECOND_MS,
  requestMs: 30 * SECOND_MS,
  /** How long the server may take to respond. */
  answerMs: 30 * SECOND_MS,
  keepAliveMs: 5 * SECOND_MS,
  /** Beyond this, a connection without an authenticated request in progress is closed. */
  connections: 1_000,
  /**
   * The same for one address, or one IPv6 /64 network. Larger than the accept backlog of 511, so a proxy that fills the backlog
   * at once loses no connection.
   */
  connectionsEach: 600,
  /** Pipelined requests, per connection (including the current one) and in total. */
  pipelinedEach: 8,
  pipelined: 500,
  /** Unread response bytes of a client, beyond which it gets no further response. */
  unreadBytes: 1_024 * KIB,
  requestsPerConnection: 10_000,
  /** Concurrent streams, in total and per principal. */
  streams: 200,
  streamsEach: 50,
  /** Events buffered for a slow client. */
  streamBuffer: 1_000,
  /** A client that reads none of its pending data for this long is cut off. */
  stallMs: 30 * SECOND_MS,
  heartbeatMs: 15 * SECOND_MS,
  /** Rate limit per principal, or per public path and address. */
  rateBurst: 2_000,
  ratePerSecond: 500,
  /** Invalid tokens from one address. */
  failureBurst: 20,
  failuresPerSecond: 1,
  /** Requests from one address that were refused before authentication or routing. */
  refusedBurst: 500,
  refusedPerSecond: 50,
  /** How many principals, addresses and tokens are kept in memory. */
  remembered: 10_000,
  /** How long the state of a token is cached. */
  tokenMs: 3 * SECOND_MS,
  /** How long `close()` waits for requests in progress. */
  closeMs: 5 * SECOND_MS,
  /** No request is in progress for longer than this, so a retry need not wait any more. */
  underWayMs: 45 * SECOND_MS,
  /** How long the response to a request with an Idempotency-Key is saved. */
  keepRequestsMs: 24 * 3_600 * SECOND_MS,
};

export type Limits = Readonly<typeof DEFAULT_LIMITS>;

// Rate limits as token buckets: a burst, then a steady rate.

const MS_PER_S = 1_000;

interface RateLimit {
  left: number;
  at: number;
}

export class Buckets {
  readonly #buckets = new Map<string, RateLimit>();
  readonly #runtime: Runtime;
  readonly #burst: number;
  readonly #perSecond: number;
  readonly #remembered: number;

  constructor(
    runtime: Runtime,
    { burst, perSecond, remembered }: { burst: number; perSecond: number; remembered: number },
  ) {
    this.#runtime = runtime;
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#remembered = remembered;
  }

  /** Takes a token. Returns 0, or in how many seconds the next token is available. */
  take(who: string): number {
    const bucket = this.#refilled(who);
    if (bucket.left < 1) return Math.ceil((1 - bucket.left) / this.#perSecond);
    bucket.left -= 1;
    return 0;
  }

  #refilled(who: string): RateLimit {
    const now = this.#runtime.monotonic();
    const bucket = this.#buckets.get(who) ?? { left: this.#burst, at: now };
    const gained = ((now - bucket.at) / MS_PER_S) * this.#perSecond;
    bucket.left = Math.min(this.#burst, bucket.left + gained);
    bucket.at = now;
    // The map is in order of use; the least recently used entry is dropped.
    this.#buckets.delete(who);
    this.#buckets.set(who, bucket);
    const [oldest] = this.#buckets.keys();
    if (this.#buckets.size > this.#remembered && oldest !== undefined) this.#buckets.delete(oldest);
    return bucket;
  }
}
