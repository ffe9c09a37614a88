/** Every limit of the server, by name. */
import { basePath, bearer, host, port, setting, settled } from "../config/kind.ts";
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
  /** How long an authenticated client may take to send a body: less than the two limits around it, which would blame us. */
  bodyMs: 25 * SECOND_MS,
  /** How long the server may take to respond. */
  answerMs: 30 * SECOND_MS,
  /** How long the database may take for one read of a GET request. */
  readMs: 5 * SECOND_MS,
  keepAliveMs: 5 * SECOND_MS,
  /** Beyond this, a connection without an authenticated request in progress is closed. */
  connections: 1_000,
  /** For one address or IPv6 /64 network. Above the accept backlog of 511, so a proxy that fills it loses no connection. */
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
  readonly burst: number;
  readonly perSecond: number;
  /** How many callers are kept in memory. */
  readonly remembered: number;
}

export class Buckets {
  readonly #buckets = new Map<string, { readonly left: number; readonly at: number }>();
  readonly #runtime: Runtime;
  readonly #limit: RateLimit;

  constructor(runtime: Runtime, limit: RateLimit) {
    this.#runtime = runtime;
    this.#limit = limit;
  }

  /** Takes a token. Returns 0, or in how many seconds the next token is available. */
  take(who: string): number {
    const { burst, perSecond, remembered } = this.#limit;
    const now = this.#runtime.monotonic();
    const { left, at } = this.#buckets.get(who) ?? { left: burst, at: now };
    const refilled = Math.min(burst, left + ((now - at) / MS_PER_S) * perSecond);
    const isFree = refilled >= 1;
    setLast(this.#buckets, who, { left: isFree ? refilled - 1 : refilled, at: now }, remembered);
    return isFree ? 0 : Math.ceil((1 - refilled) / perSecond);
  }
}

/** Sets an entry of a map that is in order of use, and drops the least recently used entry beyond the limit. */
export function setLast<T>(map: Map<string, T>, key: string, value: T, limit: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > limit && oldest !== undefined) map.delete(oldest);
}

export const serverSettings = {
  host: settled({
    group: "Server",
    env: ["HOLDFAST_HOST"],
    flag: "--host <host>",
    file: "host",
    kind: host(),
    initial: "127.0.0.1",
    about: "The address to listen on; a token is required unless it is a loopback address.",
  }),
  port: settled({
    group: "Server",
    env: ["HEALTH_CHECK_PORT", "HOLDFAST_PORT", "PORT"],
    flag: "--port <port>",
    file: "port",
    kind: port(),
    initial: 8080,
    about: "The port of the server; 'holdfast work' starts a server only if it is set.",
  }),
  basePath: settled({
    group: "Server",
    env: ["HOLDFAST_BASE_PATH"],
    flag: "--base-path <path>",
    file: "basePath",
    kind: basePath(),
    initial: "",
    about: "The path below which a proxy serves the dashboard and the API.",
  }),
  token: setting({
    group: "Server",
    env: ["HOLDFAST_TOKEN"],
    flag: null,
    file: "token",
    kind: bearer(),
    initial: null,
    about: "An API token with the operator role; create others with 'holdfast tokens create'.",
  }),
};
