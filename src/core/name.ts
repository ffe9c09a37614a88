/**
 * The names of queues and tasks, and the keys of jobs.
 *
 * They compare as bytes on every engine, so names that look the same must be the same: one normal form, no blanks at the
 * ends, no control characters, no invisible ones. Names are case-sensitive.
 */
import { hasControl, hasInvisible, visible } from "./text.ts";
import { invalid } from "./errors.ts";
import { checkList, checkWhole } from "./options.ts";

export const NAME_LENGTH_MAX = 128;
export const KEY_LENGTH_MAX = 256;
export const TAG_LENGTH_MAX = 64;

/** Queues of Holdfast itself; applications enqueue no jobs there. */
export const RESERVED = "holdfast.";
/** Names that begin with it sort between the two. */
export const AFTER_RESERVED = RESERVED.replace(".", "/");
/** Its jobs deliver alerts. */
export const ALERT_QUEUE = `${RESERVED}alerts`;

/** The name under which the queues beyond a limit are counted together. */
export const OTHER_QUEUES = "(others)";

const SHOWN_MAX = 40;

/** Returns the name of a queue or task, or throws InvalidArgumentError that names the field. */
export function checkName(field: string, name: string): string {
  return checkLabel(field, name, NAME_LENGTH_MAX);
}

/** Statistics, lists and bulk changes leave out the jobs of a reserved queue, unless it is named. */
export function isReserved(queue: string): boolean {
  return queue.startsWith(RESERVED);
}

/** Returns the name of a queue for jobs of an application, or throws InvalidArgumentError that names the field. */
export function checkQueue(field: string, queue: string): string {
  if (!isReserved(checkName(field, queue))) return queue;
  throw invalid(
    field,
    `'${queue}' is reserved: names that begin with '${RESERVED}' belong to Holdfast. Choose another name.`,
  );
}

/** Returns the key of a job, or throws InvalidArgumentError that names the field. */
export function checkKey(field: string, key: string): string {
  return checkLabel(field, key, KEY_LENGTH_MAX);
}

/** The same rules with another length. */
export function checkLabel(field: string, text: string, lengthMax: number): string {
  const problem = problemOf(text, lengthMax);
  if (problem !== null) throw invalid(field, problem);
  return text;
}

/** Nearly every name: none of the rules below can be broken. */
const PLAIN = /^[\w.:@/-]+$/;

function problemOf(text: unknown, lengthMax: number): string | null {
  if (typeof text !== "string")
    return `must be a string, not ${text === null ? "null" : typeof text}.`;
  if (text === "") return "must not be empty.";
  if (text.length > lengthMax) {
    return `has ${text.length} characters; at most ${lengthMax} are allowed.`;
  }
  if (PLAIN.test(text)) return null;
  if (text.trim() !== text) return `${show(text)} must not begin or end with white space.`;
  if (hasControl(text)) return `${show(text)} contains a control character.`;
  if (hasInvisible(text)) {
    return `${show(text)} contains a zero-width character or one that changes the text direction.`;
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

// Tags: a few short words on a job, by which lists and bulk actions find it. Jobs without tags have no rows.

/** Tags of one job, and tags of one filter. */
export const TAGS_MAX = 10;

/** Each once and in order, or throws InvalidArgumentError that names the field. */
export function checkTags(field: string, tags: readonly string[]): readonly string[] {
  const known = new Set(
    checkList(field, tags).map((tag, at) => checkLabel(`${field}[${at}]`, tag, TAG_LENGTH_MAX)),
  );
  if (known.size <= TAGS_MAX) return [...known].toSorted();
  const problem = `has ${known.size} tags; at most ${TAGS_MAX} are allowed.`;
  throw invalid(field, problem);
}

// The name of a task in its jobs: `order.ship`, or `order.ship@2` if the task has a version.
//
// The version is part of the name because workers claim by name: a worker takes only jobs of the versions it knows.

const AT = "@";
/** The next byte: all versions of a name sort between the two. */
const AFTER_AT = "A";
const VERSION_MAX = 999_999;
export const TASK_NAME = /^[^@]+(@[1-9]\d{0,5})?$/;

/** Returns the name of a task of this version, or throws InvalidArgumentError that names the field. */
export function taskName(name: string, version: number | null): string {
  if (checkName("name", name).includes(AT)) {
    throw invalid(
      "name",
      `'${name}' contains '@', which separates the version: pass the version as { version }.`,
    );
  }
  if (version === null) return name;
  return checkName(
    "name",
    name + AT + checkWhole("version", version, { least: 1, most: VERSION_MAX }),
  );
}

/** Returns a name with or without version, or throws InvalidArgumentError that names the field. */
export function checkTaskName(field: string, task: string): string {
  if (TASK_NAME.test(checkName(field, task))) return task;
  throw invalid(
    field,
    `'${task}' is not the name of a task: '@' must be followed by a version, a number from 1.`,
  );
}

/** The name without the version. Keys use it, so that two versions of a task do not do the same work twice. */
export function bareName(task: string): string {
  const at = task.indexOf(AT);
  return at === -1 ? task : task.slice(0, at);
}

/** The range of the names of all versions of a task; null: the name has a version. */
export function versionsOf(task: string): { after: string; before: string } | null {
  return task.includes(AT) ? null : { after: task + AT, before: task + AFTER_AT };
}

/**
 * No control characters: some databases reject them. Written as ranges, because the pattern is in the OpenAPI document,
 * and not every language knows Unicode properties.
 */
export const TEXT = new RegExp(String.raw`^[^\x00-\x1f\x7f-\x9f]*$`);
