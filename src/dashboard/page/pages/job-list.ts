/**
 * A list of jobs in which nothing moves: rows that are on screen change in place, and new ones are only counted until a
 * person asks for them. While rows are selected, the list stays as it was.
 */
import { useEffect, useMemo, useState } from "preact/hooks";
import { useData } from "../live.ts";
import type { FoundJob } from "../types.ts";

const IDS_MAX = 100;

export interface Found {
  readonly jobs: readonly FoundJob[];
  readonly next: string | null;
  readonly looked?: number | null;
  readonly isAll?: boolean;
  readonly tookMs?: number;
}

export interface JobList {
  readonly rows: readonly FoundJob[] | undefined;
  readonly found: Found | undefined;
  readonly error: unknown;
  readonly reload: () => void;
  /** How many rows are new, and since when; the list has them when they are shown. */
  readonly fresh: number;
  readonly shownAt: number;
  readonly showFresh: () => void;
}

interface Shown {
  readonly path: string;
  readonly jobs: readonly FoundJob[];
  readonly at: number;
}

/** Lists as they were left, so that going back finds the same rows. */
const left = new Map<string, Shown>();
const LEFT_MAX = 20;

export function useJobList(path: string, frozen: boolean): JobList {
  const head = useData<Found>(path);
  const [shown, setShown] = useState<Shown | null>(() => left.get(path) ?? null);
  const current = shown?.path === path ? shown : (left.get(path) ?? null);
  const show = (jobs: readonly FoundJob[]): void => {
    const next = { path, jobs, at: Date.now() };
    left.delete(path);
    left.set(path, next);
    const [oldest] = left.keys();
    if (left.size > LEFT_MAX && oldest !== undefined) left.delete(oldest);
    setShown(next);
  };
  useEffect(() => {
    if (head.data !== undefined && (current === null || current.jobs.length === 0))
      show(head.data.jobs);
  }, [head.data, current]);
  const ids = (current?.jobs ?? []).map(({ id }) => id).slice(0, IDS_MAX);
  const now = useData<Found>(frozen || ids.length === 0 ? null : `search?ids=${ids.join(",")}`);
  const newest = useMemo(
    () =>
      new Map([...(head.data?.jobs ?? []), ...(now.data?.jobs ?? [])].map((job) => [job.id, job])),
    [head.data, now.data],
  );
  const known = new Set(ids);
  const fresh = (head.data?.jobs ?? []).filter(({ id }) => !known.has(id)).length;
  return {
    rows: current?.jobs.map((job) => (frozen ? job : (newest.get(job.id) ?? job))),
    found: head.data,
    error: head.error,
    reload: head.reload,
    fresh: current === null ? 0 : fresh,
    shownAt: current?.at ?? 0,
    showFresh: () => show(head.data?.jobs ?? []),
  };
}
