/**
 * A request with an Idempotency-Key takes effect once, however often it is sent.
 *
 * Before any work, a row records the request and the ids of the rows it will write. A retry gets the saved response. If none
 * was saved, the process may have died. Requests that are idempotent given the same ids run again at once; all others only
 * after the first one must have ended.
 */
import { createHash } from "node:crypto";
import type { Logger } from "../core/log.ts";
import { type Runtime, sleep } from "../core/runtime.ts";
import type { Database } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { Limits } from "./limits.ts";
import { Problem, problemOf, retryAfter } from "./problem.ts";

export const KEY_PATTERN = /^[!-~]{1,255}$/;

/** A larger response is not saved; a retry then learns only that the request was processed. */
const ANSWER_BYTES_MAX = 1_048_576;

/** A retry waits briefly while the first request is in progress. */
const LOOKS_MAX = 8;
const LOOK_EVERY_MS = 250;

interface OnceRequest {
  readonly principal: string;
  readonly key: string;
  readonly method: string;
  readonly path: string;
  readonly body: Buffer;
  readonly repeatable: boolean;
  /** Ids for the rows it will write, if it is the first. */
  readonly newIds: () => readonly string[];
}

/** The saved part of a response. */
interface Settled {
  readonly status: number;
  readonly body: string;
}

interface OnceParts {
  readonly requests: RequestsStore;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly limits: Limits;
}

export class Once {
  readonly #parts: OnceParts;

  constructor(parts: OnceParts) {
    this.#parts = parts;
  }

  /** The response, and whether it is a replay. */
  async answer(
    request: OnceRequest,
    make: (ids: readonly string[]) => Promise<Settled>,
  ): Promise<Settled & { readonly replayed: boolean }> {
    const seed = JSON.stringify(request.newIds());
    const record = await this.#begin(request, seed);
    if (record.status !== null) return replay(record);
    const ids = JSON.parse(record.seed) as readonly string[];
    return { ...(await this.#make(request, () => make(ids))), replayed: false };
  }

  async #begin(request: OnceRequest, seed: string): Promise<RequestRecord> {
    const { requests, runtime, limits } = this.#parts;
    const { principal, key, method, path, body, repeatable } = request;
    const hash = createHash("sha256").update(`${method} ${path}\n`).update(body);
    const fingerprint = hash.digest("hex");
    for (let look = 1; ; look += 1) {
      const record = await requests.begin({ principal, key, fingerprint, seed });
      if (record.fingerprint !== fingerprint) throw anotherRequest();
      if (record.status !== null || record.seed === seed || repeatable) return record;
      const isOver = record.ageMs > limits.underWayMs;
      // One retry takes the request over; the others wait as before.
      if (isOver && (await requests.takeOver({ principal, key }, record.begunAt))) return record;
      if (look === LOOKS_MAX) throw underWay();
      await sleep(runtime, LOOK_EVERY_MS);
    }
  }

  async #make(name: RequestName, make: () => Promise<Settled>): Promise<Settled> {
    const { requests } = this.#parts;
    try {
      const settled = await make();
      const isSmall = Buffer.byteLength(settled.body) <= ANSWER_BYTES_MAX;
      const body = isSmall ? settled.body : null;
      await this.#kept(requests.answer(name, { ...settled, body }));
      return settled;
    } catch (error) {
      const problem = problemOf(error);
      const { status } = problem;
      const body = JSON.stringify(problem.toBody());
      await this.#kept(
        problem.isPassing ? requests.abandon(name) : requests.answer(name, { status, body }),
      );
      throw error;
    }
  }

  /** The work is done, so the response is sent even if it cannot be saved. */
  async #kept(keeping: Promise<void>): Promise<void> {
    try {
      await keeping;
    } catch (error) {
      this.#parts.logger.warn(
        { event: "http:response-unsaved", err: error },
        "could not save the response to a request with an Idempotency-Key",
      );
    }
  }
}

function replay({ status, body }: RequestRecord): Settled & { readonly replayed: true } {
  if (body === null) {
    const detail = "This request was already processed. Its response was too large to save.";
    throw new Problem({ status: 409, code: "ANSWER_NOT_KEPT", detail });
  }
  return { status: status as number, body, replayed: true };
}

function anotherRequest(): Problem {
  const detail = "This key was used for a different request within the last day. Use a new key.";
  const field = "Idempotency-Key";
  return new Problem({ status: 422, code: "KEY_REUSED", detail, field });
}

function underWay(): Problem {
  const detail = "The same request is still in progress. Retry later.";
  return new Problem({ status: 409, code: "UNDER_WAY", detail, headers: retryAfter("1") });
}

// The rows of requests, one for each key: what was requested, and the response.
//
// The row is written before any work. It has the ids of the rows that the request will write. So a retry that continues after
// the first process died writes the same rows, not new ones.
//
// These writes do not wait for the disk. The log is written in order: when the work of the request has reached the disk, so
// has the row before it. A response that a machine crash undoes counts as not saved.

/** An abandoned request is dated back by this much. */
export const ABANDONED_MS = 3_600_000;

/** The public methods of the class, for other implementations. */
export type RequestsStore = Pick<SqlRequests, keyof SqlRequests>;

export class SqlRequests {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /** Records a request, unless one with the same key exists. Returns the stored one. */
  begin({ principal, key, fingerprint, seed }: NewRequest): Promise<RequestRecord> {
    const engine = this.#engine;
    return this.#again(async () => {
      const [row] = await engine.put<RequestRecord>({
        table: sql`holdfast.request`,
        columns: ["principal", "request_key", "fingerprint", "seed", "begun_at"],
        values: sql`${principal}, ${key}, ${fingerprint}, ${seed}, ${engine.now()}`,
        key: ["principal", "request_key"],
        set: sql`seed = was.seed`, // an existing row stays unchanged and is returned
        where: sql`was.principal = ${principal} and was.request_key = ${key}`,
        returning: sql`fingerprint, seed, begun_at as "begunAt", ${engine.now()} - begun_at as "ageMs", status, body`,
        durable: false,
      });
      return row as RequestRecord;
    });
  }

  /** Saves the response. The first saved response stays. */
  async answer({ principal, key }: RequestName, { status, body }: SavedResponse): Promise<void> {
    const engine = this.#engine;
    await this.#again(() =>
      engine.change({
        table: sql`holdfast.request`,
        // The body first: MySQL assigns from left to right and sees the new values.
        set: sql`
      body = case when status is null then ${engine.typed(body)} else body end,
      status = coalesce(status, ${engine.typed(status)})`,
        where: sql`principal = ${principal} and request_key = ${key}`,
        returning: sql`status`,
        durable: false,
      }),
    );
  }

  /**
   * Takes over a request that began at `begunAt`. False: another process was faster. Not repeated if its answer is lost: a
   * process that does not know whether it won waits like the others.
   */
  async takeOver({ principal, key }: RequestName, begunAt: number): Promise<boolean> {
    const now = this.#engine.now();
    const taken = await this.#engine.run(sql`
    update holdfast.request set begun_at = ${now}
     where principal = ${principal} and request_key = ${key} and status is null
       and begun_at = ${begunAt} and begun_at < ${now}`);
    return taken > 0;
  }

  /** The request had no effect, so a retry need not wait for it. */
  async abandon({ principal, key }: RequestName): Promise<void> {
    // Only once: a row dated back at every failure would be pruned, and its ids lost.
    await this.#again(() =>
      this.#engine.run(sql`
    update holdfast.request set begun_at = begun_at - ${ABANDONED_MS}
     where principal = ${principal} and request_key = ${key} and status is null
       and begun_at > ${this.#engine.now()} - ${ABANDONED_MS}`),
    );
  }

  /** Deletes requests older than `forMs`. Returns how many; call again if it is `limit`. */
  async prune({ forMs, limit }: { forMs: number; limit: number }): Promise<number> {
    const engine = this.#engine;
    // The index on their age finds them without locks.
    const old = await engine.all<RequestName>(sql`
    select principal, request_key as "key"
      from holdfast.request
     where begun_at < ${engine.now()} - ${forMs}
     order by begun_at
     limit ${limit}`);
    for (const { principal, key } of old) {
      await engine.run(
        sql`delete from holdfast.request where principal = ${principal} and request_key = ${key}`,
      );
    }
    return old.length;
  }

  /** These writes are idempotent. */
  #again<T>(write: () => Promise<T>): Promise<T> {
    return this.#db.write(write, write);
  }
}

interface RequestName {
  /** The sender. Keys of different principals are independent. */
  readonly principal: string;
  readonly key: string;
}

export interface NewRequest extends RequestName {
  /** SHA-256 of method, path and body. */
  readonly fingerprint: string;
  /** The ids of the rows it will write, so that a retry writes the same rows. */
  readonly seed: string;
}

interface SavedResponse {
  readonly status: number;
  /** Null: it was too large to save. */
  readonly body: string | null;
}

interface RequestRecord {
  readonly fingerprint: string;
  readonly seed: string;
  readonly begunAt: number;
  /** How long ago it began, by the clock of the database. */
  readonly ageMs: number;
  /** Null: no response yet. */
  readonly status: number | null;
  readonly body: string | null;
}
