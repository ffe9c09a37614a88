/**
 * Requests that are made once, however often they are sent: a row for each key, with what was asked and what was answered.
 *
 * The row is written before anything is done. It carries the ids of what will be done, so that whoever goes on with a request
 * whose process died does the same and not the like.
 *
 * Nobody waits for the disk here. A log is written in order: when what the request does has reached the disk, so has the row
 * before it. An answer that a crash of the machine undoes is one that was not given yet.
 */
import type { KeptAnswer, NewRequest, RequestName, RequestRecord } from "./access.ts";
import type { Engine } from "./engine.ts";
import { sql } from "./sql.ts";

/** An abandoned request looks as if it had begun so much earlier. */
export const ABANDONED_MS = 3_600_000;

export async function beginRequest(engine: Engine, request: NewRequest): Promise<RequestRecord> {
  const { asker, key, fingerprint, seed } = request;
  const [row] = await engine.put<RequestRecord>({
    table: sql`holdfast.request`,
    columns: ["asker", "request_key", "fingerprint", "seed", "begun_at"],
    values: sql`${asker}, ${key}, ${fingerprint}, ${seed}, ${engine.now()}`,
    key: ["asker", "request_key"],
    set: sql`seed = was.seed`, // what is there stays as it is, and is returned
    where: sql`was.asker = ${asker} and was.request_key = ${key}`,
    returning: sql`fingerprint, seed, begun_at as "begunAt", ${engine.now()} - begun_at as "ageMs", status, body`,
    durable: false,
  });
  return row as RequestRecord;
}

export async function answerRequest(
  engine: Engine,
  { asker, key }: RequestName,
  { status, body }: KeptAnswer,
): Promise<void> {
  await engine.change({
    table: sql`holdfast.request`,
    // The body first: MySQL goes from left to right, and sees what it has just written.
    set: sql`
      body = case when status is null then ${engine.typed(body)} else body end,
      status = coalesce(status, ${engine.typed(status)})`,
    where: sql`asker = ${asker} and request_key = ${key}`,
    returning: sql`status`,
    durable: false,
  });
}

/** It begins anew, for one of those who saw it as it was. */
export async function takeOverRequest(
  engine: Engine,
  { asker, key }: RequestName,
  begunAt: number,
): Promise<boolean> {
  const taken = await engine.run(sql`
    update holdfast.request set begun_at = ${engine.now()}
     where asker = ${asker} and request_key = ${key} and status is null
       and begun_at = ${begunAt} and begun_at < ${engine.now()}`);
  return taken > 0;
}

export async function abandonRequest(engine: Engine, { asker, key }: RequestName): Promise<void> {
  // Once: a row that was made older at every failure would be pruned, and its ids forgotten.
  await engine.run(sql`
    update holdfast.request set begun_at = begun_at - ${ABANDONED_MS}
     where asker = ${asker} and request_key = ${key} and status is null
       and begun_at > ${engine.now()} - ${ABANDONED_MS}`);
}

/** They are looked for without locking anything, by the index on their age. */
export async function pruneRequests(
  engine: Engine,
  { forMs, limit }: { forMs: number; limit: number },
): Promise<number> {
  const old = await engine.all<{ asker: string; key: string }>(sql`
    select asker, request_key as "key"
      from holdfast.request
     where begun_at < ${engine.now()} - ${forMs}
     order by begun_at
     limit ${limit}`);
  for (const { asker, key } of old) {
    await engine.run(
      sql`delete from holdfast.request where asker = ${asker} and request_key = ${key}`,
    );
  }
  return old.length;
}
