/** The queues that have rules, as far as this process knows, and where its turns among their lanes stand. */
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { ClaimRules, RuledTurn } from "../jobs/hooks.ts";
import { markLanes } from "../jobs/place.ts";
import type { ClaimedJob, Claiming, CycleResult, LaneClaims, LockedJob } from "../jobs/store.ts";
import { claimGoverned, type Turn } from "./claim.ts";

export class GovernedQueues implements ClaimRules {
  readonly #engine: Engine;
  /** The lane that was visited last, by queue. */
  readonly #cursors = new Map<string, string>();
  /** How many lanes a queue has, if the last turn visited them all. */
  readonly #lanes = new Map<string, number>();
  #turns = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Queues with rules and all others take turns in claiming first: a backlog in one of them must not stop the other. */
  turnFor(claiming: Claiming): Ruled | null {
    const isKnown = (queue: string): boolean => this.#cursors.has(queue);
    const queues = claiming.queues.filter(isKnown);
    if (queues.length === 0) return null;
    this.#turns += 1;
    const ruled: Ruled = {
      plain: { ...claiming, queues: claiming.queues.filter((queue) => !isKnown(queue)) },
      visits: new Map(),
      turn: {
        first: this.#turns % 2 === 0,
        claim: (claims, places) => {
          // Places that the other queues have filled were those of free slots.
          const limit = Math.min(places, claiming.limit);
          const ahead = Math.min(limit, claiming.ahead ?? 0);
          return this.#claim(claims, { ...claiming, queues, limit, ahead }, ruled.visits);
        },
      },
    };
    return ruled;
  }

  after(cycle: CycleResult, ruled: RuledTurn | null): CycleResult {
    // Workers that start together must not all begin with the same lanes.
    for (const queue of cycle.governed) this.#cursors.set(queue, randomLane(this.#engine));
    if (ruled === null) return cycle;
    const free: string[] = [];
    const waits: number[] = [];
    for (const [queue, { cursor, reserved, lanes, lookInMs }] of (ruled as Ruled).visits) {
      if (lanes === null || lanes === undefined) this.#lanes.delete(queue);
      else this.#lanes.set(queue, lanes);
      if (lookInMs !== null) waits.push(lookInMs);
      if (cursor === null) free.push(queue);
      if (cursor === null) this.#cursors.delete(queue);
      // Otherwise another turn began behind this one.
      else if (reserved === undefined || this.#cursors.get(queue) === reserved) {
        this.#cursors.set(queue, cursor);
      }
    }
    const lookInMs = waits.length === 0 ? null : Math.min(...waits);
    return { ...cycle, governed: [...cycle.governed, ...free], lookInMs };
  }

  async useLanes(queues: readonly string[], tx?: Transaction): Promise<void> {
    const engine = this.#engine;
    const inTheirs = engine.kind === "sqlite" ? tx : undefined;
    for (const queue of new Set(queues)) {
      // Looked up every time: the row may have been deleted, or be missing in a restored backup.
      const [row] = await (inTheirs ?? engine).all(
        sql`select name from holdfast.queue where name = ${queue} and lanes = 1`,
      );
      if (row !== undefined) continue;
      if (inTheirs === undefined) await engine.transaction((own) => markLanes(engine, own, queue));
      else await markLanes(engine, inTheirs, queue);
    }
  }

  async #claim<J extends LockedJob>(
    claims: LaneClaims<J>,
    wanted: Claiming,
    visits: Map<string, Turn>,
  ): Promise<ClaimedJob[]> {
    const claimed: ClaimedJob[] = [];
    visits.clear(); // the transaction may run again
    for (const queue of inTurn([...new Set(wanted.queues)], this.#turns)) {
      const limit = wanted.limit - claimed.length;
      if (limit <= 0) break;
      const cursor = this.#cursors.get(queue) ?? "";
      const ahead = Math.min(limit, wanted.ahead ?? 0);
      const turn = await claimGoverned(this.#engine, claims, {
        ...wanted,
        queue,
        cursor,
        lanes: this.#lanes.get(queue) ?? null,
        limit,
        ahead,
        onLanes: (last) => void this.#cursors.set(queue, last),
      });
      claimed.push(...turn.claimed);
      visits.set(queue, turn);
    }
    return claimed;
  }
}

interface Ruled extends RuledTurn {
  /** What the turn found, by queue. */
  readonly visits: Map<string, Turn>;
}

/** Some text: where in the ring of lanes it falls does not matter. */
function randomLane({ runtime }: Engine): string {
  return Math.floor(runtime.random() * 36 ** 4).toString(36);
}

function inTurn(queues: readonly string[], turn: number): string[] {
  const first = queues.length === 0 ? 0 : turn % queues.length;
  return [...queues.slice(first), ...queues.slice(0, first)];
}
