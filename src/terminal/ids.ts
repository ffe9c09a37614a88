/** Ids on the command line: any unambiguous prefix, in either case. */
import { AmbiguousIdError, typedPrefix } from "../core/id.ts";

/** An id that begins with the typed prefix. */
interface Candidate {
  readonly id: string;
  /** Distinguishes it from the others: `failed mail.send`. */
  readonly about: string;
}

interface IdLookUp {
  /** `job`, `worker`, `item`. */
  readonly what: string;
  /** Finds at most `limit` ids with the prefix, by an index. */
  readonly find: (prefix: string, limit: number) => Promise<readonly Candidate[]>;
  readonly notFound: (typed: string) => Error;
}

/** Ids listed when a prefix is ambiguous. */
const CANDIDATES_MAX = 10;

/** The full id for a typed prefix. */
export async function wholeId(typed: string, lookUp: IdLookUp): Promise<string> {
  const prefix = typedPrefix(typed);
  const found = prefix === "" ? [] : await lookUp.find(prefix, CANDIDATES_MAX + 1);
  const exact = found.find(({ id }) => id.toLowerCase() === prefix.toLowerCase());
  const [first, ...others] = found;
  if (first === undefined) throw lookUp.notFound(typed);
  if (exact !== undefined || others.length === 0) return (exact ?? first).id;
  const candidates = found.slice(0, CANDIDATES_MAX);
  throw new AmbiguousIdError({
    what: lookUp.what,
    prefix,
    candidates,
    more: found.length > CANDIDATES_MAX,
  });
}
