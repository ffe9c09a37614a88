/** The limits of queues, with how much of each is in use. */
import { bareName } from "../core/name.ts";
import { isLimited, type Rule, type RuleKind } from "../limits/gates.ts";
import type { Rate } from "../limits/rates.ts";
import type { QueueRecord } from "./store.ts";

/** A limit, and how many jobs run under it. */
export interface LimitInUse {
  /** The name of the queue. */
  readonly queue: string;
  /** Of the queue, of each of its lanes, of one lane, or of one task in it. */
  readonly kind: RuleKind;
  /** The name of the lane or the task; null: it is of the queue or of each lane. */
  readonly name: string | null;
  /** How many jobs may run at once; null: any number. */
  readonly concurrency: number | null;
  /** How many may start in a period; null: any number. */
  readonly rate: Rate | null;
  /** How many jobs run under it. Of each lane: in the lane with the most. */
  readonly inUse: number;
}

/** Running jobs of one task in one lane of a queue. */
export interface Running {
  readonly queue: string;
  readonly task: string;
  readonly lane: string | null;
  readonly jobs: number;
}

export function limitsInUse(
  queues: readonly QueueRecord[],
  running: readonly Running[],
): LimitInUse[] {
  const byQueue = Map.groupBy(running, ({ queue }) => queue);
  return queues.flatMap(({ name: queue, rules }) =>
    rules.filter(isLimited).map((rule) => {
      const { kind, name, concurrency, rate } = rule;
      const inUse = usedBy(rule, byQueue.get(queue) ?? []);
      return { queue, kind, name: name === "" ? null : name, concurrency, rate, inUse };
    }),
  );
}

function usedBy({ kind, name }: Rule, running: readonly Running[]): number {
  switch (kind) {
    case "queue":
      return sum(running);
    case "lane":
      return sum(running.filter(({ lane }) => lane === name));
    case "task":
      return sum(running.filter(({ task }) => bareName(task) === name));
    case "lanes":
      return Math.max(0, ...[...Map.groupBy(running, ({ lane }) => lane).values()].map(sum));
  }
}

function sum(running: readonly Running[]): number {
  return running.reduce((all, { jobs }) => all + jobs, 0);
}
