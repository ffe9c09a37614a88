/** Carries out bulk actions, a page of jobs at a time. Any number of processes may do so at once. */
import { HoldfastError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { calledFirst, type RetryStores } from "../jobs/results.ts";
import { fits, type Looked, walksOf } from "./filter.ts";
import type { Page, Position } from "./look.ts";
import type { BulkChunk, BulkRow, BulkStore, Refusal } from "./store.ts";

/** Jobs that are examined before another chore of the process has its turn. */
const PAGE = 500;

/** Jobs that are changed in one transaction. */
const TOGETHER_MAX = 100;

export interface CarrierParts {
  readonly store: RetryStores & { readonly bulk: BulkStore };
  readonly newId: () => string;
  readonly logger: Logger;
  /** The name of this process in the rows. */
  readonly name: string;
}

/** A part of a page, for one transaction. */
interface Span {
  readonly jobs: readonly Looked[];
  readonly looked: number;
  readonly next: Position | null;
}

export class BulkCarrier {
  readonly #parts: CarrierParts;

  constructor(parts: CarrierParts) {
    this.#parts = parts;
  }

  /** Carries out a page of the action that is next. False: there is none. */
  async once(): Promise<boolean> {
    const { store, name } = this.#parts;
    const id = await store.bulk.next(name);
    if (id === null) return false;
    await this.page(id);
    return true;
  }

  /** Carries out a page of this action. Returns it as it is afterwards. */
  async page(id: string): Promise<BulkRow> {
    const { store, logger } = this.#parts;
    const row = await store.bulk.get(id);
    if (row.status !== "running") return row;
    try {
      await this.#page(row);
    } catch (error) {
      if (isAboutDatabase(error)) throw error;
      const said = error instanceof Error ? error.message : String(error);
      await store.bulk.fail(id, said);
      logger.error({ event: "bulk:failed", bulk: id, err: error }, `bulk action ${id} failed`);
    }
    const after = await store.bulk.get(id);
    if (after.status === "done") {
      const { action, matched, changed, refused } = after;
      const counts = { matched, changed, refused };
      logger.info({ event: "bulk:done", bulk: id, action, ...counts }, `bulk ${action} is done`);
    }
    return after;
  }

  async #page(row: BulkRow): Promise<void> {
    const page = await this.#parts.store.bulk.look(row, PAGE);
    let at = row.position;
    for (const span of spansOf(row, page)) {
      if (!(await this.#span(row, at, span))) return; // another process was first
      if (span.next === null) return;
      at = span.next;
    }
  }

  async #span(row: BulkRow, at: Position, span: Span): Promise<boolean> {
    const [first, ...others] = span.jobs;
    const isApart = first !== undefined && others.length === 0 && mustBeApart(row, first);
    try {
      if (isApart) await this.#retryCalled(row, first);
      return await this.#carry(row, at, span);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      if (first === undefined) throw error;
      if (others.length === 0) return this.#carry(row, at, span, [refusalOf(first.id, error)]);
    }
    // One of the jobs cannot be changed, so none was: change them one by one.
    let here = at;
    for (const [index, job] of span.jobs.entries()) {
      const isLast = index === span.jobs.length - 1;
      const next = isLast ? span.next : { walk: at.walk, before: job.id };
      const looked = isLast ? span.looked - index : 1;
      if (!(await this.#span(row, here, { jobs: [job], looked, next }))) return false;
      here = next ?? here;
    }
    return true;
  }

  #carry(row: BulkRow, at: Position, span: Span, refusals: readonly Refusal[] = []) {
    const { store, name, newId } = this.#parts;
    const matched = span.jobs.map(({ id }) => id);
    const changes = row.dryRun || refusals.length > 0 ? [] : matched;
    const chunk: BulkChunk = {
      id: row.id,
      carrier: name,
      at,
      next: span.next,
      looked: span.looked,
      matched,
      change: changes.map((id) => ({ id, line: newId() })),
      refusals,
    };
    return store.bulk.carry(chunk);
  }

  /** Without its called jobs it would fail again at once. ReopenTerms one twice is refused, and changes nothing. */
  async #retryCalled({ terms, ...row }: BulkRow, { id }: Looked): Promise<void> {
    const { store, newId } = this.#parts;
    const { actor, reason, traceId } = row;
    for (const called of await calledFirst(store, id, terms.withCalled)) {
      const operator = { id: newId(), actor, reason, traceId };
      await store.jobs.retry(called, terms.attempts ?? 1, operator);
    }
  }
}

/** A job that failed because a called job failed is retried by itself, after that job. */
function mustBeApart({ action, dryRun }: BulkRow, { error }: Looked): boolean {
  return action === "retry" && !dryRun && error?.code === "CALL_FAILED";
}

/** The page in parts that have at most as many matching jobs as one transaction changes. */
function* spansOf(row: BulkRow, { examined, jobs }: Page): Generator<Span> {
  const { walk } = row.position;
  const matching = jobs.filter((job) => fits(job, row.filter));
  const end = endOf(row, examined);
  let looked = 0;
  let open: Looked[] = [];
  for (const job of matching) {
    const isApart = mustBeApart(row, job);
    const before = isApart ? open : open.length === TOGETHER_MAX ? open : [];
    if (before.length > 0) {
      const last = before.at(-1)?.id ?? null;
      const seen = examined.filter((id) => last === null || id >= last).length;
      yield { jobs: before, looked: seen - looked, next: { walk, before: last } };
      looked = seen;
      open = [];
    }
    open.push(job);
    if (!isApart || job === matching.at(-1)) continue;
    const seen = examined.filter((id) => id >= job.id).length;
    yield { jobs: open, looked: seen - looked, next: { walk, before: job.id } };
    looked = seen;
    open = [];
  }
  yield { jobs: open, looked: examined.length - looked, next: end };
}

/** Where the action stands after a whole page: further down, at the next walk, or at its end. */
function endOf(row: BulkRow, examined: readonly string[]): Position | null {
  const { walk } = row.position;
  if (examined.length === PAGE) return { walk, before: examined.at(-1) ?? null };
  const walks = walksOf(row.action, row.filter);
  const next = walks[walks.indexOf(walk) + 1];
  if (next === undefined || (next === "returned" && row.dryRun)) return null;
  // Jobs that were enqueued after the action have greater ids than it.
  return { walk: next, before: next === "returned" ? row.id : null };
}

function refusalOf(id: string, { code, message }: HoldfastError): Refusal {
  return { id, code, message };
}

/** Whether the error is about one job. */
function isRefusal(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && !isAboutDatabase(error);
}

/** Another try may succeed. */
function isAboutDatabase(error: unknown): boolean {
  return error instanceof HoldfastError && /^(?:STORE|SCHEMA|OUTCOME|CLOSED)/.test(error.code);
}
