/**
 * Who asks, and what they may do.
 *
 * On the loopback interface, outside production, and until the first token is created, every direct request is an operator's:
 * that is development. From the first token on, beyond the loopback interface, in production and through a proxy, a request
 * without a token gets probes and metrics alone.
 */
import { BEARER_LENGTH_MAX } from "../core/bearer.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Access, Role, TokenRecord } from "../store/access.ts";
import { Buckets } from "./bucket.ts";
import type { Limits } from "./limits.ts";
import { Problem, retryAfter } from "./problem.ts";
import { hashOf, isSameHash } from "./tokens.ts";

/** So often it is noted at most that a token was used. */
const NOTE_EVERY_MS = 60_000;
const CONFIGURED = "HOLDFAST_TOKEN";
const LOCAL = "local";

export interface Asker {
  /** By which their requests are told from those of others. */
  readonly id: string;
  /** As the audit calls them: `token` and its name, as `cli` and a user's, so that neither passes for the other. */
  readonly name: string;
  readonly role: Role;
}

export type AccessRule = "public" | Role;

/** What a request shows of who sent it. */
export interface Credentials {
  /** Its Authorization header. */
  readonly header: string | undefined;
  readonly address: string;
  /** What shows that a proxy passed it on; null: nothing does. */
  readonly proxy: string | null;
}

export interface AuthParts {
  readonly store: Access;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly limits: Limits;
  /** An operator's token from the configuration. */
  readonly token: string | null;
  /** Bound to the loopback interface. */
  readonly isLocal: boolean;
  readonly production: boolean;
}

interface Known {
  readonly asker: Asker | null;
  readonly at: number;
}

/** It takes the database, which a client from outside does not have. */
const REMEDY =
  "Create one where the database is: holdfast tokens create --name <name> --role viewer|operator";
const SHOW = "Send a token: Authorization: Bearer hft_…";

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

  /** Who asks. Null: no one we know, which is enough for what is public. Throws 401, 403 or 429. */
  async admit(credentials: Credentials, rule: AccessRule): Promise<Asker | null> {
    if (rule === "public") return null;
    const { header } = credentials;
    const asker =
      header === undefined ? await this.#open(credentials) : await this.#shown(header, credentials);
    if (rule === "operator" && asker.role !== "operator") throw forbidden(asker);
    return asker;
  }

  /** Whether a request that was let in would be let in now. While the database does not answer, it would. */
  async isStillAdmitted({ header, proxy }: Credentials): Promise<boolean> {
    try {
      if (header === undefined) return proxy === null && (await this.#isOpen());
      const hash = hashIn(header);
      return hash !== null && (await this.#askerOf(hash)) !== null;
    } catch (error) {
      this.#parts.logger.debug({ err: error }, "could not see whether a token still counts");
      return true;
    }
  }

  /** Whether requests without a token may be let in, as long as there are no tokens. */
  get mayBeOpen(): boolean {
    const { isLocal, production } = this.#parts;
    return isLocal && !production && this.#configured === null;
  }

  async #isOpen(): Promise<boolean> {
    const { store, runtime, limits } = this.#parts;
    if (!this.mayBeOpen) return false;
    const now = runtime.monotonic();
    // Once there was a token there is one for ever, so only the other answer grows old.
    if (this.#guarded === null || (!this.#guarded.is && now - this.#guarded.at > limits.tokenMs)) {
      this.#guarded = { is: await store.hasTokens(), at: now };
    }
    return !this.#guarded.is;
  }

  async #open({ proxy }: Credentials): Promise<Asker> {
    const { isLocal, production } = this.#parts;
    if (!(await this.#isOpen())) {
      const where = isLocal && production ? "With NODE_ENV=production every" : "This";
      throw unauthorized(`${where} request needs a token. ${SHOW} ${REMEDY}`);
    }
    if (proxy === null) return { id: LOCAL, name: LOCAL, role: "operator" };
    const reason = `Without a token, only direct requests from this machine are let in. This one came through a proxy (${proxy}).`;
    throw unauthorized(`${reason} ${SHOW} ${REMEDY}`);
  }

  async #shown(header: string, { address }: Credentials): Promise<Asker> {
    const hash = hashIn(header);
    if (hash === null) {
      this.#refuse(address);
      const detail = `The Authorization header shows no token. ${SHOW} ${REMEDY}`;
      throw unauthorized(detail, "invalid_request");
    }
    // It is looked up before failures are counted: an address that guesses keeps no token of its neighbours out.
    const asker = await this.#askerOf(hash);
    if (asker !== null) return asker;
    this.#refuse(address);
    const detail = `This token is not known, was revoked, or has expired. ${REMEDY}`;
    throw unauthorized(detail, "invalid_token");
  }

  async #askerOf(hash: string): Promise<Asker | null> {
    return this.#remembered(hash) ?? (await this.#ask(hash));
  }

  #remembered(hash: string): Asker | null {
    const known = this.#known.get(hash);
    const { runtime, limits } = this.#parts;
    if (known === undefined || runtime.monotonic() - known.at > limits.tokenMs) return null;
    return known.asker;
  }

  async #ask(hash: string): Promise<Asker | null> {
    if (this.#configured !== null && isSameHash(hash, this.#configured)) {
      return this.#remember(hash, { id: CONFIGURED, name: CONFIGURED, role: "operator" });
    }
    const record = await this.#parts.store.findToken(hash);
    if (record === null || !isSameHash(record.hash, hash) || !counts(record)) {
      this.#known.delete(hash);
      return null;
    }
    this.#noteUse(record.id);
    const { id, name, role } = record;
    return this.#remember(hash, { id: `token ${id}`, name: `token ${name}`, role });
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

/** Null: the header shows no token. */
function hashIn(header: string): string | null {
  const token = /^bearer ([\w.~+/=-]+)$/i.exec(header)?.[1];
  return token === undefined || token.length > BEARER_LENGTH_MAX ? null : hashOf(token);
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
  const detail = `A viewer's token may not change anything, and '${name}' is one. Use an operator's.`;
  return new Problem({ status: 403, code: "FORBIDDEN", detail });
}

export function tooMany(detail: string, seconds: number): Problem {
  // Each further try then costs the client a connection.
  const headers = { ...retryAfter(String(seconds)), Connection: "close" };
  return new Problem({ status: 429, code: "TOO_MANY_REQUESTS", detail, headers });
}
