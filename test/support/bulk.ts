/** Bulk actions for tests: stored, and carried out page by page. */
import assert from "node:assert/strict";
import type { Store } from "../../src/app/store.ts";
import { BulkCarrier } from "../../src/bulk/carrier.ts";
import { type BulkAction, type BulkRequest, checkRequest } from "../../src/bulk/request.ts";
import type { JobFilter } from "../../src/jobs/filter.ts";
import type { BulkRow } from "../../src/bulk/store.ts";
import type { Status } from "../../src/core/job.ts";
import { silentLogger } from "../../src/core/log.ts";
import { nextId } from "./jobs.ts";

export const ADA = { actor: "ada", reason: "all of them", traceId: null };

export function carrierOf(store: Store, name = "carrier"): BulkCarrier {
  return new BulkCarrier({ store, newId: nextId, logger: silentLogger, name });
}

export function startBulk(store: Store, request: BulkRequest): Promise<BulkRow> {
  const checked = checkRequest(request);
  return store.bulk.create(checked, { id: nextId(), ...ADA });
}

const PAGES_MAX = 1_000;

export async function runBulk(store: Store, request: BulkRequest): Promise<BulkRow> {
  let row = await startBulk(store, request);
  const carrier = carrierOf(store);
  for (let pages = 0; row.status === "running"; pages += 1) {
    assert.ok(pages < PAGES_MAX, "it does not end");
    row = await carrier.page(row.id);
  }
  return row;
}

export function countsOf({ status, looked, matched, changed, refused }: BulkRow): unknown[] {
  return [status, looked, matched, changed, refused];
}

/** Actions, each with the statuses that it walks over. */
export const WALKED: readonly {
  readonly action: BulkAction;
  readonly status?: readonly Status[];
}[] = [
  { action: "retry" },
  { action: "retry", status: ["cancelled"] },
  { action: "cancel", status: ["waiting"] },
  { action: "cancel", status: ["pending"] },
  { action: "cancel", status: ["processing"] },
  { action: "cancel" },
  { action: "move" },
];

/** Lists in the order of the ends. */
export const BY_END: readonly JobFilter[] = [
  { status: "failed" },
  { status: ["failed", "expired"], endedSince: 1, endedUntil: 2 ** 47 },
  { status: "failed", task: "mail", kind: "0".repeat(32) },
];

/** Lists of a few jobs that an index finds in an order of its own. */
export const FEW: readonly JobFilter[] = [
  { keyPrefix: "order-1" },
  { status: ["done", "failed"], endedSince: 1_700_000_000_000, endedUntil: 1_700_000_000_010 },
];

/** What a look needs of a stored action. */
export function rowOf({
  before,
  ...row
}: Pick<BulkRow, "action" | "filter"> & { readonly before: string | null }): BulkRow {
  return { ...row, position: { walk: "first", before } } as BulkRow;
}
