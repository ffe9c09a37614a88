/**
 * What the store promises to whoever comes over HTTP: tokens, of which it keeps the hash alone; requests that are made once
 * however often they are sent; and what is new, for whoever looks on.
 */
import type { FinalStatus } from "../core/job.ts";
import type { Signature } from "./actions.ts";

export const roles = ["viewer", "operator"] as const;
export type Role = (typeof roles)[number];

export interface Access {
  /** Adds a token, and a line to the audit. False: there is one of this name that was not revoked. */
  createToken(token: NewToken, signature: Signature): Promise<boolean>;
  /** The token of this hash, whatever became of it. Null: there is none. */
  findToken(hash: string): Promise<TokenRecord | null>;
  /** Whether there are tokens, also such as count no more: then nobody comes without one. */
  hasTokens(): Promise<boolean>;
  /** Those that were created last first. */
  tokens(filter: { readonly limit: number }): Promise<TokenRecord[]>;
  /** From now on it counts no more; a line in the audit says so. False: there is none of this name. */
  revokeToken(name: string, signature: Signature): Promise<boolean>;
  /** Notes that it was used. */
  noteTokenUse(id: string): Promise<void>;

  /** Notes a request, unless one of the same key is there. Returns what is there then. */
  beginRequest(request: NewRequest): Promise<RequestRecord>;
  /** Keeps the answer. The first that is kept stands. */
  answerRequest(request: RequestName, answer: KeptAnswer): Promise<void>;
  /** Whoever goes on with it in another's place says when they saw it begin. False: somebody was quicker. */
  takeOverRequest(request: RequestName, begunAt: number): Promise<boolean>;
  /** It came to nothing: whoever sends it again need not wait for it. */
  abandonRequest(request: RequestName): Promise<void>;
  /** Forgets requests that began longer ago than this. Returns how many; call again when it is `limit`. */
  pruneRequests(chore: { readonly forMs: number; readonly limit: number }): Promise<number>;

  /** Jobs whose ids come behind this one, in order. */
  jobsAfter(filter: { readonly after: string; readonly limit: number }): Promise<NewcomerRecord[]>;
  /** Jobs that ended at this instant or later, in order. */
  endedSince(filter: { readonly at: number; readonly limit: number }): Promise<EndedRecord[]>;
  /** The database's clock. */
  clock(): Promise<number>;
  /** The names of the workflows that were declared, in order. */
  workflowNames(filter: { readonly limit: number }): Promise<string[]>;
}

export interface NewToken {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  /** SHA-256 of the token, in hexadecimal. */
  readonly hash: string;
  /** For how long it counts; null: until it is revoked. */
  readonly forMs: number | null;
}

export interface TokenRecord {
  readonly id: string;
  readonly name: string;
  readonly role: Role;
  readonly hash: string;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** How long it counts from now, by the database's clock, 0 or less: no more; null: for ever. */
  readonly expiresInMs: number | null;
  readonly revokedAt: number | null;
  /** About when it was used last. */
  readonly usedAt: number | null;
}

export interface RequestName {
  /** Who asks: keys of different askers have nothing to do with one another. */
  readonly asker: string;
  readonly key: string;
}

export interface NewRequest extends RequestName {
  /** SHA-256 of what is asked. */
  readonly fingerprint: string;
  /** What makes the request the same when it is made again: the ids of what it will write. */
  readonly seed: string;
}

export interface KeptAnswer {
  readonly status: number;
  /** Null: it was too large to keep. */
  readonly body: string | null;
}

export interface RequestRecord {
  readonly fingerprint: string;
  readonly seed: string;
  readonly begunAt: number;
  /** How long ago it began, by the database's clock. */
  readonly ageMs: number;
  /** Null: there is no answer yet. */
  readonly status: number | null;
  readonly body: string | null;
}

export interface NewcomerRecord {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly enqueuedAt: number;
}

export interface EndedRecord {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: FinalStatus;
  readonly epoch: number;
  readonly attempts: number;
  readonly worker: string | null;
  readonly finishedAt: number;
}
