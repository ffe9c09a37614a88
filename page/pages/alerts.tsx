/** Which alerts are open, which were, and which invariants hold. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { Icon } from "../icons.tsx";
import { useRead } from "../live.ts";
import { Ago, Empty, Head, Info, Lasting, Panel, Seg, Shown, Subject } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import type { Alert, Finding } from "../api.gen.ts";
import type { Result } from "../client.ts";
import { AlertRow } from "./alert-row.tsx";

/** Open alerts are at most fifty of a rule. */
const OPEN_MAX = 1_000;
const PAGE = 100;

export function AlertsPage(): JSX.Element {
  const { query } = usePlace();
  const isAll = query.get("which") === "all";
  const before = query.get("before");
  const asked = isAll
    ? ({ which: "all", limit: PAGE, ...(before === null ? {} : { before }) } as const)
    : ({ which: "open", limit: OPEN_MAX } as const);
  const alerts = useRead("alerts", asked);
  return (
    <>
      <Head
        title="Alerts"
        say={alerts.data === undefined ? "" : sayOf(alerts.data.open)}
        acts={
          <Seg
            label="Which"
            choices={[
              { text: "Open", href: to("alerts"), current: !isAll },
              { text: "All", href: to("alerts", { which: "all" }), current: isAll },
            ]}
          />
        }
      />
      <div class="stack">
        <Shown from={alerts} rows={3}>
          {({ alerts: all }) => (isAll ? <AllAlerts alerts={all} /> : <OpenAlerts alerts={all} />)}
        </Shown>
        <Invariants />
      </div>
    </>
  );
}

type Counts = Result<"alerts">["open"];

/** "3 alerts are open, 1 of them silenced. 2 more may be raised soon." */
function sayOf({ raised, pending, silenced }: Counts): string {
  const soon =
    pending === 0 ? "" : ` ${f.count(pending)} ${raised === 0 ? "" : "more "}may be raised soon.`;
  if (raised === 0) return `None is open.${soon}`;
  const quiet = silenced === 0 ? "" : `, ${f.count(silenced)} of them silenced`;
  return `${f.plural(raised, "alert")} ${raised === 1 ? "is" : "are"} open${quiet}.${soon}`;
}

function Rows({ alerts }: { readonly alerts: readonly Alert[] }): JSX.Element {
  return (
    <ul class="rows">
      {alerts.map((alert) => (
        <AlertRow key={alert.id} alert={alert} />
      ))}
    </ul>
  );
}

/** The worst first, then the oldest; those that are not raised yet stand apart. */
function OpenAlerts({ alerts }: { readonly alerts: readonly Alert[] }): JSX.Element {
  const raised = alerts.filter(({ status }) => status === "raised");
  const soon = alerts.filter(({ status }) => status !== "raised");
  return (
    <>
      <Panel title="Open" aside="the worst first">
        {raised.length === 0 ? (
          <Empty title="None.">
            The monitor looks every few seconds at waiting times, workers, failures and invariants,
            and raises an alert once.
          </Empty>
        ) : (
          <Rows alerts={raised} />
        )}
      </Panel>
      {soon.length > 0 && (
        <Panel title="Not raised yet" aside="they must hold for a while">
          <Rows alerts={soon} />
        </Panel>
      )}
    </>
  );
}

function AllAlerts({ alerts }: { readonly alerts: readonly Alert[] }): JSX.Element {
  const last = alerts.length < PAGE ? undefined : alerts.at(-1)?.id;
  return (
    <Panel
      title="Newest first"
      aside="of the last 30 days"
      {...(last === undefined
        ? {}
        : { footer: <a href={to("alerts", { which: "all", before: last })}>Older</a> })}
    >
      {alerts.length === 0 ? <Empty title="None." /> : <Rows alerts={alerts} />}
    </Panel>
  );
}

/** What must always hold: the monitor's checks, with every offender and what to do. */
function Invariants(): JSX.Element {
  const from = useRead("invariants");
  const at = from.data?.at ?? null;
  return (
    <Panel
      title="Invariants"
      aside={
        at === null ? undefined : (
          <>
            checked <Ago at={at} word=" ago" />
          </>
        )
      }
      footer={
        <Info>
          The monitor makes the cheap checks all the time. All of them: <code>holdfast doctor</code>
        </Info>
      }
    >
      <Shown from={from} rows={2}>
        {({ findings }) =>
          findings.length === 0 ? (
            at === null ? (
              <Empty title="Not checked yet.">
                No monitor of this server has finished a check. <code>holdfast start</code> and{" "}
                <code>serve</code> run one.
              </Empty>
            ) : (
              <Empty title="All hold." />
            )
          ) : (
            <ul class="rows">
              {findings.map((finding) => (
                <OneFinding key={finding.check} finding={finding} />
              ))}
            </ul>
          )
        }
      </Shown>
    </Panel>
  );
}

/** Offenders that are listed; the count tells of the others. */
const OFFENDERS = 5;

function OneFinding({ finding }: { readonly finding: Finding }): JSX.Element {
  const { offenders, severity } = finding;
  const left = offenders.length - OFFENDERS;
  return (
    <li>
      <span class={severity === "critical" ? "failed" : severity === "warning" ? "retry" : "dim"}>
        <Icon name={severity === "info" ? "info" : "warning"} />
      </span>
      <div class="grow">
        <strong>{finding.problem}</strong>{" "}
        <span class="sm dim nowrap">
          {f.count(offenders.length)}
          {finding.more && "+"}
        </span>
        <p class="dim wraps">{finding.remedy}</p>
        <ul class="sm">
          {offenders.slice(0, OFFENDERS).map(({ subject, detail, sinceAt }) => (
            <li key={subject} class="wraps">
              <strong>
                <Subject text={subject} />
              </strong>{" "}
              <span class="dim">{detail}</span>
              {sinceAt !== null && (
                <span class="faint">
                  {" "}
                  for <Lasting since={sinceAt} />
                </span>
              )}
            </li>
          ))}
          {(left > 0 || finding.more) && (
            <li class="faint">{left > 0 ? `and ${f.count(left)} more` : "and more"}</li>
          )}
        </ul>
      </div>
      <span class="sm faint nowrap hide-sm mono">{finding.check}</span>
    </li>
  );
}
