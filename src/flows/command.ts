/** `holdfast flows`: the verbs of flows, and enqueueing one from a file. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { invalid } from "../core/errors.ts";
import { givenJson, parseJson } from "../terminal/arguments.ts";
import { counted } from "../terminal/table.ts";
import { type CommandKit, type DatabaseOptions, urlOption } from "../terminal/terminal.ts";
import type { FlowJobSpec } from "./builder.ts";
import { flowOperations, type FlowsApp } from "./operations.ts";

type Kit = CommandKit<FlowsApp>;

const { cancel, retry, ...reads } = flowOperations;

export const flowCommands = {
  name: "flows",
  about: "list flows and batches; enqueue, show, cancel or retry one",
  parts: [...Object.values(reads), enqueueCommand, cancel, retry],
};

function enqueueCommand(kit: Kit): Command {
  return new Command("enqueue")
    .description("enqueue a flow from a JSON file: a list of { name, task, input, after, options }")
    .argument("<name>", "the flow's name")
    .argument("<file>", "the file, or - to read from stdin")
    .addOption(urlOption())
    .action((name: string, file: string, options: DatabaseOptions) =>
      enqueue(kit, { name, file }, options),
    );
}

async function enqueue(
  { terminal, openForWork }: Kit,
  { name, file }: { readonly name: string; readonly file: string },
  { url }: DatabaseOptions,
): Promise<void> {
  const source = file === "-" ? "stdin" : file;
  const given =
    file === "-" ? await givenJson(file, source) : parseJson(readFileSync(file, "utf8"), source);
  if (!Array.isArray(given)) {
    const problem = `${source} must contain a list of { name, task, input, after, options }.`;
    throw invalid("file", problem);
  }
  const notes: string[] = [];
  await using holdfast = await openForWork(url, (line) => notes.push(line));
  const flow = await holdfast.flows.enqueue(name, given as FlowJobSpec[]);
  const jobs = flow.jobs.map(({ id, task, added }) => ({ id, task, added }));
  if (terminal.json) {
    terminal.printJson({ id: flow.id, jobs });
    return;
  }
  terminal.complain(...notes);
  terminal.print(`Enqueued flow ${flow.id} with ${counted(jobs.length, "job")}.`);
}
