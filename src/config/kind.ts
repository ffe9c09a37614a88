/**
 * The kinds of values that settings have.
 *
 * A value comes as text (from a flag, the environment, `.env`) or as it is (from `holdfast.config.ts`); each kind reads both. These checks are our
 * own and not a schema library's: every command loads them, a library costs more start-up time and memory than a worker at rest may take, and its
 * messages would know neither where a value came from nor that it is a secret.
 */
import { BEARER_ALLOWED, isBearer, isGuessable } from "../core/bearer.ts";
import { hasControl, hasInvisible } from "../core/characters.ts";
import { DURATION_MS_MAX, formatMs, toMs } from "../core/duration.ts";
import { checkName } from "../core/name.ts";
import { COVERED, masked, originOf, printedUrl, schemeOf } from "./masking.ts";

export interface Kind<Value> {
  /** How "must be …" goes on. */
  readonly allowed: string;
  /** Null: it cannot be used. */
  readonly read: (given: unknown) => Value | null;
  /** What was given, as a message may repeat it. */
  readonly show: (given: unknown) => string;
  /** What is in use, as `holdfast config` prints it. */
  readonly print: (value: Value) => string;
  /** As the environment says it: what `read` reads back. */
  readonly text: (value: Value) => string;
  /** Nothing of it may ever be printed. */
  readonly hidden?: true;
}

const TEXT_LENGTH_MAX = 4_096;
const SHOWN_LENGTH_MAX = 80;
const PORT_MAX = 65_535;
const SECRET_LENGTH_MIN = 16;
const SECRET_LENGTH_MAX = 512;

export function whole(least: number, most: number): Kind<number> {
  return {
    allowed: `a whole number from ${least} to ${most}`,
    read(given) {
      const number = typeof given === "string" ? numberIn(given) : given;
      return Number.isInteger(number) && inRange(number as number, least, most)
        ? (number as number)
        : null;
    },
    show: shown,
    print: String,
    text: String,
  };
}

export function port(): Kind<number> {
  return { ...whole(0, PORT_MAX), allowed: `a port from 0 to ${PORT_MAX} (0: any that is free)` };
}

export interface SpanLimits {
  readonly least?: number;
  readonly most?: number;
  /** 0 is allowed too, and means that there is none. */
  readonly off?: boolean;
}

/** In milliseconds. A number alone is milliseconds. */
export function span({ least = 0, most = DURATION_MS_MAX, off = false }: SpanLimits): Kind<number> {
  const range = `from ${formatMs(least)} to ${formatMs(most)}`;
  return {
    allowed: `a duration ${range}${off ? ", or 0 for off" : ""}: milliseconds, or such as 250ms, 10s, 1.5m, 2h or 7d`,
    read(given) {
      const ms = spanIn(given);
      if (ms === null) return null;
      return (off && ms === 0) || inRange(ms, least, most) ? ms : null;
    },
    show: shown,
    print: (ms) => (ms === 0 && off ? "off" : formatMs(ms)),
    text: String,
  };
}

export function oneOf<Word extends string>(words: readonly Word[]): Kind<Word> {
  return {
    allowed: `one of ${words.join(", ")}`,
    read(given) {
      const said = typeof given === "string" ? given.trim().toLowerCase() : given;
      return words.find((word) => word === said) ?? null;
    },
    show: shown,
    print: (word) => word,
    text: (word) => word,
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
    show: shown,
    print: String,
    text: String,
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
    show: shown,
    print: masked,
    text: (value) => value,
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

export function host(): Kind<string> {
  return text(
    "a host name or an address, such as 127.0.0.1 or 0.0.0.0",
    (given) => given.length <= 253 && /^(?:[\w.-]+|\[?[\da-f:.]+(?:%\w+)?\]?)$/i.test(given),
  );
}

/** Several, with commas between them; a list in the file. */
export function list<Item>(item: Kind<Item>, most: number): Kind<readonly Item[]> {
  return {
    allowed: `1 to ${most}, with commas between them, each ${item.allowed}`,
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

/** Of an address to which something is sent, the part behind the host may be its secret. */
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

/** A key that somebody shows to be let in, or that signs something. */
export function secret(): Kind<string> {
  return {
    ...text(
      `${SECRET_LENGTH_MIN} to ${SECRET_LENGTH_MAX} printable characters without blanks`,
      (given) =>
        inRange(given.length, SECRET_LENGTH_MIN, SECRET_LENGTH_MAX) && /^[!-~]+$/.test(given),
    ),
    ...covered,
  };
}

/** A secret that goes over HTTP as a bearer token, of characters that no client quotes or changes. */
export function bearer(): Kind<string> {
  return { ...text(BEARER_ALLOWED, (given) => isBearer(given) && !isGuessable(given)), ...covered };
}

/** A password of a database may be anything, also nothing. */
export function password(): Kind<string> {
  return {
    allowed: `at most ${SECRET_LENGTH_MAX} characters`,
    read: (given) =>
      typeof given === "string" && given.length <= SECRET_LENGTH_MAX && !given.includes("\0")
        ? given
        : null,
    text: (value) => value,
    ...covered,
  };
}

const covered = {
  show: () => COVERED,
  print: () => COVERED,
  hidden: true,
} as const;

/** What was given, short and in quotes. */
export function shown(given: unknown): string {
  if (typeof given === "string") return JSON.stringify(cutOff(masked(given)));
  if (typeof given === "number" || typeof given === "boolean") return String(given);
  if (given === null || given === undefined) return String(given);
  return Array.isArray(given) ? "a list" : `of type ${typeof given}`;
}

function urlShown(given: unknown): string {
  return typeof given === "string" ? schemeOf(given) : shown(given);
}

function cutOff(given: string): string {
  return given.length > SHOWN_LENGTH_MAX ? `${given.slice(0, SHOWN_LENGTH_MAX)}…` : given;
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
