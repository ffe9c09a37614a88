/**
 * A list of jobs in which nothing moves: rows that are on screen change in place, and new ones are only counted until a
 * person asks for them. While rows are selected, the list stays as it was.
 *
 * One request of a search ends after a short time. The list goes on with the next one by itself, until its page is full, no
 * job is left, or a person stops it.
 */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { JobSummary, ListJobsResponse } from "../api.gen.ts";
import { addressOf, get, type Input } from "../client.ts";
import { live, useRead } from "../live.ts";
import { useStore } from "../store.ts";
import { PAGE } from "./job-query.ts";

const IDS_MAX = 100;

/** Requests of one search that follow each other without a person. */
const REQUESTS_MAX = 5_000;

/** The server rests about as long as it looked. */
const REST_MS = 10;

/** How far a search has come. */
export interface Progress {
  readonly examined: number;
  /** Where it goes on; null: all were looked at. */
  readonly next: string | null;
  readonly isGoing: boolean;
  readonly error: unknown;
}

export interface JobList {
  readonly rows: readonly JobSummary[] | undefined;
  readonly progress: Progress | null;
  readonly error: unknown;
  readonly reload: () => void;
  /** Ends the search where it is, or lets it go on from there. */
  readonly setGoing: (isGoing: boolean) => void;
  /** How many rows are new, and since when; the list has them when they are shown. */
  readonly fresh: number;
  readonly shownAt: number;
  readonly showFresh: () => void;
}

type Search = Input<"jobs">;

interface Shown extends Progress {
  readonly search: Search;
  /** The address of the search. */
  readonly path: string;
  readonly jobs: readonly JobSummary[];
  readonly at: number;
}

/** The page is not full, and there are jobs that were not looked at. */
export function isUnfinished(rows: number, progress: Progress | null): boolean {
  return progress !== null && progress.next !== null && rows < PAGE;
}

/** Lists as they were left, so that going back finds the same rows. */
const left = new Map<string, Shown>();
const LEFT_MAX = 20;

function keep(shown: Shown): void {
  left.delete(shown.path);
  left.set(shown.path, shown);
  const [oldest] = left.keys();
  if (left.size > LEFT_MAX && oldest !== undefined) left.delete(oldest);
}

function begun(search: Search, { jobs, next, examined }: ListJobsResponse): Shown {
  const path = addressOf("jobs", search);
  const isGoing = next !== null && jobs.length < PAGE;
  return { search, path, jobs, next, examined, isGoing, error: null, at: Date.now() };
}

function continued(shown: Shown, more: ListJobsResponse): Shown {
  const known = new Set(shown.jobs.map(({ id }) => id));
  const jobs = [...shown.jobs, ...more.jobs.filter(({ id }) => !known.has(id))];
  return {
    ...shown,
    jobs,
    next: more.next,
    examined: shown.examined + more.examined,
    isGoing: more.next !== null && jobs.length < PAGE,
  };
}

/** What goes on where the last request ended. */
function nextOf({ search, next, jobs }: Shown): Search {
  return { ...search, ...(next === null ? {} : { before: next }), limit: PAGE - jobs.length };
}

/** Goes on until the list is full, all were looked at, or it is aborted. */
async function goOn(from: Shown, show: (next: Shown) => void, signal: AbortSignal): Promise<void> {
  let shown = from;
  for (let requests = 0; shown.isGoing && requests < REQUESTS_MAX; requests += 1) {
    try {
      const more = await get("jobs", nextOf(shown), { signal });
      if (signal.aborted) return;
      shown = continued(shown, more);
      show(shown);
      if (shown.isGoing) await new Promise((resolve) => setTimeout(resolve, REST_MS));
    } catch (error) {
      if (signal.aborted) return;
      shown = { ...shown, isGoing: false, error };
      show(shown);
    }
    if (signal.aborted) return;
  }
  if (shown.isGoing) show({ ...shown, isGoing: false });
}

export function useJobList(search: Search, frozen: boolean): JobList {
  const path = addressOf("jobs", search);
  const head = useRead("jobs", search);
  const isFrozen = useStore(live, ({ frozenAt }) => frozenAt !== null) || frozen;
  const [shown, setShown] = useState<Shown | null>(() => left.get(path) ?? null);
  const current = shown?.path === path ? shown : (left.get(path) ?? null);
  const show = (next: Shown): void => {
    keep(next);
    setShown(next);
  };
  useEffect(() => {
    if (head.data === undefined) return;
    const isFirst = current === null || (current.jobs.length === 0 && head.data.jobs.length > 0);
    if (isFirst) show(begun(search, head.data));
  }, [head.data, current]);
  const isGoing = current?.isGoing === true && !isFrozen;
  useEffect(() => {
    if (!isGoing || current === null) return undefined;
    const going = new AbortController();
    void goOn(current, show, going.signal);
    return () => going.abort();
    // A search that was shown anew begins anew.
  }, [path, isGoing, current?.at]);
  const ids = (current?.jobs ?? []).map(({ id }) => id).slice(0, IDS_MAX);
  const now = useRead("jobs", frozen || ids.length === 0 ? null : { id: ids });
  const newest = useMemo(
    () =>
      new Map([...(head.data?.jobs ?? []), ...(now.data?.jobs ?? [])].map((job) => [job.id, job])),
    [head.data, now.data],
  );
  const known = new Set(ids);
  const fresh = (head.data?.jobs ?? []).filter(({ id }) => !known.has(id)).length;
  return {
    rows: current?.jobs.map((job) => (frozen ? job : (newest.get(job.id) ?? job))),
    progress: current,
    error: head.error,
    reload: head.reload,
    setGoing: (on) => current !== null && show({ ...current, isGoing: on, error: null }),
    fresh: current === null ? 0 : fresh,
    shownAt: current?.at ?? 0,
    showFresh: () => head.data !== undefined && show(begun(search, head.data)),
  };
}
