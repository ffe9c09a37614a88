/** The rows of the list of jobs: what each is doing, or why it is not. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { JobSummary } from "../api.gen.ts";
import * as f from "../format.ts";
import { Glyph, titleOf, wordOf } from "../icons.tsx";
import { serverNow, useMay, useRead } from "../live.ts";
import { Ago, Empty, Moment, Note, State, Until, WorkerLink } from "../parts.tsx";
import { to } from "../router.ts";
import { type Column, Table } from "../table.tsx";
import type { Rows, Selection } from "../rows.ts";
import { explainedBy, Held } from "./held.tsx";
import { isUnfinished, type JobList } from "./job-list.ts";
import { chipsOf, isByEnd } from "./job-query.ts";
import { errorLine } from "./overview-panels.tsx";
import "./job-rows.css";

export function List({
  list,
  rows,
  cursor,
  selection,
  query,
}: {
  readonly list: JobList;
  readonly rows: readonly JobSummary[];
  readonly cursor: Rows;
  readonly selection: Selection;
  readonly query: URLSearchParams;
}): JSX.Element {
  const { operator } = useMay();
  const explained = useMemo(() => explainedBy(rows), [rows]);
  if (rows.length === 0) return <NoJobs list={list} query={query} />;
  return (
    <section class="panel jobs" aria-label="Jobs">
      {query.get("before") === null && <Newer list={list} />}
      <Table
        label="Jobs"
        at={cursor.at}
        rows={rows}
        keyOf={({ id }) => id}
        select={
          operator ? { many: true, isSelected: ({ id }) => selection.ids.has(id) } : undefined
        }
        columns={[operator && boxes(rows, selection), ...columnsOf(explained, isByEnd(query))]}
      />
    </section>
  );
}

/** It has its place also while nothing is new: rows would move under the pointer. */
function Newer({ list: { fresh, rows = [], shownAt, showFresh } }: { readonly list: JobList }) {
  if (fresh === 0) return <p class="newer">Nothing new since {f.timeOfDay(shownAt)}.</p>;
  return (
    <button type="button" class="newer" onClick={showFresh}>
      {fresh >= rows.length ? `${fresh} or more` : fresh} new since {f.timeOfDay(shownAt)}. Show
      them <kbd>.</kbd>
    </button>
  );
}

function ranMs({ claimedAt, finishedAt, status }: JobSummary): number | null {
  const until = status === "processing" ? serverNow() : finishedAt;
  return claimedAt === null || until === null ? null : Math.max(0, until - claimedAt);
}

/** What a job does, or why it does not. */
function Why({ job, by }: { readonly job: JobSummary; readonly by: string | null }): JSX.Element {
  const { status, lastError, dueAt, lockedBy, inDoubt } = job;
  const queues = useRead("overview").data?.queues;
  if (inDoubt !== null)
    return <span class="retry">An operator must say whether “{inDoubt}” happened.</span>;
  if (status === "processing" && lockedBy !== null) {
    return (
      <>
        On <WorkerLink id={lockedBy} />
      </>
    );
  }
  if (status === "retry" && dueAt !== null) {
    return (
      <>
        Again <Until at={dueAt} />. {errorLine(job)}
      </>
    );
  }
  if (status === "scheduled" && dueAt !== null) {
    return (
      <>
        Starts <Until at={dueAt} />
      </>
    );
  }
  const row = queues?.find(({ queue }) => queue === job.queue);
  const paused = row?.paused ?? null;
  if (status === "pending" && paused !== null) {
    return (
      <>
        Queue {job.queue} is paused by {paused.by} since <Moment at={paused.at} />
      </>
    );
  }
  if (status === "pending" && row !== undefined && !row.served && row.slots === 0)
    return <>No worker serves queue {job.queue}</>;
  if (status === "waiting")
    return dueAt === null ? (
      <>Waits for an event or another job</>
    ) : (
      <>
        Sleeps until <Moment at={dueAt} />
      </>
    );
  if (lastError !== null && (status === "failed" || status === "expired"))
    return <>{errorLine(job)}</>;
  if (status === "pending") return <Held by={by} />;
  return job.finishedAt === null ? (
    <></>
  ) : (
    <>
      {titleOf(status)} <Ago at={job.finishedAt} word=" ago" />
    </>
  );
}

/** The boxes by which jobs are selected. */
function boxes(rows: readonly JobSummary[], { ids, ...selection }: Selection): Column<JobSummary> {
  const all = rows.every(({ id }) => ids.has(id));
  return {
    name: "Selected",
    width: 44,
    narrow: 38,
    heading: (
      <input
        class="box"
        type="checkbox"
        aria-label={`Select all ${rows.length} on this page`}
        checked={all}
        indeterminate={!all && rows.some(({ id }) => ids.has(id))}
        onChange={() => (all ? selection.clear() : selection.setAll(rows.map(({ id }) => id)))}
      />
    ),
    cell: (job) => (
      <input
        class="box"
        type="checkbox"
        aria-label={`Select ${nameOf(job)}`}
        checked={ids.has(job.id)}
        onChange={() => selection.toggle(job.id)}
      />
    ),
  };
}

function nameOf({ key, id }: JobSummary): string {
  return key ?? f.shortId(id);
}

function columnsOf(
  explained: ReadonlyMap<string, string>,
  byEnd: boolean,
): readonly Column<JobSummary>[] {
  const why = (job: JobSummary): JSX.Element => (
    <Why job={job} by={explained.get(job.id) ?? null} />
  );
  return [
    {
      name: "State",
      hide: "sm",
      width: 112,
      narrow: 104,
      cell: ({ status }) => <State status={status} />,
    },
    {
      name: "Task",
      cell: (job) => (
        <>
          <span class="line">
            <span class="only-sm">
              <Glyph status={job.status} />
            </span>
            <a class="name clip" href={to(["jobs", job.id])}>
              {job.task}
            </a>
          </span>
          <span class="sub">{nameOf(job)}</span>
          <span class="sub">{why(job)}</span>
        </>
      ),
    },
    { name: "Key", hide: "sm", look: "mono dim", width: "13%", narrow: "19%", cell: nameOf },
    { name: "Queue", hide: "md", look: "dim", width: "12%", cell: ({ queue }) => queue },
    {
      name: "Attempts",
      hide: "lg",
      align: "end",
      look: "dim",
      width: 88,
      cell: ({ attempts, maxAttempts }) => `${attempts} of ${maxAttempts}`,
    },
    {
      name: "What it does, or why it does not",
      hide: "sm",
      look: "dim",
      width: "22%",
      narrow: "24%",
      cell: why,
    },
    {
      name: "Ran",
      hide: "md",
      align: "end",
      look: "dim",
      width: 80,
      cell: (job) => {
        const ran = ranMs(job);
        return ran === null ? <span class="faint">–</span> : f.span(ran);
      },
    },
    {
      name: byEnd ? "Ended" : "Enqueued",
      sorted: "descending",
      align: "end",
      look: "dim",
      width: 108,
      narrow: 104,
      cell: ({ finishedAt, enqueuedAt }) => (
        <Ago at={byEnd && finishedAt !== null ? finishedAt : enqueuedAt} />
      ),
    },
  ];
}

function NoJobs({
  list,
  query,
}: {
  readonly list: JobList;
  readonly query: URLSearchParams;
}): JSX.Element {
  const filtered = chipsOf(query).length > 0;
  const status = query.get("status");
  const older = query.get("before") !== null;
  // What was not looked at may match.
  if (isUnfinished(0, list.progress)) {
    return (
      <section class="panel">
        <Empty title="Not found yet.">
          {list.progress?.isGoing === true
            ? "The search goes on by itself, from newer to older jobs."
            : "The search was not over."}
        </Empty>
      </section>
    );
  }
  if (older) return <Note>{filtered ? "No older job matches." : "There are no older jobs."}</Note>;
  if (filtered) {
    return (
      <section class="panel">
        <Empty title="No job matches.">
          <a href={to("jobs", { status })}>Clear the search</a>
        </Empty>
      </section>
    );
  }
  return (
    <section class="panel">
      <Empty title={status === null ? "No job yet." : `No job is ${wordOf(status)}.`}>
        {status === null
          ? "The first one shows up here within a second."
          : "That may be just right."}
      </Empty>
    </section>
  );
}
