/**
 * Tokens: what somebody who comes over HTTP shows to say who they are.
 *
 * A token is 256 bits of chance and told once, to whoever creates it. What is kept is its SHA-256. A hash that is slow to
 * compute guards words that people choose; nobody tries 2^256.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { checkKnown, checkWhole } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { HoldfastError, InvalidArgument } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { checkLabel, checkName, NAME_LENGTH_MAX } from "../core/name.ts";
import type { Runtime } from "../core/runtime.ts";
import { anyOperator, type ByOperator } from "../queue/signature.ts";
import { roles, type Access, type Role, type TokenRecord } from "../store/access.ts";

const TOKEN_BYTES = 32;
/** People and programs that look for leaked secrets know it by this. */
const PREFIX = "hft_";
const LIST_MAX = 1_000;
const LIST_DEFAULT = 100;
/** The audit calls its bearer `token <name>`, which has to be the name of an actor. */
const NAME_MAX = NAME_LENGTH_MAX - "token ".length;
const CREATE_OPTIONS = new Set(["name", "role", "expires"]);

export interface TokenOptions {
  /** Who it is given to: the audit calls them so. */
  readonly name: string;
  readonly role: Role;
  /** After so long it counts no more. Default: never. */
  readonly expires?: Duration;
}

/** A token as it may be shown: without its hash. */
export type TokenView = Omit<TokenRecord, "hash">;

export class TokenNotFound extends HoldfastError {
  constructor(name: string) {
    super("TOKEN_NOT_FOUND", `There is no token '${name}'. See: holdfast tokens`);
  }
}

export class Tokens {
  readonly #store: Access;
  readonly #runtime: Runtime;
  readonly #newId: () => string;

  constructor({ store, runtime }: { readonly store: Access; readonly runtime: Runtime }) {
    this.#store = store;
    this.#runtime = runtime;
    this.#newId = makeIds(runtime);
  }

  /** Returns the token itself, which nobody can tell again. */
  async create(options: TokenOptions, by: ByOperator = {}): Promise<string> {
    checkKnown(options, CREATE_OPTIONS);
    const { name, role, expires } = options;
    if (!roles.includes(role)) {
      const problem = `'${role as string}' is none. The roles are: ${roles.join(", ")}.`;
      throw new InvalidArgument({ field: "role", problem });
    }
    const forMs = expires === undefined ? null : toMs("expires", expires, { min: 1 });
    const token = newToken(this.#runtime);
    const row = {
      id: this.#newId(),
      name: checkLabel("name", name, NAME_MAX),
      role,
      hash: hashOf(token),
    };
    const created = await this.#store.createToken({ ...row, forMs }, anyOperator(by, this.#newId));
    if (created) return token;
    const problem = `there is a token '${name}' already. Revoke it first, or choose another name.`;
    throw new InvalidArgument({ field: "name", problem });
  }

  async list({ limit = LIST_DEFAULT }: { readonly limit?: number } = {}): Promise<TokenView[]> {
    checkWhole("limit", limit, { least: 1, most: LIST_MAX });
    const records = await this.#store.tokens({ limit });
    return records.map(({ hash: _hash, ...view }) => view);
  }

  async revoke(name: string, by: ByOperator = {}): Promise<void> {
    const signature = anyOperator(by, this.#newId);
    const revoked = await this.#store.revokeToken(checkName("name", name), signature);
    if (!revoked) throw new TokenNotFound(name);
  }
}

/** The system's runtime fills it from the operating system's own source of secrets. */
function newToken(runtime: Runtime): string {
  const bytes = new Uint8Array(TOKEN_BYTES);
  runtime.fillRandom(bytes);
  return PREFIX + Buffer.from(bytes).toString("base64url");
}

export function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** Takes as long whether they differ in the first byte or in the last. */
export function isSameHash(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one, "hex"), Buffer.from(other, "hex")];
  return a.length === b.length && a.length > 0 && timingSafeEqual(a, b);
}
