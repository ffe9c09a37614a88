/** The rows of tokens. A row has the hash of its token, never the token itself. */
import { subjects } from "../audit/entry.ts";
import type { OperatorEntry } from "../audit/operator.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import type { Database } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { Role, TokenLookup, TokenRecord } from "../http/auth.ts";

export interface TokensStore extends TokenLookup {
  /** Adds a token and an audit entry. False: a token of this name exists that is not revoked. */
  create(token: NewToken, signature: OperatorEntry): Promise<boolean>;
  /** Newest first. */
  list(filter: { readonly limit: number }): Promise<TokenRecord[]>;
  /** Revokes a token and adds an audit entry. False: no valid token has this name. */
  revoke(name: string, signature: OperatorEntry): Promise<boolean>;
}

export class SqlTokens implements TokensStore {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  create(token: NewToken, signature: OperatorEntry): Promise<boolean> {
    const create = (): Promise<boolean> => createToken(this.#engine, token, signature);
    return actOrLookUp(this.#db, signature, create, async () => true);
  }

  find(hash: string): Promise<TokenRecord | null> {
    return findToken(this.#engine, hash);
  }

  any(): Promise<boolean> {
    return hasTokens(this.#engine);
  }

  list({ limit }: { limit: number }): Promise<TokenRecord[]> {
    return listTokens(this.#engine, limit);
  }

  revoke(name: string, signature: OperatorEntry): Promise<boolean> {
    const revoke = (): Promise<boolean> => revokeToken(this.#engine, name, signature);
    return actOrLookUp(this.#db, signature, revoke, async () => true);
  }

  noteUse(id: string): Promise<void> {
    return noteTokenUse(this.#engine, id);
  }
}

const record = (engine: Engine): Sql => sql`
       id, name, role, hash, created_at as "createdAt", expires_at as "expiresAt",
       expires_at - ${engine.now()} as "expiresInMs", revoked_at as "revokedAt", used_at as "usedAt"`;

function createToken(
  engine: Engine,
  { id, name, role, hash, forMs }: NewToken,
  signature: OperatorEntry,
): Promise<boolean> {
  return engine.transaction(async (tx) => {
    const [other] = await tx.all(
      sql`select id from holdfast.token where name = ${name} and revoked_at is null`,
    );
    if (other !== undefined) return false;
    const [clock] = await tx.all<{ now: number }>(sql`select ${engine.now()} as now`);
    const { now } = clock as { now: number };
    const expiresAt = forMs === null ? null : now + forMs;
    await tx.insert("token", [
      { id, name, role, hash, created_at: now, expires_at: expiresAt, revoked_at: null },
    ]);
    const action = { action: "token.create", subject: subjects.token(name), newStatus: role };
    await noteAction(engine, tx, signature, action);
    return true;
  });
}

async function findToken(engine: Engine, hash: string): Promise<TokenRecord | null> {
  const [row] = await engine.all<TokenRecord>(
    sql`select ${record(engine)} from holdfast.token where hash = ${hash}`,
  );
  return row ?? null;
}

async function hasTokens(engine: Engine): Promise<boolean> {
  return (await engine.all(sql`select id from holdfast.token limit 1`)).length > 0;
}

function listTokens(engine: Engine, limit: number): Promise<TokenRecord[]> {
  return engine.all<TokenRecord>(sql`
    select ${record(engine)}
      from holdfast.token
     order by created_at desc, id desc
     limit ${limit}`);
}

function revokeToken(engine: Engine, name: string, signature: OperatorEntry): Promise<boolean> {
  return engine.transaction(async (tx) => {
    const revoked = await tx.run(sql`
      update holdfast.token set revoked_at = ${engine.now()} where name = ${name} and revoked_at is null`);
    if (revoked === 0) return false;
    const action = { action: "token.revoke", subject: subjects.token(name), newStatus: "revoked" };
    await noteAction(engine, tx, signature, action);
    return true;
  });
}

async function noteTokenUse(engine: Engine, id: string): Promise<void> {
  await engine.run(sql`update holdfast.token set used_at = ${engine.now()} where id = ${id}`);
}

export interface NewToken {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  /** SHA-256 of the token, in hexadecimal. */
  readonly hash: string;
  /** Time until it expires; null: never. */
  readonly forMs: number | null;
}
