/**
 * Goes through the audit from one end to the other, a page at a time.
 *
 * Others write meanwhile. A line is written in one transaction with what it tells of, and stays: so whoever reads an item,
 * and its lines after that, finds all the lines that the item counts. What more there is was written in between, or by hand;
 * the item itself, read once more, tells which.
 */
import type { AuditBreak, AuditEntry, BreakKind } from "../core/audit.ts";
import { checkWhole } from "../core/check.ts";
import { InvalidArgument } from "../core/errors.ts";
import type { ItemEntry } from "../core/item.ts";
import type { AuditHead } from "../store/actions.ts";
import { hashOfAction, prunedRange } from "../store/audit.ts";
import type { Store } from "../store/store.ts";
import { hashOf, NO_HASH, sha256 } from "../store/trail.ts";
import type { StoredItem } from "../store/workflows.ts";

/** Each has its data with it. */
const ITEMS_PAGE = 100;
const LINES_PAGE = 1_000;
/** Of more than these it is only told how many there are. */
const BREAKS_MAX = 1_000;

export interface VerifyOptions {
  readonly onProgress?: (progress: VerifyProgress) => void;
  /** Ends it: what it throws then is the signal's reason. */
  readonly signal?: AbortSignal;
  /** The end of the operators' chain as an earlier run told it: whoever writes the whole chain anew cannot match it. */
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
  /** Lines of operators at the beginning that are from before there were hashes. */
  readonly withoutHash: number;
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
  throw new InvalidArgument({ field: "witness", problem });
}

type Say = (kind: BreakKind, seq: number, problem: string) => void;

/** One chain of lines. */
class Chain {
  seq: number;
  hash: string;
  /** Lines from before there were hashes come first, if at all. */
  #isHashed: boolean;
  readonly #say: Say;

  constructor(from: Witness, say: Say, options: { isHashed: boolean }) {
    this.seq = from.seq;
    this.hash = from.hash;
    this.#isHashed = options.isHashed;
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
    if (line.hash !== null) this.#isHashed = true;
    else if (this.#isHashed) this.#say("hash", seq, "its hash was removed.");
    this.seq = seq;
    this.hash = line.hash ?? this.hash;
  }
}

function missing(first: number, last: number): string {
  return first === last ? `line ${first} is missing` : `lines ${first} to ${last} are missing`;
}

function linesTo(last: number): string {
  return last === 1 ? "line 1 is" : `lines 1 to ${last} are`;
}

function operatorsChain(from: Witness, say: Say): Chain {
  return new Chain(from, say, { isHashed: from.hash !== NO_HASH });
}

/** Without the row that counts the lines, all of them are looked at as if they were the first. */
function headless(say: Say): AuditHead {
  say("head", 0, "the row that counts the lines is missing.");
  return { seq: 0, hash: NO_HASH, prunedSeq: 0, prunedHash: NO_HASH, pruning: null };
}

export class AuditWalk {
  readonly #store: Store;
  readonly #options: VerifyOptions;
  readonly #breaks: AuditBreak[] = [];
  #breaksFound = 0;
  #items = 0;
  #lines = 0;
  #actions = 0;
  #withoutHash = 0;
  #pruned: Pruned | null = null;

  constructor(store: Store, options: VerifyOptions) {
    this.#store = store;
    this.#options = options;
  }

  async run(): Promise<Verification> {
    const head = await this.#walkActions();
    await this.#walkItems();
    return {
      held: this.#breaksFound === 0,
      ...this.#progress(),
      withoutHash: this.#withoutHash,
      pruned: this.#pruned,
      breaks: this.#breaks,
      breaksFound: this.#breaksFound,
      head,
    };
  }

  async #walkActions(): Promise<Witness> {
    const say = this.#sayer(null);
    const head = (await this.#store.auditHead()) ?? headless(say);
    this.#checkPruning(head, say);
    let chain: Chain | null = null;
    for await (const line of this.#actionsAfter(head.prunedSeq)) {
      chain ??= operatorsChain(await this.#beginning(head, line), say);
      this.#addAction(chain, line, head);
    }
    chain ??= operatorsChain({ seq: head.prunedSeq, hash: head.prunedHash }, say);
    await this.#endActions(chain, head, say);
    return { seq: chain.seq, hash: chain.hash };
  }

  /** What is gone went by a line that says so, and that line is part of the chain. */
  #checkPruning({ prunedSeq, prunedHash, pruning }: AuditHead, say: Say): void {
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
      const page = await this.#store.actions({ after, limit: LINES_PAGE });
      yield* page;
      this.#tell();
      if (page.length < LINES_PAGE) return;
      after = page.at(-1)?.seq ?? after;
    }
  }

  /** Somebody may have let the oldest lines go just now. */
  async #beginning(head: AuditHead, { seq }: AuditEntry): Promise<Witness> {
    const { prunedSeq, prunedHash } =
      seq === head.prunedSeq + 1 ? head : ((await this.#store.auditHead()) ?? head);
    return { seq: prunedSeq, hash: prunedHash };
  }

  #addAction(chain: Chain, line: AuditEntry, head: AuditHead): void {
    const say = this.#sayer(null);
    chain.add(line, hashOfAction(line));
    this.#actions += 1;
    if (line.hash === null) this.#withoutHash += 1;
    if (chain.seq === head.seq && chain.hash !== head.hash) {
      say("head", chain.seq, "the last line is not the one that was written last.");
    }
    const { witness } = this.#options;
    if (witness?.seq === chain.seq && witness.hash !== chain.hash) {
      say("witness", chain.seq, "it is not the line that was seen before.");
    }
  }

  async #endActions(chain: Chain, head: AuditHead, say: Say): Promise<void> {
    if (chain.seq < head.seq) {
      say("head", head.seq, `${missing(chain.seq + 1, head.seq)} at the end.`);
    } else if (chain.seq > head.seq && ((await this.#store.auditHead())?.seq ?? 0) < chain.seq) {
      say("head", chain.seq, `nobody counted it: the last line is ${head.seq}.`);
    }
    const { witness } = this.#options;
    if (witness !== undefined && witness.seq > chain.seq) {
      say("witness", witness.seq, "it was seen before, and is not there any more.");
    }
  }

  async #walkItems(): Promise<void> {
    let after: string | null = null;
    for (;;) {
      const items: StoredItem[] = await this.#store.itemsAfter(after, ITEMS_PAGE);
      const upTo: string | null = items.length < ITEMS_PAGE ? null : (items.at(-1)?.id as string);
      await this.#walkRange(items, { after, upTo });
      if (upTo === null) return;
      after = upTo;
    }
  }

  /** The lines of these items, and of others in between that are not there, or were not when these were read. */
  async #walkRange(
    items: readonly StoredItem[],
    range: { after: string | null; upTo: string | null },
  ): Promise<void> {
    const checks = new Map(
      items.map((item) => [item.id, new ItemCheck(item, this.#sayer(item.id))]),
    );
    const strays = new Set<string>();
    for await (const line of this.#linesOf(range)) {
      this.#lines += 1;
      const check = checks.get(line.item);
      if (check === undefined) strays.add(line.item);
      else check.add(line);
    }
    for (const check of checks.values()) await check.end(this.#store);
    for (const id of strays) await this.#checkStray(id);
    this.#items += items.length;
    this.#tell();
  }

  async *#linesOf(range: { after: string | null; upTo: string | null }): AsyncGenerator<ItemEntry> {
    const { upTo } = range;
    let after = range.after === null ? null : { item: range.after, seq: Number.MAX_SAFE_INTEGER };
    for (;;) {
      const page = await this.#store.itemLines({ after, upTo, limit: LINES_PAGE });
      yield* page;
      this.#tell();
      const last = page.at(-1);
      if (last === undefined || page.length < LINES_PAGE) return;
      after = { item: last.item, seq: last.seq };
    }
  }

  /** An item that was started meanwhile, one that was let go meanwhile, or lines without an item. */
  async #checkStray(id: string): Promise<void> {
    const say = this.#sayer(id);
    const item = await this.#store.findItem(id);
    if (item !== null) {
      const check = new ItemCheck(item, say);
      for await (const line of this.#linesOfOne(id)) check.add(line);
      await check.end(this.#store);
      return;
    }
    const [first] = await this.#store.itemHistory({ item: id, after: 0, limit: 1 });
    if (first !== undefined) say("orphan", first.seq, "its lines are there, and it is not.");
  }

  async *#linesOfOne(item: string): AsyncGenerator<ItemEntry> {
    for (let after = 0; ;) {
      const page = await this.#store.itemHistory({ item, after, limit: LINES_PAGE });
      yield* page;
      if (page.length < LINES_PAGE) return;
      after = page.at(-1)?.seq ?? after;
    }
  }

  #sayer(item: string | null): Say {
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

/** An item as it was read, against its lines, which were read after it. */
class ItemCheck {
  readonly #item: StoredItem;
  readonly #say: Say;
  readonly #chain: Chain;

  constructor(item: StoredItem, say: Say) {
    this.#item = item;
    this.#say = say;
    this.#chain = new Chain({ seq: 0, hash: NO_HASH }, say, { isHashed: true });
  }

  add(line: ItemEntry): void {
    this.#chain.add(line, hashOf(line));
    const { auditSeq, auditHash, status, data } = this.#item;
    if (line.seq !== auditSeq) return;
    if (line.hash !== auditHash) {
      this.#say("head", line.seq, "the last line is not the one that the item counts.");
    }
    if (line.newStatus !== status) {
      this.#say(
        "status",
        line.seq,
        `the item is '${status}', and its last line says '${line.newStatus}'.`,
      );
    }
    if (line.dataHash !== sha256(data)) {
      this.#say("data", line.seq, "the item's data is not what its last line tells of.");
    }
  }

  async end(store: Store): Promise<void> {
    const { id, auditSeq } = this.#item;
    const { seq } = this.#chain;
    if (seq === auditSeq) return;
    const now = await store.findItem(id);
    if (now === null) return; // It was let go meanwhile, with its lines.
    if (seq < auditSeq) this.#say("head", auditSeq, `${missing(seq + 1, auditSeq)} at the end.`);
    else if (now.auditSeq < seq) {
      this.#say("head", seq, `the item does not count it: its last line is ${now.auditSeq}.`);
    }
  }
}
