/**
 * Time and order in a simulation: one queue of everything that can happen next.
 *
 * A moment is a timer, a call that reaches the database, an answer that comes back, a hint. They happen one after the
 * other; of those that are due at the same instant, chance picks. Whatever a moment sets in motion has come to rest before
 * the next, because nothing here waits for anything real: so the seed decides everything.
 */
import type { Timer } from "../../src/core/runtime.ts";
import { Chance } from "./chance.ts";
import type { Coverage } from "./coverage.ts";
import type { Trace } from "./trace.ts";

/** Where every simulation begins: a whole second in January 2027. */
export const START_AT = 1_800_000_000_000;

/** More moments than this are a loop that never waits. */
const MOMENTS_MAX = 150_000;

/** Owns moments: nothing happens to an owner that is paused or dead. */
export interface Owner {
  readonly name: string;
  readonly life: "up" | "paused" | "dead";
  /** What happened to it while it was paused. */
  readonly backlog: Moment[];
}

export interface Moment {
  at: number;
  /** Decides among those that are due at the same instant. */
  turn: number;
  readonly number: number;
  readonly owner: Owner;
  readonly label: string;
  readonly call: () => void;
  isCancelled: boolean;
}

/** Nothing ever happens to the world itself. */
export const noMachine: Owner = { name: "world", life: "up", backlog: [] };

export class World {
  readonly seed: number;
  readonly trace: Trace;
  readonly coverage: Coverage;
  /** Milliseconds since the beginning. */
  nowMs = 0;
  /** How many moments have been made so far. */
  #made = 0;
  #happened = 0;
  #isOver = false;
  readonly #order: Chance;
  readonly #queue: Moment[] = [];

  constructor(parts: { seed: number; trace: Trace; coverage: Coverage }) {
    this.seed = parts.seed;
    this.trace = parts.trace;
    this.coverage = parts.coverage;
    this.#order = new Chance(parts.seed, "order");
  }

  get happened(): number {
    return this.#happened;
  }

  /** By the clock that the database has. */
  get databaseNow(): number {
    return START_AT + Math.floor(this.nowMs);
  }

  chance(stream: string): Chance {
    return new Chance(this.seed, stream);
  }

  after(ms: number, owner: Owner, label: string, call: () => void): Timer {
    const moment: Moment = {
      at: this.nowMs + ms,
      turn: this.#order.draw(),
      number: this.#made,
      owner,
      label,
      call,
      isCancelled: false,
    };
    this.#made += 1;
    push(this.#queue, moment);
    return { cancel: () => void (moment.isCancelled = true) };
  }

  /** What waited for its owner happens from now on, in whatever order. */
  release(owner: Owner): void {
    for (const moment of owner.backlog.splice(0)) {
      if (moment.isCancelled) continue;
      moment.at = this.nowMs;
      moment.turn = this.#order.draw();
      push(this.#queue, moment);
    }
  }

  /** Nothing happens any more after the moment that is happening. */
  end(): void {
    this.#isOver = true;
  }

  async run(): Promise<void> {
    await atRest();
    while (!this.#isOver) {
      const moment = pop(this.#queue);
      if (moment === undefined) return;
      if (moment.isCancelled || moment.owner.life === "dead") continue;
      this.nowMs = Math.max(this.nowMs, moment.at);
      if (moment.owner.life === "paused") {
        moment.owner.backlog.push(moment);
        continue;
      }
      this.#happened += 1;
      if (this.#happened > MOMENTS_MAX)
        throw new Error(`More than ${MOMENTS_MAX} moments: something never waits.`);
      this.trace.moment(moment, this.nowMs);
      moment.call();
      await atRest();
    }
  }
}

/** Every promise that can go on has gone on. */
function atRest(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

// ── A heap: the earliest moment first ────────────────────────────────────────────────────────────

function isBefore(a: Moment, b: Moment): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.turn === b.turn ? a.number < b.number : a.turn < b.turn;
}

function push(heap: Moment[], moment: Moment): void {
  let at = heap.length;
  heap.push(moment);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent] as Moment;
    if (!isBefore(moment, above)) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = moment;
}

function pop(heap: Moment[]): Moment | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    const right = heap[child + 1];
    if (right !== undefined && isBefore(right, heap[child] as Moment)) child += 1;
    const below = heap[child] as Moment;
    if (!isBefore(below, last)) break;
    heap[at] = below;
    at = child;
  }
  heap[at] = last;
  return first;
}
