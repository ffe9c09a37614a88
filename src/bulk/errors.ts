/** Errors of bulk actions. */
import { HoldfastError } from "../core/errors.ts";

export class BulkNotFoundError extends HoldfastError {
  constructor(facts: { id: string }) {
    super(
      "BULK_NOT_FOUND",
      `There is no bulk action ${facts.id}. It was never started here, or it ended long ago. To list actions: holdfast bulk`,
    );
  }
}

/** All jobs were looked at, so there is nothing to resume. */
export class BulkEndedError extends HoldfastError {
  constructor(facts: { id: string }) {
    super(
      "BULK_ENDED",
      `Bulk action ${facts.id} is done. To change jobs that match now, start another with the same filter.`,
    );
  }
}
