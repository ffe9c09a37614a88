/** Text for people: suggestions for misspelled names, characters that mislead, and words for a shell. */

// For an unknown name: the known name that was probably meant.

const NAME_LENGTH_MAX = 64;
const NAMES_LISTED_MAX = 20;

export function suggest(name: string, known: readonly string[]): string | null {
  const near = known
    .map((each) => ({ each, edits: editsBetween(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, edits }) => edits <= Math.max(1, Math.floor(each.length / 4)))
    .toSorted((one, other) => one.edits - other.edits);
  return near[0]?.each ?? null;
}

/** A sentence to append, or nothing. */
export function didYouMean(name: string, known: readonly string[]): string {
  const meant = suggest(name, known);
  return meant === null ? "" : ` Did you mean ${meant}?`;
}

/** What to do about a module that is not found because its package is not installed, to append. */
export function installHint(message: string): string {
  const [, name] =
    /Cannot find (?:package|module) '((?:@[\w.-]+\/)?\w[\w.-]*)[/']/.exec(message) ?? [];
  return name === undefined ? "" : `. Install the package: npm install ${name}`;
}

/** The known names, and which of them was probably meant: two sentences to append. */
export function knownNames(name: string, known: readonly string[]): string {
  if (known.length === 0) return "";
  const more = known.length - NAMES_LISTED_MAX;
  const listed = known.slice(0, NAMES_LISTED_MAX).join(", ");
  return ` Known: ${listed}${more > 0 ? ` and ${more} more` : ""}.${didYouMean(name, known)}`;
}

/** The edit distance: insertions, deletions, substitutions, and swaps of neighbours. */
function editsBetween(one: string, other: string): number {
  if (Math.max(one.length, other.length) > NAME_LENGTH_MAX) return Number.POSITIVE_INFINITY;
  const rows = [Array.from({ length: other.length + 1 }, (_, index) => index)];
  const at = (row: number, column: number): number => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= one.length; row += 1) {
    rows.push([row]);
    for (let column = 1; column <= other.length; column += 1) {
      const same = one[row - 1] === other[column - 1] ? 0 : 1;
      const swapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      rows[row]?.push(
        Math.min(
          at(row - 1, column - 1) + same,
          at(row - 1, column) + 1,
          at(row, column - 1) + 1,
          row > 1 && column > 1 && swapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
  }
  return at(one.length, other.length);
}

/**
 * Characters that mislead a reader: a terminal obeys control characters, separators break a line,
 * some marks reverse the direction of the following text, and some have no width.
 * The joiners that emoji and some scripts need (U+200C, U+200D) are allowed.
 */
const CONTROL = String.raw`\p{Cc}\p{Zl}\p{Zp}`;
const INVISIBLE = String.raw`\u061C\u200B\u200E\u200F\u202A-\u202E\u2060-\u2064\u2066-\u2069\uFEFF`;
const ANY_CONTROL = new RegExp(`[${CONTROL}]`, "u");
const ANY_INVISIBLE = new RegExp(`[${INVISIBLE}]`, "u");
const ALL = new RegExp(`[${CONTROL}${INVISIBLE}]`, "gu");

export function hasControl(text: string): boolean {
  return ANY_CONTROL.test(text);
}

export function hasInvisible(text: string): boolean {
  return ANY_INVISIBLE.test(text);
}

/** Escapes these characters as JSON would: `\u202e`. `lines`: line feeds are kept. */
export function visible(text: string, options: { readonly lines?: boolean } = {}): string {
  return text.replaceAll(ALL, (character) => {
    if (options.lines === true && character === "\n") return character;
    return `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;
  });
}

/** The text as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
