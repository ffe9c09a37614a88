/** What was done, by whom: what operators did, what became of items, and whether anybody changed these records since. */
import type { AuditEntry } from "../core/audit.ts";
import { checkKnown, checkText, checkWhole } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { checkName } from "../core/name.ts";
import type { Store } from "../store/store.ts";
import { AuditWalk, checkWitness, type VerifyOptions, type Verification } from "./audit-walk.ts";
import { trailOf, type TrailEntry } from "./item-trail.ts";
import type { Signed } from "./item-options.ts";
import type { Jobs } from "./jobs.ts";
import { anyOperator, OPERATOR_OPTIONS } from "./signature.ts";

const LIST_MAX = 1_000;
const LIST_DEFAULT = 100;
/** Each line of an item may lead to jobs, and each of these to attempts. */
const TRAIL_MAX = 200;
const TRAIL_DEFAULT = 50;
const PRUNE_BATCH = 1_000;

const LIST_OPTIONS = new Set(["subject", "actor", "after", "before", "limit"]);
const TRAIL_OPTIONS = new Set(["item", "after", "limit"]);
const VERIFY_OPTIONS = new Set(["onProgress", "signal", "witness"]);
const PRUNE_OPTIONS = new Set(["keep", ...OPERATOR_OPTIONS]);

export interface AuditFilter {
  /** As the lines name it: `job 0199…`, `worker mailer-…`, `type mailer`, `lock order:…`. */
  readonly subject?: string;
  readonly actor?: string;
  /** The first lines behind the one of this number; 0: from the beginning. Without: the last that there are. */
  readonly after?: number;
  /** The last lines before the one of this number. */
  readonly before?: number;
  readonly limit?: number;
}

export interface TrailOptions {
  readonly item: string;
  /** The number of the last line of the item on the page before. */
  readonly after?: number;
  /** How many lines of the item. */
  readonly limit?: number;
}

export interface PruneOptions extends Signed {
  /** Lines younger than this stay. */
  readonly keep: Duration;
}

export class Audit {
  readonly #store: Store;
  readonly #jobs: Jobs;
  readonly #newId: () => string;

  constructor(parts: { store: Store; jobs: Jobs; newId: () => string }) {
    this.#store = parts.store;
    this.#jobs = parts.jobs;
    this.#newId = parts.newId;
  }

  /** What operators did, a page at a time, each page in order: the last one unless `after` is given. */
  async list(filter: AuditFilter = {}): Promise<AuditEntry[]> {
    checkKnown(filter, LIST_OPTIONS);
    const { subject, actor, after, before, limit = LIST_DEFAULT } = filter;
    return this.#store.actions({
      ...(subject === undefined ? {} : { subject: checkText("subject", subject) }),
      ...(actor === undefined ? {} : { actor: checkName("actor", actor) }),
      ...(after === undefined ? {} : { after: checkSeq("after", after) }),
      ...(before === undefined ? {} : { before: checkSeq("before", before) }),
      limit: checkWhole("limit", limit, { least: 1, most: LIST_MAX }),
    });
  }

  /**
   * Goes through every line there is and says where somebody removed, added or changed one, or changed an item behind its
   * lines' back. Whoever writes meanwhile is not disturbed, and does not disturb.
   */
  async verify(options: VerifyOptions = {}): Promise<Verification> {
    checkKnown(options, VERIFY_OPTIONS);
    if (options.witness !== undefined) checkWitness(options.witness);
    return new AuditWalk(this.#store, options).run();
  }

  /** What became of an item, in order of time: its lines, the jobs that they enqueued, and the attempts that made them. */
  async trail(options: TrailOptions): Promise<TrailEntry[]> {
    checkKnown(options, TRAIL_OPTIONS);
    const { item, after = 0, limit = TRAIL_DEFAULT } = options;
    const lines = await this.#store.itemHistory({
      item: checkText("item", item),
      after: checkSeq("after", after),
      limit: checkWhole("limit", limit, { least: 1, most: TRAIL_MAX }),
    });
    return trailOf(lines, { store: this.#store, jobs: this.#jobs });
  }

  /**
   * Lets go of the oldest lines about what operators did, which leaves a line itself. They are kept for ever otherwise; those
   * of items go with their items. Returns how many went.
   */
  async prune(options: PruneOptions): Promise<number> {
    checkKnown(options, PRUNE_OPTIONS);
    const keepMs = toMs("keep", options.keep);
    let gone = 0;
    for (;;) {
      const signature = anyOperator(options, this.#newId);
      const some = await this.#store.pruneActions({ ...signature, keepMs, limit: PRUNE_BATCH });
      gone += some;
      if (some < PRUNE_BATCH) return gone;
    }
  }
}

function checkSeq(field: string, seq: number): number {
  return checkWhole(field, seq, { least: 0, most: Number.MAX_SAFE_INTEGER });
}
