/** Errors of steps and events. */
import { HoldfastError } from "../core/errors.ts";

/** Thrown by an effect: nothing happened outside, so a retry is safe. */
export class NotDoneError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("NOT_DONE", message, cause);
  }
}

/** The task changed since its job began, so its stored steps do not match. */
export class StepsChangedError extends HoldfastError {
  constructor(facts: { position: number; kept: string; found: string }) {
    super(
      "STEPS_CHANGED",
      `Step ${facts.position} of this job was ${facts.kept} when the job began, and is ${facts.found} now. ` +
        `Give the changed task a new version and keep the old one for jobs that have begun, ` +
        `or declare \`steps: "by name"\` where the order of steps does not matter.`,
    );
  }
}

/** Effects would happen again, and the caller has not named them. */
export class RerunUnconfirmedError extends HoldfastError {
  readonly id: string;
  readonly unconfirmed: readonly string[];

  constructor(facts: { id: string; unconfirmed: readonly string[] }) {
    super(
      "RERUN_UNCONFIRMED",
      `Running job ${facts.id} again from there would repeat: ${facts.unconfirmed.join(", ")}. ` +
        `Confirm each of them by name, or start after them.`,
    );
    this.id = facts.id;
    this.unconfirmed = facts.unconfirmed;
  }
}

export class StepNotFoundError extends HoldfastError {
  constructor(facts: { id: string; step: string; steps: readonly string[] }) {
    super(
      "STEP_NOT_FOUND",
      `Job ${facts.id} has no step '${facts.step}'. Its steps are: ${facts.steps.join(", ") || "none"}.`,
    );
  }
}

/** The event that a job waited for was not emitted in time. */
export class EventTimeoutError extends HoldfastError {
  constructor(facts: { event: string; key: string; timeoutMs: number }) {
    super(
      "EVENT_TIMEOUT",
      `The event '${facts.event}' with the key '${facts.key}' was not emitted within ${facts.timeoutMs} ms.`,
    );
  }
}

/** A called job failed or was cancelled, or its result could not be stored. */
export class CallFailedError extends HoldfastError {
  readonly id: string;
  readonly task: string;
  readonly status: string;

  constructor(facts: { id: string; task: string; status: string; said: string }) {
    const { status, said } = facts;
    const verb = status === "done" ? "is done, but gives no result" : "failed";
    const ending = status === "cancelled" ? "was cancelled." : `${verb}: ${said}`;
    super("CALL_FAILED", `The job it called, ${facts.id} (${facts.task}), ${ending}`);
    this.id = facts.id;
    this.task = facts.task;
    this.status = facts.status;
  }
}

/** A task completed its job in a transaction that was not committed: the job is not done. */
export class NotCommittedError extends HoldfastError {
  constructor(facts: { id: string }) {
    super(
      "NOT_COMMITTED",
      `Job ${facts.id} was completed in a transaction that was not committed when its function returned. ` +
        `Commit it before you return, or throw the error.`,
    );
  }
}

/** The reason of an aborted signal: the job frees its slot, and later starts again from its beginning. */
export class SuspendedError extends HoldfastError {
  constructor() {
    super("SUSPENDED", "The job is suspended. It resumes later, after its completed steps.");
  }
}
