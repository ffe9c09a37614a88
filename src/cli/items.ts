/** `holdfast items`, with the verbs that need the code of the workflow, because guards are functions. */
import type { Command } from "commander";
import type { Holdfast } from "../app/holdfast.ts";
import { type CommandGroup, commandOf } from "../operations/command.ts";
import type { Operation } from "../operations/operation.ts";
import type { CommandKit } from "../terminal/terminal.ts";
import { itemChangeOperations } from "../workflows/change-operations.ts";
import { itemReads } from "../workflows/item-operations.ts";
import type { WorkflowsApp } from "../workflows/operations.ts";
import { readSettings } from "./settings.ts";
import { loadWorkflows } from "./tasks.ts";

const { move, update } = itemChangeOperations;

export const itemCommands: CommandGroup<Holdfast> = {
  name: "items",
  about: "list workflow items, show their history, move and update them",
  parts: [...itemReads, withCode(move), withCode(update)],
};

const NO_TASKS =
  "not set. Name the module with the item's workflow here, with --tasks <file> or in holdfast.config.ts.";

function withCode(operation: Operation<WorkflowsApp>): (kit: CommandKit<Holdfast>) => Command {
  return (kit) => {
    const open = async (url: string) => {
      const known = await workflowsIn(command.opts());
      return Object.assign(await kit.open(url), known);
    };
    const command: Command = commandOf(operation)({ ...kit, open });
    return command.option("--tasks <file>", "the module that exports the workflow");
  };
}

async function workflowsIn({
  tasks: given,
}: {
  readonly tasks?: string;
}): Promise<Required<Pick<WorkflowsApp, "known" | "module">>> {
  const options = given === undefined ? {} : { tasks: given };
  const { settings } = await readSettings(options, { tasks: () => NO_TASKS });
  const module = settings.tasks ?? "";
  const workflows = await loadWorkflows(module);
  return { module, known: new Map(workflows.map((one) => [one.name, one])) };
}
