/** Which errors are of one kind: those of one task with the same name and code, and a message that differs in values only. */
import { createHash } from "node:crypto";
import { decodeError, type ErrorRecord } from "./error-record.ts";
import { bareName } from "./name.ts";

const ID_LENGTH = 32;

/** Of the message's start. */
const PATTERN_LENGTH_MAX = 300;

const NAME_LENGTH_MAX = 255;

export interface KindFacts {
  /** Its fingerprint. Jobs that failed have it: another release must make the same of the same error. */
  readonly id: string;
  readonly task: string;
  readonly name: string;
  readonly code: string | null;
  readonly message: string;
}

export function kindOf(task: string, { name, code, message }: ErrorRecord): KindFacts {
  const kind = {
    task: bareName(task),
    name: name.slice(0, NAME_LENGTH_MAX),
    code: code === undefined ? null : code.slice(0, NAME_LENGTH_MAX),
    message: patternOf(message),
  };
  const text = JSON.stringify([kind.task, kind.name, kind.code, kind.message]);
  const id = createHash("sha256").update(text).digest("hex");
  return { id: id.slice(0, ID_LENGTH), ...kind };
}

/** The fingerprint of an error as it is stored; null: there is none. */
export function kindIdOf(task: string, error: string | null): string | null {
  return error === null ? null : kindOf(task, decodeError(error)).id;
}

/**
 * Quoted texts, ids, addresses and numbers are values. Each pattern is a class of characters or begins with a fixed one, so
 * a message takes linear time.
 */
function patternOf(message: string): string {
  const [line = ""] = message.slice(0, 2 * PATTERN_LENGTH_MAX).split("\n", 1);
  return line
    .replaceAll(/"[^"]*"|'[^']*'|`[^`]*`/g, "…")
    .replaceAll(/\b[\w.+-]{1,64}@[\w.-]{1,255}/g, "…")
    .replaceAll(/[\w-]*\d[\w-]*/g, "…")
    .replaceAll(/…(?:[.:,/]?…)+/g, "…")
    .slice(0, PATTERN_LENGTH_MAX)
    .toWellFormed();
}
