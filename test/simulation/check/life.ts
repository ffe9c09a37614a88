/**
 * The life of every job as the witness saw it: from table to table, each move allowed and explained by a call.
 *
 * A row that leaves a table enters another in the same transaction; its counters change as that move says, and nothing
 * else does. The call that ended a lease showed its fence, or the lease had run out.
 */
import type { OutageCall, Recorded, SettleCall } from "../history.ts";
import type { Change } from "../witness.ts";
import { fenceKey, type Evidence, type Findings, type Invariant } from "./evidence.ts";

type StateTable = "ready" | "waiting" | "lease" | "finished";
const STATE_TABLES = new Set<string>(["ready", "waiting", "lease", "finished"]);

/** An attempt that has ended, as its history must tell it. */
export interface Ended {
  readonly epoch: number;
  readonly attempt: number;
  readonly worker: string;
  outcome: string;
}

export interface Life {
  readonly id: string;
  readonly task: string;
  readonly key: string | null;
  readonly addedTx: number;
  /** Where it stands; between two tables, where it comes from. */
  table: StateTable | null;
  row: Change | null;
  /** Set while it stands nowhere. */
  leftTx: number | null;
  claims: number;
  givenBack: number;
  readonly claimedAt: Map<number, { tx: number; worker: string }>;
  readonly attempts: Ended[];
  /** When it became finished, and live again. */
  readonly finishedTx: number[];
  readonly reopenedTx: number[];
}

/** How a lease ended, by its fence. */
export interface LeaseEnd {
  readonly tx: number;
  readonly by: "settled" | "crashed";
  readonly status: string | null;
}

type Counters = Pick<Change, "epoch" | "attempts" | "crashes" | "attempts_max">;

export class Lives {
  readonly jobs = new Map<string, Life>();
  readonly leaseEnds = new Map<string, LeaseEnd>();
  /** The transactions that extended a lease, by its fence. */
  readonly extended = new Map<string, number[]>();
  /** The transactions that marked a job for cancelling. */
  readonly marked = new Map<string, number[]>();
  readonly #evidence: Evidence;
  readonly #findings: Findings;
  readonly #settled: Map<string, { kind: string; from: number }[]>;
  readonly #asked: {
    enqueue: Map<string, number>;
    cancel: Map<string, number>;
    retry: Map<string, number>;
    resolve: Map<string, number>;
  };
  readonly #extensions: Map<string, number>;
  /** What owners said whose database did not answer. */
  readonly #reported: Map<string, { kind: string; from: number }[]>;
  /** The last row whose crashes were corrected. */
  #corrected: Change | null = null;
  readonly #said = new Map<string, number>();
  readonly #onTheMove = new Set<Life>();
  #tx = 0;

  constructor(evidence: Evidence, findings: Findings) {
    this.#evidence = evidence;
    this.#findings = findings;
    const { calls } = evidence.history;
    this.#settled = settledBy(calls, ["settle", "outage"]);
    this.#reported = settledBy(calls, ["outage"]);
    this.#asked = {
      enqueue: firstAsked(calls, (call) =>
        call.f === "enqueue" ? call.jobs.map(({ id }) => id) : [],
      ),
      cancel: firstAsked(calls, (call) => (call.f === "cancel" ? [call.id] : [])),
      retry: firstAsked(calls, (call) => (call.f === "retry" ? [call.id] : [])),
      resolve: firstAsked(calls, (call) => (call.f === "resolve" ? [call.job] : [])),
    };
    // What a schedule enqueues, no call explains; checkTicks judges it.
    for (const { job_id: id } of evidence.tables.schedule_run)
      if (id !== null) this.#asked.enqueue.set(id, 0);
    this.#extensions = firstAsked(calls, (call) =>
      call.f === "extend"
        ? call.fences.map((fence) => fenceKey(fence.id, fence.worker, fence.epoch))
        : [],
    );
  }

  read(): this {
    for (const change of this.#evidence.changes) this.#readOne(change);
    this.#endTransaction();
    return this;
  }

  #readOne(change: Change): void {
    if (change.tx !== this.#tx) this.#endTransaction();
    this.#tx = change.tx;
    if (change.tbl === "job") return this.#readJob(change);
    if (change.tbl === "attempt" && change.op === "update") return this.#giveBack(change);
    if (change.tbl === "event" && change.until_at !== null) this.#said.set(change.id, change.tx);
    if (!STATE_TABLES.has(change.tbl)) return;
    const life = this.jobs.get(change.id);
    if (life === undefined)
      return this.#add(
        "I2 no phantom, no duplicate",
        change,
        "a row of a job that was never added",
      );
    if (change.op === "delete") this.#leave(life, change);
    if (change.op === "insert") this.#enter(life, change);
    if (change.op === "update") this.#update(life, change);
  }

  /** A job that left a table has entered another. */
  #endTransaction(): void {
    for (const { id, table } of this.#onTheMove) {
      this.#findings.add(
        "I8 the moves",
        `${id} left ${table} in transaction ${this.#tx} and entered no other table`,
      );
    }
    this.#onTheMove.clear();
  }

  #readJob(change: Change): void {
    if (change.op === "delete") return void this.jobs.delete(change.id); // pruned
    const asked = this.#asked.enqueue.get(change.id);
    if (asked === undefined || asked >= change.tx)
      this.#add("I2 no phantom, no duplicate", change, "no call has enqueued it");
    this.jobs.set(change.id, {
      id: change.id,
      task: change.kind ?? "",
      key: change.job_key,
      addedTx: change.tx,
      table: null,
      row: null,
      leftTx: null,
      claims: 0,
      givenBack: 0,
      claimedAt: new Map(),
      attempts: [],
      finishedTx: [],
      reopenedTx: [],
    });
  }

  #leave(life: Life, change: Change): void {
    if (life.table !== change.tbl || life.leftTx !== null) {
      this.#add("I8 the moves", change, `left ${change.tbl} while it stood in ${life.table}`);
    }
    this.#same(change, life.row, change, "what left is not what entered");
    life.leftTx = change.tx;
    life.row = change;
    life.table = change.tbl as StateTable;
    this.#onTheMove.add(life);
  }

  #enter(life: Life, to: Change): void {
    const { row: from } = life;
    if (from === null) this.#begin(life, to);
    else if (life.leftTx === null) {
      this.#add("I4 one owner", to, `entered ${to.tbl} while it stood in ${life.table}`);
    } else this.#move(life, from, to);
    this.#onTheMove.delete(life);
    life.leftTx = null;
    life.table = to.tbl as StateTable;
    life.row = to;
    if (to.tbl === "finished") life.finishedTx.push(to.tx);
  }

  #begin(life: Life, to: Change): void {
    this.#edge("enqueue", "–", to.status);
    const isNew = to.tx === life.addedTx && to.epoch === 0 && to.attempts === 0 && to.crashes === 0;
    const isThere = to.tbl === "ready" || (to.tbl === "waiting" && to.status === "scheduled");
    if (!isNew || !isThere) this.#add("I8 the moves", to, "did not begin as a new job");
  }

  #update(life: Life, to: Change): void {
    const { row: from } = life;
    if (from !== null && from.crashes !== to.crashes) return this.#correct(life, from, to);
    if (to.tbl !== "lease" || from === null || life.table !== "lease") {
      return this.#add("I8 the moves", to, `a row of ${to.tbl} was changed`);
    }
    this.#same(to, from, to, "a lease's counters were changed");
    if (from.worker !== to.worker)
      this.#add("I4 one owner", to, `its lease went from ${from.worker} to ${to.worker}`);
    if (from.cancel_at !== null && to.cancel_at === null)
      this.#add("I8 the moves", to, "a cancel was taken back");
    const isMark = from.cancel_at === null && to.cancel_at !== null;
    // Cancelling it once more changes nothing.
    const isMarkedAgain = from.cancel_at !== null && from.until_at === to.until_at;
    if (isMark) this.#mark(to);
    else if (!isMarkedAgain) this.#extend(from, to);
    else push(this.extended, fenceKey(to.id, to.worker, to.epoch), to.tx);
    life.row = to;
  }

  /** A crash is taken back, and its attempt where no worker was told of the next: a call has to say whose it was. */
  #correct(life: Life, from: Change, to: Change): void {
    const isBack = to.tbl !== "lease";
    if (to.tbl !== life.table) this.#add("I8 the moves", to, `was corrected in ${to.tbl}`);
    this.#counts(to, "I3 epochs", "epoch", from.epoch);
    this.#counts(to, "I7 attempts", "crashes", (from.crashes ?? 0) - 1);
    this.#counts(to, "I7 attempts", "attempts", (from.attempts ?? 0) - (isBack ? 1 : 0));
    this.#counts(to, "I7 attempts", "attempts_max", from.attempts_max);
    if (isBack) life.givenBack += 1;
    life.row = to;
    this.#corrected = to;
  }

  /** The owner of that attempt says that it was alive, and its crash is not counted any more. */
  #giveBack(to: Change): void {
    const fence = fenceKey(to.id, to.worker, to.epoch);
    const asked = (this.#reported.get(fence) ?? []).some(({ from }) => from < to.tx);
    const ended = this.jobs.get(to.id)?.attempts.find(({ epoch }) => epoch === to.epoch);
    if (!asked && !this.#hasCulprit(to))
      this.#add("I5 the fence", to, "its crash was given back, and its owner never said so");
    if (ended?.outcome !== "crashed" || to.status !== "released")
      return this.#add("I9 the attempts' history", to, `it became ${to.status}`);
    ended.outcome = "released";
    this.#edge("given back", "crashed", "released");
    if (this.#corrected?.tx !== to.tx || this.#corrected.id !== to.id)
      this.#add("I7 attempts", to, "its crash was given back and still counts");
    this.#corrected = null;
  }

  /** Another job lost the same worker then, and later one that held no other job. */
  #hasCulprit(to: Change): boolean {
    return [...this.jobs.values()].some((life) => {
      const crashes = [...life.claimedAt].flatMap(([epoch, { worker }]) => {
        const end = this.leaseEnds.get(fenceKey(life.id, worker, epoch));
        return end?.by === "crashed" ? [{ worker, epoch, tx: end.tx }] : [];
      });
      const beside = crashes.find(({ worker }) => worker === to.worker);
      if (life.id === to.id || beside === undefined) return false;
      return crashes.some(
        ({ worker, epoch, tx }) =>
          epoch > beside.epoch && tx < to.tx && this.#heldAlone(life.id, worker, tx),
      );
    });
  }

  #heldAlone(id: string, worker: string, tx: number): boolean {
    return [...this.jobs.values()].every((other) =>
      [...other.claimedAt].every(([epoch, claim]) => {
        if (other.id === id || claim.worker !== worker || claim.tx >= tx) return true;
        const end = this.leaseEnds.get(fenceKey(other.id, worker, epoch));
        return end !== undefined && end.tx < tx;
      }),
    );
  }

  #mark(to: Change): void {
    this.#wasAsked("cancel", to);
    push(this.marked, to.id, to.tx);
  }

  #extend(from: Change, to: Change): void {
    const fence = fenceKey(to.id, to.worker, to.epoch);
    const asked = this.#extensions.get(fence);
    if (asked === undefined || asked >= to.tx)
      this.#add("I5 the fence", to, "its lease was extended, and its owner did not ask for it");
    if ((to.until_at ?? 0) < (from.until_at ?? 0))
      this.#add("I4 one owner", to, "a lease was made shorter");
    push(this.extended, fence, to.tx);
  }

  // ── The moves ────────────────────────────────────────────────────────────────────────────────

  #move(life: Life, from: Change, to: Change): void {
    if (from.tx !== to.tx)
      this.#add("I8 the moves", to, "left one table and entered another in two transactions");
    if (from.tbl === "ready" && to.tbl === "lease") return this.#claim(life, from, to);
    if (from.tbl === "lease") return this.#endLease(life, from, to);
    if (from.tbl === "waiting" && to.tbl === "ready") return this.#promote(from, to);
    if (from.tbl === "finished" && to.tbl === "ready") return this.#reopen(life, from, to);
    const isLive = from.tbl === "ready" || from.tbl === "waiting";
    if (isLive && to.tbl === "finished" && to.status === "cancelled") {
      this.#edge("cancel", from.status, to.status);
      this.#wasAsked("cancel", to);
      return this.#same(to, from, to, "cancelling changed it");
    }
    this.#add("I8 the moves", to, `there is no move from ${from.status} to ${to.status}`);
  }

  #claim(life: Life, from: Change, to: Change): void {
    this.#edge("claim", from.status, to.status);
    life.claims += 1;
    this.#counts(to, "I3 epochs", "epoch", (from.epoch ?? 0) + 1);
    this.#counts(to, "I7 attempts", "attempts", (from.attempts ?? 0) + 1);
    this.#counts(to, "I7 attempts", "crashes", from.crashes);
    this.#counts(to, "I7 attempts", "attempts_max", from.attempts_max);
    const epoch = to.epoch ?? 0;
    if (life.claimedAt.has(epoch)) this.#add("I3 epochs", to, `two claims have the epoch ${epoch}`);
    if (epoch !== life.claims)
      this.#add("I3 epochs", to, `the claim number ${life.claims} has the epoch ${epoch}`);
    if ((to.attempts ?? 0) > (to.attempts_max ?? 0))
      this.#add("I7 attempts", to, "more attempts than allowed");
    life.claimedAt.set(epoch, { tx: to.tx, worker: to.worker ?? "" });
  }

  /** Either its owner said so, with the fence, or it had run out. */
  #endLease(life: Life, from: Change, to: Change): void {
    const fence = fenceKey(from.id, from.worker, from.epoch);
    const kinds = (this.#settled.get(fence) ?? [])
      .filter((asked) => asked.from < to.tx)
      .map(({ kind }) => kind);
    const isCrash = to.crashes === (from.crashes ?? 0) + 1;
    this.leaseEnds.set(fence, {
      tx: to.tx,
      by: isCrash ? "crashed" : "settled",
      status: to.status,
    });
    this.#counts(to, "I3 epochs", "epoch", from.epoch);
    this.#counts(to, "I7 attempts", "attempts_max", from.attempts_max);
    const problem = isCrash ? this.#afterCrash(from, to) : this.#afterSettlement(from, to, kinds);
    if (problem !== null)
      this.#add(
        problem[0],
        to,
        `${problem[1]} (its owner offered: ${kinds.join(", ") || "nothing"})`,
      );
    const outcome = outcomeOf(to, isCrash, kinds);
    this.#edge(outcome, from.status, to.status);
    const isBack = outcome === "released" || outcome === "suspended";
    if (isBack) life.givenBack += 1;
    this.#counts(to, "I7 attempts", "attempts", (from.attempts ?? 0) - (isBack ? 1 : 0));
    if (to.tbl === "finished") {
      if (to.worker !== from.worker)
        this.#add("I5 the fence", to, `ended by ${to.worker}, owned by ${from.worker}`);
      return;
    }
    life.attempts.push({
      epoch: from.epoch ?? 0,
      attempt: from.attempts ?? 0,
      worker: from.worker ?? "",
      outcome,
    });
  }

  #afterCrash(from: Change, to: Change): [Invariant, string] | null {
    const { graceMs, maxCrashes } = this.#evidence.settings;
    if ((from.until_at ?? 0) + graceMs >= to.at)
      return ["I4 one owner", "its lease was taken back before its end"];
    if (from.cancel_at !== null)
      return to.status === "cancelled" ? null : ["I8 the moves", "a cancel was forgotten"];
    const isOver =
      (to.crashes ?? 0) >= maxCrashes || (from.attempts ?? 0) >= (from.attempts_max ?? 0);
    if (to.status !== (isOver ? "failed" : "retry")) {
      return [
        "I7 attempts",
        `crashed ${to.crashes} times, attempt ${from.attempts} of ${from.attempts_max}, and is ${to.status}`,
      ];
    }
    return null;
  }

  #afterSettlement(from: Change, to: Change, kinds: readonly string[]): [Invariant, string] | null {
    if (to.crashes !== from.crashes)
      return ["I7 attempts", `its crashes went from ${from.crashes} to ${to.crashes}`];
    if (kinds.length === 0)
      return ["I5 the fence", `became ${to.status} though its owner never said so`];
    if (from.cancel_at !== null)
      return to.status === "cancelled" ? null : ["I8 the moves", "a cancel was forgotten"];
    const isLast = (from.attempts ?? 0) >= (from.attempts_max ?? 0);
    const wanted = new Set(kinds.flatMap((kind) => becomes(kind, isLast)));
    return wanted.has(to.status ?? "") ? null : ["I5 the fence", `became ${to.status}`];
  }

  #promote(from: Change, to: Change): void {
    this.#edge("promote", from.status, to.status);
    this.#same(to, from, to, "promoting changed it");
    if (from.until_at !== null && to.at >= from.until_at) return;
    // A person who says what became of an effect lets its job go on at once, whatever it waits for.
    const isResolved = (this.#asked.resolve.get(to.id) ?? Number.POSITIVE_INFINITY) < to.tx;
    const isWoken = isResolved || (from.status === "waiting" && this.#isSaid(to.tx));
    if (!isWoken)
      this.#add("I8 the moves", to, `promoted before it was due (${from.until_at}, now ${to.at})`);
  }

  #isSaid(tx: number): boolean {
    return [...this.#said.values()].includes(tx);
  }

  #reopen(life: Life, from: Change, to: Change): void {
    this.#edge("reopen", from.status, to.status);
    this.#wasAsked("retry", to);
    if (from.status === "done") this.#add("I8 the moves", to, "a job that is done was retried");
    this.#counts(to, "I3 epochs", "epoch", from.epoch);
    this.#counts(to, "I7 attempts", "attempts", from.attempts);
    this.#counts(to, "I7 attempts", "crashes", 0);
    if ((to.attempts_max ?? 0) < (from.attempts_max ?? 0))
      this.#add("I7 attempts", to, "reopening took attempts away");
    life.reopenedTx.push(to.tx);
    if (from.worker === null) return;
    const outcome = from.status === "cancelled" ? "cancelled" : "failed";
    life.attempts.push({
      epoch: from.epoch ?? 0,
      attempt: from.attempts ?? 0,
      worker: from.worker,
      outcome,
    });
  }

  // ── What is said about them ──────────────────────────────────────────────────────────────────

  #wasAsked(f: "cancel" | "retry", to: Change): void {
    const from = this.#asked[f].get(to.id);
    if (from === undefined || from >= to.tx)
      this.#add("I8 the moves", to, `no call asked to ${f} it`);
  }

  #counts(
    to: Change,
    invariant: Invariant,
    counter: keyof Counters,
    expected: number | null,
  ): void {
    if (to[counter] === expected) return;
    this.#add(invariant, to, `${counter} is ${to[counter]}, not ${expected}`);
  }

  #same(at: Change, before: Counters | null, after: Counters, problem: string): void {
    if (before === null) return;
    const isSame =
      before.epoch === after.epoch &&
      before.attempts === after.attempts &&
      before.crashes === after.crashes &&
      before.attempts_max === after.attempts_max;
    if (!isSame) this.#add("I7 attempts", at, problem);
  }

  #edge(name: string, from: string | null, to: string | null): void {
    this.#evidence.coverage.hit(`move: ${name}, ${from} → ${to}`);
  }

  #add(invariant: Invariant, { id, tx, tbl, epoch }: Change, problem: string): void {
    this.#findings.add(invariant, `${id}, transaction ${tx}, ${tbl}, epoch ${epoch}: ${problem}`);
  }
}

function settledBy(
  calls: readonly Recorded[],
  verbs: readonly Recorded["f"][],
): Map<string, { kind: string; from: number }[]> {
  const settled = new Map<string, { kind: string; from: number }[]>();
  const settles = calls.filter(
    (call): call is SettleCall | OutageCall => verbs.includes(call.f) && "settlements" in call,
  );
  for (const { settlements, from } of settles) {
    for (const { id, worker, epoch, kind } of settlements) {
      push(settled, fenceKey(id, worker, epoch), { kind, from });
    }
  }
  return settled;
}

/** Since when a call asks for it. */
function firstAsked(
  calls: readonly Recorded[],
  idsOf: (call: Recorded) => string[],
): Map<string, number> {
  const asked = new Map<string, number>();
  for (const call of calls) {
    for (const id of idsOf(call)) asked.set(id, Math.min(asked.get(id) ?? call.from, call.from));
  }
  return asked;
}

/** What a settlement of this kind may make of a job without a cancel request. */
function becomes(kind: string, isLast: boolean): string[] {
  switch (kind) {
    case "retry":
      return [isLast ? "failed" : "retry"];
    case "suspended":
      return ["waiting", "pending"]; // what it waits for may have been said already
    case "released":
      return ["pending"];
    case "outage":
      // Of a job that has met very many, the attempt counts as any other.
      return ["pending", isLast ? "failed" : "retry"];
    default:
      return [kind];
  }
}

function outcomeOf(to: Change, isCrash: boolean, kinds: readonly string[]): string {
  if (isCrash) return "crashed";
  if (to.status === "waiting") return "suspended";
  if (to.status === "pending") return kinds.includes("suspended") ? "suspended" : "released";
  return to.status ?? "";
}

function push<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}
