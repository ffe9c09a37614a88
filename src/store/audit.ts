/** What somebody did to the system by hand, and who. */
import type { Engine } from "./engine.ts";
import { sql, type Sql } from "./sql.ts";

export interface Audit {
  /** Written once, however often it is asked for: by its id. */
  audit(line: AuditLine): Promise<void>;
}

export interface AuditLine {
  readonly id: string;
  readonly actor: string;
  /** What was done, such as `lock.release`, and to what. */
  readonly action: string;
  readonly subject: string;
  readonly detail: string | null;
}

export function insertAudit(
  engine: Engine,
  { id, actor, action, subject, detail }: AuditLine,
): Sql {
  return sql`
      insert into holdfast.audit (id, at, actor, action, subject, detail)
      values (${id}, ${engine.now()}, ${actor}, ${action}, ${subject}, ${detail})`;
}

export async function isAudited(engine: Engine, id: string): Promise<boolean> {
  const rows = await engine.all(sql`select id from holdfast.audit where id = ${id}`);
  return rows.length > 0;
}
