/** How locks were used: a row for every minute, type and process. A process writes its rows anew as they grow. */
import type { Engine } from "./engine.ts";
import { nothing, sql } from "./sql.ts";

export interface LockStatRows {
  /** Writes rows, in place of what their source wrote for the same minute and type. */
  putLockStats(rows: readonly LockStatRow[]): Promise<void>;
  /** The rows of the last `forMs`, the newest first. */
  lockStats(filter: LockStatFilter): Promise<LockStatRow[]>;
  /** Deletes what is older than this. Returns how many; call again when it is `limit` or more. */
  pruneLockStats(chore: { forMs: number; limit: number }): Promise<number>;
}

export interface LockStatRow {
  /** The instant it began. */
  readonly minute: number;
  readonly type: string;
  /** Which process wrote it. */
  readonly source: string;
  readonly acquisitions: number;
  readonly timeouts: number;
  readonly waitMsSum: number;
  readonly heldMsMax: number;
  /** A histogram of the waits; see core/histogram.ts. */
  readonly waits: string;
}

export interface LockStatFilter {
  readonly forMs: number;
  readonly type?: string;
  readonly limit: number;
}

export async function putLockStat(engine: Engine, row: LockStatRow): Promise<void> {
  const { minute, type, source, acquisitions, timeouts, waitMsSum, heldMsMax, waits } = row;
  await engine.put({
    table: sql`holdfast.lock_stat`,
    columns: [
      "minute",
      "type",
      "source",
      "acquisitions",
      "timeouts",
      "wait_ms_sum",
      "held_ms_max",
      "waits",
    ],
    values: sql`${minute}, ${type}, ${source}, ${acquisitions}, ${timeouts}, ${waitMsSum}, ${heldMsMax}, ${waits}`,
    key: ["minute", "type", "source"],
    set: sql`
      acquisitions = ${acquisitions}, timeouts = ${timeouts}, wait_ms_sum = ${waitMsSum},
      held_ms_max = ${heldMsMax}, waits = ${waits}`,
    where: sql`was.minute = ${minute} and was.type = ${type} and was.source = ${source}`,
    returning: sql`minute`,
    durable: false,
  });
}

export function lockStats(
  engine: Engine,
  { forMs, type, limit }: LockStatFilter,
): Promise<LockStatRow[]> {
  return engine.all<LockStatRow>(sql`
    select minute, type, source, acquisitions, timeouts, wait_ms_sum as "waitMsSum", held_ms_max as "heldMsMax", waits
      from holdfast.lock_stat
     where minute > ${engine.now()} - ${forMs}
           ${type === undefined ? nothing : sql`and type = ${type}`}
     order by minute desc, type, source
     limit ${limit}`);
}

/** Whole minutes, so that what is left is right. */
export async function pruneLockStats(
  engine: Engine,
  { forMs, limit }: { forMs: number; limit: number },
): Promise<number> {
  const old = await engine.all<{ minute: number }>(sql`
    select minute from holdfast.lock_stat where minute < ${engine.now()} - ${forMs} order by minute limit ${limit}`);
  const last = old.at(-1);
  if (last === undefined) return 0;
  return engine.run(sql`delete from holdfast.lock_stat where minute <= ${last.minute}`);
}
