/** An order that does everything a task can keep, and a place outside the database that counts what was done. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { type AnyTask, defineEvent, defineTask, type Holdfast } from "../../src/index.ts";
import { testClock } from "../../src/testing/index.ts";
import { drain } from "../../src/testing/drain.ts";

export const packed = defineEvent<{ tracking: string }>({ name: "packed" });
export const KEY = "order-42";
export const RESULT = { cents: 1999, paid: "charge", weight: 4, tracking: "x" };

/** When the victim lives, and when the next process does: every lease has ended by then. */
export const VICTIM_AT = Date.UTC(2027, 0, 1);
export const NEXT_AT = Date.UTC(2028, 0, 1);

/** Lines that survive the process that wrote them. */
export class Ledger {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  add(line: string): void {
    appendFileSync(this.#path, `${line}\n`);
  }

  lines(): string[] {
    return existsSync(this.#path) ? readFileSync(this.#path, "utf8").split("\n").slice(0, -1) : [];
  }
}

/** `point` is told of every moment inside of the task's own functions. */
export function orderTasks(ledger: Ledger, point: (name: string) => void): AnyTask[] {
  const act = (line: string): void => {
    point(`before ${line}`);
    ledger.add(line);
    point(`after ${line}`);
  };
  const weigh = defineTask({
    name: "weigh",
    run(items: number) {
      act("weigh");
      return items * 2;
    },
  });
  const ship = defineTask({
    name: "ship",
    retry: { maxAttempts: 50, backoff: { initial: "1s", max: "1s" } },
    async run(_order: null, ctx) {
      const cents = await ctx.step("quote", () => {
        act("quote");
        return 1999;
      });
      const paid = await ctx.effect(
        "charge",
        ({ key }) => {
          act(key.replace(ctx.id, "effect"));
          return "charge";
        },
        {
          verify: ({ key }) =>
            ledger.lines().includes(key.replace(ctx.id, "effect")) ? "charge" : null,
        },
      );
      await ctx.commit("book", async (tx) => {
        point("before book");
        await tx.query("insert into shipment (number) values (1)");
        point("after book");
      });
      await ctx.sleep("cooling off", "10m");
      const { tracking } = await ctx.event(packed, KEY);
      const weight = await ctx.call(weigh, 2);
      return { cents, paid, weight, tracking };
    },
  });
  return [ship, weigh];
}

/** Runs until the order waits for its event, says it, and runs to the end. */
export async function carryOut(holdfast: Holdfast, tasks: readonly AnyTask[]): Promise<void> {
  await drain(holdfast, tasks, { skipTime: true });
  await holdfast.emit(packed, KEY, { tracking: "x" });
  await drain(holdfast, tasks, { skipTime: true });
}

export { testClock };
