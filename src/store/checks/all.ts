/** All checks, in the order in which they are told: from jobs outwards. */
import type { Engine } from "../engine.ts";
import type { CheckRecord } from "../findings.ts";
import { auditChecks } from "./audit.ts";
import type { Check } from "./check.ts";
import { formatChecks } from "./formats.ts";
import { itemChecks } from "./items.ts";
import { leaseChecks } from "./leases.ts";
import { lockChecks } from "./locks.ts";
import { orphanChecks } from "./orphans.ts";
import { placeChecks } from "./places.ts";
import { schemaChecks } from "./schema.ts";
import { stepChecks } from "./steps.ts";
import { waitChecks } from "./waits.ts";
import { workerChecks } from "./workers.ts";

const SHARED: readonly (readonly [string, readonly Check[]])[] = [
  ["jobs", placeChecks],
  ["leases", leaseChecks],
  ["workers", workerChecks],
  ["waiting", waitChecks],
  ["steps", stepChecks],
  ["leftovers", orphanChecks],
  ["items", itemChecks],
  ["audit", auditChecks],
  ["locks", lockChecks],
  ["ids", formatChecks],
  ["schema", schemaChecks],
];

/** Those of any database. */
export function sharedChecks(): Check[] {
  return SHARED.flatMap(([, checks]) => checks);
}

/** By name: what is to be asked, and what is said of it. */
export function checksOf(engine: Engine): Map<string, { check: Check; record: CheckRecord }> {
  const groups = [...SHARED, ["server", engine.anatomy.checks] as const];
  const named = groups.flatMap(([about, checks]) =>
    checks.map((check) => [check.name, { check, record: recordOf(about, check) }] as const),
  );
  return new Map(named);
}

function recordOf(
  about: string,
  { name, severity, problem, remedy, cost, fix }: Check,
): CheckRecord {
  return { name, about, severity, problem, remedy, cost, fixable: fix !== undefined };
}
