/** The history of an item with its jobs, and the verification of items' audit chains. */
import { type AuditEntry, sha256, subjects } from "../audit/entry.ts";
import type { AuditStore } from "../audit/store.ts";
import {
  type AuditChains,
  ChainCheck,
  type ChainWalk,
  LINES_PAGE,
  missing,
  type ReportBreak,
} from "../audit/verify.ts";
import type { ItemEntry } from "../core/item.ts";
import type { Status } from "../core/job.ts";
import { attemptsOf, type AttemptView } from "../jobs/jobs.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import { hashOf } from "./changes.ts";
import type { StoredItem } from "./item-record.ts";
import type { ItemsStore } from "./store.ts";

export interface TrailSources {
  readonly audit: AuditStore;
  readonly jobs: JobsStore;
}

/** Of each job, only the last attempts and actions are shown. */
const ATTEMPTS_MAX = 20;
const ACTIONS_MAX = 20;

/** One entry of the history of an item, with its place in the hash chain. */
export type HistoryEntry = {
  /** When it happened (ms since 1970, the database's clock). */
  readonly at: number;
} & (
  | {
      /** A change of the item. */
      readonly kind: "line";
      /** The audit line of the change. */
      readonly line: ItemEntry;
    }
  /** A job that one of these lines enqueued, or that made one of them. */
  | {
      /** A change enqueued a job. */
      readonly kind: "enqueued";
      /** The id of the job. */
      readonly job: string;
      /** The name of its task. */
      readonly task: string;
    }
  | {
      /** One try at such a job. */
      readonly kind: "attempt";
      /** The id of the job. */
      readonly job: string;
      /** When it ran, and how it ended. */
      readonly attempt: AttemptView;
    }
  | {
      /** Such a job ended. */
      readonly kind: "ended";
      /** The id of the job. */
      readonly job: string;
      /** How it ended. */
      readonly status: Status;
    }
  /** An operator's action on one of these jobs. */
  | {
      /** An operator intervened. */
      readonly kind: "action";
      /** The id of the job. */
      readonly job: string;
      /** The audit line of the operator. */
      readonly action: AuditEntry;
    }
);

/** Within one millisecond, causes come before effects: the sort is stable. */
export async function trailOf(
  lines: readonly ItemEntry[],
  sources: TrailSources,
): Promise<HistoryEntry[]> {
  const trail: HistoryEntry[] = [];
  const ends: HistoryEntry[] = [];
  const known = new Set<string>();
  const addJobs = async (ids: readonly string[]): Promise<void> => {
    for (const id of ids) {
      if (known.has(id)) continue;
      known.add(id);
      const { past, end } = await storyOf(id, sources);
      trail.push(...past);
      ends.push(...end);
    }
  };
  for (const line of lines) {
    await addJobs(jobNamed(line.actor));
    trail.push({ at: line.at, kind: "line", line });
    await addJobs(line.jobs);
  }
  return [...trail, ...ends].toSorted((a, b) => a.at - b.at);
}

/** The id of the job whose task acted with its `ctx`. */
function jobNamed(actor: string): string[] {
  const [, id] = /^job (\S+)$/.exec(actor) ?? [];
  return id === undefined ? [] : [id];
}

/** A pruned job has nothing left but the actions of operators. */
async function storyOf(
  job: string,
  { audit, jobs }: TrailSources,
): Promise<{ past: HistoryEntry[]; end: HistoryEntry[] }> {
  const found = await jobs.find(job);
  const attempts = await attemptsOf(jobs, job, { limit: ATTEMPTS_MAX });
  const actions = await audit.list({ subject: subjects.job(job), limit: ACTIONS_MAX });
  const past: HistoryEntry[] = [
    ...actions.map((action) => ({ at: action.at, kind: "action" as const, job, action })),
    ...attempts.map((attempt) => {
      return { at: attempt.startedAt, kind: "attempt" as const, job, attempt };
    }),
  ];
  if (found === null) return { past, end: [] };
  const { enqueuedAt, task, finishedAt, status } = found;
  past.unshift({ at: enqueuedAt, kind: "enqueued", job, task });
  return { past, end: finishedAt === null ? [] : [{ at: finishedAt, kind: "ended", job, status }] };
}

/** Small, because each item comes with its data. */
const ITEMS_PAGE = 100;

/**
 * A line is written in one transaction with its change, and never deleted. So reading an item first and its lines afterwards
 * finds all lines that the item counts. Further lines were written in between, or by hand; reading the item again tells
 * which.
 */
export class ItemChains implements AuditChains {
  readonly #items: ItemsStore;

  constructor(items: ItemsStore) {
    this.#items = items;
  }

  async verify(walk: ChainWalk): Promise<void> {
    let after: string | null = null;
    for (;;) {
      const items: StoredItem[] = await this.#items.after(after, ITEMS_PAGE);
      const upTo: string | null = items.length < ITEMS_PAGE ? null : (items.at(-1)?.id as string);
      await this.#verifyRange(walk, items, { after, upTo });
      if (upTo === null) return;
      after = upTo;
    }
  }

  /** The lines of these items, and lines in this range of items that do not exist or were started since. */
  async #verifyRange(
    walk: ChainWalk,
    items: readonly StoredItem[],
    range: { after: string | null; upTo: string | null },
  ): Promise<void> {
    const checks = new Map(
      items.map((item) => [item.id, new ItemCheck(item, walk.breaksIn(item.id))]),
    );
    const strays = new Set<string>();
    for await (const line of this.#linesOf(walk, range)) {
      const check = checks.get(line.item);
      if (check === undefined) strays.add(line.item);
      else check.add(line);
    }
    for (const check of checks.values()) await check.end(this.#items);
    for (const id of strays) await this.#checkStray(id, walk.breaksIn(id));
    walk.read({ items: items.length });
  }

  async *#linesOf(
    walk: ChainWalk,
    range: { after: string | null; upTo: string | null },
  ): AsyncGenerator<ItemEntry> {
    const { upTo } = range;
    let after = range.after === null ? null : { item: range.after, seq: Number.MAX_SAFE_INTEGER };
    for (;;) {
      const page = await this.#items.lines({ after, upTo, limit: LINES_PAGE });
      yield* page;
      walk.read({ lines: page.length });
      const last = page.at(-1);
      if (last === undefined || page.length < LINES_PAGE) return;
      after = { item: last.item, seq: last.seq };
    }
  }

  /** An item that was started or deleted meanwhile, or lines without an item. */
  async #checkStray(id: string, say: ReportBreak): Promise<void> {
    const item = await this.#items.find(id);
    if (item !== null) {
      const check = new ItemCheck(item, say);
      for await (const line of this.#linesOfOne(id)) check.add(line);
      await check.end(this.#items);
      return;
    }
    const [first] = await this.#items.history({ item: id, after: 0, limit: 1 });
    if (first !== undefined) say("orphan", first.seq, "its lines exist, but the item does not.");
  }

  async *#linesOfOne(item: string): AsyncGenerator<ItemEntry> {
    for (let after = 0; ;) {
      const page = await this.#items.history({ item, after, limit: LINES_PAGE });
      yield* page;
      if (page.length < LINES_PAGE) return;
      after = page.at(-1)?.seq ?? after;
    }
  }
}

/** Compares an item with its lines, which are read after it. */
class ItemCheck {
  readonly #item: StoredItem;
  readonly #say: ReportBreak;
  readonly #chain: ChainCheck;

  constructor(item: StoredItem, say: ReportBreak) {
    this.#item = item;
    this.#say = say;
    this.#chain = new ChainCheck(say);
  }

  add(line: ItemEntry): void {
    this.#chain.add(line, hashOf(line));
    const { auditSeq, auditHash, status, data } = this.#item;
    if (line.seq !== auditSeq) return;
    if (line.hash !== auditHash) {
      this.#say("head", line.seq, "the last line is not the one that the item records.");
    }
    if (line.newStatus !== status) {
      this.#say(
        "status",
        line.seq,
        `the item is '${status}', but its last line says '${line.newStatus}'.`,
      );
    }
    if (line.dataHash !== sha256(data)) {
      this.#say("data", line.seq, "the item's data does not match its last line.");
    }
  }

  async end(items: ItemsStore): Promise<void> {
    const { id, auditSeq } = this.#item;
    const { seq } = this.#chain;
    if (seq === auditSeq) return;
    const now = await items.find(id);
    if (now === null) return; // deleted meanwhile, with its lines
    if (seq < auditSeq) this.#say("head", auditSeq, `${missing(seq + 1, auditSeq)} at the end.`);
    else if (now.auditSeq < seq) {
      this.#say("head", seq, `the item does not record it: its last line is ${now.auditSeq}.`);
    }
  }
}
