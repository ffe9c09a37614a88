/**
 * The types of setting values.
 *
 * A value is text (from a flag, the environment or `.env`) or a JavaScript value (from `holdfast.config.ts`); each kind reads
 * both. No schema library is used, because every command loads this file: a library would cost start-up time and memory, and
 * its messages would not know where a value came from or that it is a secret.
 */
import { basePathIn } from "../core/base-path.ts";
import { DURATION_MS_MAX, formatMs, toMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import { checkName } from "../core/name.ts";
import type { Option } from "../core/options.ts";
import { hasControl, hasInvisible } from "../core/text.ts";
import { originOf, printedUrl, REDACTED, redacted, schemeOf } from "./secrets.ts";

// Rules for a bearer token that a person chooses: long enough, of characters that no client changes, and no example.

const BEARER_LENGTH_MIN = 16;
export const BEARER_LENGTH_MAX = 512;
const DIFFERENT_MIN = 6;
const PIECE_LENGTH_MAX = 16;
const FORM = /^[\w.~+/=-]+$/;
const EXAMPLE = /(?:change|replace)[-_.]?me|your[-_.]?(?:secret|token)|placeholder|example/i;
const REPEATED = new RegExp(`^(.{1,${PIECE_LENGTH_MAX}})\\1+$`);

/** Completes "must be …". */
export const BEARER_ALLOWED =
  `${BEARER_LENGTH_MIN} to ${BEARER_LENGTH_MAX} letters, digits or any of . ~ + / = - _, such as the output of 'openssl rand -hex 32'; ` +
  `not an example such as change-me, and not a few characters repeated`;

export function isBearer(token: string): boolean {
  const { length } = token;
  return length >= BEARER_LENGTH_MIN && length <= BEARER_LENGTH_MAX && FORM.test(token);
}

/** An attacker would guess it early. */
export function isGuessable(token: string): boolean {
  return EXAMPLE.test(token) || REPEATED.test(token) || new Set(token).size < DIFFERENT_MIN;
}

interface Kind<Value> {
  /** Completes the sentence "must be …". */
  readonly allowed: string;
  /** Null: invalid. */
  readonly read: (given: unknown) => Value | null;
  /** The given value, as a message may quote it. */
  readonly show: (given: unknown) => string;
  /** The value in use, as `holdfast config` prints it. */
  readonly print: (value: Value) => string;
  /** The value as an environment variable, which `read` parses again. */
  readonly text: (value: Value) => string;
  /** A secret: no part of it may be printed. */
  readonly hidden?: true;
}

const TEXT_LENGTH_MAX = 4_096;
const SHOWN_LENGTH_MAX = 80;
export const PORT_MAX = 65_535;
export const SECRET_LENGTH_MIN = 16;
const SECRET_LENGTH_MAX = 512;

const asString = { show: shown, print: String, text: String };

export function whole(least: number, most: number): Kind<number> {
  return {
    allowed: `a whole number from ${least} to ${most}`,
    read(given) {
      const number = typeof given === "string" ? numberIn(given) : given;
      const fits = Number.isInteger(number) && inRange(number as number, least, most);
      return fits ? (number as number) : null;
    },
    ...asString,
  };
}

export function port(): Kind<number> {
  return { ...whole(0, PORT_MAX), allowed: `a port from 0 to ${PORT_MAX} (0 picks a free one)` };
}

interface SpanLimits {
  readonly least?: number;
  readonly most?: number;
  /** 0 is also allowed, and turns the feature off. */
  readonly off?: boolean;
}

/** A duration in milliseconds. A plain number is milliseconds. */
export function span({ least = 0, most = DURATION_MS_MAX, off = false }: SpanLimits): Kind<number> {
  const range = `from ${formatMs(least)} to ${formatMs(most)}`;
  return {
    allowed: `${off ? "0 (off) or " : ""}a duration ${range}, such as 250ms, 10s, 1.5m, 2h or 7d; a plain number is milliseconds`,
    read(given) {
      const ms = spanIn(given);
      if (ms === null) return null;
      return (off && ms === 0) || inRange(ms, least, most) ? ms : null;
    },
    ...asString,
    print: (ms) => (ms === 0 && off ? "off" : formatMs(ms)),
  };
}

export function oneOf<Word extends string>(words: readonly Word[]): Kind<Word> {
  return {
    allowed: `one of ${words.join(", ")}`,
    read(given) {
      const said = typeof given === "string" ? given.trim().toLowerCase() : given;
      return words.find((word) => word === said) ?? null;
    },
    ...asString,
  };
}

const YES = new Set(["1", "true", "yes", "on"]);
const NO = new Set(["0", "false", "no", "off"]);

export function yesOrNo(): Kind<boolean> {
  return {
    allowed: "true or false (also 1 or 0, yes or no, on or off)",
    read(given) {
      if (typeof given === "boolean") return given;
      if (typeof given !== "string") return null;
      const said = given.trim().toLowerCase();
      return YES.has(said) ? true : NO.has(said) ? false : null;
    },
    ...asString,
  };
}

/** A text without control characters. */
export function text(allowed: string, fits: (text: string) => boolean = () => true): Kind<string> {
  return {
    allowed,
    read(given) {
      if (typeof given !== "string") return null;
      const trimmed = given.trim();
      return isPlain(trimmed) && fits(trimmed) ? trimmed : null;
    },
    ...asString,
    print: redacted,
  };
}

/** The name of a queue or a worker. */
export function name(): Kind<string> {
  return text("a name of 1 to 128 characters without control characters", (given) => {
    try {
      return checkName("name", given) !== "";
    } catch {
      return false;
    }
  });
}

export function modulePath(): Kind<string> {
  return text("the path to a module");
}

export function host(): Kind<string> {
  return text(
    "a host name or IP address, such as 127.0.0.1 or 0.0.0.0",
    (given) => given.length <= 253 && /^(?:[\w.-]+|\[?[\da-f:.]+(?:%\w+)?\]?)$/i.test(given),
  );
}

/** A path below which a proxy serves this server. */
export function basePath(): Kind<string> {
  return {
    allowed: "a path of plain segments that begins with a slash, such as /admin/jobs",
    read: (given) => (typeof given === "string" ? basePathIn(given.trim()) : null),
    ...asString,
    print: (path) => (path === "" ? "/" : path),
  };
}

/** Comma-separated values, or an array in the config file. */
export function list<Item>(item: Kind<Item>, most: number): Kind<readonly Item[]> {
  return {
    allowed: `1 to ${most} comma-separated values, each ${item.allowed}`,
    read(given) {
      const parts = partsOf(given);
      if (parts === null || parts.length === 0 || parts.length > most) return null;
      const items = parts.map((part) => item.read(part));
      return items.some((each) => each === null) ? null : (items as Item[]);
    },
    show: (given) =>
      partsOf(given)?.map(item.show).join(", ").slice(0, TEXT_LENGTH_MAX) ?? shown(given),
    print: (items) => items.map(item.print).join(", "),
    text: (items) => items.map(item.text).join(","),
  };
}

const DATABASES = /^(?:sqlite:.|(?:postgres|postgresql|mysql|mariadb):\/\/)/i;

export function databaseUrl(): Kind<string> {
  return {
    ...text(
      "a URL such as sqlite:shop.db, postgres://user:password@host/database or mysql://user:password@host/database",
      (given) => DATABASES.test(given) && (/^sqlite:/i.test(given) || URL.canParse(given)),
    ),
    show: urlShown,
    print: printedUrl,
  };
}

export function redisUrl(): Kind<string> {
  return {
    ...text(
      "a URL such as redis://host:6379 or rediss://user:password@host:6379",
      (given) => /^rediss?:\/\/./i.test(given) && URL.canParse(given),
    ),
    show: urlShown,
    print: printedUrl,
  };
}

/** The path of a webhook URL may be a secret, so only its origin is shown. */
export function webUrl(): Kind<string> {
  return {
    ...text(
      "a URL such as https://example.org/hook, without commas",
      (given) => /^https?:\/\/./i.test(given) && URL.canParse(given) && !given.includes(","),
    ),
    show: (given) => (typeof given === "string" ? originOf(given) : shown(given)),
    print: originOf,
  };
}

/** A key that authenticates a client or signs a request. */
export function secret(): Kind<string> {
  return {
    ...text(
      `${SECRET_LENGTH_MIN} to ${SECRET_LENGTH_MAX} printable characters without spaces`,
      (given) =>
        inRange(given.length, SECRET_LENGTH_MIN, SECRET_LENGTH_MAX) && /^[!-~]+$/.test(given),
    ),
    ...hiddenValue,
  };
}

/** A bearer token for HTTP, limited to characters that clients send unchanged. */
export function bearer(): Kind<string> {
  return {
    ...text(BEARER_ALLOWED, (given) => isBearer(given) && !isGuessable(given)),
    ...hiddenValue,
  };
}

/** A database password may contain anything, and may be empty. */
export function password(): Kind<string> {
  return {
    allowed: `at most ${SECRET_LENGTH_MAX} characters`,
    read: (given) =>
      typeof given === "string" && given.length <= SECRET_LENGTH_MAX && !given.includes("\0")
        ? given
        : null,
    text: String,
    ...hiddenValue,
  };
}

const hiddenValue = { show: () => REDACTED, print: () => REDACTED, hidden: true } as const;

/** The given value, shortened and quoted. */
export function shown(given: unknown): string {
  if (typeof given === "string") {
    const clean = redacted(given);
    const isLong = clean.length > SHOWN_LENGTH_MAX;
    return JSON.stringify(isLong ? `${clean.slice(0, SHOWN_LENGTH_MAX)}…` : clean);
  }
  if (["number", "boolean", "undefined"].includes(typeof given) || given === null) {
    return String(given);
  }
  return Array.isArray(given) ? "a list" : `of type ${typeof given}`;
}

function urlShown(given: unknown): string {
  return typeof given === "string" ? schemeOf(given) : shown(given);
}

function isPlain(given: string): boolean {
  if (given === "" || given.length > TEXT_LENGTH_MAX) return false;
  return !hasControl(given) && !hasInvisible(given);
}

function partsOf(given: unknown): unknown[] | null {
  if (Array.isArray(given)) return given.flatMap((each: unknown) => partsOf(each) ?? [each]);
  if (typeof given !== "string") return null;
  return given.split(",").map((part) => part.trim());
}

function numberIn(given: string): number {
  return /^-?\d{1,15}$/.test(given.trim()) ? Number(given) : Number.NaN;
}

function spanIn(given: unknown): number | null {
  const said = typeof given === "string" && !Number.isNaN(numberIn(given)) ? Number(given) : given;
  if (typeof said !== "string" && typeof said !== "number") return null;
  if (typeof said === "number" && !Number.isInteger(said)) return null;
  try {
    return toMs("duration", said);
  } catch {
    return null;
  }
}

function inRange(number: number, least: number, most: number): boolean {
  return number >= least && number <= most;
}

// The declaration of a setting.

export const groups = ["Database", "Worker", "Server", "Monitoring", "Process"] as const;
export type Group = (typeof groups)[number];

export interface Setting<Value> {
  readonly group: Group;
  /** Names in the environment and in `.env`. If several are set, the first one listed is used. */
  readonly env: readonly string[];
  /** The flag as the help shows it. */
  readonly flag: string | null;
  /** The key in `holdfast.config.ts`. */
  readonly file: string | null;
  readonly kind: Kind<Value>;
  /** The default; null: none. */
  readonly initial: Value | null;
  readonly about: string;
  /** An empty value counts as set. */
  readonly emptyCounts?: true;
  /** A path: in the config file, it is relative to that file. */
  readonly isPath?: true;
}

/** A setting that always has a value. */
type Settled<Value> = Setting<Value> & { readonly initial: Value };

/** The values of such settings; null: not set and without a default. */
export type ValuesOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Settled<infer Value>
    ? Value
    : Table[Name] extends Setting<infer Value>
      ? Value | null
      : never;
};

export function setting<Value>(given: Setting<Value>): Setting<Value> {
  return given;
}

export function settled<Value>(given: Settled<Value>): Settled<Value> {
  return given;
}

// An option of the library that the environment, a flag or the configuration file can set too.

interface Source<Value> {
  readonly env: string;
  /** Default: it has no flag. */
  readonly flag?: string;
  readonly about: string;
  /** Default: as the option is checked. */
  readonly kind?: Kind<Value>;
}

export interface Configured {
  readonly source: object;
}

export function configured<Entry extends Option<never, unknown>>(
  entry: Entry,
  source: Source<ReturnType<Entry["check"]>>,
): Entry & Configured {
  return { ...entry, source };
}

type SettingsOf<Table> = {
  readonly [
    Name in keyof Table as Table[Name] extends Configured ? Name : never
  ]: Table[Name] extends Option<never, infer Value>
    ? Table[Name] extends { readonly isAlways: true }
      ? Settled<Value>
      : Setting<Value>
    : never;
};

/** The settings of those options of a table that are configured. */
export function settingsOf<Table extends Readonly<Record<string, Option<never, unknown>>>>(
  group: Group,
  table: Table,
): SettingsOf<Table> {
  const settings = Object.entries(table).flatMap(([key, option]) => {
    if (!("source" in option)) return [];
    const { source } = option as Configured;
    const { env, flag = null, about, kind = kindOf(option) } = source as Source<unknown>;
    const check = option.check as (field: string, given: unknown) => unknown;
    const initial = option.initial === undefined ? null : check(key, option.initial);
    return [[key, { group, env: [env], flag, file: key, kind, initial, about }]];
  });
  return Object.fromEntries(settings) as SettingsOf<Table>;
}

function kindOf({ suffix, range, initial }: Option<never, unknown>): Kind<unknown> {
  if (suffix === "Ms") return span(range ?? {}) as Kind<unknown>;
  if (typeof initial === "boolean") return yesOrNo() as Kind<unknown>;
  const { least = 0, most = Number.MAX_SAFE_INTEGER } = range ?? {};
  return whole(least, most) as Kind<unknown>;
}

export const SECOND = 1_000;
export const DAY = 86_400_000;

// Problems of the configuration, reported all at once so that five mistakes do not take five starts to fix.

export interface Problem {
  /** The setting's name in its source. */
  readonly name: string;
  /** Null: the value is missing. */
  readonly source: string | null;
  /** The given value without secrets. */
  readonly given: string | null;
  /** A sentence that says what is allowed. */
  readonly problem: string;
}

/** A problem without a value to quote. */
export function problemWith(of: string, problem: string, source: string | null = null): Problem {
  return { name: of, source, given: null, problem };
}

export const COMMAND_LINE = "command line";

export class ConfigInvalidError extends HoldfastError {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super("CONFIG_INVALID", inWords(problems));
    this.problems = problems;
  }

  /** All problems are on the command line. */
  get isUsage(): boolean {
    return this.problems.every(({ source }) => source === COMMAND_LINE);
  }
}

export function problemText({ name: of, source, given, problem }: Problem): string {
  const from = source === null || source === COMMAND_LINE ? "" : ` (${source})`;
  return `${of}${from}${given === null ? "" : ` is ${given}`}: ${problem}`;
}

function inWords(problems: readonly Problem[]): string {
  const [first, ...others] = problems.map(problemText);
  if (others.length === 0) return first ?? "";
  const lines = [first, ...others].map((line) => `  ${line}`);
  return [`The configuration has ${problems.length} problems:`, ...lines].join("\n");
}
