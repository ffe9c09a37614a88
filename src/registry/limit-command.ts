/** `holdfast workers limit`: the maximum number of active workers of a type. */
import { Command } from "commander";
import { actorName, reasonOption, type ReasonOptions } from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/failure.ts";
import { type CommandKit, type DatabaseOptions, urlOption } from "../terminal/kit.ts";
import { table } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { slotsText, WorkerTypeNotFoundError } from "./errors.ts";
import { type ChangedLimit, SLOTS_MAX, type WorkerType } from "./worker-record.ts";
import type { Workers } from "./workers.ts";

type Kit = CommandKit<{ readonly workers: Workers }>;

type LimitOptions = DatabaseOptions & ReasonOptions;

const NONE = "none";

export function limitCommand(kit: Kit): Command {
  return new Command("limit")
    .description("show or change the maximum number of active workers of a type")
    .argument("[type]", "the worker type: the name that its workers share")
    .argument(
      "[slots]",
      `the new limit, 1 to ${SLOTS_MAX} or '${NONE}'; if omitted, show the limit`,
    )
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((type: string | undefined, slots: string | undefined, options: LimitOptions) =>
      slots === undefined
        ? show(kit, type, options)
        : change(kit, { type: type as string, slots: slotsOf(slots), options }),
    );
}

function slotsOf(text: string): number | null {
  if (text === NONE) return null;
  const slots = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (slots >= 1 && slots <= SLOTS_MAX) return slots;
  throw new BadUsageError(
    `The limit must be a whole number from 1 to ${SLOTS_MAX}, or '${NONE}', not '${text}'.`,
  );
}

async function show(
  { terminal, open }: Kit,
  type: string | undefined,
  { url }: LimitOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const types = (await holdfast.workers.types()).filter(
    (each) => type === undefined || each.type === type,
  );
  if (type !== undefined && types.length === 0) throw new WorkerTypeNotFoundError({ type });
  if (terminal.json) terminal.printJson({ types });
  else
    terminal.print(
      ...(types.length === 0 ? ["No worker has registered yet."] : typeTable(types, terminal)),
    );
}

function typeTable(types: readonly WorkerType[], { columns, colors }: Terminal): string[] {
  return table({
    columns: [
      { title: "TYPE", flexible: true },
      { title: "LIMIT", align: "right" },
      { title: "ACTIVE", align: "right" },
    ],
    rows: types.map(({ type, slots, active }) => [type, String(slots ?? NONE), String(active)]),
    width: columns,
    paintTitle: colors.bold,
  });
}

async function change(
  { terminal, open }: Kit,
  limit: { type: string; slots: number | null; options: LimitOptions },
): Promise<void> {
  const { type, slots, options } = limit;
  const { url, ...reason } = options;
  await using holdfast = await open(url);
  const changed = await holdfast.workers.setLimit(type, slots, { actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson(changed);
  else terminal.print(sentenceOf(changed));
}

function sentenceOf({ type, from, to }: ChangedLimit): string {
  if (from === to) return `The limit of '${type}' is already ${slotsText(to)}.`;
  return `The limit of '${type}' is now ${slotsText(to)}; it was ${slotsText(from)}.`;
}
