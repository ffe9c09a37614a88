/**
 * API tokens: created, listed and revoked.
 *
 * A token has 256 random bits and is shown once, when it is created; only its SHA-256 is stored. A slow hash protects passwords
 * that people choose; 256 random bits cannot be guessed.
 */
import { anyOperator, type OperatorOptions } from "../audit/entry.ts";
import type { Duration } from "../core/duration.ts";
import { HoldfastError, invalid } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { checkLabel, checkName, NAME_LENGTH_MAX } from "../core/name.ts";
import { by, checkWhole, choice, duration, needed, optionsOf } from "../core/options.ts";
import { type Role, roles } from "../core/role.ts";
import type { Runtime } from "../core/runtime.ts";
import { hashOf, type TokenRecord } from "../http-kernel/auth.ts";
import type { TokensStore } from "./store.ts";

const TOKEN_BYTES = 32;

/** Lets people and secret scanners recognise a token. */
const PREFIX = "hft_";
const LIST_MAX = 1_000;
const LIST_DEFAULT = 100;

/** In the audit log the actor is `token <name>`, which must fit the limit of a name. */
const NAME_MAX = NAME_LENGTH_MAX - "token ".length;

interface TokenOptions {
  /** Who it is given to; the audit log shows this name. */
  readonly name: string;
  readonly role: Role;
  /** When it expires. Default: never. */
  readonly expires?: Duration;
}

const createOptions = optionsOf<TokenOptions>()({
  name: needed(by((field, name: string) => checkLabel(field, name, NAME_MAX))),
  role: needed(choice(roles)),
  expires: duration({ least: 1 }),
});

/** A token without its hash. */
type TokenView = Omit<TokenRecord, "hash">;

export class TokenNotFoundError extends HoldfastError {
  constructor(name: string) {
    super("TOKEN_NOT_FOUND", `Token '${name}' does not exist. To list tokens: holdfast tokens`);
  }
}

export interface TokenParts {
  readonly store: { readonly tokens: TokensStore };
  readonly runtime: Runtime;
}

export class Tokens {
  readonly #tokens: TokensStore;
  readonly #runtime: Runtime;
  readonly #newId: () => string;

  constructor({ store, runtime }: TokenParts) {
    this.#tokens = store.tokens;
    this.#runtime = runtime;
    this.#newId = makeIds(runtime);
  }

  /** Returns the token itself, which cannot be retrieved later. */
  async create(options: TokenOptions, audited: OperatorOptions = {}): Promise<string> {
    const { name, role, expiresMs: forMs = null } = createOptions.read(options);
    const token = newToken(this.#runtime);
    const row = { id: this.#newId(), name, role, hash: hashOf(token) };
    const created = await this.#tokens.create({ ...row, forMs }, anyOperator(audited, this.#newId));
    if (created) return token;
    const problem = `token '${name}' already exists. Revoke it first, or choose another name.`;
    throw invalid("name", problem);
  }

  async list({ limit = LIST_DEFAULT }: { readonly limit?: number } = {}): Promise<TokenView[]> {
    checkWhole("limit", limit, { least: 1, most: LIST_MAX });
    const records = await this.#tokens.list({ limit });
    return records.map(({ hash: _hash, ...view }) => view);
  }

  async revoke(name: string, audited: OperatorOptions = {}): Promise<void> {
    const operator = anyOperator(audited, this.#newId);
    const revoked = await this.#tokens.revoke(checkName("name", name), operator);
    if (!revoked) throw new TokenNotFoundError(name);
  }
}

/** The system runtime uses the operating system's secure random source. */
function newToken(runtime: Runtime): string {
  const bytes = new Uint8Array(TOKEN_BYTES);
  runtime.fillRandom(bytes);
  return PREFIX + Buffer.from(bytes).toString("base64url");
}
