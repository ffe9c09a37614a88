/** What is each of these jobs doing, or why is it not? */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { sentence } from "../api.ts";
import * as f from "../format.ts";
import { Glyph, titleOf } from "../icons.tsx";
import { serverNow, useRead } from "../live.ts";
import { Act, Ago, Bones, Btn, Head, Trouble } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import { useRows, useSelection } from "../rows.ts";
import { type GetCountsResponse as Counted, type Status, statusValues } from "../api.gen.ts";
import { isUnfinished, type JobList, useJobList } from "./job-list.ts";
import { chipsOf, listOf, withFilter } from "./job-query.ts";
import { List } from "./job-rows.tsx";
import { BulkBar, copyLink, useChosen, useJobKeys } from "./job-selection.tsx";
import { QueryBox } from "./query-box.tsx";
import { SavedViews, SaveView } from "./saved-views.tsx";
import { TimeFilter } from "./time-filter.tsx";
import "./jobs.css";

export function JobsPage(): JSX.Element {
  const { query, address } = usePlace();
  const search = useMemo(() => listOf(query), [address]);
  const selection = useSelection(address);
  const list = useJobList(search, selection.ids.size > 0);
  const { data: counted } = useRead("counts");
  const rows = list.rows ?? [];
  const chosen = useChosen(selection, rows);
  const cursor = useRows(rows.length);
  useJobKeys({ rows, cursor, chosen, list, query });
  return (
    <>
      <Head
        title="Jobs"
        acts={
          <>
            <Btn hide="sm" onClick={copyLink}>
              Copy link
            </Btn>
            <SaveView query={query} />
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
      <SavedViews query={query} />
      <div class="searching">
        <QueryBox query={query} />
        <TimeFilter query={query} />
      </div>
      <Told list={list} query={query} counted={counted} selecting={selection.ids.size > 0} />
      {list.error !== null && <Trouble error={list.error} reload={list.reload} />}
      {list.rows === undefined ? (
        list.error === null && <Bones rows={12} />
      ) : (
        <List list={list} rows={rows} cursor={cursor} selection={selection} query={query} />
      )}
      {selection.ids.size > 0 ? (
        <BulkBar rows={rows} chosen={chosen} query={query} />
      ) : (
        <Pager next={list.progress?.next ?? null} query={query} />
      )}
    </>
  );
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
      <span>{toldText(list, query, counted)}</span>
      {isUnfinished(rows.length, progress) && progress !== null && (
        <Looked examined={progress.examined} of={countOf(query, counted)} />
      )}
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
      <span class="push hide-sm">{selecting ? "Frozen while you select." : ""}</span>
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

/** How far a search is. It looks at the jobs of one status, or at all: what else narrows it is compared. */
function Looked({
  examined,
  of,
}: {
  readonly examined: number;
  readonly of: number | undefined;
}): JSX.Element | null {
  if (of === undefined || of < examined) return null;
  return (
    <progress
      class="looked"
      max={of}
      value={examined}
      aria-label={`Looked at ${f.count(examined)} of ${f.count(of)}`}
    />
  );
}

function countOf(query: URLSearchParams, counted: Counted | undefined): number | undefined {
  const status = TABS.find((one) => one === query.get("status"));
  return status === undefined ? counted?.total : counted?.counts[status];
}

/** "the newest 7,500 of 1,209,739 jobs". */
function lookedText(
  examined: number,
  query: URLSearchParams,
  counted: Counted | undefined,
): string {
  const all = countOf(query, counted);
  // Counts are older than the search; and a search of one state may look at others beside it.
  const of = all === undefined || all < examined ? "" : ` of ${f.count(all)}`;
  const which = query.get("before") === null ? "the newest" : "the next";
  return `${which} ${f.count(examined)}${of} jobs`;
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
