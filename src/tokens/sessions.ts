/** The rows of sessions. A row has the hash of a session's secret, never the secret itself. */
import type { Database } from "../database/database.ts";
import { type Engine, readNow } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { SessionLookup, SessionRecord, TokenRecord } from "../http/auth.ts";

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
