/**
 * Who asks, and what they may do.
 *
 * On the loopback interface, and as long as nobody ever made a token, everybody is an operator: that is development. From the
 * first token on, and always beyond the loopback interface, whoever shows none may look at health and metrics alone.
 */
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Access, Role, TokenRecord } from "../store/access.ts";
import { Buckets } from "./bucket.ts";
import type { Limits } from "./limits.ts";
import { Problem, retryAfter } from "./problem.ts";
import { hashOf, isSameHash } from "./tokens.ts";

/** A token of more characters is none of ours. */
const TOKEN_LENGTH_MAX = 256;
/** So often it is noted at most that a token was used. */
const NOTE_EVERY_MS = 60_000;
const CONFIGURED = "HOLDFAST_TOKEN";
const LOCAL = "local";

export interface Asker {
  /** By which their requests are told from those of others. */
  readonly id: string;
  /** As the audit calls them. */
  readonly name: string;
  readonly role: Role;
}

export type AccessRule = "public" | Role;

export interface AuthParts {
  readonly store: Access;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly limits: Limits;
  /** An operator's token from the configuration. */
  readonly token: string | null;
  /** Bound to the loopback interface. */
  readonly isLocal: boolean;
}

interface Known {
  readonly asker: Asker | null;
  readonly at: number;
}

/** Said to everybody: it takes the database, which whoever asks from outside does not have. */
const HOW =
  "Whoever has the database makes one: holdfast tokens create --name <name> --role viewer|operator";

export class Auth {
  readonly #parts: AuthParts;
  readonly #known = new Map<string, Known>();
  readonly #notedAt = new Map<string, number>();
  readonly #failures: Buckets;
  readonly #configured: string | null;
  #guarded: { readonly is: boolean; readonly at: number } | null = null;

  constructor(parts: AuthParts) {
    const { runtime, limits, token } = parts;
    this.#parts = parts;
    this.#configured = token === null ? null : hashOf(token);
    this.#failures = new Buckets(runtime, {
      burst: limits.failureBurst,
      perSecond: limits.failuresPerSecond,
      remembered: limits.remembered,
    });
  }

  /** Who asks. Null: nobody we know, which is enough for what is public. Throws 401, 403 or 429. */
  async admit(
    { header, address }: { readonly header: string | undefined; readonly address: string },
    rule: AccessRule,
  ): Promise<Asker | null> {
    if (rule === "public") return null;
    const asker = header === undefined ? await this.#nobody() : await this.#shown(header, address);
    if (rule === "operator" && asker.role !== "operator") throw forbidden(asker);
    return asker;
  }

  /** Whether somebody without a token may do something here. */
  async isOpen(): Promise<boolean> {
    const { isLocal, store, runtime, limits } = this.#parts;
    if (!isLocal || this.#configured !== null) return false;
    const now = runtime.monotonic();
    // Once there was a token there is one for ever, so only the other answer grows old.
    if (this.#guarded === null || (!this.#guarded.is && now - this.#guarded.at > limits.tokenMs)) {
      this.#guarded = { is: await store.hasTokens(), at: now };
    }
    return !this.#guarded.is;
  }

  async #nobody(): Promise<Asker> {
    if (await this.isOpen()) return { id: LOCAL, name: LOCAL, role: "operator" };
    throw unauthorized(`This needs a token: Authorization: Bearer hft_… ${HOW}`);
  }

  async #shown(header: string, address: string): Promise<Asker> {
    const token = /^bearer ([\w.~+/=-]+)$/i.exec(header)?.[1];
    if (token === undefined || token.length > TOKEN_LENGTH_MAX) {
      this.#refuse(address);
      const detail = `The token cannot be read: Authorization: Bearer hft_… ${HOW}`;
      throw unauthorized(detail, "invalid_request");
    }
    const hash = hashOf(token);
    const asker = this.#remembered(hash) ?? (await this.#ask(hash, address));
    if (asker !== null) return asker;
    this.#refuse(address);
    const detail = `This token is not known, was revoked, or has expired. ${HOW}`;
    throw unauthorized(detail, "invalid_token");
  }

  #remembered(hash: string): Asker | null {
    const known = this.#known.get(hash);
    const { runtime, limits } = this.#parts;
    if (known === undefined || runtime.monotonic() - known.at > limits.tokenMs) return null;
    return known.asker;
  }

  async #ask(hash: string, address: string): Promise<Asker | null> {
    // Somebody who counted a moment ago does not wait for a neighbour who guesses.
    const seconds = this.#known.has(hash) ? 0 : this.#failures.wait(address);
    if (seconds > 0) throw tooMany("Too many wrong tokens came from this address.", seconds);
    if (this.#configured !== null && isSameHash(hash, this.#configured)) {
      return this.#remember(hash, { id: CONFIGURED, name: CONFIGURED, role: "operator" });
    }
    const record = await this.#parts.store.findToken(hash);
    if (record === null || !isSameHash(record.hash, hash) || !counts(record)) {
      this.#known.delete(hash);
      return null;
    }
    this.#noteUse(record.id);
    return this.#remember(hash, { id: `token ${record.id}`, name: record.name, role: record.role });
  }

  /** Only those that count: whoever guesses fills nobody's memory. */
  #remember(hash: string, asker: Asker): Asker {
    const { runtime, limits } = this.#parts;
    this.#known.delete(hash);
    this.#known.set(hash, { asker, at: runtime.monotonic() });
    const [oldest] = this.#known.keys();
    if (this.#known.size > limits.remembered && oldest !== undefined) this.#known.delete(oldest);
    return asker;
  }

  #refuse(address: string): void {
    const seconds = this.#failures.take(address);
    if (seconds > 0) throw tooMany("Too many wrong tokens came from this address.", seconds);
    this.#parts.logger.warn({ address }, "a request came with a token that does not count");
  }

  /** Nobody waits for it, and nothing fails with it. */
  #noteUse(id: string): void {
    const { runtime, store, logger, limits } = this.#parts;
    const now = runtime.monotonic();
    if (now - (this.#notedAt.get(id) ?? Number.NEGATIVE_INFINITY) < NOTE_EVERY_MS) return;
    if (this.#notedAt.size >= limits.remembered) this.#notedAt.clear();
    this.#notedAt.set(id, now);
    store.noteTokenUse(id).catch((error: unknown) => {
      logger.debug({ err: error }, "could not note that a token was used");
    });
  }
}

function counts({ revokedAt, expiresInMs }: TokenRecord): boolean {
  return revokedAt === null && (expiresInMs === null || expiresInMs > 0);
}

function unauthorized(detail: string, error?: string): Problem {
  const challenge = `Bearer realm="holdfast"${error === undefined ? "" : `, error="${error}"`}`;
  const headers = { "WWW-Authenticate": challenge };
  return new Problem({ status: 401, code: "UNAUTHORIZED", detail, headers });
}

function forbidden({ name }: Asker): Problem {
  const detail = `The token '${name}' may look, and not change anything: this takes an operator's.`;
  return new Problem({ status: 403, code: "FORBIDDEN", detail });
}

export function tooMany(detail: string, seconds: number): Problem {
  const headers = retryAfter(String(seconds));
  return new Problem({ status: 429, code: "TOO_MANY_REQUESTS", detail, headers });
}
