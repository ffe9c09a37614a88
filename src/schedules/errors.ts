/** Errors of schedules. */
import {
  HoldfastError,
  OutcomeUnknownError,
  StoreBusyError,
  StoreUnavailableError,
} from "../core/errors.ts";

/** The database is away or busy: it is not the fault of the schedule. */
export function isOutage(error: unknown): boolean {
  return [StoreUnavailableError, StoreBusyError, OutcomeUnknownError].some(
    (kind) => error instanceof kind,
  );
}

export class ScheduleNotFoundError extends HoldfastError {
  readonly schedule: string;

  constructor(facts: { schedule: string }) {
    super(
      "SCHEDULE_NOT_FOUND",
      `There is no schedule '${facts.schedule}'. To list schedules: holdfast schedules`,
    );
    this.schedule = facts.schedule;
  }
}

export class ScheduleExistsError extends HoldfastError {
  readonly schedule: string;

  constructor(facts: { schedule: string }) {
    super(
      "SCHEDULE_EXISTS",
      `Schedule '${facts.schedule}' already exists. Edit it, or choose another name.`,
    );
    this.schedule = facts.schedule;
  }
}

/** The schedule was changed since the caller read it. */
export class ScheduleChangedError extends HoldfastError {
  readonly schedule: string;
  readonly revision: number;

  constructor(facts: { schedule: string; revision: number; expected: number }) {
    super(
      "SCHEDULE_CHANGED",
      `Schedule '${facts.schedule}' has revision ${facts.revision}, not ${facts.expected}: it was changed in the meantime. ` +
        `Read it again, and repeat the change if it still applies.`,
    );
    this.schedule = facts.schedule;
    this.revision = facts.revision;
  }
}

/** Workers declare the schedule in code, so deleting it would last until the next one starts. */
export class ScheduleDeclaredError extends HoldfastError {
  readonly schedule: string;
  readonly declaredBy: string;

  constructor(facts: { schedule: string; declaredBy: string }) {
    super(
      "SCHEDULE_DECLARED",
      `Schedule '${facts.schedule}' is declared in the code of workers named '${facts.declaredBy}' so the next start would create it again. ` +
        `Pause it, or remove it from the code. If those workers no longer exist, delete it with force.`,
    );
    this.schedule = facts.schedule;
    this.declaredBy = facts.declaredBy;
  }
}
