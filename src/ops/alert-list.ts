/** Alerts for people and programs that look. */
import type { Alert, AlertFacts } from "../core/alert.ts";
import { checkKnown, checkWhole } from "../core/check.ts";
import { InvalidArgument } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import type { AlertFilter, AlertRecord, AlertRows } from "../store/alerts.ts";

export interface AlertsFilter {
  /** Raised ones (the default), those with what is pending, or all that were ever raised. */
  readonly which?: AlertFilter["which"];
  /** Only those that were noticed before the one with this id: the last of the page before. */
  readonly before?: string;
  readonly limit?: number;
}

const KNOWN = new Set(["which", "before", "limit"]);
const KINDS: readonly string[] = ["raised", "open", "all"] satisfies AlertFilter["which"][];
export const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 1_000;

/** Those that were noticed last first. */
export async function listAlerts(store: AlertRows, filter: AlertsFilter = {}): Promise<Alert[]> {
  checkKnown(filter, KNOWN);
  const { which = "raised", before } = filter;
  if (!KINDS.includes(which)) {
    throw new InvalidArgument({ field: "which", problem: `must be one of: ${KINDS.join(", ")}.` });
  }
  if (before !== undefined && !isId(before)) {
    throw new InvalidArgument({ field: "before", problem: "must be the id of an alert." });
  }
  const limit = checkWhole("limit", filter.limit ?? LIMIT_DEFAULT, { least: 1, most: LIMIT_MAX });
  const records = await store.alerts({ which, limit, ...(before === undefined ? {} : { before }) });
  return records.map(alertOf);
}

export function alertOf(record: AlertRecord): Alert {
  return { ...record, facts: factsOf(record.facts) };
}

/** Somebody may have written to the row by hand. */
function factsOf(text: string): AlertFacts {
  try {
    const facts: unknown = JSON.parse(text);
    return typeof facts === "object" && facts !== null ? (facts as AlertFacts) : {};
  } catch {
    return {};
  }
}
