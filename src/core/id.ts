/**
 * Ids: UUIDv7 as text (RFC 9562), made in the process, so that an insert whose acknowledgement was
 * lost can be repeated under the same id.
 *
 *     018f2c5e-9b3a-700c-91f2-4c7d9be03a58
 *     └───────────┘  └─┘ └───────────────┘
 *      milliseconds   │   62 random bits, behind 2 bits of variant
 *                     └ counts the ids of that millisecond, from 0
 *
 * Ids of one generator only ever grow, as text and as bytes. While the clock stands still or goes
 * back they count on from the last one, and when the 4,096 ids of a millisecond are used up they
 * borrow the next millisecond.
 */
import { HoldfastError, invalid } from "./errors.ts";
import type { Runtime } from "./runtime.ts";

const ID_LENGTH = 36;
const COUNTER_MAX = 0xfff;
const MS_MAX = 2 ** 48 - 1; // the year 10889

const HEX = Buffer.from("0123456789abcdef", "latin1");
const DASH = 0x2d;

/** Asking for randomness costs microseconds, so it is fetched for 256 ids at a time. */
const POOL_BYTES = 4096;

/** A generator of ids. Those of one generator are strictly increasing. */
export function makeIds(runtime: Runtime): () => string {
  const pool = new Uint8Array(POOL_BYTES);
  let drawn = POOL_BYTES;
  let ms = 0;
  let counter = -1;

  // The text is kept as bytes, and only what changes is written again. Joining strings looks
  // cheaper, but leaves a rope that the database driver has to flatten at a higher price.
  const text = Buffer.from(firstIdAt(ms), "latin1");

  function enter(nextMs: number): void {
    text.write(timePrefix(nextMs), "latin1");
    ms = nextMs;
    counter = 0;
  }

  return function nextId() {
    const now = Math.floor(runtime.now());
    if (now > ms) enter(now);
    else if (counter === COUNTER_MAX) enter(ms + 1);
    else counter += 1;

    if (drawn === POOL_BYTES) {
      runtime.fillRandom(pool);
      drawn = 0;
    }
    // One byte a digit: half of each goes unused, which is cheaper than taking the bytes apart.
    const random = (): number => pool[drawn++] as number;

    text[15] = digit(counter >> 8);
    text[16] = digit(counter >> 4);
    text[17] = digit(counter);
    text[18] = DASH;
    text[19] = digit(0b1000 | (random() & 0b11)); // the variant: 8, 9, a or b
    for (let at = 20; at < 23; at++) text[at] = digit(random());
    text[23] = DASH;
    for (let at = 24; at < ID_LENGTH; at++) text[at] = digit(random());
    return text.toString("latin1");
  };
}

const VERSION_AT = 14;
const CALLED = "8";

/**
 * The id of a job that another job waits for, marked as UUIDv8. So a worker that ends a job sees in the id whether another
 * job must be woken, and all other jobs need no lookup.
 */
export function calledId(id: string): string {
  return id.slice(0, VERSION_AT) + CALLED + id.slice(VERSION_AT + 1);
}

export function isCalled(id: string): boolean {
  return id[VERSION_AT] === CALLED;
}

/** Whether the text is an id as we write them: lower case, because ids compare as bytes. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(text);
}

/** The instant an id carries: when it was made, by its maker's clock or a little ahead of it. */
export function idTime(id: string): number {
  if (!isId(id)) {
    const shown = JSON.stringify(id).slice(0, ID_LENGTH + 2);
    throw invalid("id", `${shown} is not an id (a UUIDv7 in lower case).`);
  }
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** The smallest id of that millisecond: ids made since then are not below it. */
export function firstIdAt(ms: number): string {
  return `${timePrefix(ms)}000-8000-000000000000`;
}

/** The first 15 characters of every id of that millisecond. */
function timePrefix(ms: number): string {
  if (!Number.isInteger(ms) || ms < 0 || ms > MS_MAX) {
    const problem = `${ms} is not an instant that an id can hold: whole milliseconds from 0 to ${MS_MAX}.`;
    throw invalid("ms", problem);
  }
  const hex = ms.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7`;
}

/** The character of the value's lowest four bits. */
function digit(value: number): number {
  return HEX[value & 0xf] as number;
}

// Ids as people type and read them: an unambiguous prefix stands for the whole id.
//
// It is a prefix and not a suffix, because every engine finds a prefix by the primary key. The first 13 characters of an id
// are its millisecond, so a prefix of that length stays unambiguous as new jobs arrive. Ids of one millisecond need more.

/** The ids with a prefix are those between these two, inclusive. */
export interface IdRange {
  readonly from: string;
  readonly to: string;
}

const DIGITS = 32;

/** The positions of the dashes, and the end. A short form is cut there, so that a double click selects all of it. */
const CUTS = [13, 18, 23, 36] as const;

/** The range of a prefix in either case, with or without dashes; null: no id can begin with it. */
export function idRange(typed: string): IdRange | null {
  const digits = typedPrefix(typed).toLowerCase().replaceAll("-", "");
  if (!/^[0-9a-f]{1,32}$/.test(digits)) return null;
  return {
    from: dashed(digits.padEnd(DIGITS, "0")),
    to: dashed(digits.padEnd(DIGITS, "f")),
  };
}

/** Removes the ellipsis of a truncated table column. */
export function typedPrefix(text: string): string {
  return text.trim().replace(/(?:…|\.\.\.)$/, "");
}

function dashed(digits: string): string {
  const cuts = [0, 8, 12, 16, 20, DIGITS];
  return cuts
    .slice(1)
    .map((end, index) => digits.slice(cuts[index], end))
    .join("-");
}

/** For each id, the shortest prefix that no other of these ids shares. */
export function shortIds(ids: readonly string[], others: Iterable<string>): Map<string, string> {
  const sorted = [...new Set([...ids, ...others])].toSorted();
  const places = new Map(sorted.map((id, place) => [id, place]));
  return new Map(
    ids.map((id) => {
      const place = places.get(id) ?? 0;
      // In sorted order, the id that shares the longest prefix is a neighbour.
      const beside = [sorted[place - 1], sorted[place + 1]];
      const cut = CUTS.find((end) => beside.every((other) => !shares(id, other, end)));
      return [id, id.slice(0, cut)];
    }),
  );
}

function shares(id: string, other: string | undefined, length: number): boolean {
  return other !== undefined && other.slice(0, length) === id.slice(0, length);
}

/** Several ids begin with the given prefix. */
export class AmbiguousIdError extends HoldfastError {
  readonly prefix: string;
  /** Ids with this prefix; there may be more. */
  readonly candidates: readonly string[];

  constructor(facts: {
    what: string;
    prefix: string;
    candidates: readonly { readonly id: string; readonly about: string }[];
    more: boolean;
  }) {
    const { what, prefix, candidates, more } = facts;
    const lines = candidates.map(({ id, about }) => `  ${id}  ${about}`.trimEnd());
    super(
      "AMBIGUOUS_ID",
      [
        `More than one ${what} id begins with ${prefix}. Type more characters:`,
        ...lines,
        ...(more ? ["  …"] : []),
      ].join("\n"),
    );
    this.prefix = prefix;
    this.candidates = candidates.map(({ id }) => id);
  }
}
