/**
 * Bulk actions that start with the token of their preview only: for callers that must have seen what they change.
 *
 * The preview is a dry run, and the token is its id: so any process can start the action, and nothing else is stored. It
 * starts once, for the caller who made it, and for the jobs that matched then.
 */
import type { OperatorOptions } from "../audit/entry.ts";
import { HoldfastError } from "../core/errors.ts";
import { calledId } from "../core/id.ts";
import type { Runtime } from "../core/runtime.ts";
import type { BulkActions } from "./bulk.ts";
import type { BulkRequest } from "./request.ts";
import { BulkNotFoundError, type BulkRecord } from "./store.ts";

export interface PreviewParts {
  readonly bulk: Pick<BulkActions, "start" | "run" | "get">;
  readonly runtime: Runtime;
  readonly store: { readonly db: { clock(): Promise<number> } };
}

/** How long a request waits for the count, which goes on in the background. */
const WAIT_MS = 15_000;

/** How long a preview can be started. */
export const PREVIEW_MINUTES = 10;

const PREVIEW_MS = PREVIEW_MINUTES * 60_000;

class PreviewUnusableError extends HoldfastError {
  constructor(problem: string) {
    super("PREVIEW_UNUSABLE", `This token starts nothing: ${problem}. Preview the action again.`);
  }
}

/** Counts what an action would change. */
export async function previewBulk(
  { bulk, runtime }: PreviewParts,
  request: BulkRequest,
  options: OperatorOptions,
  id: string,
): Promise<BulkRecord> {
  await bulk.start({ ...request, dryRun: true }, options, id);
  const late = new AbortController();
  const timer = runtime.timer(WAIT_MS, () => late.abort(), "background");
  try {
    return await bulk.run(id, { signal: late.signal });
  } finally {
    timer.cancel();
  }
}

/** A second call returns the action of the first. */
export async function startPreviewed(
  { bulk, store }: PreviewParts,
  token: string,
  options: OperatorOptions,
): Promise<BulkRecord> {
  const preview = await bulk.get(token);
  const id = calledId(token);
  const started = await bulk.get(id).catch(unlessMissing);
  const problem = whyUnusable(preview, options, await store.db.clock());
  if (problem !== null) throw new PreviewUnusableError(problem);
  if (started !== null) return started;
  const { action, terms, filter, createdAt } = preview;
  // Jobs that match since then were not counted.
  const name = action === "retry" || action === "delete" ? "endedUntil" : "enqueuedUntil";
  const until = { [name]: Math.min(filter[name] ?? createdAt, createdAt) };
  const request = { action, ...terms, filter: { ...filter, ...until } } as BulkRequest;
  return bulk.start(request, options, id);
}

function unlessMissing(error: unknown): null {
  if (error instanceof BulkNotFoundError) return null;
  throw error;
}

function whyUnusable(
  { dryRun, status, actor, createdAt }: BulkRecord,
  options: OperatorOptions,
  now: number,
): string | null {
  if (!dryRun) return "it belongs to an action and not to a preview";
  if (actor !== options.actor) return `'${actor}' made it`;
  if (status === "running") return "the preview is still counting";
  if (status !== "done") return `the preview is ${status}`;
  if (now - createdAt <= PREVIEW_MS) return null;
  return `it is older than ${PREVIEW_MINUTES} minutes`;
}
