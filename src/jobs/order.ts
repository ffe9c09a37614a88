/** In which order jobs are listed, and how a position in it is written. */
import { isId } from "../core/id.ts";
import type { Status } from "../core/job.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { CheckedFilter } from "./filter.ts";

/** Failed, cancelled and expired jobs are rare, so each of these has a partial index. */
export const RARE: Readonly<Partial<Record<Status, Sql>>> = {
  failed: sql`p.status = 'failed'`,
  cancelled: sql`p.status = 'cancelled'`,
  expired: sql`p.status = 'expired'`,
};

/** Of jobs that ended. Those that are done are many: an index of theirs by end would cost every job, so they have none. */
export const orders = ["enqueued", "ended"] as const;

export type Order = (typeof orders)[number];

/** Whether a list of this filter can be in the order of the ends. */
export function isByEnd({ status = [] }: CheckedFilter): boolean {
  return status.length > 0 && status.every((one) => RARE[one] !== undefined);
}

/** Whether a text is a position in this order. */
export function isPosition(order: Order, text: string): boolean {
  if (order === "enqueued") return isId(text);
  const [, at = "", id = ""] = /^(\d{1,15})\.(.*)$/.exec(text) ?? [];
  return at !== "" && isId(id);
}

// No position is beyond the first and the last: a condition on the column lets every engine begin where its index does.

/** `finished_at` only in the order of the ends. */
export interface Positioned {
  readonly id: string;
  readonly finished_at?: number;
}

export interface Line {
  /** What a row needs for its position, beside its id. */
  readonly columns: Sql;
  readonly by: Sql;
  readonly within: (low: string | undefined, high: string | undefined) => Sql;
  readonly positionOf: (row: Positioned) => string;
}

const FIRST_ID = "00000000-0000-0000-0000-000000000000";
export const AFTER_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff";

export const BY_ID: Line = {
  columns: nothing,
  by: sql`p.id desc`,
  within: (low = FIRST_ID, high = AFTER_ALL) => sql`p.id >= ${low} and p.id < ${high}`,
  positionOf: ({ id }) => id,
};

export function endAt(at: number | undefined): string | undefined {
  return at === undefined ? undefined : `${at}.${FIRST_ID}`;
}

function endOf(position: string): [at: number, id: string] {
  const [at = "", id = ""] = position.split(".");
  return [Number(at), id];
}

export const BY_END: Line = {
  columns: sql`, p.finished_at`,
  by: sql`p.finished_at desc, p.id desc`,
  within: (low, high) => {
    const [since, from] = endOf(low ?? `0.${FIRST_ID}`);
    const [until, to] = endOf(high ?? `${Number.MAX_SAFE_INTEGER}.${AFTER_ALL}`);
    return sql`p.finished_at >= ${since} and p.finished_at <= ${until}
       and (p.finished_at > ${since} or p.id >= ${from}) and (p.finished_at < ${until} or p.id < ${to})`;
  },
  positionOf: ({ id, finished_at: at = 0 }) => `${at}.${id}`,
};
