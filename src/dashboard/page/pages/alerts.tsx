/** Which alerts are open, which were, and which invariants hold. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { Icon } from "../icons.tsx";
import { useData } from "../live.ts";
import { Empty, Head, Lasting, Moment, Panel, Seg, Shown } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import type { Alert } from "../types.ts";

export function AlertsPage(): JSX.Element {
  const which = usePlace().query.get("which") === "all" ? "all" : "open";
  const alerts = useData<{ alerts: readonly Alert[] }>(`alerts?which=${which}&limit=100`);
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
        <Panel title="Invariants">
          <p class="body dim">
            The monitor checks the cheap ones all the time and raises an alert for each that does
            not hold. <code>holdfast doctor</code> checks all.
          </p>
        </Panel>
      </div>
    </>
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
