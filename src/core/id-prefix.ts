/**
 * Ids as people type and read them: an unambiguous prefix stands for the whole id.
 *
 * It is a prefix and not a suffix, because every engine finds a prefix by the primary key. The first 13 characters of an id
 * are its millisecond, so a prefix of that length stays unambiguous as new jobs arrive. Ids of one millisecond need more.
 */
import { HoldfastError } from "./errors.ts";

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
