/** One of the processes of a race: it has its database open in every way that is raced in, and changes what it is told. */
import { act } from "./act.ts";
import type { Tree } from "./check.ts";
import { openIn, type Mode } from "./open.ts";
import type { Op, Result } from "./plan.ts";

export interface RacerConfig {
  readonly url: string;
  readonly redis: string | null;
  readonly modes: readonly Mode[];
  readonly process: number;
  /** How many changes it has under way at once. */
  readonly clients: number;
}

export interface Round {
  readonly mode: Mode;
  readonly tree: Tree;
  readonly ops: readonly Op[];
}

const config = JSON.parse(process.argv[2] ?? "") as RacerConfig;
const opened = await Promise.all(config.modes.map(async (mode) => openIn(config, mode)));

async function run({ mode, tree, ops }: Round): Promise<Result[]> {
  const holdfast = opened[config.modes.indexOf(mode)];
  if (holdfast === undefined) throw new Error(`This process has nothing open with locks ${mode}.`);
  const actor = { workflows: holdfast.workflows, process: config.process };
  const left = ops.values();
  const results: Result[] = [];
  const client = async (): Promise<void> => {
    for (const op of left) results.push(await act(actor, tree, op));
  };
  await Promise.all(Array.from({ length: config.clients }, client));
  return results;
}

process.on("message", (round: Round) => void run(round).then((results) => process.send?.(results)));
process.on("disconnect", () => void Promise.all(opened.map((holdfast) => holdfast.close())));
process.send?.("ready");
