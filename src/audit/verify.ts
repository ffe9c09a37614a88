/** Verifies the operators' chain, and the chains that features bring, from end to end, a page at a time. Others write meanwhile. */
import { InvalidArgumentError } from "../core/errors.ts";
import { checkWhole } from "../core/options.ts";
import { type AuditBreak, type AuditEntry, type BreakKind, NO_HASH } from "./entry.ts";
import { type AuditHead, type AuditStore, hashOfAction, prunedRange } from "./store.ts";

/** Lines read at once. */
export const LINES_PAGE = 1_000;

/** Breaks beyond these are only counted. */
const BREAKS_MAX = 1_000;

export interface VerifyOptions {
  readonly onProgress?: (progress: VerifyProgress) => void;
  /** Ends it: what it throws then is the signal's reason. */
  readonly signal?: AbortSignal;
  /** The end of the operators' chain as an earlier run told it: a rewritten chain cannot match it. */
  readonly witness?: Witness;
}

/** A line, by its number and its hash. */
export interface Witness {
  readonly seq: number;
  readonly hash: string;
}

export interface VerifyProgress {
  readonly items: number;
  /** Lines of items. */
  readonly lines: number;
  /** Lines of operators. */
  readonly actions: number;
}

export interface Verification extends VerifyProgress {
  readonly held: boolean;
  /** The last pruning of operators' lines; null: there was none, or no line records it, which is a break. */
  readonly pruned: Pruned | null;
  /** The first thousand. */
  readonly breaks: readonly AuditBreak[];
  readonly breaksFound: number;
  /** The end of the operators' chain. Kept elsewhere, it is the witness of the next run. */
  readonly head: Witness;
}

/** Lines 1 to `upTo` are gone; the last of them went at this time, by this actor. */
export interface Pruned {
  readonly upTo: number;
  readonly at: number;
  readonly actor: string;
}

export function checkWitness({ seq, hash }: Witness): void {
  checkWhole("witness.seq", seq, { least: 0, most: Number.MAX_SAFE_INTEGER });
  if (/^[0-9a-f]{64}$/.test(hash)) return;
  const problem = "give the head of an earlier verification: a number and a hash.";
  throw new InvalidArgumentError({ field: "witness", problem });
}

/** Chains that a feature keeps beside the operators' chain, such as one for each item. */
export interface AuditChains {
  verify(walk: ChainWalk): Promise<void>;
}

/** What the verification of such chains reports to. */
export interface ChainWalk {
  /** Reports the breaks in the chain of this item. */
  breaksIn(item: string): ReportBreak;
  /** Counts what was read. Throws if the verification is aborted. */
  read(count: { readonly items?: number; readonly lines?: number }): void;
}

export type ReportBreak = (kind: BreakKind, seq: number, problem: string) => void;

const BEGINNING: Witness = { seq: 0, hash: NO_HASH };

/** One chain of lines, each held against the one before it. */
export class ChainCheck {
  seq: number;
  hash: string;
  readonly #say: ReportBreak;

  constructor(say: ReportBreak, from = BEGINNING) {
    this.seq = from.seq;
    this.hash = from.hash;
    this.#say = say;
  }

  /** Without a hash, a line has only its number. */
  add(line: { seq: number; previousHash: string | null; hash: string | null }, hash: string): void {
    const { seq } = line;
    if (seq !== this.seq + 1) this.#say("gap", seq, `${missing(this.seq + 1, seq - 1)} before it.`);
    else if (line.hash !== null && line.previousHash !== this.hash) {
      this.#say("link", seq, "it does not follow the line before it.");
    }
    if (line.hash !== null && line.hash !== hash) {
      this.#say("changed", seq, "it says something else than when it was written.");
    }
    if (line.hash === null) this.#say("hash", seq, "its hash was removed.");
    this.seq = seq;
    this.hash = line.hash ?? this.hash;
  }
}

export function missing(first: number, last: number): string {
  return first === last ? `line ${first} is missing` : `lines ${first} to ${last} are missing`;
}

function linesTo(last: number): string {
  return last === 1 ? "line 1 is" : `lines 1 to ${last} are`;
}

/** Without the row that counts the lines, the chain is verified from its beginning. */
function headless(say: ReportBreak): AuditHead {
  say("head", 0, "the row that counts the lines is missing.");
  return { seq: 0, hash: NO_HASH, prunedSeq: 0, prunedHash: NO_HASH, pruning: null };
}

export class AuditWalk implements ChainWalk {
  readonly #audit: AuditStore;
  readonly #chains: readonly AuditChains[];
  readonly #options: VerifyOptions;
  readonly #breaks: AuditBreak[] = [];
  #breaksFound = 0;
  #items = 0;
  #lines = 0;
  #actions = 0;
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
      ...this.#progress(),
      pruned: this.#pruned,
      breaks: this.#breaks,
      breaksFound: this.#breaksFound,
      head,
    };
  }

  async #walkActions(): Promise<Witness> {
    const say = this.#sayer(null);
    const head = (await this.#audit.head()) ?? headless(say);
    this.#checkPruning(head, say);
    let chain: ChainCheck | null = null;
    for await (const line of this.#actionsAfter(head.prunedSeq)) {
      chain ??= new ChainCheck(say, await this.#beginning(head, line));
      this.#addAction(chain, line, head);
    }
    chain ??= new ChainCheck(say, { seq: head.prunedSeq, hash: head.prunedHash });
    await this.#endActions(chain, head, say);
    return { seq: chain.seq, hash: chain.hash };
  }

  /** What is gone went by a line that says so, and that line is part of the chain. */
  #checkPruning({ prunedSeq, prunedHash, pruning }: AuditHead, say: ReportBreak): void {
    const range = prunedRange(pruning?.detail ?? null);
    const { witness } = this.#options;
    const isRecorded =
      pruning === null
        ? prunedSeq === 0 && prunedHash === NO_HASH
        : range?.last === prunedSeq && range.hash === prunedHash && prunedSeq < pruning.seq;
    if (!isRecorded) {
      const what = prunedSeq === 0 ? "no line is" : linesTo(prunedSeq);
      const said =
        pruning === null ? "and no line says so" : `and line ${pruning.seq} says otherwise`;
      say("pruning", prunedSeq, `${what} counted as pruned, ${said}.`);
    } else if (pruning !== null) {
      this.#pruned = { upTo: prunedSeq, at: pruning.at, actor: pruning.actor };
    }
    if (witness === undefined || witness.seq === 0) return;
    if (witness.seq === prunedSeq && witness.hash !== prunedHash) {
      say(
        "witness",
        witness.seq,
        "the last line that was pruned is not the one that was seen before.",
      );
    } else if (witness.seq < prunedSeq && !isRecorded) {
      say("witness", witness.seq, "it was seen before, and no line says that it was pruned.");
    }
  }

  async *#actionsAfter(seq: number): AsyncGenerator<AuditEntry> {
    for (let after = seq; ;) {
      const page = await this.#audit.list({ after, limit: LINES_PAGE });
      yield* page;
      this.#tell();
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

  #addAction(chain: ChainCheck, line: AuditEntry, head: AuditHead): void {
    const say = this.#sayer(null);
    chain.add(line, hashOfAction(line));
    this.#actions += 1;
    if (chain.seq === head.seq && chain.hash !== head.hash) {
      say("head", chain.seq, "the last line is not the one that was written last.");
    }
    const { witness } = this.#options;
    if (witness?.seq === chain.seq && witness.hash !== chain.hash) {
      say("witness", chain.seq, "it is not the line that was seen before.");
    }
  }

  async #endActions(chain: ChainCheck, head: AuditHead, say: ReportBreak): Promise<void> {
    if (chain.seq < head.seq) {
      say("head", head.seq, `${missing(chain.seq + 1, head.seq)} at the end.`);
    } else if (chain.seq > head.seq && ((await this.#audit.head())?.seq ?? 0) < chain.seq) {
      say("head", chain.seq, `nobody counted it: the last line is ${head.seq}.`);
    }
    const { witness } = this.#options;
    if (witness !== undefined && witness.seq > chain.seq) {
      say("witness", witness.seq, "it was seen before, and is not there any more.");
    }
  }

  breaksIn(item: string): ReportBreak {
    return this.#sayer(item);
  }

  read({ items = 0, lines = 0 }: { readonly items?: number; readonly lines?: number }): void {
    this.#items += items;
    this.#lines += lines;
    this.#tell();
  }

  #sayer(item: string | null): ReportBreak {
    return (kind, seq, problem) => {
      this.#breaksFound += 1;
      if (this.#breaks.length < BREAKS_MAX) this.#breaks.push({ kind, item, seq, problem });
    };
  }

  #progress(): VerifyProgress {
    return { items: this.#items, lines: this.#lines, actions: this.#actions };
  }

  #tell(): void {
    this.#options.signal?.throwIfAborted();
    this.#options.onProgress?.(this.#progress());
  }
}
