/** The checks of all features, in the order of the report: jobs first. */
import { auditChecks } from "../audit/checks.ts";
import { bulkChecks } from "../bulk/checks.ts";
import { schemaChecks } from "../doctor/schema-checks.ts";
import type { CheckGroup } from "../doctor/store.ts";
import { flowChecks } from "../flows/checks.ts";
import { orphanChecks, placeChecks } from "../jobs/checks.ts";
import { formatChecks } from "../jobs/format-checks.ts";
import { leaseChecks, overdueChecks } from "../jobs/lease-checks.ts";
import { lockChecks } from "../locks/checks.ts";
import { unclaimableChecks, workerChecks } from "../registry/checks.ts";
import { scheduleChecks } from "../schedules/checks.ts";
import { stepChecks, waitChecks } from "../steps/checks.ts";
import { itemChecks } from "../workflows/checks.ts";
import { jobHooks } from "./hooks.ts";

export const checkGroups: readonly CheckGroup[] = [
  { about: "jobs", checks: placeChecks },
  { about: "leases", checks: leaseChecks(jobHooks) },
  { about: "workers", checks: workerChecks },
  { about: "waiting", checks: [...overdueChecks(jobHooks), ...waitChecks, ...unclaimableChecks] },
  { about: "flows", checks: flowChecks(jobHooks) },
  { about: "steps", checks: stepChecks },
  { about: "bulk", checks: bulkChecks },
  { about: "leftovers", checks: orphanChecks },
  { about: "items", checks: itemChecks },
  { about: "schedules", checks: scheduleChecks },
  { about: "audit", checks: auditChecks },
  { about: "locks", checks: lockChecks },
  { about: "ids", checks: formatChecks },
  { about: "schema", checks: schemaChecks },
];
