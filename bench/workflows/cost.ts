/** What a change of one child costs: by the library, with each lock, and as the bare statements. */
import { randomBytes } from "node:crypto";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import type { Item } from "../../src/workflows/index.ts";
import { makeIds } from "../../src/core/id.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import type { StoredItem } from "../../src/workflows/item-record.ts";
import { progress } from "../figures.ts";
import type { SqlEngine } from "../fill.ts";
import { freshStatistics, scratchPlace, type Place } from "../places.ts";
import { expectCount } from "../questions/question.ts";
import { openIn, type Mode } from "./open.ts";
import { ACTOR, order, part } from "./order.ts";
import {
  after,
  Meaning,
  record,
  type Change,
  type ItemStanding,
  type Recording,
  type Standing,
} from "./recorded.ts";
import { openWire, type Wire } from "./wire.ts";
import type { Store } from "../../src/app/store.ts";

export type Kind = "move" | "update";
export const KINDS: readonly Kind[] = ["move", "update"];

/** Who makes the changes. */
export type Competitor = Mode | "bare";

export interface Costs {
  readonly engine: SqlEngine;
  readonly kind: Kind;
  /** Milliseconds a change, by round. */
  readonly by: ReadonlyMap<Competitor, readonly number[]>;
}

export interface CostOptions {
  readonly engine: SqlEngine;
  readonly modes: readonly Mode[];
  readonly rounds: number;
  /** Changes in one round. */
  readonly changes: number;
}

/** Changes one child, so many times in turn. */
type Runner = (kind: Kind, changes: number) => Promise<void>;

/** One after the other, in every round; who begins changes from round to round. */
export async function measureCosts(options: CostOptions): Promise<Costs[]> {
  const { engine, modes, rounds, changes } = options;
  await using place = await scratchPlace(engine);
  await using stack = new AsyncDisposableStack();
  const competitors = new Map<Competitor, Runner>();
  for (const mode of modes) {
    const holdfast = stack.use(await openIn(place.url, mode));
    competitors.set(mode, await libraryRunner(holdfast));
  }
  competitors.set("bare", await bareRunner(engine, place, stack));
  await freshStatistics(engine, place);
  const costs = KINDS.map((kind) => ({ engine, kind, by: new Map<Competitor, number[]>() }));
  for (let round = 0; round <= rounds; round += 1) {
    for (const { kind, by } of costs) {
      for (const [name, run] of turned([...competitors], round)) {
        const ms = await timed(changes, () => run(kind, changes));
        if (round > 0) by.set(name, [...(by.get(name) ?? []), ms]); // the first has everybody's code compiled
      }
    }
    progress(`${engine}: round ${round}/${rounds} of ${changes} changes each`);
  }
  return costs;
}

function turned<T>(list: readonly T[], by: number): T[] {
  const from = by % list.length;
  return [...list.slice(from), ...list.slice(0, from)];
}

async function timed(changes: number, body: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await body();
  return (performance.now() - startedAt) / changes;
}

type Part = Item<
  "here" | "there" | "gone",
  "go" | "return" | "leave",
  Record<string, unknown>,
  string
>;

/** An order with two parts: one that is changed, and one that keeps it open. */
async function startOrder({ workflows }: Holdfast): Promise<Part> {
  const parent = await workflows.start(order, { data: {}, actor: ACTOR });
  const parts = [
    { data: {}, parent },
    { data: {}, parent },
  ];
  const [first] = await workflows.startMany(part, parts, { actor: ACTOR });
  if (first === undefined) throw new Error("nothing was started");
  return first;
}

async function libraryRunner(holdfast: Holdfast): Promise<Runner> {
  let item = await startOrder(holdfast);
  let number = 0;
  return async (kind, changes) => {
    for (let made = 0; made < changes; made += 1) {
      number += 1;
      const patch = { number };
      if (kind === "update") item = await item.update(patch, { actor: ACTOR });
      else {
        const move = item.status === "here" ? "go" : "return";
        item = await item.move(move, { patch, actor: ACTOR });
      }
    }
  };
}

/** On an order of its own, which the library has started and finds as if it had changed it itself. */
async function bareRunner(
  engine: SqlEngine,
  place: Place,
  stack: AsyncDisposableStack,
): Promise<Runner> {
  const holdfast = stack.use(await openHoldfast(place.url, { redis: "" }));
  const { id, parent } = await startOrder(holdfast);
  const store = holdfast.store;
  const texts = new Map<Change, Recording>();
  for (const change of ["update", "go", "return"] as const) {
    texts.set(change, await record(store.db.engine, engine, change));
  }
  const wire = stack.use(await openWire(engine, place));
  const bare = new Bare(wire, texts, {
    parent: await find(store, parent ?? ""),
    child: await find(store, id),
    status: "here",
  });
  return async (kind, changes) => {
    for (let made = 0; made < changes; made += 1) await bare.change(kind);
    expectCount("changed", (await find(store, id)).revision, bare.standing.child.revision);
    expectCount(
      "touched",
      (await find(store, parent ?? "")).revision,
      bare.standing.parent.revision,
    );
  };
}

async function find(store: Store, id: string): Promise<ItemStanding> {
  const found = (await store.items.find(id)) as StoredItem;
  const { revision, auditSeq, auditHash, updatedAt, enteredAt } = found;
  return { id, revision, auditSeq, auditHash, updatedAt, enteredAt };
}

const NOTHING: Recording = { statements: [], hash: "" };

class Bare {
  readonly #wire: Wire;
  readonly #texts: ReadonlyMap<Change, Recording>;
  readonly #newId = makeIds(systemRuntime);
  standing: Standing;
  #number = 0;

  constructor(wire: Wire, texts: ReadonlyMap<Change, Recording>, standing: Standing) {
    this.#wire = wire;
    this.#texts = texts;
    this.standing = standing;
  }

  async change(kind: Kind): Promise<void> {
    const change = kind === "update" ? kind : this.standing.status === "here" ? "go" : "return";
    const recording = this.#texts.get(change) ?? NOTHING;
    const { parent, child } = this.standing;
    this.#number += 1;
    const news = {
      change: this.#newId(),
      hash: randomBytes(32).toString("hex"),
      // As the library reckons: no two stays in a state begin at once.
      at: Math.max(Date.now(), parent.updatedAt, child.enteredAt + 1),
      number: this.#number,
    };
    const meaning = new Meaning(recording, this.standing, news);
    await this.#wire.send(recording.statements, meaning);
    this.standing = after(this.standing, change, news);
  }
}
