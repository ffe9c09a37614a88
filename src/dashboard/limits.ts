/** Limits of queues with how much of each is in use. */
import { bareName } from "../core/name.ts";
import type { Rate } from "../limits/rate.ts";
import { isLimited, type Rule, type RuleKind } from "../limits/rules.ts";
import type { QueueRecord } from "../queues/store.ts";
import type { Running } from "./store.ts";

export interface LimitInUse {
  readonly queue: string;
  readonly kind: RuleKind;
  readonly name: string | null;
  readonly concurrency: number | null;
  readonly rate: Rate | null;
  readonly inUse: number;
}

export function limitsOf(
  queues: readonly QueueRecord[],
  running: readonly Running[],
): LimitInUse[] {
  return queues.flatMap(({ name: queue, rules }) => {
    const here = running.filter((one) => one.queue === queue);
    return rules.filter(isLimited).map((rule) => {
      const { kind, name, concurrency, rate } = rule;
      const inUse = usedBy(rule, here);
      return { queue, kind, name: name === "" ? null : name, concurrency, rate, inUse };
    });
  });
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
