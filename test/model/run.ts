/**
 * Runs generated commands against a store and the model, and finds the shortest sequence on which they
 * disagree. Any engine can be given: all it takes is a way to open an empty store on our clock.
 */
import * as fc from "fast-check";
import type { Model } from "./model.ts";
import { World, type OpenStore } from "./world.ts";
import { commands } from "./commands.ts";

export interface Plan {
  readonly runs: number;
  readonly commandsMax: number;
  /** The same seed gives the same runs. */
  readonly seed: number;
  /** Only this run of the seed, from a failure's report; null: all of them. */
  readonly path: string | null;
  /** The command that runs this plan again, for the report of a failure. */
  readonly command: string;
}

/** What the runs met, and how often. */
export type Tally = ReadonlyMap<string, number>;

export async function runModel(open: OpenStore, plan: Plan): Promise<Tally> {
  const tally = new Map<string, number>();
  const sequences = fc.commands(commands, { maxCommands: plan.commandsMax, size: "max" });
  const property = fc.asyncProperty(sequences, (sequence) => runOnce(open, sequence, tally));
  const details = await fc.check(property, {
    seed: plan.seed,
    ...(plan.path === null ? { numRuns: plan.runs } : { numRuns: 1, path: plan.path }),
  });
  if (details.failed) throw new Error(report(details, plan.command));
  return tally;
}

async function runOnce(
  open: OpenStore,
  sequence: Iterable<fc.AsyncCommand<Model, World>>,
  tally: Map<string, number>,
): Promise<void> {
  const world = await World.open(open, tally);
  try {
    await fc.asyncModelRun(() => ({ model: world.model, real: world }), sequence);
    await world.sameState("all");
    world.saw("a run");
    world.saw("a call", world.calls.length);
  } catch (error) {
    const told = error instanceof Error ? error.message : String(error);
    throw new Error(`${told}\n\nThe calls so far:\n  ${world.calls.join("\n  ")}`, {
      cause: error,
    });
  } finally {
    await world.store.close();
  }
}

/** The first number of the path is the run; from there the same shrinking leads to the same end. */
function report<T>(details: fc.RunDetails<T>, command: string): string {
  const run = details.counterexamplePath?.split(":")[0] ?? "0";
  const cause = details.errorInstance;
  return [
    `The store and the model disagree (run ${run} of seed ${details.seed}, made shorter`,
    `${details.numShrinks} times). Replay it with`,
    `  HOLDFAST_SEED=${details.seed} HOLDFAST_PATH=${run} ${command}`,
    "",
    cause instanceof Error ? cause.message : String(cause),
  ].join("\n");
}
