/** Tokens as rows. A token itself is known to nobody but whom it was given to: here is its hash. */
import { subjects } from "../core/audit.ts";
import type { NewToken, TokenRecord } from "./access.ts";
import type { Signature } from "./actions.ts";
import { noteAction } from "./audit.ts";
import type { Engine } from "./engine.ts";
import { sql, type Sql } from "./sql.ts";

const record = (engine: Engine): Sql => sql`
       id, name, role, hash, created_at as "createdAt", expires_at as "expiresAt",
       expires_at - ${engine.now()} as "expiresInMs", revoked_at as "revokedAt", used_at as "usedAt"`;

export function createToken(
  engine: Engine,
  { id, name, role, hash, forMs }: NewToken,
  signature: Signature,
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

export async function findToken(engine: Engine, hash: string): Promise<TokenRecord | null> {
  const [row] = await engine.all<TokenRecord>(
    sql`select ${record(engine)} from holdfast.token where hash = ${hash}`,
  );
  return row ?? null;
}

export async function hasTokens(engine: Engine): Promise<boolean> {
  return (await engine.all(sql`select id from holdfast.token limit 1`)).length > 0;
}

export function tokens(engine: Engine, limit: number): Promise<TokenRecord[]> {
  return engine.all<TokenRecord>(sql`
    select ${record(engine)}
      from holdfast.token
     order by created_at desc, id desc
     limit ${limit}`);
}

export function revokeToken(engine: Engine, name: string, signature: Signature): Promise<boolean> {
  return engine.transaction(async (tx) => {
    const revoked = await tx.run(sql`
      update holdfast.token set revoked_at = ${engine.now()} where name = ${name} and revoked_at is null`);
    if (revoked === 0) return false;
    const action = { action: "token.revoke", subject: subjects.token(name), newStatus: "revoked" };
    await noteAction(engine, tx, signature, action);
    return true;
  });
}

export async function noteTokenUse(engine: Engine, id: string): Promise<void> {
  await engine.run(sql`update holdfast.token set used_at = ${engine.now()} where id = ${id}`);
}
