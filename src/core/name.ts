/**
 * The names of queues and tasks, and the keys of jobs.
 *
 * They compare as bytes on every engine, so what looks the same has to be the same: one normal
 * form, no blanks at the ends, no control characters, none that cannot be seen. Case counts: 'Mail' and 'mail' are two names.
 */
import { hasControl, hasInvisible, visible } from "./characters.ts";
import { InvalidArgument } from "./errors.ts";

export const NAME_LENGTH_MAX = 128;
export const KEY_LENGTH_MAX = 256;

const SHOWN_MAX = 40;

/** Returns the name of a queue or task, or throws InvalidArgument that names the field. */
export function checkName(field: string, name: string): string {
  return checkLabel(field, name, NAME_LENGTH_MAX);
}

/** Returns the key of a job, or throws InvalidArgument that names the field. */
export function checkKey(field: string, key: string): string {
  return checkLabel(field, key, KEY_LENGTH_MAX);
}

/** The same rules for what has a length of its own. */
export function checkLabel(field: string, text: string, lengthMax: number): string {
  const problem = problemOf(text, lengthMax);
  if (problem !== null) throw new InvalidArgument({ field, problem });
  return text;
}

function problemOf(text: unknown, lengthMax: number): string | null {
  if (typeof text !== "string")
    return `must be a string, not ${text === null ? "null" : typeof text}.`;
  if (text === "") return "must not be empty.";
  if (text.length > lengthMax) {
    return `has ${text.length} characters; at most ${lengthMax} are allowed.`;
  }
  if (text.trim() !== text) return `${show(text)} must not begin or end with a blank.`;
  if (hasControl(text)) return `${show(text)} contains a control character.`;
  if (hasInvisible(text)) {
    return `${show(text)} contains a character that has no width or turns the direction of a text.`;
  }
  if (!text.isWellFormed()) return `${show(text)} contains half of a character (a lone surrogate).`;
  if (text.normalize("NFC") !== text) {
    return `${show(text)} is not in Unicode normal form C. Call .normalize("NFC") on it first.`;
  }
  return null;
}

function show(text: string): string {
  return visible(JSON.stringify(text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text));
}
