/** Jobs that failed for good, by task and cause, and what to do with them. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { useData } from "../live.ts";
import { Act, Ago, Btn, Empty, Head, JobLink, Panel, Shown, Table } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import type { JobSummary } from "../types.ts";
import { actOn, askAll } from "./job-actions.tsx";
import { errorLine } from "./overview-panels.tsx";

interface Group {
  readonly task: string;
  readonly error: string;
  readonly jobs: number;
  readonly message: string;
  readonly newest: { readonly id: string; readonly at: number };
  readonly oldestAt: number;
  /** The filter of a bulk action finds these jobs and no others. */
  readonly isExact: boolean;
}

interface Groups {
  readonly looked: number;
  readonly isAll: boolean;
  readonly groups: readonly Group[];
}

/** They are counted one by one, so not each time that something happens. */
const GROUPS_EVERY_MS = 10_000;

function sayAbout({ looked, isAll, groups }: Groups): string {
  if (looked === 0) return "No job has failed for good.";
  const reasons = f.plural(groups.length, "reason");
  if (isAll) return `${f.plural(looked, "job")} failed for good, for ${reasons}.`;
  return `More than ${f.count(looked)} jobs failed for good. The newest ${f.count(looked)} have ${reasons}.`;
}

export function DeadLettersPage(): JSX.Element {
  const before = usePlace().query.get("before");
  const groups = useData<Groups>("dead-letter-groups", GROUPS_EVERY_MS);
  const jobs = useData<{ jobs: readonly JobSummary[]; next: string | null }>(
    `dead-letters?limit=50${before === null ? "" : `&before=${before}`}`,
  );
  const rows = jobs.data?.jobs ?? [];
  const cursor = useRows(rows.length);
  return (
    <>
      <Head title="Dead letters" say={groups.data === undefined ? "" : sayAbout(groups.data)} />
      <div class="stack">
        <Panel title="By task and cause">
          <Shown from={groups} rows={3}>
            {(data) =>
              data.groups.length === 0 ? (
                <Empty title="Nothing here.">
                  A job whose last attempt fails appears here until it is retried or deleted.
                </Empty>
              ) : (
                <GroupTable data={data} />
              )
            }
          </Shown>
        </Panel>
        {rows.length > 0 && (
          <Panel
            title="Newest first"
            right={
              <Btn kind="quiet" push href={to("jobs", { status: "failed" })}>
                Search them
              </Btn>
            }
          >
            <JobTable jobs={rows} at={cursor.at} />
          </Panel>
        )}
      </div>
      {(before !== null || (jobs.data?.next ?? null) !== null) && (
        <nav class="line pager" aria-label="Pages of dead letters">
          {before !== null && <Btn href={to("dead-letters")}>Newest</Btn>}
          {(jobs.data?.next ?? null) !== null && (
            <Btn href={to("dead-letters", { before: jobs.data?.next ?? null })}>Older</Btn>
          )}
        </nav>
      )}
    </>
  );
}

function GroupTable({ data: { groups, isAll } }: { readonly data: Groups }): JSX.Element {
  return (
    <Table
      columns={{ Error: "", Task: "hide-sm", Jobs: "num", Newest: "num hide-sm", Action: "sr" }}
    >
      {groups.map((group) => {
        const filter = { status: "failed", task: group.task, code: group.error };
        return (
          <tr key={`${group.task} ${group.error}`} class="tall">
            <td class="fill">
              <a
                class="name"
                href={to("jobs", { status: "failed", task: group.task, error: group.error })}
              >
                {group.error}
              </a>
              <span class="under clip">{group.message}</span>
              <span class="sub">{group.task}</span>
            </td>
            <td class="hide-sm dim">{group.task}</td>
            <td class="num strong">
              {f.count(group.jobs)}
              {!isAll && "+"}
            </td>
            <td class="num hide-sm dim">
              <Ago at={group.newest.at} />
            </td>
            <td class="end">
              {group.isExact && (
                <span class="line acts-r">
                  <Act onClick={() => askAll("retry", filter)}>
                    Retry {isAll ? f.count(group.jobs) : "all"}…
                  </Act>
                  <Act kind="quiet" hide="sm" onClick={() => askAll("delete", filter)}>
                    Delete…
                  </Act>
                </span>
              )}
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

function JobTable({
  jobs,
  at,
}: {
  readonly jobs: readonly JobSummary[];
  readonly at: number;
}): JSX.Element {
  return (
    <Table
      columns={{
        Task: "",
        Key: "hide-sm",
        Error: "hide-sm",
        Attempts: "num hide-md",
        Failed: "num",
        Action: "sr",
      }}
    >
      {jobs.map((job, index) => (
        <tr key={job.id} data-row class={index === at ? "at" : ""}>
          <td>
            <span class="name">
              <JobLink id={job.id}>{job.task}</JobLink>
            </span>
            <span class="sub">{errorLine(job)}</span>
          </td>
          <td class="hide-sm mono dim keyc">{job.key ?? f.shortId(job.id)}</td>
          <td class="fill hide-sm dim" title={errorLine(job)}>
            {errorLine(job)}
          </td>
          <td class="num hide-md dim">{job.attempts}</td>
          <td class="num dim">{job.finishedAt !== null && <Ago at={job.finishedAt} />}</td>
          <td class="end">
            <Act kind="quiet" onClick={() => actOn("retry", [job])}>
              Retry
            </Act>
          </td>
        </tr>
      ))}
    </Table>
  );
}
