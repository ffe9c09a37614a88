/** `holdfast locks`: who has which lock, how long others wait for them, and the end of one that is in the way. */
import { Command } from "commander";
import { HoldfastError } from "../core/errors.ts";
import type { LockRecord } from "../core/lock.ts";
import type { LockFigures } from "../queue/lock-stats.ts";
import { actorName, reasonOption, type ReasonOptions } from "./actor.ts";
import { duration, wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { count, counted, span } from "./words.ts";

interface ListOptions extends DatabaseOptions {
  readonly type?: string;
  readonly limit: number;
}

interface StatsOptions extends DatabaseOptions {
  readonly type?: string;
  readonly last: string;
}

const LIMIT_DEFAULT = 50;
/** Where there is room for it, a table also says what locks are for. */
const WIDE = 120;
const FIGURES = ["ACQUIRED", "TIMED OUT", "WAIT AVG", "P50", "P95", "P99", "HELD MOST"];

class LockNotFound extends HoldfastError {
  constructor(key: string) {
    super("LOCK_NOT_FOUND", `Nobody has the lock ${key}. See: holdfast locks`);
  }
}

export function locksCommand(terminal: Terminal): Command {
  const command = new Command("locks").description("list locks, and see how long others wait");
  command.addCommand(listCommand(terminal), { isDefault: true });
  command.addCommand(statsCommand(terminal));
  command.addCommand(releaseCommand(terminal));
  return command;
}

function listCommand(terminal: Terminal): Command {
  return new Command("list")
    .description("list the locks that somebody has, those that were taken first first")
    .addOption(urlOption())
    .option("--type <name>", "only keys that begin with '<name>:'")
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(terminal, options));
}

function statsCommand(terminal: Terminal): Command {
  return new Command("stats")
    .description("say how often locks were acquired, and how long that took")
    .addOption(urlOption())
    .option("--type <name>", "only keys that begin with '<name>:'")
    .option("--last <duration>", "how far back, at most 7d", duration, "1h")
    .action((options: StatsOptions) => stats(terminal, options));
}

function releaseCommand(terminal: Terminal): Command {
  return new Command("release")
    .description("take a lock away from whoever has it")
    .argument("<key>", "the lock's key")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((key: string, options: DatabaseOptions & ReasonOptions) =>
      release(terminal, key, options),
    );
}

async function list(terminal: Terminal, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const locks = await holdfast.locks.list(filter);
  if (terminal.json) {
    terminal.printJson({ locks });
    return;
  }
  const lines = locks.length === 0 ? [] : [...lockTable(locks, terminal), ""];
  const words = locks.length === 0 ? "No locks." : counted(locks.length, "lock");
  terminal.print(...lines, terminal.colors.dim(words));
}

function lockTable(locks: readonly LockRecord[], { columns, colors }: Terminal): string[] {
  const wide = columns === null || columns >= WIDE;
  return table({
    columns: [
      { title: "LOCK", flexible: true },
      { title: "OWNER", flexible: true },
      { title: "HELD", align: "right" },
      { title: "ENDS IN", align: "right" },
      { title: "TOKEN", align: "right" },
      ...(wide ? [{ title: "FOR", flexible: true }] : []),
    ],
    rows: locks.map(({ key, owner, acquiredAt, expiresAt, expiresInMs, token, trace }) => [
      key,
      owner,
      span(expiresAt - expiresInMs - acquiredAt), // by the clock of where it is kept
      span(expiresInMs),
      String(token),
      ...(wide ? [trace ?? ""] : []),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

async function stats(terminal: Terminal, { url, ...options }: StatsOptions): Promise<void> {
  await using holdfast = await openForLooking(url);
  const found = await holdfast.locks.stats(options);
  if (terminal.json) terminal.printJson(found);
  else if (found.types.length === 0) terminal.print(`No locks within the last ${options.last}.`);
  else terminal.print(...statsTable(found.types, terminal));
}

function statsTable(types: readonly LockFigures[], { columns, colors }: Terminal): string[] {
  return table({
    columns: [
      { title: "TYPE", flexible: true },
      ...FIGURES.map((title) => ({ title, align: "right" as const })),
    ],
    rows: types.map(({ type, acquisitions, timeouts, waitMs, heldMsMax }): (string | Cell)[] => [
      type,
      count(acquisitions),
      timeouts === 0 ? "0" : { text: count(timeouts), paint: colors.red },
      ...[waitMs?.average, waitMs?.p50, waitMs?.p95, waitMs?.p99].map(brief),
      brief(heldMsMax),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

/** "0.4ms", "12ms", "3s". */
function brief(ms: number | undefined): string {
  if (ms === undefined) return "";
  return ms < 10 ? `${ms.toFixed(1)}ms` : span(ms);
}

async function release(
  terminal: Terminal,
  key: string,
  { url, ...reason }: DatabaseOptions & ReasonOptions,
): Promise<void> {
  await using holdfast = await openForLooking(url);
  const lock = await holdfast.locks.forceRelease(key, { actor: actorName(), ...reason });
  if (lock === null) throw new LockNotFound(key);
  if (terminal.json) terminal.printJson({ released: lock });
  else terminal.print(`${key} was taken from ${lock.owner}`);
}
