/**
 * Authentication: which principal sent a request, and what it may do.
 *
 * For development, every direct request on the loopback interface counts as an operator's, outside production and until the
 * first token exists. In all other cases a request without a token gets only probes and metrics.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { BEARER_LENGTH_MAX } from "../config/kind.ts";
import type { Logger } from "../core/log.ts";
import type { Role } from "../core/role.ts";
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
  /**
   * How it was recognised. Open: no token exists yet. App: the application that serves the dashboard named it. Stdio: it
   * started this process.
   */
  readonly via: "token" | "cookie" | "open" | "app" | "stdio";
}

export type AccessRule = "public" | Role;

/** What a request says about its sender. */
export interface Credentials {
  /** Its Authorization header. */
  readonly header: string | undefined;
  readonly address: string;
  /** The sign that a proxy forwarded it; null: none. */
  readonly proxy: string | null;
  /** The secret of a session, from its cookie; null: none. */
  readonly session: string | null;
  /** The request, if an application passed it on. */
  readonly request?: Request;
}

/** Decides who sent a request. */
export interface Admission {
  /** The principal; null on public routes. Throws 401, 403 or 429. */
  admit(credentials: Credentials, rule: AccessRule): Promise<Principal | null>;
  /** Whether a request that was admitted would still be admitted. Does not throw. */
  isStillAdmitted(credentials: Credentials): Promise<boolean>;
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

export interface SessionRecord {
  /** Time until it ends, by the clock of the database. */
  readonly expiresInMs: number;
  /** The token it was begun with; null: that of the configuration. */
  readonly token: TokenRecord | null;
}

/** What authentication asks about sessions. */
export interface SessionLookup {
  begin(session: {
    readonly hash: string;
    readonly tokenId: string | null;
    readonly forMs: number;
    readonly most: number;
  }): Promise<void>;
  find(hash: string): Promise<SessionRecord | null>;
  end(hash: string): Promise<void>;
  /** Deletes sessions that are over. */
  prune(limit: number): Promise<number>;
}

interface AuthParts {
  readonly tokens: TokenLookup;
  readonly sessions: SessionLookup;
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

interface Known {
  readonly principal: Principal;
  /** Null: the token of the configuration. */
  readonly tokenId: string | null;
  readonly at: number;
}

export class Auth implements Admission {
  readonly #parts: AuthParts;
  /** By the hash of the token, or that of the session. */
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

  async admit(credentials: Credentials, rule: AccessRule): Promise<Principal | null> {
    if (rule === "public") return null;
    const { header } = credentials;
    const principal =
      header === undefined
        ? await this.#withoutToken(credentials)
        : await this.#shown(header, credentials);
    return allowed(principal, rule);
  }

  /** Whether a request that was admitted would still be admitted. True while the database does not respond. */
  async isStillAdmitted({ header, proxy, session }: Credentials): Promise<boolean> {
    try {
      if (header === undefined) {
        if (session !== null && (await this.#ofSession(session)) !== null) return true;
        return proxy === null && (await this.#isOpen());
      }
      const hash = hashIn(header);
      return hash !== null && (await this.#knownBy(hash)) !== null;
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

  /** Begins a session. Throws 401 if the token is not valid. */
  async signIn(
    token: string,
    address: string,
  ): Promise<{ readonly secret: string; readonly principal: Principal }> {
    const { runtime, sessions } = this.#parts;
    const known = await this.#checked(hashOf(token), address);
    const { principal, tokenId } = known;
    const secret = newSecret(runtime);
    const hash = sessionHash(secret, tokenId === null ? this.#configured : null);
    await sessions.begin({ hash, tokenId, forMs: SESSION_MS, most: SESSIONS_MAX });
    return { secret, principal: { ...principal, via: "cookie" } };
  }

  /** Ends a session; its streams end with their next heartbeat. */
  async signOut(secret: string): Promise<void> {
    for (const hash of this.#hashesOf(secret)) {
      this.#known.delete(hash);
      await this.#parts.sessions.end(hash);
    }
  }

  #hashesOf(secret: string): string[] {
    const configured = this.#configured === null ? [] : [sessionHash(secret, this.#configured)];
    return [sessionHash(secret, null), ...configured];
  }

  async #withoutToken(credentials: Credentials): Promise<Principal> {
    const { session } = credentials;
    const principal = session === null ? null : await this.#ofSession(session);
    return principal ?? this.#open(credentials);
  }

  async #ofSession(secret: string): Promise<Principal | null> {
    for (const hash of this.#hashesOf(secret)) {
      const cached = this.#cached(hash);
      if (cached !== null) return cached.principal;
      const session = await this.#parts.sessions.find(hash);
      if (session === null || session.expiresInMs <= 0) continue;
      const { token } = session;
      if (token === null) return this.#remember(hash, CONFIGURED_PRINCIPAL, null, "cookie");
      if (!counts(token)) continue;
      this.#noteUse(token.id);
      return this.#remember(hash, principalOf(token), token.id, "cookie");
    }
    return null;
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
    if (proxy === null) return { id: LOCAL, name: LOCAL, role: "operator", via: "open" };
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
    return (await this.#checked(hash, address)).principal;
  }

  async #checked(hash: string, address: string): Promise<Omit<Known, "at">> {
    // The token is looked up before failures are counted, so guessing does not lock out valid tokens from the same address.
    const known = await this.#knownBy(hash);
    if (known !== null) return known;
    this.#refuse(address);
    const detail = `The token is unknown, revoked or expired. ${REMEDY}`;
    throw unauthorized(detail, "invalid_token");
  }

  async #knownBy(hash: string): Promise<Omit<Known, "at"> | null> {
    const cached = this.#cached(hash);
    if (cached !== null) return cached;
    if (this.#configured !== null && isSameHash(hash, this.#configured)) {
      const principal = this.#remember(hash, CONFIGURED_PRINCIPAL, null, "token");
      return { principal, tokenId: null };
    }
    const record = await this.#parts.tokens.find(hash);
    if (record === null || !isSameHash(record.hash, hash) || !counts(record)) {
      this.#known.delete(hash);
      return null;
    }
    this.#noteUse(record.id);
    const principal = this.#remember(hash, principalOf(record), record.id, "token");
    return { principal, tokenId: record.id };
  }

  #cached(hash: string): Known | null {
    const { runtime, limits } = this.#parts;
    const known = this.#known.get(hash);
    return known !== undefined && runtime.monotonic() - known.at <= limits.tokenMs ? known : null;
  }

  /** Only valid tokens and sessions are cached, so guessing cannot fill the cache. */
  #remember(
    hash: string,
    who: Omit<Principal, "via">,
    tokenId: string | null,
    via: Principal["via"],
  ): Principal {
    const { runtime, limits } = this.#parts;
    const principal = { ...who, via };
    setLast(this.#known, hash, { principal, tokenId, at: runtime.monotonic() }, limits.remembered);
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

const CONFIGURED_PRINCIPAL = { id: CONFIGURED, name: CONFIGURED, role: "operator" } as const;

function principalOf({ id, name, role }: TokenRecord): Omit<Principal, "via"> {
  return { id: `token ${id}`, name: `token ${name}`, role };
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

/** Throws 403 for viewers where operators may act. */
export function allowed(principal: Principal, rule: AccessRule): Principal {
  if (rule === "operator" && principal.role !== "operator") throw forbidden(principal);
  return principal;
}

function forbidden({ name, via }: Principal): Problem {
  const remedy =
    via === "stdio"
      ? "A person can start 'holdfast mcp' with --role operator."
      : "Use a token with the role operator.";
  const detail = `'${name}' has the role viewer, which is read-only. ${remedy}`;
  return new Problem({ status: 403, code: "FORBIDDEN", detail });
}

export function tooMany(detail: string, seconds: number): Problem {
  // Each further attempt then costs the client a new connection.
  const headers = { ...retryAfter(String(seconds)), Connection: "close" };
  return new Problem({ status: 429, code: "TOO_MANY_REQUESTS", detail, headers });
}

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

// Sessions of people who signed in with a token. The cookie holds a secret; the database stores only its hash.
//
// The cookie never holds the token, so a stolen cookie is of use for hours and not for the life of the token. A session ends
// with its token, at its own end, or when the person signs out.

const SECRET_BYTES = 32;

/** The secret in base64url. */
const SECRET = /^[\w-]{43}$/;

/** How long a session lasts. */
const SESSION_MS = 12 * 3_600_000;

/** Sessions of one token; signing in once more ends the oldest. */
const SESSIONS_MAX = 50;

function newSecret(runtime: Runtime): string {
  const bytes = new Uint8Array(SECRET_BYTES);
  runtime.fillRandom(bytes);
  return Buffer.from(bytes).toString("base64url");
}

/**
 * The hash that a session is stored under. That of the configured token depends on the token too, so another token in the
 * configuration ends its sessions.
 */
function sessionHash(secret: string, configured: string | null): string {
  return createHash("sha256")
    .update(configured === null ? secret : `${secret}.${configured}`)
    .digest("hex");
}

// The cookie. Browsers send the cookies of a host to all its ports, so its name holds the port.

/** The names of the cookie: with the prefix, browsers accept it over HTTPS only, and for this host only. */
function cookieNames(port: number): { readonly secure: string; readonly plain: string } {
  return { secure: `__Host-holdfast_${port}`, plain: `holdfast_${port}` };
}

/** The session's secret in a Cookie header; null: none. */
export function secretIn(header: string | undefined, port: number): string | null {
  const { secure, plain } = cookieNames(port);
  const pairs = (header ?? "").split(";").map((pair) => pair.trim());
  for (const name of [secure, plain]) {
    const pair = pairs.find((one) => one.startsWith(`${name}=`));
    const secret = pair?.slice(name.length + 1);
    if (secret !== undefined && SECRET.test(secret)) return secret;
  }
  return null;
}

/** A Set-Cookie header; without a secret, it deletes the cookie. */
export function cookieFor(secret: string | null, port: number, isSecure: boolean): string {
  const { secure, plain } = cookieNames(port);
  const lasting = secret === null ? 0 : Math.floor(SESSION_MS / 1_000);
  const common = `Path=/; Max-Age=${lasting}; HttpOnly; SameSite=Strict`;
  return isSecure
    ? `${secure}=${secret ?? ""}; ${common}; Secure`
    : `${plain}=${secret ?? ""}; ${common}`;
}
