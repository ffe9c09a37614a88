/** Which errors are of one kind: those of one task with the same name and code, and a message that differs in values only. */
import { sha256 } from "../audit/entry.ts";
import type { ErrorRecord } from "../core/error-record.ts";
import { bareName } from "../core/name.ts";

const ID_LENGTH = 32;

/** Of the message's start. */
const PATTERN_LENGTH_MAX = 300;

const NAME_LENGTH_MAX = 255;

export interface Kind {
  readonly id: string;
  readonly task: string;
  readonly name: string;
  readonly code: string | null;
  /** The message with … in place of values. */
  readonly message: string;
}

export function kindOf(task: string, { name, code, message }: ErrorRecord): Kind {
  const kind = {
    task: bareName(task),
    name: name.slice(0, NAME_LENGTH_MAX),
    code: code === undefined ? null : code.slice(0, NAME_LENGTH_MAX),
    message: patternOf(message),
  };
  const id = sha256(JSON.stringify([kind.task, kind.name, kind.code, kind.message]));
  return { id: id.slice(0, ID_LENGTH), ...kind };
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
