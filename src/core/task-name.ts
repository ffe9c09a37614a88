/**
 * The name of a task as its jobs carry it: `order.ship`, or `order.ship@2` where the task says which version it is.
 *
 * The version is part of the name because a claim goes by the name: a worker takes jobs of the versions it knows and
 * leaves the others alone, and so does one that was built before there were versions.
 */
import { checkWhole } from "./check.ts";
import { InvalidArgument } from "./errors.ts";
import { checkName } from "./name.ts";

const AT = "@";
/** What follows it in the order of bytes: between the two stand all versions of a name. */
const AFTER_AT = "A";
const VERSION_MAX = 999_999;
export const TASK_NAME = /^[^@]+(@[1-9]\d{0,5})?$/;

/** Returns the name of a task of this version, or throws InvalidArgument that names the field. */
export function taskName(name: string, version: number | null): string {
  if (checkName("name", name).includes(AT)) {
    throw new InvalidArgument({
      field: "name",
      problem: `'${name}' contains '@', which comes before a version: give it as { version }.`,
    });
  }
  if (version === null) return name;
  return checkName(
    "name",
    name + AT + checkWhole("version", version, { least: 1, most: VERSION_MAX }),
  );
}

/** Returns a name as jobs carry it, or throws InvalidArgument that names the field. */
export function checkTaskName(field: string, task: string): string {
  if (TASK_NAME.test(checkName(field, task))) return task;
  throw new InvalidArgument({
    field,
    problem: `'${task}' is no task's name: after '@' comes its version, a number from 1.`,
  });
}

/** The name without the version: what keys go by, so that two versions of a task do not do the same thing twice. */
export function bareName(task: string): string {
  const at = task.indexOf(AT);
  return at === -1 ? task : task.slice(0, at);
}

/** Where the names of all versions of a task are, if the name says none; null: it says one. */
export function versionsOf(task: string): { after: string; before: string } | null {
  return task.includes(AT) ? null : { after: task + AT, before: task + AFTER_AT };
}
