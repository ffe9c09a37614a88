/**
 * Settle, claim and extend on MySQL and MariaDB.
 *
 * A turn of one queue is two round trips: one that locks the leases to settle and the jobs to claim, one that moves
 * them all and commits. In between, the fences are compared here, under the locks.
 */
import type { Fence, Settlement } from "../../core/job.ts";
import type { Claiming } from "../engine.ts";
import type { ClaimedJob, Extended, Settled } from "../store.ts";
import { allRows, numberIn } from "./answers.ts";
import { anyPending, claim, firstLook, pick } from "./claims.ts";
import { aboutLeases, current, extend, settle, type Locked } from "./leases.ts";
import type { Answer } from "./session.ts";
import type { Exchange, Sessions } from "./sessions.ts";
import { statements } from "./statements.ts";
import { fill } from "./text.ts";

export interface Turn {
  readonly settled: Settled[];
  readonly claimed: ClaimedJob[];
}

export class HotVerbs {
  readonly #sessions: Sessions;
  /** The clock of the database, as a statement. */
  readonly #readNow: () => string;

  constructor(sessions: Sessions, readNow: () => string) {
    this.#sessions = sessions;
    this.#readNow = readNow;
  }

  async settleAndClaim(settlements: readonly Settlement[], wanted: Claiming | null): Promise<Turn> {
    const claiming = wanted === null || wanted.tasks?.length === 0 ? null : wanted;
    // An idle worker looks with one read: no transaction, no locks.
    const idle = settlements.length === 0 && !(await this.#anyPending(claiming));
    if (idle) return { settled: [], claimed: [] };
    return this.#sessions.transaction((exchange) => this.#turn(exchange, settlements, claiming));
  }

  async extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    const extended = await this.#extend(fences, leaseMs, statements.lockFreeLeases);
    const known = new Set(extended.map(({ id }) => id));
    const missing = fences.filter(({ id }) => !known.has(id));
    if (missing.length === 0) return extended;
    // Most of these are lost. But whoever marks a lease for cancelling, say, locks it for a moment, and it is still ours.
    const ours = await this.#stillOurs(missing);
    if (ours.length === 0) return extended;
    return [...extended, ...(await this.#extend(ours, leaseMs, statements.lockLeases))];
  }

  async #anyPending(wanted: Claiming | null): Promise<boolean> {
    if (wanted === null) return false;
    const answers = await this.#sessions.read(anyPending(wanted), "arrays");
    return allRows(answers).length > 0;
  }

  async #turn(
    exchange: Exchange,
    settlements: readonly Settlement[],
    wanted: Claiming | null,
  ): Promise<Turn> {
    const nowAt = exchange.add(this.#readNow());
    const leasesAt = exchange.add(...aboutLeases(statements.lockLeases, settlements));
    // What is handed back in this turn may be claimed again in it; then claiming has to wait for settling.
    const handsBack = settlements.some(({ outcome }) => outcome.kind === "released");
    const look = wanted === null ? [] : firstLook(wanted);
    const lookAt = exchange.add(...(handsBack ? [] : look));
    const guardAt = exchange.add(...guardOf(wanted));
    const answers = await exchange.send("arrays");
    const now = numberIn(answers[nowAt]) as number;
    const rows = allRows<Locked>(answers.slice(leasesAt, lookAt));
    const settled = settle(exchange, settlements, { rows, now });
    const isDeposed = wanted?.guarded === true && allRows(answers.slice(guardAt)).length === 0;
    if (wanted === null || isDeposed) return { settled, claimed: [] };
    const looked = handsBack ? await sendLast(exchange, look) : answers.slice(lookAt, guardAt);
    const picked = await pick(exchange, wanted, looked);
    return { settled, claimed: await claim(exchange, wanted, { picked, now }) };
  }

  #extend(fences: readonly Fence[], leaseMs: number, locking: string): Promise<Extended[]> {
    return this.#sessions.transaction(async (exchange) => {
      const nowAt = exchange.add(this.#readNow());
      exchange.add(...aboutLeases(locking, fences));
      const answers = await exchange.send("arrays");
      const now = numberIn(answers[nowAt]) as number;
      const rows = allRows<Locked>(answers.slice(nowAt + 1));
      const extended = extend(exchange, fences, { rows, now, leaseMs });
      exchange.commit();
      await exchange.send("arrays");
      return extended;
    });
  }

  /** By what is committed, whoever has the rows locked. */
  async #stillOurs(fences: readonly Fence[]): Promise<Fence[]> {
    const answers = await this.#sessions.read(aboutLeases(statements.seeLeases, fences), "arrays");
    return current(fences, allRows<Locked>(answers)).map(({ fence }) => fence);
  }
}

function guardOf(wanted: Claiming | null): string[] {
  return wanted?.guarded === true ? [fill(statements.guard, wanted.worker)] : [];
}

/** Sends what was gathered and these; their answers come back. */
async function sendLast(exchange: Exchange, texts: readonly string[]): Promise<Answer[]> {
  const at = exchange.add(...texts);
  return (await exchange.send("arrays")).slice(at);
}
