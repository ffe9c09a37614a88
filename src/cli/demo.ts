/**
 * `holdfast demo`: a thousand orders, workers that are killed and frozen at random, and a proof at the end that nothing
 * was lost and nothing was done twice.
 */
import { Command } from "commander";
import { wholeNumber } from "./arguments.ts";
import type { DemoOptions } from "./demo/run.ts";
import type { Terminal } from "./terminal.ts";

export function demoCommand(terminal: Terminal): Command {
  return new Command("demo")
    .description("kill workers at random, and prove that nothing is lost or done twice")
    .option("--orders <n>", "how many orders", wholeNumber, 1_000)
    .option("--workers <n>", "how many worker processes", wholeNumber, 4)
    .option("--seed <n>", "repeats the plan of an earlier run", wholeNumber)
    .action(async (options: DemoOptions) => {
      const { runDemo } = await import("./demo/run.ts"); // Nobody else needs any of it.
      await runDemo(terminal, options);
    });
}
