/** The audit log: what operators did, and whether a line was changed since. */
import type { Duration } from "../core/duration.ts";
import { checkName } from "../core/name.ts";
import { by, checkText, duration, needed, optionsOf, passed, whole } from "../core/options.ts";
import { anyOperator, type Audited, type AuditEntry, operatorFields } from "./entry.ts";
import type { AuditStore } from "./store.ts";
import {
  type AuditChains,
  AuditWalk,
  checkWitness,
  type Verification,
  type VerifyOptions,
} from "./verify.ts";

interface AuditParts {
  readonly store: AuditStore;
  /** The chains of features, which are verified too. */
  readonly chains: readonly AuditChains[];
  readonly newId: () => string;
}

const LIST_MAX = 1_000;

const PRUNE_BATCH = 1_000;

/** Which audit lines to list, and how many. */
export interface AuditFilter {
  /** `job 0199…`, `worker mailer-…`, `type mailer`, `lock order:…`. */
  readonly subject?: string;
  /** Lines of this actor. */
  readonly actor?: string;
  /** The first lines after this number; 0: from the beginning. Default: the last lines. */
  readonly after?: number;
  /** The last lines before this number. */
  readonly before?: number;
  /** The most lines of the page. Default 100, at most 1,000. */
  readonly limit?: number;
}

/** How much of the audit log to keep, and who prunes it. */
export interface PruneOptions extends Audited {
  /** Keep lines younger than this. */
  readonly keep: Duration;
}

const seq = whole(0, Number.MAX_SAFE_INTEGER);

const listOptions = optionsOf<AuditFilter>()({
  subject: by(checkText),
  actor: by(checkName),
  after: seq,
  before: seq,
  limit: whole(1, LIST_MAX, 100),
});

const verifyOptions = optionsOf<VerifyOptions>()({
  onProgress: passed<NonNullable<VerifyOptions["onProgress"]>>(),
  signal: passed<AbortSignal>(),
  witness: by(checkWitness),
});

const pruneOptions = optionsOf<PruneOptions>()({ keep: needed(duration({})), ...operatorFields });

/** Reads, verifies and prunes the audit log: `holdfast.audit`. */
export class Audit {
  readonly #parts: AuditParts;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: AuditParts) {
    this.#parts = parts;
  }

  /** A page of lines, oldest first: the last page, unless `after` is given. */
  async list(filter: AuditFilter = {}): Promise<AuditEntry[]> {
    return this.#parts.store.list(listOptions.read(filter));
  }

  /**
   * Reads every line and reports where one was removed, added or changed, or an item was changed without a line. Does not
   * block writers.
   */
  async verify(options: VerifyOptions = {}): Promise<Verification> {
    const { store, chains } = this.#parts;
    return new AuditWalk(store, chains, verifyOptions.read(options)).run();
  }

  /**
   * Deletes the oldest lines of operators, and records it. Otherwise they are kept forever; lines of items are deleted with
   * their items. Returns how many were deleted.
   */
  async prune(options: PruneOptions): Promise<number> {
    const { keepMs, ...audited } = pruneOptions.read(options);
    for (let deleted = 0; ;) {
      const operator = anyOperator(audited, this.#parts.newId);
      const batch = await this.#parts.store.prune({ ...operator, keepMs, limit: PRUNE_BATCH });
      deleted += batch;
      if (batch < PRUNE_BATCH) return deleted;
    }
  }
}
