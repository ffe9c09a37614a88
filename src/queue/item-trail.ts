/** One item's whole story: its own lines, and the jobs that have to do with them. */
import { subjects, type AuditEntry } from "../core/audit.ts";
import type { ItemEntry } from "../core/item.ts";
import type { Status } from "../core/job.ts";
import type { Store } from "../store/store.ts";
import type { AttemptView, Jobs } from "./jobs.ts";

/** Of a job that was tried or acted upon more often than this, the last times are told. */
const ATTEMPTS_MAX = 20;
const ACTIONS_MAX = 20;

/** What happened, and when. */
export type TrailEntry = { readonly at: number } & (
  | { readonly kind: "line"; readonly line: ItemEntry }
  /** A job was enqueued: by one of these lines, or it made one of them. */
  | { readonly kind: "enqueued"; readonly job: string; readonly task: string }
  | { readonly kind: "attempt"; readonly job: string; readonly attempt: AttemptView }
  | { readonly kind: "ended"; readonly job: string; readonly status: Status }
  /** What an operator did to one of these jobs. */
  | { readonly kind: "action"; readonly job: string; readonly action: AuditEntry }
);

interface Sources {
  readonly store: Store;
  readonly jobs: Jobs;
}

/** Of what happened in the same millisecond, what led to it is put in first, and stays there. */
export async function trailOf(
  lines: readonly ItemEntry[],
  sources: Sources,
): Promise<TrailEntry[]> {
  const trail: TrailEntry[] = [];
  const ends: TrailEntry[] = [];
  const known = new Set<string>();
  const tell = async (ids: readonly string[]): Promise<void> => {
    for (const id of ids) {
      if (known.has(id)) continue;
      known.add(id);
      const { past, end } = await storyOf(id, sources);
      trail.push(...past);
      ends.push(...end);
    }
  };
  for (const line of lines) {
    await tell(jobNamed(line.actor));
    trail.push({ at: line.at, kind: "line", line });
    await tell(line.jobs);
  }
  return [...trail, ...ends].toSorted((a, b) => a.at - b.at);
}

/** A task that acts with its `ctx` is named so. */
function jobNamed(actor: string): string[] {
  const [, id] = /^job (\S+)$/.exec(actor) ?? [];
  return id === undefined ? [] : [id];
}

interface Story {
  readonly past: readonly TrailEntry[];
  readonly end: readonly TrailEntry[];
}

/** Of a job whose time is over, nothing is left but what operators did to it. */
async function storyOf(job: string, { store, jobs }: Sources): Promise<Story> {
  const found = await store.find(job);
  const attempts = (await jobs.attempts(job)).slice(-ATTEMPTS_MAX);
  const actions = await store.actions({ subject: subjects.job(job), limit: ACTIONS_MAX });
  const enqueued: TrailEntry[] =
    found === null ? [] : [{ at: found.enqueuedAt, kind: "enqueued", job, task: found.task }];
  const finishedAt = found?.finishedAt ?? null;
  return {
    past: [
      ...enqueued,
      ...actions.map((action): TrailEntry => ({ at: action.at, kind: "action", job, action })),
      ...attempts.map((attempt): TrailEntry => {
        return { at: attempt.startedAt, kind: "attempt", job, attempt };
      }),
    ],
    end:
      found === null || finishedAt === null
        ? []
        : [{ at: finishedAt, kind: "ended", job, status: found.status }],
  };
}
