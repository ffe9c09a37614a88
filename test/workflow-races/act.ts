/** Carries out what a plan says, and notes what became of it. */
import { HoldfastError } from "../../src/index.ts";
import { ItemChangedError, type Workflows } from "../../src/workflows/index.ts";
import type { Tree } from "./check.ts";
import type { Op, Result } from "./plan.ts";
import { order, part } from "./workflows.ts";

/** How often a counter tries: faster processes are done by then. */
const COUNT_TRIES_MAX = 500;
const NS_PER_MS = 1e6;

export interface Actor {
  readonly workflows: Workflows;
  readonly process: number;
}

export async function act({ workflows, process }: Actor, tree: Tree, op: Op): Promise<Result> {
  const from = hostMs();
  const result = (outcome: string, message?: string): Result => ({
    op,
    process,
    from,
    to: hostMs(),
    outcome,
    ...(message === undefined ? {} : { message }),
  });
  try {
    await carryOut(workflows, { tree, op, actor: `racer ${process}` });
    return result("accepted");
  } catch (error) {
    if (!(error instanceof HoldfastError)) return result("UNKNOWN", String(error));
    return result(error.code, error.message);
  }
}

/** All processes of a host have the same. */
export function hostMs(): number {
  return Number(process.hrtime.bigint()) / NS_PER_MS;
}

interface Doing {
  readonly tree: Tree;
  readonly op: Op;
  readonly actor: string;
}

async function carryOut(workflows: Workflows, { tree, op, actor }: Doing): Promise<void> {
  const field = { [op.key]: 1 };
  const child = (at: number): string => tree.children[at] ?? "";
  switch (op.kind) {
    case "patch": {
      const expect = op.expect === undefined ? {} : { expect: op.expect };
      const change = { patch: field, actor, ...expect };
      return void (await workflows.updateChild(part, child(op.child), change));
    }
    case "begin":
    case "finish":
      return void (await workflows.updateChild(part, child(op.child), {
        move: op.kind,
        patch: field,
        actor,
      }));
    case "both":
      return void (await workflows.updateChild(part, child(op.child), {
        patch: field,
        parent: { patch: field },
        actor,
      }));
    case "parent":
      return void (await workflows.change(order, tree.parent, { patch: field, actor }));
    case "count":
      return count(workflows, child(op.child), actor);
    case "bulk":
    case "half": {
      const last = op.kind === "half" ? op.children.at(-1) : undefined;
      const changes = op.children.map((at) => ({
        id: child(at),
        patch: field,
        ...(at === last ? { move: "unpark" as const } : {}),
      }));
      return void (await workflows.updateChildren(part, tree.parent, changes, { actor }));
    }
    case "illegal":
      return void (await workflows.updateChild(part, child(op.child), {
        move: "unpark",
        patch: field,
        actor,
      }));
  }
}

async function count(workflows: Workflows, id: string, actor: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const { data, revision } = await workflows.item(part, id);
    const next = Number(data["count"] ?? 0) + 1;
    try {
      await workflows.updateChild(part, id, { patch: { count: next }, expect: revision, actor });
      return;
    } catch (error) {
      if (!(error instanceof ItemChangedError) || tries >= COUNT_TRIES_MAX) throw error;
    }
  }
}
