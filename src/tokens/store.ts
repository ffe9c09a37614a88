/** The rows of tokens. A row has the hash of its token, never the token itself. */
import type { Role } from "../core/role.ts";
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, type NewAction, noteAction } from "../audit/store.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type {
  SessionLookup,
  SessionRecord,
  TokenLookup,
  TokenRecord,
} from "../http-kernel/auth.ts";

/** The public methods of the class, for other implementations. */
export type TokensStore = Pick<SqlTokens, keyof SqlTokens>;

export class SqlTokens implements TokenLookup {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /** Adds a token and an audit entry. False: a token of this name exists that is not revoked. */
  create({ id, name, role, hash, forMs }: NewToken, by: OperatorEntry): Promise<boolean> {
    const action = { action: "token.create", subject: subjects.token(name), newStatus: role };
    return this.#audited(by, action, async (tx) => {
      const [other] = await tx.all(
        sql`select id from holdfast.token where name = ${name} and revoked_at is null`,
      );
      if (other !== undefined) return false;
      const now = await readNow(this.#engine, tx);
      const expiresAt = forMs === null ? null : now + forMs;
      await tx.insert("token", [
        { id, name, role, hash, created_at: now, expires_at: expiresAt, revoked_at: null },
      ]);
      return true;
    });
  }

  async find(hash: string): Promise<TokenRecord | null> {
    const [row] = await this.#engine.all<TokenRecord>(
      sql`select ${this.#record()} from holdfast.token where hash = ${hash}`,
    );
    return row ?? null;
  }

  async any(): Promise<boolean> {
    return (await this.#engine.all(sql`select id from holdfast.token limit 1`)).length > 0;
  }

  /** Newest first. */
  list({ limit }: { readonly limit: number }): Promise<TokenRecord[]> {
    return this.#engine.all<TokenRecord>(sql`
    select ${this.#record()}
      from holdfast.token
     order by created_at desc, id desc
     limit ${limit}`);
  }

  /** Revokes a token and adds an audit entry. False: no valid token has this name. */
  revoke(name: string, by: OperatorEntry): Promise<boolean> {
    const action = { action: "token.revoke", subject: subjects.token(name), newStatus: "revoked" };
    return this.#audited(by, action, async (tx) => {
      const revoked = await tx.run(sql`
      update holdfast.token set revoked_at = ${this.#engine.now()} where name = ${name} and revoked_at is null`);
      return revoked > 0;
    });
  }

  async noteUse(id: string): Promise<void> {
    const now = this.#engine.now();
    await this.#engine.run(sql`update holdfast.token set used_at = ${now} where id = ${id}`);
  }

  /** Writes the audit entry in the same transaction if the change was made. */
  #audited(
    by: OperatorEntry,
    action: NewAction,
    change: (tx: Transaction) => Promise<boolean>,
  ): Promise<boolean> {
    const act = (): Promise<boolean> =>
      this.#engine.transaction(async (tx) => {
        const changed = await change(tx);
        if (changed) await noteAction(this.#engine, tx, by, action);
        return changed;
      });
    return actOrLookUp(this.#db, by, act, async () => true);
  }

  #record(): Sql {
    return sql`
       id, name, role, hash, created_at as "createdAt", expires_at as "expiresAt",
       expires_at - ${this.#engine.now()} as "expiresInMs", revoked_at as "revokedAt", used_at as "usedAt"`;
  }
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

// The rows of sessions. A row has the hash of a session's secret, never the secret itself.

/** The public methods of the class, for other implementations. */
export type SessionsStore = Pick<SqlSessions, keyof SqlSessions>;

type Row = Omit<TokenRecord, "id"> & {
  readonly id: string | null;
  readonly sessionMs: number;
  readonly tokenId: string | null;
};

export class SqlSessions implements SessionLookup {
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#engine = db.engine;
  }

  /** Of one token, at most `most` sessions are left. */
  async begin({
    hash,
    tokenId,
    forMs,
    most,
  }: Parameters<SessionLookup["begin"]>[0]): Promise<void> {
    const isOfToken = tokenId === null ? sql`token_id is null` : sql`token_id = ${tokenId}`;
    await this.#engine.transaction(async (tx) => {
      const now = await readNow(this.#engine, tx);
      const older = await tx.all<{ hash: string }>(sql`
        select hash
          from holdfast.session
         where ${isOfToken}
         order by created_at
         limit ${2 * most}`);
      const over = older.slice(0, Math.max(0, older.length - most + 1)).map((one) => one.hash);
      if (over.length > 0)
        await tx.run(
          sql`delete from holdfast.session where ${this.#engine.among(sql`hash`, over)}`,
        );
      await tx.insert("session", [
        { hash, token_id: tokenId, created_at: now, expires_at: now + forMs },
      ]);
    });
  }

  async find(hash: string): Promise<SessionRecord | null> {
    const now = this.#engine.now();
    const [row] = await this.#engine.all<Row>(sql`
      select s.token_id as "tokenId", s.expires_at - ${now} as "sessionMs", t.id, t.name, t.role, t.hash,
             t.created_at as "createdAt", t.expires_at as "expiresAt", t.expires_at - ${now} as "expiresInMs",
             t.revoked_at as "revokedAt", t.used_at as "usedAt"
        from holdfast.session s
        left join holdfast.token t on t.id = s.token_id
       where s.hash = ${hash}`);
    if (row === undefined) return null;
    const { sessionMs: expiresInMs, tokenId, id, ...token } = row;
    if (tokenId === null) return { expiresInMs, token: null };
    // Token rows are never deleted; a session without its token would be of no principal.
    return id === null ? null : { expiresInMs, token: { ...token, id } };
  }

  async end(hash: string): Promise<void> {
    await this.#engine.run(sql`delete from holdfast.session where hash = ${hash}`);
  }

  async prune(limit: number): Promise<number> {
    const over = await this.#engine.all<{ hash: string }>(sql`
      select hash
        from holdfast.session
       where expires_at <= ${this.#engine.now()}
       order by expires_at
       limit ${limit}`);
    if (over.length === 0) return 0;
    const hashes = over.map(({ hash }) => hash);
    return this.#engine.run(
      sql`delete from holdfast.session where ${this.#engine.among(sql`hash`, hashes)}`,
    );
  }
}
