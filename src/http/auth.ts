/**
 * Authentication: which principal sent a request, and what it may do.
 *
 * For development, every direct request on the loopback interface counts as an operator's, outside production and until the
 * first token exists. In all other cases a request without a token gets only probes and metrics.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { BEARER_LENGTH_MAX } from "../core/bearer.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { Buckets, type Limits, setLast } from "./limits.ts";
import { Problem, retryAfter } from "./problem.ts";

/** The last use of a token is recorded at most this often. */
const NOTE_EVERY_MS = 60_000;
const CONFIGURED = "HOLDFAST_TOKEN";
const LOCAL = "local";

export interface Principal {
  /** Unique; rate limits and idempotency keys are per principal. */
  readonly id: string;
  /** The actor in the audit log: `token <name>`. The CLI writes `cli <user>`, so neither can impersonate the other. */
  readonly name: string;
  readonly role: Role;
}

export type AccessRule = "public" | Role;

/** What a request says about its sender. */
export interface Credentials {
  /** Its Authorization header. */
  readonly header: string | undefined;
  readonly address: string;
  /** The sign that a proxy forwarded it; null: none. */
  readonly proxy: string | null;
}

/** What authentication asks about tokens. */
export interface TokenLookup {
  /** The token with this hash, even if it is revoked or expired; null: none. */
  find(hash: string): Promise<TokenRecord | null>;
  /** Whether a token exists, including revoked and expired ones: then every request needs one. */
  any(): Promise<boolean>;
  /** Records that the token was used. */
  noteUse(id: string): Promise<void>;
}

interface AuthParts {
  readonly tokens: TokenLookup;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly limits: Limits;
  /** An operator's token from the configuration. */
  readonly token: string | null;
  /** Bound to the loopback interface. */
  readonly isLocal: boolean;
  readonly production: boolean;
}

/** Creating a token needs the database, which a remote client does not have. */
const REMEDY =
  "Create one on a machine with access to the database: holdfast tokens create --name <name> --role viewer|operator";

const SHOW = "Send a token: Authorization: Bearer hft_…";

export class Auth {
  readonly #parts: AuthParts;
  readonly #known = new Map<string, { readonly principal: Principal; readonly at: number }>();
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

  /** The principal; null on public routes. Throws 401, 403 or 429. */
  async admit(credentials: Credentials, rule: AccessRule): Promise<Principal | null> {
    if (rule === "public") return null;
    const { header } = credentials;
    const principal =
      header === undefined ? await this.#open(credentials) : await this.#shown(header, credentials);
    if (rule === "operator" && principal.role !== "operator") throw forbidden(principal);
    return principal;
  }

  /** Whether a request that was admitted would still be admitted. True while the database does not respond. */
  async isStillAdmitted({ header, proxy }: Credentials): Promise<boolean> {
    try {
      if (header === undefined) return proxy === null && (await this.#isOpen());
      const hash = hashIn(header);
      return hash !== null && (await this.#principalOf(hash)) !== null;
    } catch (error) {
      this.#parts.logger.debug(
        { event: "http:token-unchecked", err: error },
        "could not check whether a token is still valid",
      );
      return true;
    }
  }

  /** Whether requests without a token are admitted as long as no token exists. */
  get mayBeOpen(): boolean {
    const { isLocal, production } = this.#parts;
    return isLocal && !production && this.#configured === null;
  }

  async #isOpen(): Promise<boolean> {
    const { tokens, runtime, limits } = this.#parts;
    if (!this.mayBeOpen) return false;
    const now = runtime.monotonic();
    // Token rows are never deleted, so only a negative answer can become stale.
    if (this.#guarded === null || (!this.#guarded.is && now - this.#guarded.at > limits.tokenMs)) {
      this.#guarded = { is: await tokens.any(), at: now };
    }
    return !this.#guarded.is;
  }

  async #open({ proxy }: Credentials): Promise<Principal> {
    const { isLocal, production } = this.#parts;
    if (!(await this.#isOpen())) {
      const where = isLocal && production ? "With NODE_ENV=production every" : "This";
      throw unauthorized(`${where} request needs a token. ${SHOW} ${REMEDY}`);
    }
    if (proxy === null) return { id: LOCAL, name: LOCAL, role: "operator" };
    const reason = `Without a token, only direct requests from this machine are allowed. This one came through a proxy (${proxy}).`;
    throw unauthorized(`${reason} ${SHOW} ${REMEDY}`);
  }

  async #shown(header: string, { address }: Credentials): Promise<Principal> {
    const hash = hashIn(header);
    if (hash === null) {
      this.#refuse(address);
      const detail = `The Authorization header contains no bearer token. ${SHOW} ${REMEDY}`;
      throw unauthorized(detail, "invalid_request");
    }
    // The token is looked up before failures are counted, so guessing does not lock out valid tokens from the same address.
    const principal = await this.#principalOf(hash);
    if (principal !== null) return principal;
    this.#refuse(address);
    const detail = `The token is unknown, revoked or expired. ${REMEDY}`;
    throw unauthorized(detail, "invalid_token");
  }

  async #principalOf(hash: string): Promise<Principal | null> {
    const { runtime, limits } = this.#parts;
    const known = this.#known.get(hash);
    if (known !== undefined && runtime.monotonic() - known.at <= limits.tokenMs) {
      return known.principal;
    }
    if (this.#configured !== null && isSameHash(hash, this.#configured)) {
      return this.#remember(hash, { id: CONFIGURED, name: CONFIGURED, role: "operator" });
    }
    const record = await this.#parts.tokens.find(hash);
    if (record === null || !isSameHash(record.hash, hash) || !counts(record)) {
      this.#known.delete(hash);
      return null;
    }
    this.#noteUse(record.id);
    const { id, name, role } = record;
    return this.#remember(hash, { id: `token ${id}`, name: `token ${name}`, role });
  }

  /** Only valid tokens are cached, so guessing cannot fill the cache. */
  #remember(hash: string, principal: Principal): Principal {
    const { runtime, limits } = this.#parts;
    setLast(this.#known, hash, { principal, at: runtime.monotonic() }, limits.remembered);
    return principal;
  }

  #refuse(address: string): void {
    const seconds = this.#failures.take(address);
    if (seconds > 0) throw tooMany("Too many invalid tokens from this address.", seconds);
    this.#parts.logger.warn(
      { event: "http:token-refused", address },
      "a request had an invalid token",
    );
  }

  /** Runs in the background; a failure is only logged. */
  #noteUse(id: string): void {
    const { runtime, tokens, logger, limits } = this.#parts;
    const now = runtime.monotonic();
    if (now - (this.#notedAt.get(id) ?? Number.NEGATIVE_INFINITY) < NOTE_EVERY_MS) return;
    if (this.#notedAt.size >= limits.remembered) this.#notedAt.clear();
    this.#notedAt.set(id, now);
    tokens.noteUse(id).catch((error: unknown) => {
      logger.debug(
        { event: "http:token-use-unrecorded", err: error },
        "could not record the use of a token",
      );
    });
  }
}

/** Null: the header contains no token. */
function hashIn(header: string): string | null {
  const token = /^bearer ([\w.~+/=-]+)$/i.exec(header)?.[1];
  return token === undefined || token.length > BEARER_LENGTH_MAX ? null : hashOf(token);
}

export function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** Compares in constant time. */
export function isSameHash(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one, "hex"), Buffer.from(other, "hex")];
  return a.length === b.length && a.length > 0 && timingSafeEqual(a, b);
}

function counts({ revokedAt, expiresInMs }: TokenRecord): boolean {
  return revokedAt === null && (expiresInMs === null || expiresInMs > 0);
}

function unauthorized(detail: string, error?: string): Problem {
  const challenge = `Bearer realm="holdfast"${error === undefined ? "" : `, error="${error}"`}`;
  const headers = { "WWW-Authenticate": challenge };
  return new Problem({ status: 401, code: "UNAUTHORIZED", detail, headers });
}

function forbidden({ name }: Principal): Problem {
  const detail = `'${name}' has the role viewer, which is read-only. Use a token with the role operator.`;
  return new Problem({ status: 403, code: "FORBIDDEN", detail });
}

export function tooMany(detail: string, seconds: number): Problem {
  // Each further attempt then costs the client a new connection.
  const headers = { ...retryAfter(String(seconds)), Connection: "close" };
  return new Problem({ status: 429, code: "TOO_MANY_REQUESTS", detail, headers });
}

export const roles = ["viewer", "operator"] as const;
export type Role = (typeof roles)[number];

export interface TokenRecord {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly hash: string;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** Time until it expires, by the clock of the database; 0 or less: expired; null: it never expires. */
  readonly expiresInMs: number | null;
  readonly revokedAt: number | null;
  /** Approximately when it was last used. */
  readonly usedAt: number | null;
}
