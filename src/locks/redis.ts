/**
 * Locks in Redis.
 *
 * Redis may lose writes: when it restarts, or when a replica takes over. Then two processes may have one lock; the second
 * has the larger token, because tokens are not below the clock. While Redis is away no process gets a lock, and every
 * caller gets an error within the time that it is willing to wait.
 */
import { StoreUnavailableError } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import { importDriver } from "../database/engine.ts";
import {
  type LockAnswer,
  type LockBackend,
  type LockFilter,
  type LockHold,
  type LockRecord,
  type LockRequest,
  NEXT_MS,
} from "./lock.ts";

/** How long to wait for an answer, or for a connection. */
const ANSWER_MS_MAX = 1_000;

/** A connection without an answer to a request for this long is replaced. */
const SILENT_MS_MAX = 2_000;

const RECONNECT_MS_FIRST = 25;

const RECONNECT_MS_MAX = 1_000;

/** Locks that are examined for one list. */
const LOOKED_AT_MAX = 10_000;

/** Locks to be released when Redis answers again. */
const OWED_MAX = 1_000;

type ScriptName = keyof typeof scripts;

/** The part of the driver that we use. */
interface RedisClient {
  readonly status: string;
  on(event: "ready" | "close", listener: () => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "message", listener: (channel: string) => void): unknown;
  connect(): Promise<unknown>;
  disconnect(): void;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  defineCommand(name: string, script: { numberOfKeys: number; lua: string }): void;
}

type RedisDriver = new (url: string, options: object) => RedisClient;

interface RedisLockOptions {
  readonly url: string;
  /** Each database has its own locks. */
  readonly database: string;
  readonly runtime: Runtime;
}

async function loadDriver(): Promise<RedisDriver> {
  const { Redis } = (await importDriver("Redis", "ioredis")) as { Redis: RedisDriver };
  return Redis;
}

export class RedisLock implements LockBackend {
  readonly kind = "redis";
  readonly #client: RedisClient;
  readonly #releases: ReleaseListener;
  readonly #runtime: Runtime;
  readonly #prefix: string;
  readonly #where: string;
  /** By holder: locks that may be ours without our knowing, and could not be released. */
  readonly #owed = new Map<string, string>();
  #ready = Promise.withResolvers<void>();
  #trouble: Error | null = null;

  static async open(options: RedisLockOptions): Promise<RedisLock> {
    const Redis = await loadDriver();
    const client = new Redis(options.url, OPTIONS);
    return new RedisLock(client, new Redis(options.url, LISTENER_OPTIONS), options);
  }

  private constructor(
    client: RedisClient,
    listener: RedisClient,
    { url, database, runtime }: RedisLockOptions,
  ) {
    this.#client = client;
    this.#releases = new ReleaseListener(listener);
    this.#runtime = runtime;
    this.#prefix = `holdfast:${database}`;
    this.#where = `Redis at ${new URL(url).host}`;
    for (const [name, script] of Object.entries(scripts)) client.defineCommand(name, script);
    client.on("error", (error) => void (this.#trouble = error));
    client.on("close", () => void (this.#ready = Promise.withResolvers()));
    client.on("ready", () => this.#isBack());
  }

  async take(request: LockRequest): Promise<LockAnswer> {
    const { key, holder, contender, owner, trace, ttlMs } = request;
    const keys = [
      this.#lock(key),
      `${this.#prefix}:lock-next:${key}`,
      `${this.#prefix}:lock-token`,
    ];
    const args = [holder, contender, owner, trace ?? "", ttlMs, key, NEXT_MS];
    const answer = (await this.#run("take", [...keys, this.#ends, ...args])) as unknown[];
    const [taken, value, isNext] = answer;
    if (taken === 1) return { taken: true, token: value as number };
    return { taken: false, owner: value === "" ? null : (value as string), isNext: isNext === 1 };
  }

  async extend({ key, token }: LockHold, ttlMs: number): Promise<boolean> {
    return (await this.#run("extend", [this.#lock(key), this.#ends, token, ttlMs, key])) === 1;
  }

  async release({ key, token }: LockHold): Promise<boolean> {
    return this.#release(key, ["token", token]);
  }

  /** A suspended Redis may serve an abandoned request when it resumes. */
  async abandon(key: string, holder: string): Promise<void> {
    if (this.#owed.size < OWED_MAX) this.#owed.set(holder, key);
    if (this.#client.status === "ready") await this.#giveBack();
  }

  async find(key: string): Promise<LockRecord | null> {
    return recordOf(key, (await this.#run("find", [this.#lock(key)])) as Row);
  }

  async list({ type = "", limit }: LockFilter): Promise<LockRecord[]> {
    const rows = await this.#run("list", [this.#ends, this.#lock(""), type, LOOKED_AT_MAX]);
    return (rows as Row[])
      .flatMap((row) => recordOf(row[6] ?? "", row) ?? [])
      .toSorted((a, b) => a.acquiredAt - b.acquiredAt || (a.key < b.key ? -1 : 1))
      .slice(0, limit);
  }

  onRelease(key: string, wake: () => void): () => void {
    return this.#releases.add(this.#channel(key), wake);
  }

  async close(): Promise<void> {
    this.#releases.close();
    this.#client.disconnect();
  }

  async #release(key: string, condition: readonly (string | number)[]): Promise<boolean> {
    const args = [this.#lock(key), this.#ends, ...condition, key, this.#channel(key)];
    return (await this.#run("release", args)) === 1;
  }

  #channel(key: string): string {
    return `${this.#prefix}:lock-released:${key}`;
  }

  #lock(key: string): string {
    return `${this.#prefix}:lock:${key}`;
  }

  get #ends(): string {
    return `${this.#prefix}:lock-ends`;
  }

  async #run(name: ScriptName, args: readonly (string | number)[]): Promise<unknown> {
    if (this.#client.status !== "ready") await this.#becomeReady();
    const run = (this.#client as unknown as Record<ScriptName, Script>)[name];
    try {
      return await Reflect.apply(run, this.#client, args);
    } catch (error) {
      throw this.#away(error);
    }
  }

  /** The first request connects; the driver reconnects by itself. */
  async #becomeReady(): Promise<void> {
    if (this.#client.status === "wait") this.#client.connect().catch(() => {}); // Emitted as "error", too.
    const late = Promise.withResolvers<never>();
    const timer = this.#runtime.timer(ANSWER_MS_MAX, () => late.reject(this.#away(this.#trouble)));
    try {
      await Promise.race([this.#ready.promise, late.promise]);
    } finally {
      timer.cancel();
    }
  }

  #isBack(): void {
    this.#trouble = null;
    this.#ready.resolve();
    void this.#giveBack().catch(() => {}); // Tried again when Redis is back again.
  }

  async #giveBack(): Promise<void> {
    for (const [holder, key] of this.#owed) {
      await this.#release(key, ["holder", holder]);
      this.#owed.delete(holder);
    }
  }

  #away(cause: unknown): StoreUnavailableError {
    const why = cause instanceof Error ? `: ${cause.message}` : "";
    const problem = `${this.#where} is unavailable for locks${why}.`;
    const remedy = 'Check it, or store locks in the database (locks: "sql", HOLDFAST_LOCKS=sql).';
    return new StoreUnavailableError({ problem, remedy }, cause);
  }
}

/**
 * Wakes acquisitions when the holder releases the lock: otherwise the lock stays free until one of them asks again. A lost
 * message costs one such pause. A connection that listens can do nothing else, so this has its own.
 */
class ReleaseListener {
  readonly #client: RedisClient;
  readonly #wakes = new Map<string, Set<() => void>>();

  constructor(client: RedisClient) {
    this.#client = client;
    client.on("error", () => {}); // The other connection reports it.
    client.on("message", (channel) => {
      for (const wake of this.#wakes.get(channel) ?? []) wake();
    });
  }

  add(channel: string, wake: () => void): () => void {
    const wakes = this.#wakes.get(channel) ?? new Set();
    if (wakes.size === 0) {
      this.#wakes.set(channel, wakes);
      this.#client.subscribe(channel).catch(() => {}); // Then the acquisition asks again after a pause.
    }
    wakes.add(wake);
    return () => {
      if (!wakes.delete(wake) || wakes.size > 0) return;
      this.#wakes.delete(channel);
      this.#client.unsubscribe(channel).catch(() => {});
    };
  }

  close(): void {
    this.#wakes.clear();
    this.#client.disconnect();
  }
}

type Script = (...args: (string | number)[]) => Promise<unknown>;

function recordOf(
  key: string,
  [token, owner, trace, acquiredAt, endsInMs, now]: Row,
): LockRecord | null {
  if (token === null || endsInMs <= 0) return null;
  return {
    key,
    token: Number(token),
    owner,
    trace: trace === "" ? null : trace,
    acquiredAt: Number(acquiredAt),
    expiresAt: now + endsInMs,
    expiresInMs: endsInMs,
  };
}

/** The driver queues and resends nothing: the caller has given up by then. */
const OPTIONS = {
  lazyConnect: true,
  connectTimeout: ANSWER_MS_MAX,
  commandTimeout: ANSWER_MS_MAX,
  socketTimeout: SILENT_MS_MAX,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectionName: "holdfast-locks",
  retryStrategy: (times: number) =>
    Math.min(RECONNECT_MS_MAX, RECONNECT_MS_FIRST * 2 ** Math.min(times, 10)),
};

/** It connects with the first subscription, and renews subscriptions after a loss. */
const LISTENER_OPTIONS = {
  lazyConnect: true,
  connectTimeout: ANSWER_MS_MAX,
  connectionName: "holdfast-lock-releases",
  retryStrategy: OPTIONS.retryStrategy,
};

/**
 * The operations of locks. Redis runs each script atomically.
 *
 * A lock is a hash that expires. Other keys hold: the process for which the lock is reserved; the last token, for all
 * locks together; and the end of each lock, for listing. Time is Redis's own.
 */
const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

const STANDING = `'token', 'owner', 'trace', 'acquiredAt'`;

const scripts = {
  /** KEYS: lock, next, token, ends. ARGV: holder, contender, owner, trace, time to live, key, time of reservation. */
  take: {
    numberOfKeys: 4,
    lua: `${NOW}
local holder = redis.call('HGET', KEYS[1], 'holder')
local next = redis.call('GET', KEYS[2])
local isOurTurn = not next or next == ARGV[2]
if isOurTurn and (not holder or holder == ARGV[1]) then
  local token = math.max(now, (tonumber(redis.call('GET', KEYS[3])) or 0) + 1)
  redis.call('SET', KEYS[3], token)
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'owner', ARGV[3], 'trace', ARGV[4], 'token', token, 'acquiredAt', now)
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  redis.call('DEL', KEYS[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  redis.call('ZADD', KEYS[4], now + ARGV[5], ARGV[6])
  return {1, token}
end
if isOurTurn then redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[7]) end
return {0, redis.call('HGET', KEYS[1], 'owner') or '', isOurTurn and 1 or 0}`,
  },

  /** KEYS: lock, ends. ARGV: token, time to live, key. */
  extend: {
    numberOfKeys: 2,
    lua: `${NOW}
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[3])
end
return 1`,
  },

  /** KEYS: lock, ends. ARGV: a field and the value that it must have, key, channel for releases. */
  release: {
    numberOfKeys: 2,
    lua: `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[3])
redis.call('PUBLISH', ARGV[4], '')
return 1`,
  },

  /** KEYS: lock. */
  find: {
    numberOfKeys: 1,
    lua: `${NOW}
local row = redis.call('HMGET', KEYS[1], ${STANDING})
row[5] = redis.call('PTTL', KEYS[1])
row[6] = now
return row`,
  },

  /** KEYS: ends. ARGV: prefix of lock names, the type or nothing, how many to examine. */
  list: {
    numberOfKeys: 1,
    lua: `${NOW}
local rows = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[3])) do
  if ARGV[2] == '' or key == ARGV[2] or string.sub(key, 1, #ARGV[2] + 1) == ARGV[2] .. ':' then
    local row = redis.call('HMGET', ARGV[1] .. key, ${STANDING})
    row[5] = redis.call('PTTL', ARGV[1] .. key)
    row[6] = now
    row[7] = key
    if row[1] then rows[#rows + 1] = row end
  end
end
return rows`,
  },
} as const;

/** A row of `find` and `list`; without a token there is no such lock. */
type Row = [
  token: string | null,
  owner: string,
  trace: string,
  acquiredAt: string,
  endsInMs: number,
  now: number,
  key?: string,
];
