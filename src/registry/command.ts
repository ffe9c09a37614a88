/** `holdfast workers`, with the commands that operations cannot say: several targets, and a limit that is shown or set. */
import { Command } from "commander";
import { perform } from "../operations/command.ts";
import { actorName, reasonOption, type ReasonOptions } from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/usage.ts";
import { type CommandKit, type DatabaseOptions, urlOption } from "../terminal/terminal.ts";
import { wholeWorkerId, workerOperations, type WorkersApp } from "./operations.ts";
import { SLOTS_MAX } from "./worker-record.ts";
import { notLive, WorkerNotFoundError, type WorkerTarget } from "./workers.ts";

type Kit = CommandKit<WorkersApp>;

interface OrderOptions extends DatabaseOptions, ReasonOptions {
  readonly type?: string;
  readonly all?: boolean;
}

/** Description and confirmation of each command. */
const ORDERS = {
  stop: ["stop workers; running jobs get the shutdown timeout", "is stopping"],
  drain: ["stop workers after their running jobs have finished", "is draining, then stops"],
  pause: ["pause workers: they claim no new jobs", "is paused"],
  resume: ["resume paused workers", "is running again"],
} as const;

type Order = keyof typeof ORDERS;

export const workerCommands = {
  name: "workers",
  about: "list and control workers",
  parts: [
    workerOperations.list,
    workerOperations.show,
    ...(Object.keys(ORDERS) as Order[]).map((order) => (kit: Kit) => orderCommand(kit, order)),
    limitCommand,
    workerOperations.drift,
  ],
};

function orderCommand(kit: Kit, order: Order): Command {
  return new Command(order)
    .description(ORDERS[order][0])
    .argument("[id]", "the worker's id, or an unambiguous prefix")
    .addOption(urlOption())
    .option("--type <name>", "all workers of this type")
    .option("--all", "all workers")
    .addOption(reasonOption())
    .action((id: string | undefined, options: OrderOptions) => giveOrder(kit, order, id, options));
}

async function giveOrder(
  { terminal, open }: Kit,
  order: Order,
  id: string | undefined,
  { url, type, all = false, ...reason }: OrderOptions,
): Promise<void> {
  const named = targetOf(order, { id, type, all });
  await using holdfast = await open(url);
  const target =
    named === "all" || "type" in named ? named : { id: await wholeWorkerId(holdfast, named.id) };
  const ids = await holdfast.workers[order](target, { actor: actorName(), ...reason });
  if (ids.length === 0) throw await whyNone(holdfast, target);
  if (terminal.json) terminal.printJson({ order, workers: ids });
  else terminal.print(...ids.map((worker) => `${worker} ${ORDERS[order][1]}`));
}

function targetOf(
  order: string,
  { id, type, all }: { id: string | undefined; type: string | undefined; all: boolean },
): WorkerTarget {
  const named = [id, type, all || undefined].filter((each) => each !== undefined);
  if (named.length !== 1) {
    throw new BadUsageError(
      `Pass exactly one of <id>, --type <name> or --all, such as 'holdfast workers ${order} --all'.`,
    );
  }
  if (id !== undefined) return { id };
  return type === undefined ? "all" : { type };
}

async function whyNone({ workers }: WorkersApp, target: WorkerTarget): Promise<Error> {
  if (target === "all") return new WorkerNotFoundError("No worker is running.");
  if ("type" in target) {
    return new WorkerNotFoundError(
      `No worker of type '${target.type}' is running. List workers with 'holdfast workers'.`,
    );
  }
  const other = (await workers.unregistered()).find(({ id }) => id === target.id);
  if (other === undefined) return notLive(target.id);
  const where = other.hostname === null ? "" : ` (process ${other.pid} on ${other.hostname})`;
  return new WorkerNotFoundError(
    `${other.id} is not registered and cannot be controlled. Stop its process${where} instead.`,
  );
}

const NONE = "none";

type LimitOptions = DatabaseOptions & ReasonOptions;

function limitCommand(kit: Kit): Command {
  const { types, setLimit } = workerOperations;
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
        ? perform(kit, types, { ...options, input: type === undefined ? {} : { type } })
        : perform(kit, setLimit, { ...options, input: { type, slots: slotsOf(slots) } }),
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
