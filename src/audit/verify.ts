/** Verifies the operators' chain and the chains of features, a page at a time, while other processes write. */
import { invalid } from "../core/errors.ts";
import { checkWhole } from "../core/options.ts";
import { asking, type Check } from "../database/check.ts";
import { sql } from "../database/sql.ts";
import { type AuditBreak, type AuditEntry, type BreakKind, NO_HASH, subjects } from "./entry.ts";
import { type AuditHead, type AuditStore, hashOfAction, PRUNE, prunedRange } from "./store.ts";

/** Lines read at once. */
export const LINES_PAGE = 1_000;

/** Breaks beyond these are only counted. */
const BREAKS_MAX = 1_000;

/** What follows a verification of the audit log, and the witness to compare it with. */
export interface VerifyOptions {
  /** Called now and then while it runs. */
  readonly onProgress?: (progress: VerifyProgress) => void;
  /** Aborts the verification, which throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** The end of the operators' chain as an earlier run returned it: a rewritten chain cannot match it. */
  readonly witness?: Witness;
}

/** The number and hash of a line. */
export interface Witness {
  /** The number of the line, from 1. */
  readonly seq: number;
  /** Its hash, in hexadecimal. */
  readonly hash: string;
}

/** How far a verification has come. */
export interface VerifyProgress {
  /** How many histories of items were verified. */
  readonly items: number;
  /** Lines of items. */
  readonly lines: number;
  /** Lines of operators. */
  readonly actions: number;
}

/** What a verification of the audit log found. */
export interface Verification extends VerifyProgress {
  /** Whether all lines fit. */
  readonly held: boolean;
  /** The last pruning of operators' lines; null: there was none, or no line records it, which is a break. */
  readonly pruned: Pruned | null;
  /** The first thousand. */
  readonly breaks: readonly AuditBreak[];
  /** How many breaks there are, also beyond the first thousand. */
  readonly breaksFound: number;
  /** The end of the operators' chain. Kept elsewhere, it is the witness of the next run. */
  readonly head: Witness;
}

/** Lines 1 to `upTo` were deleted; the last of them at this time, by this actor. */
export interface Pruned {
  /** The number of the last deleted line. */
  readonly upTo: number;
  /** When they were deleted (ms since 1970). */
  readonly at: number;
  /** Who deleted them. */
  readonly actor: string;
}

export function checkWitness(field: string, witness: Witness): Witness {
  checkWhole(`${field}.seq`, witness.seq, { least: 0, most: Number.MAX_SAFE_INTEGER });
  if (/^[0-9a-f]{64}$/.test(witness.hash)) return witness;
  throw invalid(field, "pass the head of an earlier verification: a number and a hash.");
}

/** Other chains, of a feature, such as one for each item. */
export interface AuditChains {
  verify(walk: ChainWalk): Promise<void>;
}

/** Receives the results of verifying these chains. */
export interface ChainWalk {
  /** Reports the breaks in the chain of this item. */
  breaksIn(item: string): ReportBreak;
  /** Counts what was read. Throws if the verification is aborted. */
  read(count: { readonly items?: number; readonly lines?: number }): void;
}

export type ReportBreak = (kind: BreakKind, seq: number, problem: string) => void;

/** One chain of lines, each compared with the previous one. */
export class ChainCheck {
  seq: number;
  hash: string;
  readonly #report: ReportBreak;

  constructor(report: ReportBreak, from?: Witness) {
    this.seq = from?.seq ?? 0;
    this.hash = from?.hash ?? NO_HASH;
    this.#report = report;
  }

  /** Without a hash, a line has only its number. */
  add(line: { seq: number; previousHash: string | null; hash: string | null }, hash: string): void {
    const { seq } = line;
    if (seq !== this.seq + 1)
      this.#report("gap", seq, `${missing(this.seq + 1, seq - 1)} before it.`);
    else if (line.hash !== null && line.previousHash !== this.hash)
      this.#report("link", seq, "it does not follow the line before it.");
    if (line.hash === null) this.#report("hash", seq, "its hash was removed.");
    else if (line.hash !== hash)
      this.#report("changed", seq, "it was changed after it was written.");
    this.seq = seq;
    this.hash = line.hash ?? this.hash;
  }
}

export function missing(first: number, last: number): string {
  return first === last ? `line ${first} is missing` : `lines ${first} to ${last} are missing`;
}

/** Without the row that counts the lines, the chain is verified from its beginning. */
function headless(report: ReportBreak): AuditHead {
  report("head", 0, "the row that counts the lines is missing.");
  return { seq: 0, hash: NO_HASH, prunedSeq: 0, prunedHash: NO_HASH, pruning: null };
}

export class AuditWalk implements ChainWalk {
  readonly #audit: AuditStore;
  readonly #chains: readonly AuditChains[];
  readonly #options: VerifyOptions;
  readonly #breaks: AuditBreak[] = [];
  readonly #progress = { items: 0, lines: 0, actions: 0 };
  #breaksFound = 0;
  #pruned: Pruned | null = null;

  constructor(audit: AuditStore, chains: readonly AuditChains[], options: VerifyOptions) {
    this.#audit = audit;
    this.#chains = chains;
    this.#options = options;
  }

  async run(): Promise<Verification> {
    const head = await this.#walkActions();
    for (const chains of this.#chains) await chains.verify(this);
    return {
      held: this.#breaksFound === 0,
      ...this.#progress,
      pruned: this.#pruned,
      breaks: this.#breaks,
      breaksFound: this.#breaksFound,
      head,
    };
  }

  async #walkActions(): Promise<Witness> {
    const report = this.breaksIn(null);
    const head = (await this.#audit.head()) ?? headless(report);
    this.#checkPruning(head, report);
    let chain: ChainCheck | null = null;
    for await (const line of this.#actionsAfter(head.prunedSeq)) {
      chain ??= new ChainCheck(report, await this.#beginning(head, line));
      this.#addAction(chain, line, { head, report });
    }
    chain ??= new ChainCheck(report, { seq: head.prunedSeq, hash: head.prunedHash });
    await this.#endActions(chain, head, report);
    return { seq: chain.seq, hash: chain.hash };
  }

  /** Missing lines at the start must be recorded by a line, which is part of the chain. */
  #checkPruning({ prunedSeq, prunedHash, pruning }: AuditHead, report: ReportBreak): void {
    const range = prunedRange(pruning?.detail ?? null);
    const { witness } = this.#options;
    const isRecorded =
      pruning === null
        ? prunedSeq === 0 && prunedHash === NO_HASH
        : range?.last === prunedSeq && range.hash === prunedHash && prunedSeq < pruning.seq;
    if (!isRecorded) {
      const lines = prunedSeq === 1 ? "line 1 is" : `lines 1 to ${prunedSeq} are`;
      const what = prunedSeq === 0 ? "no line is" : lines;
      const but =
        pruning === null ? "but no line records it" : `but line ${pruning.seq} differs from that`;
      report("pruning", prunedSeq, `${what} counted as pruned, ${but}.`);
    } else if (pruning !== null) {
      this.#pruned = { upTo: prunedSeq, at: pruning.at, actor: pruning.actor };
    }
    if (witness === undefined || witness.seq === 0) return;
    if (witness.seq === prunedSeq && witness.hash !== prunedHash)
      report("witness", witness.seq, "the last pruned line is not the one that was seen before.");
    else if (witness.seq < prunedSeq && !isRecorded)
      report("witness", witness.seq, "it was seen before, but no line records its pruning.");
  }

  async *#actionsAfter(seq: number): AsyncGenerator<AuditEntry> {
    for (let after = seq; ;) {
      const page = await this.#audit.list({ after, limit: LINES_PAGE });
      yield* page;
      this.read({});
      if (page.length < LINES_PAGE) return;
      after = page.at(-1)?.seq ?? after;
    }
  }

  /** An operator may have pruned the oldest lines just now. */
  async #beginning(head: AuditHead, { seq }: AuditEntry): Promise<Witness> {
    const { prunedSeq, prunedHash } =
      seq === head.prunedSeq + 1 ? head : ((await this.#audit.head()) ?? head);
    return { seq: prunedSeq, hash: prunedHash };
  }

  #addAction(
    chain: ChainCheck,
    line: AuditEntry,
    { head, report }: { readonly head: AuditHead; readonly report: ReportBreak },
  ): void {
    chain.add(line, hashOfAction(line));
    this.#progress.actions += 1;
    if (chain.seq === head.seq && chain.hash !== head.hash)
      report("head", chain.seq, "the last line is not the one that was written last.");
    const { witness } = this.#options;
    if (witness?.seq === chain.seq && witness.hash !== chain.hash)
      report("witness", chain.seq, "it is not the line that was seen before.");
  }

  async #endActions(chain: ChainCheck, head: AuditHead, report: ReportBreak): Promise<void> {
    if (chain.seq < head.seq)
      report("head", head.seq, `${missing(chain.seq + 1, head.seq)} at the end.`);
    else if (chain.seq > head.seq && ((await this.#audit.head())?.seq ?? 0) < chain.seq)
      report("head", chain.seq, `it was not counted: the last line is ${head.seq}.`);
    const { witness } = this.#options;
    if (witness !== undefined && witness.seq > chain.seq)
      report("witness", witness.seq, "it was seen before, but no longer exists.");
  }

  breaksIn(item: string | null): ReportBreak {
    return (kind, seq, problem) => {
      this.#breaksFound += 1;
      if (this.#breaks.length < BREAKS_MAX) this.#breaks.push({ kind, item, seq, problem });
    };
  }

  read({ items = 0, lines = 0 }: { readonly items?: number; readonly lines?: number }): void {
    this.#progress.items += items;
    this.#progress.lines += lines;
    this.#options.signal?.throwIfAborted();
    this.#options.onProgress?.({ ...this.#progress });
  }
}

// Finds missing lines of the audit log. `holdfast audit verify` finds changed ones.

export const auditChecks: readonly Check[] = [
  {
    name: "item-audit-gap",
    severity: "critical",
    problem: "The audit log of items has missing lines, or lines of items that do not exist.",
    remedy: "Run holdfast audit verify. Deleted lines can only be restored from a backup.",
    cost: "full",
    find: asking<{ id: string; counted: number; found: number }>(
      (_engine, { limit }) => sql`
        select i.id, i.audit_seq as counted, count(a.seq) as found
          from holdfast.item i
          left join holdfast.item_audit a on a.item_id = i.id
         group by i.id, i.audit_seq
        having count(a.seq) <> i.audit_seq
            or max(a.seq) <> i.audit_seq
         union all
        select a.item_id, 0, count(*)
          from holdfast.item_audit a
         where not exists (select 1 from holdfast.item i where i.id = a.item_id)
         group by a.item_id
         limit ${limit}`,
      ({ id, counted, found }) => ({
        subject: `item ${id}`,
        detail: `should have ${counted} lines and has ${found}`,
        sinceAt: null,
      }),
    ),
  },
  {
    name: "operator-audit-gap",
    severity: "critical",
    problem: "The audit log of operators has missing or additional lines.",
    remedy: "Run holdfast audit verify. Deleted lines can only be restored from a backup.",
    cost: "full",
    find: asking<{ counted: number; found: number; last: number; seq: number; unsaid: number }>(
      (_engine, { limit }) => sql`
        select counted, found, last, seq, unsaid
          from (select h.seq - h.pruned_seq as counted, h.seq,
                       case when h.pruned_seq > 0 and not exists (
                              select 1 from holdfast.audit p where p.action = ${PRUNE} and p.seq > h.pruned_seq)
                            then 1 else 0 end as unsaid,
                       (select count(*) from holdfast.audit a where a.seq > h.pruned_seq) as found,
                       (select coalesce(max(a.seq), h.pruned_seq) from holdfast.audit a) as last
                  from holdfast.audit_head h) heads
         where counted <> found
            or last <> seq
            or unsaid = 1
         limit ${limit}`,
      ({ counted, found, last, seq, unsaid }) => ({
        subject: subjects.audit,
        detail:
          `should have ${counted} lines up to ${seq} and has ${found} up to ${last}` +
          (unsaid === 1 ? "; lines were pruned without a record" : ""),
        sinceAt: null,
      }),
    ),
  },
];
