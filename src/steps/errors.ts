/** What can go wrong with what jobs keep and wait for. */
import { HoldfastError } from "../core/errors.ts";

/** For effects to throw: nothing happened outside, so it may be tried again without asking. */
export class NotDoneError extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("NOT_DONE", message, cause);
  }
}

/** A task does not do what it did when its job began, so what was kept of it cannot be matched. */
export class StepsChangedError extends HoldfastError {
  constructor(facts: { position: number; kept: string; found: string }) {
    super(
      "STEPS_CHANGED",
      `Step ${facts.position} of this job was ${facts.kept} when it began, and is ${facts.found} now. ` +
        `Give the changed task a new version and keep the old one for jobs that have begun, ` +
        `or declare \`steps: "by name"\` where the order of steps does not matter.`,
    );
  }
}

/** What a job waited for was not said in time. */
export class EventTimeoutError extends HoldfastError {
  constructor(facts: { event: string; key: string; timeoutMs: number }) {
    super(
      "EVENT_TIMEOUT",
      `The event '${facts.event}' of '${facts.key}' was not said within ${facts.timeoutMs} ms.`,
    );
  }
}

/** A job that was called by another failed, or was cancelled. */
export class CallFailedError extends HoldfastError {
  readonly id: string;
  readonly task: string;
  readonly status: string;

  constructor(facts: { id: string; task: string; status: string; said: string }) {
    const ending = facts.status === "cancelled" ? "was cancelled." : `failed: ${facts.said}`;
    super("CALL_FAILED", `The job it called, ${facts.id} (${facts.task}), ${ending}`);
    this.id = facts.id;
    this.task = facts.task;
    this.status = facts.status;
  }
}

/** A task ended its job in a transaction that was rolled back, or never ended: the job is not done. */
export class NotCommittedError extends HoldfastError {
  constructor(facts: { id: string }) {
    super(
      "NOT_COMMITTED",
      `Job ${facts.id} was completed inside of a transaction that was not committed when its function returned. ` +
        `Commit it before you return, or throw what went wrong.`,
    );
  }
}

/** The reason of a signal: the job gives its place back until it can go on. It begins again from its start then. */
export class SuspendedError extends HoldfastError {
  constructor() {
    super("SUSPENDED", "The job gives its place back, and goes on later from what was kept.");
  }
}
