/** The verbs about those who come over HTTP. */
import type {
  Access,
  EndedRecord,
  KeptAnswer,
  NewcomerRecord,
  NewRequest,
  NewToken,
  RequestName,
  RequestRecord,
  TokenRecord,
} from "./access.ts";
import type { Signature } from "./actions.ts";
import * as news from "./news.ts";
import * as requests from "./requests.ts";
import { SqlAlerts } from "./sql-alerts.ts";
import * as tokens from "./tokens.ts";
import { actOrLookUp, writeOrLookUp } from "./unknown.ts";

export class SqlAccess extends SqlAlerts implements Access {
  createToken(token: NewToken, signature: Signature): Promise<boolean> {
    const create = (): Promise<boolean> => tokens.createToken(this.engine, token, signature);
    return actOrLookUp(this.engine, signature, create, async () => true);
  }

  findToken(hash: string): Promise<TokenRecord | null> {
    return tokens.findToken(this.engine, hash);
  }

  hasTokens(): Promise<boolean> {
    return tokens.hasTokens(this.engine);
  }

  tokens({ limit }: { limit: number }): Promise<TokenRecord[]> {
    return tokens.tokens(this.engine, limit);
  }

  revokeToken(name: string, signature: Signature): Promise<boolean> {
    const revoke = (): Promise<boolean> => tokens.revokeToken(this.engine, name, signature);
    return actOrLookUp(this.engine, signature, revoke, async () => true);
  }

  noteTokenUse(id: string): Promise<void> {
    return tokens.noteTokenUse(this.engine, id);
  }

  beginRequest(request: NewRequest): Promise<RequestRecord> {
    return this.#again(() => requests.beginRequest(this.engine, request));
  }

  answerRequest(request: RequestName, answer: KeptAnswer): Promise<void> {
    return this.#again(() => requests.answerRequest(this.engine, request, answer));
  }

  /** Not made again when its answer is lost: whoever does not know whether it was them waits as the others do. */
  takeOverRequest(request: RequestName, begunAt: number): Promise<boolean> {
    return requests.takeOverRequest(this.engine, request, begunAt);
  }

  abandonRequest(request: RequestName): Promise<void> {
    return this.#again(() => requests.abandonRequest(this.engine, request));
  }

  pruneRequests(chore: { forMs: number; limit: number }): Promise<number> {
    return requests.pruneRequests(this.engine, chore);
  }

  jobsAfter(filter: { after: string; limit: number }): Promise<NewcomerRecord[]> {
    return news.jobsAfter(this.engine, filter);
  }

  endedSince(filter: { at: number; limit: number }): Promise<EndedRecord[]> {
    return news.endedSince(this.engine, filter);
  }

  clock(): Promise<number> {
    return news.clock(this.engine);
  }

  workflowNames({ limit }: { limit: number }): Promise<string[]> {
    return news.workflowNames(this.engine, limit);
  }

  /** What is written twice is as if it was written once. */
  #again<T>(write: () => Promise<T>): Promise<T> {
    return writeOrLookUp(this.engine, write, write);
  }
}
