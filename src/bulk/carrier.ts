/** Carries out bulk actions, a page of jobs at a time. Any number of processes may do so at once. */
import { HoldfastError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { calledFirst, type RetryStores } from "../jobs/results.ts";
import type { Match, Walked } from "../jobs/walk.ts";
import { walksOf } from "./request.ts";
import type { BulkChunk, BulkRow, BulkStore, Position, Refusal } from "./store.ts";

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
  readonly jobs: readonly Match[];
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
  async #retryCalled({ terms, ...row }: BulkRow, { id }: Match): Promise<void> {
    const { store, newId } = this.#parts;
    const { actor, reason, traceId } = row;
    for (const called of await calledFirst(store, id, terms.withCalled)) {
      const operator = { id: newId(), actor, reason, traceId };
      await store.jobs.retry(called, terms.attempts ?? 1, operator);
    }
  }
}

/** A job that failed because a called job failed is retried by itself, after that job. */
function mustBeApart({ action, dryRun }: BulkRow, { error }: Match): boolean {
  return action === "retry" && !dryRun && error?.code === "CALL_FAILED";
}

/** The page in parts that have at most as many matching jobs as one transaction changes. */
function* spansOf(row: BulkRow, { matches, examined, next }: Walked): Generator<Span> {
  const { walk } = row.position;
  const groups = groupsOf(row, matches);
  const last = groups.pop() ?? [];
  let looked = 0;
  for (const jobs of groups) {
    looked += jobs.length;
    yield { jobs, looked: jobs.length, next: { walk, before: jobs.at(-1)?.id ?? null } };
  }
  yield { jobs: last, looked: examined - looked, next: nextOf(row, next) };
}

function groupsOf(row: BulkRow, matches: readonly Match[]): Match[][] {
  const groups: Match[][] = [];
  let open: Match[] | null = null;
  for (const job of matches) {
    const isApart = mustBeApart(row, job);
    if (open === null || isApart || open.length === TOGETHER_MAX) groups.push((open = []));
    open.push(job);
    if (isApart) open = null;
  }
  return groups;
}

/** Where the action stands after a whole page: further down, at the next walk, or at its end. */
function nextOf({ id, action, dryRun, position }: BulkRow, before: string | null): Position | null {
  const { walk } = position;
  if (before !== null) return { walk, before };
  const walks = walksOf(action);
  const next = walks[walks.indexOf(walk) + 1];
  if (next === undefined || dryRun) return null;
  // Jobs that were enqueued after the action have greater ids than it.
  return { walk: next, before: id };
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
