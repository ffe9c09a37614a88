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

// Quoting for commands that a person copies into a shell.

/** The text as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
