/** What is each of these jobs doing, or why is it not? */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { sentence } from "../api.ts";
import * as f from "../format.ts";
import { Glyph, wordOf } from "../icons.tsx";
import { useKeys } from "../keys.ts";
import { serverNow, useMay, useRead } from "../live.ts";
import { toast } from "../notices.ts";
import {
  Act,
  Ago,
  Bones,
  Btn,
  copyText,
  Empty,
  Head,
  Moment,
  Note,
  State,
  Trouble,
  Until,
  WorkerLink,
} from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { go, to, usePlace } from "../router.ts";
import { type Rows, type Selection, useRows, useSelection } from "../rows.ts";
import {
  type GetCountsResponse as Counted,
  type JobSummary,
  type Status,
  statusValues,
} from "../api.gen.ts";
import { actOn, askAct, askAll, may } from "./job-actions.tsx";
import { explainedBy, Held } from "./held.tsx";
import { isUnfinished, type JobList, useJobList } from "./job-list.ts";
import { bulkFilter, chipsOf, listOf, withFilter } from "./job-query.ts";
import { errorLine } from "./overview-panels.tsx";
import { QueryBox } from "./query-box.tsx";
import "./jobs.css";

export function JobsPage(): JSX.Element {
  const { query, address } = usePlace();
  const search = useMemo(() => listOf(query), [address]);
  const selection = useSelection(address);
  const list = useJobList(search, selection.ids.size > 0);
  const { data: counted } = useRead("counts");
  const rows = list.rows ?? [];
  const cursor = useRows(rows.length);
  useJobKeys({ rows, cursor, selection, list });
  return (
    <>
      <Head
        title="Jobs"
        acts={
          <>
            <Btn hide="sm" onClick={copyLink}>
              Copy link
            </Btn>
            <Btn hide="sm" href={to("bulk")}>
              Bulk actions
            </Btn>
            <Act kind="primary" href={to("enqueue")}>
              Enqueue…
            </Act>
          </>
        }
      />
      <Tabs query={query} counted={counted} />
      <QueryBox query={query} />
      <Told list={list} query={query} counted={counted} selecting={selection.ids.size > 0} />
      {list.error !== null && <Trouble error={list.error} reload={list.reload} />}
      {list.rows === undefined ? (
        list.error === null && <Bones rows={12} />
      ) : (
        <List list={list} rows={rows} cursor={cursor} selection={selection} query={query} />
      )}
      {selection.ids.size > 0 ? (
        <BulkBar rows={rows} selection={selection} query={query} />
      ) : (
        <Pager next={list.progress?.next ?? null} query={query} />
      )}
    </>
  );
}

async function copyLink(): Promise<void> {
  await copyText(globalThis.location.href);
  toast("Copied the link to this list.");
}

function titleOf(status: string): string {
  return wordOf(status).replace(/^./, (first) => first.toUpperCase());
}

/** On a narrow screen the last tabs must be scrolled to: what needs a person comes before what is over. */
const FIRST: readonly Status[] = ["pending", "processing", "retry", "failed"];
const TABS = [...FIRST, ...statusValues.filter((status) => !FIRST.includes(status))];

/** So much of the tab before it stays visible. */
const TAB_MARGIN = 48;

function Tabs({
  query,
  counted,
}: {
  readonly query: URLSearchParams;
  readonly counted: Counted | undefined;
}): JSX.Element {
  const status = query.get("status");
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    const tab = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current !== null && tab !== null && tab !== undefined)
      nav.current.scrollLeft = tab.offsetLeft - nav.current.offsetLeft - TAB_MARGIN;
  }, [status]);
  return (
    <nav class="tabs" aria-label="States" ref={nav}>
      <a
        href={withFilter(query, "status", null)}
        aria-current={status === null ? "page" : undefined}
      >
        All <b>{counted === undefined ? "" : f.count(counted.total)}</b>
      </a>
      {TABS.map((one) => (
        <a
          key={one}
          href={withFilter(query, "status", one)}
          aria-current={status === one ? "page" : undefined}
        >
          <Glyph status={one} />
          {titleOf(one)} <b>{counted === undefined ? "" : f.count(counted.counts[one])}</b>
        </a>
      ))}
    </nav>
  );
}

/** How much was found, and how far was looked. */
function Told({
  list,
  query,
  counted,
  selecting,
}: {
  readonly list: JobList;
  readonly query: URLSearchParams;
  readonly counted: Counted | undefined;
  readonly selecting: boolean;
}): JSX.Element {
  const { progress, rows = [], setGoing } = list;
  return (
    <p class="told">
      {toldText(list, query, counted)}
      {isUnfinished(rows.length, progress) && (
        <Btn kind="quiet" onClick={() => setGoing(progress?.isGoing !== true)}>
          {progress?.isGoing === true ? "Stop" : "Look further back"}
        </Btn>
      )}
      {counted !== undefined &&
        counted.countedAt !== null &&
        serverNow() - counted.countedAt > 10_000 && (
          <span class="faint hide-sm">
            counted <Ago at={counted.countedAt} word=" ago" />
          </span>
        )}
      <span class="push hide-sm">{selecting ? "Frozen while you select. Newest first." : ""}</span>
    </p>
  );
}

function toldText(
  { progress, rows = [] }: JobList,
  query: URLSearchParams,
  counted: Counted | undefined,
): string {
  if (progress === null) return "Looking …";
  const count = f.count(rows.length);
  if (isUnfinished(rows.length, progress)) {
    const found = progress.isGoing ? `${count} found so far` : `${count} found`;
    return `${found}. Looked at ${lookedText(progress.examined, query, counted)}.${progress.error === null ? "" : ` It ended early: ${sentence(progress.error)}`}`;
  }
  if (chipsOf(query).length === 0 && query.get("status") === null) return "Newest first.";
  return `${count}${progress.next === null ? "" : "+"} found.`;
}

/** "the newest 7,500 of 1,209,739 jobs". */
function lookedText(
  examined: number,
  query: URLSearchParams,
  counted: Counted | undefined,
): string {
  const status = TABS.find((one) => one === query.get("status"));
  const all = status === undefined ? counted?.total : counted?.counts[status];
  // Counts are older than the search; and a search of one state may look at others beside it.
  const of = all === undefined || all < examined ? "" : ` of ${f.count(all)}`;
  const which = query.get("before") === null ? "the newest" : "the next";
  return `${which} ${f.count(examined)}${of} jobs`;
}

function List({
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
    <section class="panel" aria-label="Jobs">
      {list.fresh > 0 && query.get("before") === null && (
        <button type="button" class="newer" onClick={list.showFresh}>
          {list.fresh >= rows.length ? `${list.fresh} or more` : list.fresh} new since{" "}
          {f.timeOfDay(list.shownAt)}. Show them <kbd>.</kbd>
        </button>
      )}
      <Table
        label="Jobs"
        at={cursor.at}
        rows={rows}
        keyOf={({ id }) => id}
        select={
          operator ? { many: true, isSelected: ({ id }) => selection.ids.has(id) } : undefined
        }
        columns={[operator && boxes(rows, selection), ...columnsOf(explained)]}
      />
    </section>
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
  if (status === "failed" || status === "expired")
    return <>{lastError === null ? "" : errorLine(job)}</>;
  return status === "pending" ? <Held by={by} /> : <></>;
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

function columnsOf(explained: ReadonlyMap<string, string>): readonly Column<JobSummary>[] {
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
      name: "Changed",
      align: "end",
      look: "dim",
      width: 88,
      narrow: 80,
      cell: ({ finishedAt, claimedAt, enqueuedAt }) => (
        <Ago at={finishedAt ?? claimedAt ?? enqueuedAt} />
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

function Pager({
  next,
  query,
}: {
  readonly next: string | null;
  readonly query: URLSearchParams;
}): JSX.Element | null {
  const before = query.get("before");
  const older = new URLSearchParams(query);
  if (next !== null) older.set("before", next);
  if (before === null && next === null) return null;
  return (
    <nav class="line pager" aria-label="Pages of jobs">
      {before === null ? (
        <Btn off>Newest</Btn>
      ) : (
        <Btn href={withFilter(query, "status", query.get("status"))}>Newest</Btn>
      )}
      {next === null ? <Btn off>Older</Btn> : <Btn href={to("jobs", older)}>Older</Btn>}
    </nav>
  );
}

function BulkBar({
  rows,
  selection,
  query,
}: {
  readonly rows: readonly JobSummary[];
  readonly selection: Selection;
  readonly query: URLSearchParams;
}): JSX.Element {
  const chosen = rows.filter(({ id }) => selection.ids.has(id));
  const [all, setAll] = useState(false);
  const filter = bulkFilter(query);
  const retry = chosen.filter((job) => may("retry", job));
  const cancel = chosen.filter((job) => may("cancel", job));
  const gone = chosen.filter((job) => may("delete", job));
  const moved = chosen.filter((job) => may("edit", job));
  const isPage = rows.every(({ id }) => selection.ids.has(id));
  const many = (jobs: readonly JobSummary[]): string => (all ? "all…" : f.count(jobs.length));
  return (
    <div class="bulk" role="toolbar" aria-label="What to do with the selected jobs">
      <strong>{all ? "All that match" : `${f.count(chosen.length)} selected`}</strong>
      {isPage && !all && (
        <Btn kind="quiet" hide="sm" onClick={() => setAll(true)}>
          All that match
        </Btn>
      )}
      <span class="sep" />
      {retry.length > 0 && (
        <Act
          kind="primary"
          onClick={async () => {
            if (all) return askAll("retry", filter);
            await actOn("retry", retry);
            selection.clear();
          }}
        >
          Retry {many(retry)}
        </Act>
      )}
      {cancel.length > 0 && (
        <Act
          kind="danger"
          onClick={() =>
            all ? askAll("cancel", filter) : askAct("cancel", cancel, selection.clear)
          }
        >
          Cancel {all ? "all" : f.count(cancel.length)}…
        </Act>
      )}
      {moved.length > 0 && (
        <>
          <Act
            hide="sm"
            onClick={() => (all ? askAll("move", filter) : askAct("move", moved, selection.clear))}
          >
            Move…
          </Act>
          <Act
            hide="sm"
            onClick={() =>
              all ? askAll("priority", filter) : askAct("priority", moved, selection.clear)
            }
          >
            Priority…
          </Act>
        </>
      )}
      {gone.length > 0 && (
        <Act
          kind="danger"
          onClick={() => (all ? askAll("delete", filter) : askAct("delete", gone, selection.clear))}
        >
          Delete {all ? "all" : f.count(gone.length)}…
        </Act>
      )}
      <Btn kind="quiet" icon="close" label="Clear the selection" onClick={selection.clear} />
    </div>
  );
}

function useJobKeys({
  rows,
  cursor,
  selection,
  list,
}: {
  readonly rows: readonly JobSummary[];
  readonly cursor: Rows;
  readonly selection: Selection;
  readonly list: JobList;
}): void {
  const { operator } = useMay();
  const here = rows[cursor.at];
  const chosen =
    selection.ids.size > 0
      ? rows.filter(({ id }) => selection.ids.has(id))
      : here === undefined
        ? []
        : [here];
  const [from, setFrom] = useState(-1);
  const range = (): void => {
    const [low, high] = [Math.min(Math.max(from, 0), cursor.at), Math.max(from, cursor.at)];
    selection.setAll([...selection.ids, ...rows.slice(low, high + 1).map(({ id }) => id)]);
  };
  const retry = chosen.filter((job) => may("retry", job));
  const cancel = chosen.filter((job) => may("cancel", job));
  useKeys({
    ".": list.showFresh,
    ...(here === undefined
      ? {}
      : {
          Enter: () => go(to(["jobs", here.id])),
          y: () => copyText(here.id).then(() => toast("Copied the id.")),
          Y: copyLink,
        }),
    ...(selection.ids.size === 0 ? {} : { Escape: selection.clear }),
    ...(!operator
      ? {}
      : {
          x: () => {
            if (here === undefined) return;
            selection.toggle(here.id);
            setFrom(cursor.at);
          },
          X: range,
          A: () => selection.setAll(rows.map(({ id }) => id)),
          r: () => {
            if (retry.length > 0) void actOn("retry", retry).then(selection.clear);
          },
          c: () => cancel.length > 0 && askAct("cancel", cancel, selection.clear),
        }),
  });
}
