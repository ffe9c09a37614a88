/**
 * A request that carries an Idempotency-Key is made once, however often it is sent.
 *
 * Before anything is done a row says what was asked, with the ids of what will be written. Whoever sends the same again gets
 * the answer, if there is one. If there is none, the process may have died: what can safely be done twice with the same ids is
 * done again at once, and everything else when nobody can be at it any more.
 */
import { createHash } from "node:crypto";
import type { Logger } from "../core/log.ts";
import { sleep, type Runtime } from "../core/runtime.ts";
import type { Access, RequestName, RequestRecord } from "../store/access.ts";
import type { Limits } from "./limits.ts";
import { Problem, problemOf, retryAfter } from "./problem.ts";

export const KEY_PATTERN = /^[!-~]{1,255}$/;
/** A larger answer is not kept; whoever repeats the request learns that it was made. */
const ANSWER_BYTES_MAX = 1_048_576;
/** Whoever sends a request again while it is under way waits for it a little. */
const LOOKS_MAX = 8;
const LOOK_EVERY_MS = 250;
export interface OnceRequest {
  readonly asker: string;
  readonly key: string;
  readonly method: string;
  readonly path: string;
  readonly body: Buffer;
  readonly repeatable: boolean;
  /** Ids for what will be written, if it is the first. */
  readonly newIds: () => readonly string[];
}

/** What is kept of an answer. */
export interface Settled {
  readonly status: number;
  readonly body: string;
}

export interface OnceParts {
  readonly store: Access;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly limits: Limits;
}

export class Once {
  readonly #parts: OnceParts;

  constructor(parts: OnceParts) {
    this.#parts = parts;
  }

  /** The answer, and whether it was given before. */
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
    const { store, runtime, limits } = this.#parts;
    const { asker, key, repeatable } = request;
    const fingerprint = fingerprintOf(request);
    for (let look = 1; ; look += 1) {
      const record = await store.beginRequest({ asker, key, fingerprint, seed });
      if (record.fingerprint !== fingerprint) throw anotherRequest();
      if (record.status !== null || record.seed === seed || repeatable) return record;
      const isOver = record.ageMs > limits.underWayMs;
      // Of those who find it so one goes on with it, and the others wait as for the first.
      if (isOver && (await store.takeOverRequest({ asker, key }, record.begunAt))) return record;
      if (look === LOOKS_MAX) throw underWay();
      await sleep(runtime, LOOK_EVERY_MS);
    }
  }

  async #make(name: RequestName, make: () => Promise<Settled>): Promise<Settled> {
    const { store } = this.#parts;
    try {
      const settled = await make();
      const isSmall = Buffer.byteLength(settled.body) <= ANSWER_BYTES_MAX;
      const body = isSmall ? settled.body : null;
      await this.#kept(store.answerRequest(name, { ...settled, body }));
      return settled;
    } catch (error) {
      const problem = problemOf(error);
      const { status } = problem;
      const body = JSON.stringify(problem.toBody());
      await this.#kept(
        problem.isPassing
          ? store.abandonRequest(name)
          : store.answerRequest(name, { status, body }),
      );
      throw error;
    }
  }

  /** What was done is done, and is answered also when the answer cannot be kept. */
  async #kept(keeping: Promise<void>): Promise<void> {
    try {
      await keeping;
    } catch (error) {
      this.#parts.logger.warn({ err: error }, "an answer could not be kept");
    }
  }
}

function replay({ status, body }: RequestRecord): Settled & { readonly replayed: true } {
  if (body === null) {
    const detail = "This request was made before. Its answer was too large to be kept.";
    throw new Problem({ status: 409, code: "ANSWER_NOT_KEPT", detail });
  }
  return { status: status as number, body, replayed: true };
}

function fingerprintOf({ method, path, body }: OnceRequest): string {
  return createHash("sha256").update(`${method} ${path}\n`).update(body).digest("hex");
}

function anotherRequest(): Problem {
  const detail = "This key was used for another request within the last day. Use a new one.";
  const field = "Idempotency-Key";
  return new Problem({ status: 422, code: "KEY_REUSED", detail, field });
}

function underWay(): Problem {
  const detail = "The same request is under way. Send it again a little later.";
  return new Problem({ status: 409, code: "UNDER_WAY", detail, headers: retryAfter("1") });
}
