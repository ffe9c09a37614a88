/**
 * Ids as people type and read them: the first characters of an id stand for it, as long as no other begins with them.
 *
 * A prefix and not a suffix, because every engine finds a prefix by the primary key. The first 13 characters of an id are
 * its millisecond, so a short form of that length stays unambiguous when new jobs come; ids of one millisecond take more.
 */
import { HoldfastError } from "./errors.ts";

/** The ids that begin with a prefix are those between these two, both included. */
export interface IdRange {
  readonly from: string;
  readonly to: string;
}

const DIGITS = 32;
/** Where an id has its dashes, and where it ends: a short form is cut there, so a double click selects what is shown. */
const CUTS = [13, 18, 23, 36] as const;

/** The range of a prefix in either case, with or without dashes; null: no id begins like this. */
export function idRange(typed: string): IdRange | null {
  const digits = typedPrefix(typed).toLowerCase().replaceAll("-", "");
  if (!/^[0-9a-f]{1,32}$/.test(digits)) return null;
  return {
    from: dashed(digits.padEnd(DIGITS, "0")),
    to: dashed(digits.padEnd(DIGITS, "f")),
  };
}

/** What was typed or copied from a column that was cut. */
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

/** The short form of each id that no other of these ids begins with. */
export function shortIds(ids: readonly string[], others: Iterable<string>): Map<string, string> {
  const sorted = [...new Set([...ids, ...others])].toSorted();
  const places = new Map(sorted.map((id, place) => [id, place]));
  return new Map(
    ids.map((id) => {
      const place = places.get(id) ?? 0;
      // In this order, whatever shares the longest prefix with an id stands next to it.
      const beside = [sorted[place - 1], sorted[place + 1]];
      const cut = CUTS.find((end) => beside.every((other) => !shares(id, other, end)));
      return [id, id.slice(0, cut)];
    }),
  );
}

function shares(id: string, other: string | undefined, length: number): boolean {
  return other !== undefined && other.slice(0, length) === id.slice(0, length);
}

/** Several begin with what was given as the beginning of an id. */
export class AmbiguousId extends HoldfastError {
  readonly prefix: string;
  /** Some of those that begin like this, or all of them. */
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
        `More than one ${what} has an id that begins with ${prefix}. Type more of it:`,
        ...lines,
        ...(more ? ["  …"] : []),
      ].join("\n"),
    );
    this.prefix = prefix;
    this.candidates = candidates.map(({ id }) => id);
  }
}
