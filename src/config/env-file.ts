/**
 * What Node's reader of `.env` leaves out without a word: lines that set nothing, and what stands behind a closing quote.
 *
 * Nothing of a line is ever repeated: it may be the rest of a key.
 */

const QUOTES = new Set(['"', "'", "`"]);
const NAME = /^(?:export +)?[\w.-]+$/;

/** Sentences, each with the number of its line. */
export function envFileFaults(text: string): string[] {
  const faults: string[] = [];
  let at = 0;
  let line = 1;
  while (at < text.length) {
    const end = endOfLine(text, at);
    const { fault, next } = readLine(text, at, end);
    if (fault !== null) faults.push(`line ${line} ${fault}`);
    line += text.slice(at, next).split("\n").length - 1;
    at = next;
  }
  return faults;
}

interface Reading {
  readonly fault: string | null;
  /** Where the next line begins: a value in quotes may go over several. */
  readonly next: number;
}

function readLine(text: string, at: number, end: number): Reading {
  const words = text.slice(at, end).trim();
  if (words === "" || words.startsWith("#")) return { fault: null, next: end + 1 };
  const equals = text.indexOf("=", at);
  if (equals === -1 || equals > end) {
    const fault = "has no '='. Write NAME=value, or # before a comment.";
    return { fault, next: end + 1 };
  }
  if (!NAME.test(text.slice(at, equals).trim())) {
    const fault = "has no name before its '=': letters, digits, '_', '.' and '-'.";
    return { fault, next: end + 1 };
  }
  return readValue(text, equals + 1, end);
}

function readValue(text: string, at: number, end: number): Reading {
  const value = text.slice(at, end).trimStart();
  const quote = value.charAt(0);
  if (!QUOTES.has(quote)) return { fault: null, next: end + 1 };
  const opening = text.indexOf(quote, at);
  const closing = text.indexOf(quote, opening + 1);
  if (closing === -1) return { fault: "opens a quote that nothing closes.", next: end + 1 };
  const lineEnd = endOfLine(text, closing);
  const rest = text.slice(closing + 1, lineEnd).trim();
  const fault =
    rest === "" || rest.startsWith("#")
      ? null
      : `has more behind the quote that closes its value, which would be lost. A value with ${nameOf(quote)} in it goes into other quotes.`;
  return { fault, next: lineEnd + 1 };
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}

function nameOf(quote: string): string {
  return quote === '"' ? "a double quote" : quote === "'" ? "a single quote" : "a backtick";
}
