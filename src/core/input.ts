/** The input of a job, as the schema of its task parses it: checked when it is enqueued, and before it runs. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { InputRejectedError } from "./errors.ts";
import type { Task } from "./task.ts";

/**
 * The input as parsed by the schema of the task; a promise if the schema is asynchronous. Throws InputRejectedError.
 *
 * A missing input is stored as null, so a schema that refuses null is asked whether the input may be missing.
 */
export function parseInput(task: Task, value: unknown): unknown {
  if (task.input === null) return value;
  const schema = task.input;
  const input = value ?? null;
  return validated(schema, input, (checked) => {
    if (input !== null || checked.issues === undefined) return accepted(task, checked);
    return validated(schema, undefined, (missing) => {
      const isRefused = missing.issues !== undefined && value === null;
      return accepted(task, isRefused ? checked : missing);
    });
  });
}

type Checked = StandardSchemaV1.Result<unknown>;

function validated(
  schema: StandardSchemaV1,
  value: unknown,
  then: (checked: Checked) => unknown,
): unknown {
  const checked = schema["~standard"].validate(value);
  // Not `instanceof Promise`: a promise of another realm would pass for a result, and the input would go unchecked.
  return "then" in checked && typeof checked.then === "function"
    ? Promise.resolve(checked).then(then)
    : then(checked as Checked);
}

function accepted(task: Task, checked: StandardSchemaV1.Result<unknown>): unknown {
  if (checked.issues === undefined) return checked.value;
  const issues = checked.issues.map((issue) => ({
    path: pathText(issue.path ?? []),
    message: issue.message,
  }));
  throw new InputRejectedError({ task: task.name, issues });
}

function pathText(path: readonly (PropertyKey | StandardSchemaV1.PathSegment)[]): string {
  const keys = path.map((part) => (typeof part === "object" ? part.key : part));
  return keys.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : `${text}.${String(key)}`),
    "$",
  );
}
