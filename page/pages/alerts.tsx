/** Which alerts are open, which were, and which invariants hold. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { Icon } from "../icons.tsx";
import { useRead } from "../live.ts";
import { Ago, Empty, Head, Info, Lasting, Moment, Panel, Seg, Shown, Subject } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import type { Alert, Finding } from "../api.gen.ts";

export function AlertsPage(): JSX.Element {
  const which = usePlace().query.get("which") === "all" ? "all" : "open";
  const alerts = useRead("alerts", { which, limit: 100 });
  const open = (alerts.data?.alerts ?? []).filter(({ status }) => status === "raised").length;
  return (
    <>
      <Head
        title="Alerts"
        say={
          alerts.data === undefined
            ? ""
            : open === 0
              ? "None is open."
              : `${f.plural(open, "alert")} ${open === 1 ? "is" : "are"} open.`
        }
        acts={
          <Seg
            label="Which"
            choices={[
              { text: "Open", href: to("alerts"), current: which === "open" },
              { text: "All", href: to("alerts", { which: "all" }), current: which === "all" },
            ]}
          />
        }
      />
      <div class="stack">
        <Panel title={which === "open" ? "Open" : "Newest first"}>
          <Shown from={alerts} rows={3}>
            {(data) =>
              data.alerts.length === 0 ? (
                <Empty title="None.">
                  The monitor looks every few seconds at waiting times, workers, failures and
                  invariants, and raises an alert once.
                </Empty>
              ) : (
                <ul class="rows">
                  {data.alerts.map((alert) => (
                    <OneAlert key={alert.id} alert={alert} />
                  ))}
                </ul>
              )
            }
          </Shown>
        </Panel>
        <Invariants />
      </div>
    </>
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

function OneAlert({ alert }: { readonly alert: Alert }): JSX.Element {
  const look =
    alert.status !== "raised" ? "dim" : alert.severity === "critical" ? "failed" : "retry";
  return (
    <li>
      <span class={look}>
        <Icon
          name={
            alert.status === "resolved" ? "good" : alert.severity === "info" ? "info" : "warning"
          }
        />
      </span>
      <div class="grow">
        <strong>{alert.rule}</strong> <span class="dim">{alert.subject}</span>
        <p class="dim wraps">{alert.message}</p>
      </div>
      <div class="sm dim nowrap num">
        {alert.status === "pending" && "not raised yet, "}
        <Moment at={alert.raisedAt ?? alert.sinceAt} />
        <br />
        {alert.resolvedAt === null ? (
          <>
            for <Lasting since={alert.sinceAt} />
          </>
        ) : (
          <>lasted {f.span(alert.resolvedAt - alert.sinceAt)}</>
        )}
      </div>
    </li>
  );
}
