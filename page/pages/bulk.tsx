/** Bulk actions: what each is doing, how far it is, and stop. */
import type { JSX } from "preact";
import type { JobFieldName } from "../../src/core/job-query.ts";
import type { BulkAction, BulkFilter } from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { refresh, useRead } from "../live.ts";
import { ask, reasonIn, toast } from "../notices.ts";
import {
  Act,
  Ago,
  Crumbs,
  Empty,
  Head,
  JobLink,
  Moment,
  Note,
  Panel,
  Shown,
  State,
} from "../parts.tsx";
import { Table } from "../table.tsx";
import { to } from "../router.ts";
import { labelOf } from "./job-query.ts";

const LOOK: Readonly<Record<BulkAction["status"], string>> = {
  running: "processing",
  done: "done",
  stopped: "cancelled",
  failed: "failed",
};

const PHRASES: Readonly<Record<string, string>> = {
  task: "of task",
  queue: "in queue",
  worker: "run by",
  build: "run by build",
  code: "with error",
};

/** "failed jobs of task order.ship in queue orders". */
function filterText({ status = [], id = [], all: _all, ...rest }: BulkFilter): string {
  const statuses = [status].flat();
  const ids = [id].flat();
  const jobs = statuses.length > 0 ? `${statuses.join(" or ")} jobs` : "jobs";
  const first = ids.length > 0 ? f.plural(ids.length, "chosen job") : jobs;
  const others = Object.entries(rest).map(([name, value]) => {
    const phrase = PHRASES[name] ?? `with ${labelOf(name as JobFieldName)}`;
    const shown = name === "worker" ? f.workerName(String(value)) : [value].flat().join(", ");
    return `${phrase} ${typeof value === "number" ? f.exact(value) : shown}`;
  });
  return [first, ...others].join(" ");
}

export function BulkListPage(): JSX.Element {
  const from = useRead("bulk", { limit: 100 });
  return (
    <>
      <Crumbs>{[<a href={to("jobs")}>Jobs</a>, "Bulk actions"]}</Crumbs>
      <Head
        title="Bulk actions"
        say="Each action on many jobs has a page of its own: how far it is, what it left out and why, and a button to stop it."
      />
      <Shown from={from}>
        {({ actions }) => {
          const real = actions.filter(({ dryRun }) => !dryRun);
          return (
            <section class="panel" aria-label="Bulk actions">
              {real.length === 0 ? (
                <Empty title="None yet.">
                  Select jobs in a list, or all that match a search, and say what to do with them.
                </Empty>
              ) : (
                <BulkTable actions={real} />
              )}
            </section>
          );
        }}
      </Shown>
    </>
  );
}

function BulkTable({ actions }: { readonly actions: readonly BulkAction[] }): JSX.Element {
  return (
    <Table
      rows={actions}
      keyOf={({ id }) => id}
      columns={[
        {
          name: "State",
          width: 112,
          narrow: 96,
          cell: ({ status }) => <State status={LOOK[status]} word={status} />,
        },
        {
          name: "Action",
          cell: ({ id, action, filter }) => (
            <a class="name" href={to(["bulk", id])}>
              {action} {filterText(filter)}
            </a>
          ),
        },
        { name: "By", hide: "sm", look: "dim", width: "20%", cell: ({ actor }) => actor },
        {
          name: "Changed",
          align: "end",
          width: 104,
          narrow: 80,
          cell: ({ changed }) => f.count(changed),
        },
        {
          name: "Left out",
          hide: "sm",
          align: "end",
          look: "dim",
          width: 88,
          cell: ({ refused }) => f.count(refused),
        },
        {
          name: "When",
          align: "end",
          look: "dim",
          width: 80,
          narrow: 64,
          cell: ({ createdAt }) => <Ago at={createdAt} />,
        },
      ]}
    />
  );
}

export function BulkPage({ id }: { readonly id: string }): JSX.Element {
  const from = useRead("bulk/{id}", { id }, 1_000);
  return (
    <>
      <Crumbs>
        {[
          <a href={to("jobs")}>Jobs</a>,
          <a href={to("bulk")}>Bulk actions</a>,
          <span class="mono dim">{f.shortId(id)}</span>,
        ]}
      </Crumbs>
      <Shown from={from} page="Bulk action">
        {(one) => <OneBulk one={one} />}
      </Shown>
    </>
  );
}

function OneBulk({ one }: { readonly one: BulkAction }): JSX.Element {
  const title = `${one.action.replace(/^./, (first) => first.toUpperCase())} ${filterText(one.filter)}`;
  const total = Math.max(one.matched, one.changed + one.refused, 1);
  const share = one.status === "done" ? 1 : (one.changed + one.refused) / total;
  return (
    <>
      <Head
        title={title}
        tag={<State badge status={LOOK[one.status]} word={one.status} />}
        say={
          <>
            {one.dryRun ? "A dry run: it only counts. " : ""}
            {f.count(one.changed)} changed, {f.count(one.refused)} left out, {f.count(one.looked)}{" "}
            looked at. By {one.actor}, <Moment at={one.createdAt} />
            {one.reason !== null && `, “${one.reason}”`}.
          </>
        }
        acts={
          <>
            {one.status === "running" && (
              <Act kind="danger" onClick={() => askStop(one)}>
                Stop…
              </Act>
            )}
            {(one.status === "stopped" || one.status === "failed") && (
              <Act
                kind="primary"
                onClick={async () => {
                  await post("bulk/{id}/resume", { id: one.id });
                  refresh();
                  toast("It goes on.");
                }}
              >
                Resume
              </Act>
            )}
          </>
        }
      />
      <div class="stack">
        {one.error !== null && <Note tone="bad">It stopped: {one.error}</Note>}
        <Panel
          title="Progress"
          aside={
            one.status === "running"
              ? `${f.count(one.changed)} so far`
              : `took ${f.span((one.endedAt ?? one.changedAt) - one.createdAt)}`
          }
        >
          <div class="body">
            <svg class="gauge tallg" role="img" aria-label={`${Math.round(share * 100)} percent`}>
              <rect class="g-bg" width="100%" height="8" rx="2" />
              <rect
                class={one.status === "running" ? "g-run" : "b-done"}
                width={`${Math.round(share * 100)}%`}
                height="8"
                rx="2"
              />
            </svg>
          </div>
        </Panel>
        {one.refusals.length > 0 && (
          <Panel
            title="Left out"
            aside={
              one.refused > one.refusals.length
                ? `${one.refusals.length} of ${f.count(one.refused)}`
                : undefined
            }
          >
            <ul class="rows">
              {one.refusals.map((refusal) => (
                <li key={refusal.id}>
                  <JobLink id={refusal.id} />
                  <span class="dim wraps">{refusal.message}</span>
                </li>
              ))}
            </ul>
          </Panel>
        )}
        {one.sample.length > 0 && (
          <Panel
            title={one.dryRun ? "Would be changed" : "Changed"}
            aside={`${one.sample.length} of ${f.count(Math.max(one.changed, one.matched))}`}
          >
            <ul class="rows">
              {one.sample.slice(0, 50).map((id) => (
                <li key={id}>
                  <JobLink id={id}>
                    <span class="mono">{id}</span>
                  </JobLink>
                </li>
              ))}
            </ul>
          </Panel>
        )}
      </div>
    </>
  );
}

function askStop(one: BulkAction): void {
  ask({
    title: "Stop this action?",
    body: (
      <p>
        What it has changed stays changed: {f.plural(one.changed, "job")} so far. It can be resumed.
      </p>
    ),
    reason: true,
    danger: true,
    confirm: "Stop it",
    run: (answers) => post("bulk/{id}/stop", { id: one.id, ...reasonIn(answers) }),
  });
}
