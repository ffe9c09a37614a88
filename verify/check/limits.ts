/**
 * The limits of a queue held at every commit, and none of them leaked: I12.
 *
 * A claim inserts its leases under the lock of the limit, which it holds until its commit. So in the order of the witness, no
 * claim comes before the commits of earlier ones. An end that is not committed yet is counted as an end here and as a running
 * job by the claim: the checker errs on the lenient side, the product on the safe one.
 */
import type { Columns, History, Rules, Violation, Witnessed } from "./history.ts";
import { gatherDeaths } from "./recovery.ts";

/** The database's clock and ours, on one host, differ by less than this. */
const CLOCKS_MS = 500;

/** A worker may be frozen between its look at the clock and its commit. */
const CLAIM_MS_MAX = 30_000;

interface Live {
  readonly lane: string;
  /** It was claimed after all workers had been killed. */
  readonly isLater: boolean;
}

/** What a run shows about the limits. */
export interface Governed {
  /** How many jobs of the queue started. */
  readonly starts: number;
  /** The most at once, in the queue and in one lane. */
  readonly most: number;
  readonly mostOfLane: number;
  /** From kill -9 of all workers until the limit was reached again; null: it was not, or none were killed. */
  readonly fullAfterMs: number | null;
}

export class LimitsCheck {
  readonly violations: Violation[] = [];
  readonly #rules: Rules | null;
  /** The lane of each job of the queue, as the job says it. */
  readonly #lanes = new Map<string, string>();
  readonly #live = new Map<string, Live>();
  readonly #starts: number[] = [];
  readonly #killedAt: number | null;
  readonly #killed: ReadonlySet<string>;
  #most = 0;
  #mostOfLane = 0;
  #fullAt: number | null = null;

  constructor({ rules, rows, said }: Pick<History, "rules" | "rows" | "said">) {
    this.#rules = rules;
    for (const { id, payload } of rows.jobs) {
      const { lane } = JSON.parse(payload) as { lane?: string };
      if (lane !== undefined) this.#lanes.set(id, lane);
    }
    const fault = said.find((one) => one.f === "fault" && one.kind === "kill-all");
    this.#killedAt = fault?.at ?? null;
    this.#killed = new Set(gatherDeaths(said).keys());
  }

  get governed(): Governed {
    const [killedAt, fullAt] = [this.#killedAt, this.#fullAt];
    return {
      starts: this.#starts.length,
      most: this.#most,
      mostOfLane: this.#mostOfLane,
      fullAfterMs: killedAt === null || fullAt === null ? null : Math.max(0, fullAt - killedAt),
    };
  }

  see(row: Witnessed): void {
    if (this.#rules === null) return;
    const columns = (row.after ?? row.before) as Columns;
    if (columns["queue"] !== this.#rules.queue) return;
    const id = String(columns["id"]);
    if (row.after !== null && row.table !== "finished") this.#checkLane(id, row);
    if (row.table !== "lease") return;
    if (row.after === null) this.#live.delete(id);
    else if (row.before === null) this.#start(id, row, this.#rules);
  }

  /** Called after the last change. */
  end(): void {
    if (this.#rules === null) return;
    this.#checkRate(this.#rules.rate);
    if (this.#killedAt === null || this.#fullAt !== null) return;
    const sentence = `after kill -9 of all workers, ${this.#rules.concurrency} jobs of ${this.#rules.queue} never ran at once again`;
    this.violations.push({ invariant: "I12", sentence });
  }

  /** A job that leaves its lane escapes its limits, and one without a lane is not counted. */
  #checkLane(id: string, { table, after }: Witnessed): void {
    const lane = this.#lanes.get(id);
    if (lane === undefined || after?.["lane"] === lane) return;
    const shown = JSON.stringify(after?.["lane"]);
    this.#violate(id, `of lane ${lane} stood in ${table} with lane ${shown}`);
  }

  #start(id: string, { at, after }: Witnessed, rules: Rules): void {
    const claimedAt = Number(after?.["claimed_at"]);
    if (claimedAt > at + CLOCKS_MS || claimedAt < at - CLAIM_MS_MAX)
      this.#violate(id, `started ${claimedAt - at} ms off the database's clock`);
    this.#starts.push(claimedAt);
    const lane = this.#lanes.get(id) ?? "";
    const isLater =
      this.#killedAt !== null &&
      at >= this.#killedAt - CLOCKS_MS &&
      !this.#killed.has(String(after?.["locked_by"]));
    this.#live.set(id, { lane, isLater });
    const live = [...this.#live.values()];
    const ofLane = live.filter((one) => one.lane === lane).length;
    this.#most = Math.max(this.#most, live.length);
    this.#mostOfLane = Math.max(this.#mostOfLane, ofLane);
    if (live.length > rules.concurrency)
      this.#violate(id, `was one of ${live.length} at once, allowed ${rules.concurrency}`);
    if (ofLane > rules.laneConcurrency)
      this.#violate(id, `was one of ${ofLane} of lane ${lane}, allowed ${rules.laneConcurrency}`);
    if (live.filter((one) => one.isLater).length === rules.concurrency) this.#fullAt ??= at;
  }

  /** In any time W at most `burst + W / T` starts, T being the time that one start costs. */
  #checkRate({ count, periodMs, burst }: Rules["rate"]): void {
    const cost = periodMs / count;
    const starts = this.#starts.toSorted((a, b) => a - b);
    // Of all windows that end with a start, the tightest begins where this is least.
    let least = Number.POSITIVE_INFINITY;
    for (const [index, at] of starts.entries()) {
      least = Math.min(least, index * cost - at);
      const tooMany = (index + 1) * cost - at - burst * cost - least;
      if (tooMany <= 0) continue;
      const sentence = `a start at ${at} was ${Math.ceil(tooMany)} ms too early for the rate`;
      this.violations.push({ invariant: "I12", sentence });
    }
  }

  #violate(job: string, sentence: string): void {
    this.violations.push({ invariant: "I12", job, sentence });
  }
}
