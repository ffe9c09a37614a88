/** `holdfast workers limit`: how many workers of a type may be active at once. */
import { Command } from "commander";
import { slotsText, WorkerTypeNotFoundError } from "../core/worker-errors.ts";
import { SLOTS_MAX } from "../core/worker-state.ts";
import type { ChangedLimit, WorkerType } from "../store/registry.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { BadUsage } from "./failure.ts";
import { table } from "./table.ts";
import type { Terminal } from "./terminal.ts";

type LimitOptions = DatabaseOptions & ReasonOptions;

const NONE = "none";

export function limitCommand(terminal: Terminal): Command {
  return new Command("limit")
    .description("show how many workers of a type may be active at once, or change it")
    .argument("[type]", "the name that the workers share")
    .argument(
      "[slots]",
      `the new limit, 1 to ${SLOTS_MAX}, or '${NONE}'; without it, show the limit`,
    )
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((type: string | undefined, slots: string | undefined, options: LimitOptions) =>
      slots === undefined
        ? show(terminal, type, options)
        : change(terminal, { type: type as string, slots: slotsOf(slots), options }),
    );
}

function slotsOf(text: string): number | null {
  if (text === NONE) return null;
  const slots = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (slots >= 1 && slots <= SLOTS_MAX) return slots;
  throw new BadUsage(
    `The limit must be a whole number from 1 to ${SLOTS_MAX}, or '${NONE}', not '${text}'.`,
  );
}

async function show(
  terminal: Terminal,
  type: string | undefined,
  { url }: LimitOptions,
): Promise<void> {
  await using holdfast = await openForLooking(url);
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
  terminal: Terminal,
  limit: { type: string; slots: number | null; options: LimitOptions },
): Promise<void> {
  const { type, slots, options } = limit;
  const { url, ...reason } = options;
  await using holdfast = await openForLooking(url);
  const changed = await holdfast.workers.setLimit(type, slots, { actor: actorName(), ...reason });
  if (terminal.json) terminal.printJson(changed);
  else terminal.print(sentenceOf(changed));
}

function sentenceOf({ type, from, to }: ChangedLimit): string {
  if (from === to) return `The limit of '${type}' is ${slotsText(to)} already.`;
  return `The limit of '${type}' is ${slotsText(to)} now; it was ${slotsText(from)}.`;
}
