/** What is done to the rows that are selected in the list of jobs, or to all jobs that match. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { JobSummary } from "../api.gen.ts";
import * as f from "../format.ts";
import { useKeys } from "../keys.ts";
import { useMay } from "../live.ts";
import { toast } from "../notices.ts";
import { Act, Btn, copyText } from "../parts.tsx";
import { go, to } from "../router.ts";
import type { Rows, Selection } from "../rows.ts";
import { actOn, askAct, askAll, may } from "./job-actions.tsx";
import type { JobList } from "./job-list.ts";
import { bulkFilter } from "./job-query.ts";

/** The selected rows, or all jobs that match: also those on no page. */
export interface Chosen {
  readonly selection: Selection;
  readonly isAll: boolean;
  readonly setAll: (isAll: boolean) => void;
}

export function useChosen(selection: Selection, rows: readonly JobSummary[]): Chosen {
  const [wasAll, setAll] = useState(false);
  // A row that is taken out again must not be among "all".
  const isPage = rows.length > 0 && rows.every(({ id }) => selection.ids.has(id));
  useEffect(() => {
    if (!isPage) setAll(false);
  }, [isPage]);
  return { selection, isAll: wasAll && isPage, setAll };
}

export async function copyLink(): Promise<void> {
  await copyText(globalThis.location.href);
  toast("Copied the link to this list.");
}

export function BulkBar({
  rows,
  chosen: { selection, isAll: all, setAll },
  query,
}: {
  readonly rows: readonly JobSummary[];
  readonly chosen: Chosen;
  readonly query: URLSearchParams;
}): JSX.Element {
  const chosen = rows.filter(({ id }) => selection.ids.has(id));
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
        <Btn kind="quiet" onClick={() => setAll(true)}>
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

export function useJobKeys({
  rows,
  cursor,
  chosen: { selection, isAll, setAll },
  list,
  query,
}: {
  readonly rows: readonly JobSummary[];
  readonly cursor: Rows;
  readonly chosen: Chosen;
  readonly list: JobList;
  readonly query: URLSearchParams;
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
          A: () => {
            selection.setAll(rows.map(({ id }) => id));
            setAll(true);
          },
          r: () => {
            if (isAll) void askAll("retry", bulkFilter(query));
            else if (retry.length > 0) void actOn("retry", retry).then(selection.clear);
          },
          c: () => {
            if (isAll) void askAll("cancel", bulkFilter(query));
            else if (cancel.length > 0) askAct("cancel", cancel, selection.clear);
          },
        }),
  });
}
