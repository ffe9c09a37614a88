/** Compares what every operation returns with its shape: a field that the shape does not name is refused. */
import { globSync } from "node:fs";
import { join } from "node:path";
import type { z } from "zod";
import type { Operation } from "../../src/operations/operation.ts";
import { zodOf } from "../../src/operations/route.ts";
import type { Node } from "../../src/operations/shape.ts";

const SRC = join(import.meta.dirname, "../../src");

/** The same shape without unknown fields, except in objects that keep them. */
function strictOf(node: Node): Node {
  switch (node.kind) {
    case "object": {
      const fields = Object.entries(node.fields).map(
        ([name, one]) => [name, strictOf(one)] as const,
      );
      return { ...node, fields: Object.fromEntries(fields), others: node.others ?? "refused" };
    }
    case "union":
      return { ...node, of: node.of.map(strictOf) };
    case "about":
      return strictOf(node.of); // Its name is taken.
    case "list":
    case "map":
    case "optional":
    case "nullable":
      return { ...node, of: strictOf(node.of) };
    default:
      return node;
  }
}

export async function allOperations(): Promise<Operation<never>[]> {
  const files = globSync("*/*operations.ts", { cwd: SRC }).toSorted();
  const modules = await Promise.all(files.map((file) => import(join(SRC, file))));
  const found = modules.flatMap((module) =>
    Object.values(module as object).flatMap((one: object) => Object.values(one)),
  );
  const operations = found.flat().filter((one): one is Operation<never> => isOperation(one));
  return [...new Set(operations)];
}

function isOperation(one: unknown): boolean {
  return typeof one === "object" && one !== null && "returns" in one && "run" in one;
}

export interface Checked {
  readonly ran: Set<string>;
  /** What did not fit. */
  readonly misfits: string[];
}

/** From now on, every result of these operations is checked, whichever surface asked. */
export function checkResults(operations: readonly Operation<never>[]): Checked {
  const checked: Checked = { ran: new Set(), misfits: [] };
  for (const operation of operations) {
    const { name, result } = operation;
    const run = operation.run.bind(operation);
    const schema: z.ZodType = zodOf({ node: strictOf(result.node) });
    operation.run = async (...given) => {
      const returned = await run(...given);
      checked.ran.add(name);
      const { error } = schema.safeParse(JSON.parse(JSON.stringify(returned)));
      if (error !== undefined) checked.misfits.push(`${name}: ${error.message}`);
      return returned;
    };
  }
  return checked;
}
