/** Why a step is refused. */
import { InvalidArgument } from "../core/errors.ts";

export function nested(name: string): InvalidArgument {
  return new InvalidArgument({
    field: "name",
    problem: `'${name}' is inside of another step: make one after the other.`,
  });
}

export function tooLate(name: string): InvalidArgument {
  return new InvalidArgument({
    field: "name",
    problem: `'${name}' comes after the job was completed: make it before, and return.`,
  });
}

export function notNow(problem: string): InvalidArgument {
  return new InvalidArgument({ field: "complete", problem });
}

export function checkBody(field: string, body: unknown): void {
  if (typeof body === "function") return;
  throw new InvalidArgument({ field, problem: "give a name and a function." });
}
