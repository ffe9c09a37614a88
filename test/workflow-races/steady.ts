/** A process that changes items for as long as it is not told to stop, and tells what became of each change. */
import { act } from "./act.ts";
import type { Tree } from "./check.ts";
import { impatient } from "./impatient.ts";
import { openIn } from "./open.ts";
import type { Op, Result } from "./plan.ts";

export interface SteadyConfig {
  readonly url: string;
  readonly redis: string;
  readonly process: number;
  readonly clients: number;
  readonly trees: readonly Tree[];
}

export interface Told {
  /** Which of the trees. */
  readonly tree: number;
  readonly result: Result;
}

const config = JSON.parse(process.argv[2] ?? "") as SteadyConfig;
const { trees, clients } = config;
const holdfast = await openIn(config, "redis");
const actor = { workflows: impatient(holdfast), process: config.process };
const KINDS = ["patch", "patch", "patch", "patch", "both", "parent", "bulk"] as const;
let made = 0;
const stopping = new AbortController();

function drawn(below: number): number {
  return Math.floor(Math.random() * below);
}

function nextOp({ children }: Tree): Op {
  made += 1;
  const key = `p${config.process}n${made}`;
  const kind = KINDS[drawn(KINDS.length)] ?? "patch";
  const child = drawn(children.length);
  if (kind === "parent") return { kind, key };
  if (kind === "bulk") return { kind, key, children: [child, (child + 1) % children.length] };
  return { kind, key, child };
}

async function client(): Promise<void> {
  while (!stopping.signal.aborted) {
    const tree = drawn(trees.length);
    const at = trees[tree] as Tree;
    const told: Told = { tree, result: await act(actor, at, nextOp(at)) };
    process.send?.(told);
  }
}

process.once("disconnect", () => process.exit(1)); // the test is gone
process.once("message", () => stopping.abort());
await Promise.all(Array.from({ length: clients }, client));
await holdfast.close();
process.removeAllListeners("disconnect");
process.disconnect?.();
