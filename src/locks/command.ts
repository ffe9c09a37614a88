/** `holdfast locks`: lists held locks, shows statistics about waiting, and releases a lock by force. */
import { Command } from "commander";
import { HoldfastError } from "../core/errors.ts";
import {
  actorName,
  duration,
  reasonOption,
  type ReasonOptions,
  wholeNumber,
} from "../terminal/arguments.ts";
import { type Cell, count, counted, span, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { LockRecord } from "./lock.ts";
import type { Locks } from "./locks.ts";
import type { LockTimes } from "./stats.ts";

type Kit = CommandKit<{ readonly locks: Locks }>;

interface ListOptions extends DatabaseOptions {
  readonly type?: string;
  readonly limit: number;
}

interface StatsOptions extends DatabaseOptions {
  readonly type?: string;
  readonly last: string;
}

const LIMIT_DEFAULT = 50;

/** From this width on, the table also shows what a lock is for. */
const WIDE = 120;

const STATS = ["ACQUIRED", "TIMED OUT", "WAIT AVG", "P50", "P95", "P99", "MAX HELD"];

class LockNotFoundError extends HoldfastError {
  constructor(key: string) {
    super("LOCK_NOT_FOUND", `Lock ${key} is not held. List held locks with 'holdfast locks'.`);
  }
}

export function locksCommand(kit: Kit): Command {
  const command = new Command("locks").description(
    "list locks, show lock statistics, and release locks",
  );
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(statsCommand(kit));
  command.addCommand(releaseCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list held locks, oldest first")
    .addOption(urlOption())
    .option("--type <name>", "only keys that begin with '<name>:'")
    .option("--limit <n>", "maximum number of locks", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function statsCommand(kit: Kit): Command {
  return new Command("stats")
    .description("show how often locks were acquired and how long callers waited")
    .addOption(urlOption())
    .option("--type <name>", "only keys that begin with '<name>:'")
    .option("--last <duration>", "how far back, at most 7d", duration, "1h")
    .action((options: StatsOptions) => stats(kit, options));
}

function releaseCommand(kit: Kit): Command {
  return new Command("release")
    .description("release a lock by force")
    .argument("<key>", "the lock's key")
    .addOption(urlOption())
    .addOption(reasonOption())
    .action((key: string, options: DatabaseOptions & ReasonOptions) => release(kit, key, options));
}

async function list({ terminal, open }: Kit, { url, ...filter }: ListOptions): Promise<void> {
  await using holdfast = await open(url);
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
      { title: "EXPIRES IN", align: "right" },
      { title: "TOKEN", align: "right" },
      ...(wide ? [{ title: "FOR", flexible: true }] : []),
    ],
    rows: locks.map(({ key, owner, acquiredAt, expiresAt, expiresInMs, token, trace }) => [
      key,
      owner,
      span(expiresAt - expiresInMs - acquiredAt), // by the clock of the lock's backend
      span(expiresInMs),
      String(token),
      ...(wide ? [trace ?? ""] : []),
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

async function stats({ terminal, open }: Kit, { url, ...options }: StatsOptions): Promise<void> {
  await using holdfast = await open(url);
  const found = await holdfast.locks.stats(options);
  if (terminal.json) terminal.printJson(found);
  else if (found.types.length === 0) terminal.print(`No locks in the last ${options.last}.`);
  else terminal.print(...statsTable(found.types, terminal));
}

function statsTable(types: readonly LockTimes[], { columns, colors }: Terminal): string[] {
  return table({
    columns: [
      { title: "TYPE", flexible: true },
      ...STATS.map((title) => ({ title, align: "right" as const })),
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
  { terminal, open }: Kit,
  key: string,
  { url, ...reason }: DatabaseOptions & ReasonOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const lock = await holdfast.locks.forceRelease(key, { actor: actorName(), ...reason });
  if (lock === null) throw new LockNotFoundError(key);
  if (terminal.json) terminal.printJson({ released: lock });
  else terminal.print(`Released ${key}, which was held by ${lock.owner}`);
}
