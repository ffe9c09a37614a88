/**
 * Follows every job from table to table, as the witness recorded it: I3 (epochs), I4 (leases), I5 (fence), I8 (moves).
 *
 * For one job the order of the witness is the order of its moves, because a move locks the row.
 */
import type { Columns, Table, Violation, Witnessed } from "./history.ts";

/** The allowed moves, repeated here so that a mistake in the product's table is noticed. */
const EDGES: Readonly<Record<string, readonly string[]>> = {
  nowhere: ["pending", "scheduled", "waiting"],
  scheduled: ["pending", "cancelled"],
  pending: ["processing", "cancelled"],
  processing: ["done", "failed", "cancelled", "retry", "waiting", "pending"],
  retry: ["pending", "cancelled"],
  waiting: ["pending", "cancelled"],
  done: [],
  failed: [],
  cancelled: [],
};

/** The time under one lease. */
export interface Holding {
  readonly epoch: number;
  readonly worker: string;
  readonly claimedAt: number;
  leftAt: number | null;
  lockedUntil: number;
}

interface Standing {
  readonly table: Table;
  readonly columns: Columns;
}

interface Followed {
  readonly standings: Standing[];
  status: string;
  epoch: number;
  attempts: number;
  tx: string | null;
  readonly holdings: Holding[];
  readonly stepsDone: Map<string, number>;
}

const STATES = new Set<Table>(["ready", "waiting", "lease", "finished"]);

export class Positions {
  readonly violations: Violation[] = [];
  readonly #jobs = new Map<string, Followed>();
  readonly #edges = new Map<string, number>();
  readonly claims: number[] = [];
  seen = 0;

  /** When the job was claimed, by which worker and for how long. */
  holdings(job: string): readonly Holding[] {
    return this.#jobs.get(job)?.holdings ?? [];
  }

  /** The epoch in which a step was done; undefined: it never was. */
  stepDone(job: string, step: string): number | undefined {
    return this.#jobs.get(job)?.stepsDone.get(step);
  }

  get edges(): ReadonlyMap<string, number> {
    return this.#edges;
  }

  *all(): Iterable<[string, readonly Holding[]]> {
    for (const [job, { holdings }] of this.#jobs) yield [job, holdings];
  }

  see(row: Witnessed): void {
    this.seen += 1;
    const columns = (row.after ?? row.before) as Columns;
    const id = String(columns[STATES.has(row.table) ? "id" : "job_id"]);
    const job = this.#follow(id);
    if (row.table === "step") this.#seeStep(id, job, row);
    else if (row.table === "ledger") this.#seeWrite(id, job, columns, "a row of ctx.commit");
    else if (row.table === "report") this.#seeWrite(id, job, columns, "a report");
    else this.#seeMove(id, job, row);
  }

  /** Called after the last change. */
  end(): void {
    for (const [id, job] of this.#jobs) this.#checkBetween(id, job);
  }

  #follow(id: string): Followed {
    const known = this.#jobs.get(id);
    if (known !== undefined) return known;
    const job: Followed = {
      standings: [],
      status: "nowhere",
      epoch: 0,
      attempts: 0,
      tx: null,
      holdings: [],
      stepsDone: new Map(),
    };
    this.#jobs.set(id, job);
    return job;
  }

  #seeMove(id: string, job: Followed, row: Witnessed): void {
    if (job.tx !== null && row.tx !== job.tx) this.#checkBetween(id, job);
    job.tx = row.tx;
    const { table, before, after } = row;
    if (before !== null) {
      const at = job.standings.findIndex((standing) => standing.table === table);
      if (at === -1) this.#violate("I8", id, `left ${table}, where it did not stand`);
      else job.standings.splice(at, 1);
    }
    if (after !== null) job.standings.push({ table, columns: after });
    if (table === "lease") this.#seeLease(id, job, row);
    const [standing, ...others] = job.standings;
    if (standing !== undefined && others.length === 0) this.#arrive(id, job, standing);
  }

  /** Between two transactions a job stands in one table. */
  #checkBetween(id: string, { standings }: Followed): void {
    if (standings.length === 1) return;
    const where = standings.map(({ table }) => table).join(" and ") || "no table";
    this.#violate("I8", id, `stood in ${where} between two transactions`);
  }

  #seeLease(id: string, job: Followed, { at, before, after }: Witnessed): void {
    const now = after ?? before;
    const holding = job.holdings.at(-1);
    if (before === null && now !== null) {
      const epoch = Number(now["epoch"]);
      if (epoch !== job.epoch + 1)
        this.#violate("I3", id, `was claimed at epoch ${epoch} after ${job.epoch}`);
      if (holding?.leftAt === null)
        this.#violate("I4", id, `has two leases at once, of ${holding.worker} and another`);
      job.epoch = epoch;
      job.attempts = Number(now["attempts"]);
      this.claims.push(at);
      const worker = String(now["locked_by"]);
      const lockedUntil = Number(now["locked_until"]);
      job.holdings.push({ epoch, worker, claimedAt: at, leftAt: null, lockedUntil });
    } else if (holding !== undefined && now !== null) {
      const lockedUntil = Number(now["locked_until"]);
      if (Number(now["epoch"]) !== holding.epoch || now["locked_by"] !== holding.worker)
        this.#violate("I5", id, `changed hands within epoch ${holding.epoch}`);
      if (lockedUntil < holding.lockedUntil)
        this.#violate("I4", id, `has a lease that was shortened at epoch ${holding.epoch}`);
      holding.lockedUntil = lockedUntil;
      if (after === null) holding.leftAt = at;
    }
  }

  #arrive(id: string, job: Followed, { table, columns }: Standing): void {
    const status = statusOf(table, columns);
    const epoch = Number(columns["epoch"]);
    if (epoch !== job.epoch)
      this.#violate("I5", id, `became ${status} with epoch ${epoch}, its epoch is ${job.epoch}`);
    if (status === job.status) return;
    const edge = `${job.status} → ${status}`;
    this.#edges.set(edge, (this.#edges.get(edge) ?? 0) + 1);
    if (EDGES[job.status]?.includes(status) !== true) this.#violate("I8", id, `moved ${edge}`);
    if (status === "done" && columns["worker"] !== job.holdings.at(-1)?.worker)
      this.#violate("I5", id, `was finished by ${columns["worker"]}, who did not own it`);
    job.status = status;
  }

  #seeStep(id: string, job: Followed, { before, after }: Witnessed): void {
    if (after === null) return;
    // A person may resolve a step in doubt without holding the job.
    if (before?.["status"] !== "doubt") this.#seeWrite(id, job, after, `step ${after["name"]}`);
    if (after["status"] !== "done") return;
    const step = `${after["name"]}/${after["occurrence"]}`;
    if (job.stepsDone.has(step)) this.#violate("I11", id, `made step ${step} twice`);
    job.stepsDone.set(step, Number(after["epoch"]));
  }

  /** Only the holder of the job writes about it. */
  #seeWrite(id: string, job: Followed, columns: Columns, what: string): void {
    const epoch = Number(columns["epoch"]);
    const held = job.standings.some(({ table }) => table === "lease");
    if (!held || epoch !== job.epoch)
      this.#violate("I5", id, `${what} was written at epoch ${epoch}, its epoch is ${job.epoch}`);
  }

  #violate(invariant: string, job: string, sentence: string): void {
    this.violations.push({ invariant, job, sentence });
  }
}

function statusOf(table: Table, columns: Columns): string {
  if (table === "ready") return "pending";
  if (table === "lease") return "processing";
  return String(columns["status"]);
}
