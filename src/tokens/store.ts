/** The rows of tokens. A row has the hash of its token, never the token itself. */
import { subjects } from "../audit/entry.ts";
import type { OperatorEntry } from "../audit/operator.ts";
import { actOrLookUp, type NewAction, noteAction } from "../audit/store.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { Role, TokenLookup, TokenRecord } from "../http/auth.ts";

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
