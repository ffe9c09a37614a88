/**
 * One system in a process of its own: its memory, its compiled code and its mistakes are its own. Started by
 * competitors.ts with the system's name; carries out one order at a time.
 */
import { drain } from "./questions/drain.ts";
import { enqueue } from "./questions/enqueue.ts";
import { pickup } from "./questions/pickup.ts";
import type { Figures, Order, Question } from "./questions/question.ts";
import { SYSTEMS } from "./systems/all.ts";
import { keyOf, type QuestionName, type System } from "./systems/system.ts";

export type Answer = { readonly figures: Figures } | { readonly problem: string };

const QUESTIONS: Readonly<Record<QuestionName, Question>> = { enqueue, drain, pickup };

function chosen(key: string | undefined): System {
  const system = SYSTEMS.find((each) => keyOf(each) === key);
  if (system === undefined) throw new Error(`There is no system '${key}'.`);
  return system;
}

async function answer(system: System, order: Order): Promise<Answer> {
  try {
    return { figures: await QUESTIONS[order.question](system, order) };
  } catch (error) {
    const problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { problem };
  }
}

const system = chosen(process.argv[2]);
process.on("message", (order: Order) => {
  void answer(system, order).then((said) => process.send?.(said));
});
process.on("disconnect", () => process.exit());
