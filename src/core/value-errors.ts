/** Errors about values that cannot be stored. */
import { HoldfastError } from "./errors.ts";

/** The name of a function's result that cannot be stored, and the consequence in a sentence. */
export interface Returned {
  readonly what: string;
  readonly consequence: string;
}

/** A value that JSON would silently change or lose. `path` locates it: `$.items[2].price`. */
export class NotSerializableError extends HoldfastError {
  readonly path: string;
  readonly problem: string;

  constructor(facts: { path: string; problem: string; returned?: Returned }) {
    const { path, problem, returned } = facts;
    const words = `${path}: ${problem}`;
    super(
      "NOT_SERIALIZABLE",
      returned === undefined
        ? words
        : `The ${returned.what} cannot be stored. ${words} ${returned.consequence}`,
    );
    this.path = path;
    this.problem = problem;
  }
}

/** A payload, result or report that is larger than its limit. */
export class TooLargeError extends HoldfastError {
  readonly what: string;
  readonly bytes: number;
  readonly bytesMax: number;

  constructor(facts: { what: string; bytes: number; bytesMax: number; consequence?: string }) {
    const consequence = facts.consequence === undefined ? "" : ` ${facts.consequence}`;
    super(
      "TOO_LARGE",
      `The ${facts.what} takes ${facts.bytes} bytes; at most ${facts.bytesMax} are allowed. ` +
        `Store it elsewhere and pass a reference to it.${consequence}`,
    );
    this.what = facts.what;
    this.bytes = facts.bytes;
    this.bytesMax = facts.bytesMax;
  }
}

/** No effect of this name of the job is in doubt, so there is nothing to resolve. */
export class EffectNotFoundError extends HoldfastError {
  readonly id: string;
  readonly inDoubt: readonly string[];

  constructor(facts: { id: string; name: string; occurrence: number; inDoubt: readonly string[] }) {
    const { id, name, occurrence, inDoubt } = facts;
    const which = occurrence === 1 ? `'${name}'` : `'${name}' (occurrence ${occurrence})`;
    super(
      "EFFECT_NOT_FOUND",
      `Job ${id} has no effect ${which} in doubt. In doubt: ${inDoubt.join(", ") || "none"}.`,
    );
    this.id = id;
    this.inDoubt = inDoubt;
  }
}
