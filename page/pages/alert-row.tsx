/** One alert: what is wrong, where it leads, who knows of it, and what to do. */
import type { JSX } from "preact";
import type { Alert } from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { Icon } from "../icons.tsx";
import { serverNow, useNow } from "../live.ts";
import { ask, reasonIn, toast } from "../notices.ts";
import { Act, Lasting, Moment, Subject, Tag } from "../parts.tsx";
import { to } from "../router.ts";
import "./alerts.css";

export function AlertRow({ alert }: { readonly alert: Alert }): JSX.Element {
  const { status, severity, sinceAt, raisedAt, resolvedAt } = alert;
  const look = status !== "raised" ? "dim" : severity === "critical" ? "failed" : "retry";
  const icon = status === "resolved" ? "good" : severity === "info" ? "info" : "warning";
  return (
    <li class="alert">
      <span class={look} title={severity}>
        <Icon name={icon} />
        <span class="sr">{severity}</span>
      </span>
      <div class="grow">
        <strong>{alert.rule}</strong> <AlertSubject alert={alert} />
        <p class="dim wraps">{alert.message}</p>
        <Leads alert={alert} />
        <Known alert={alert} />
      </div>
      <div class="when sm dim nowrap num">
        since <Moment at={sinceAt} />
        <br />
        <span title={raisedAt === null ? undefined : `raised ${f.exact(raisedAt)}`}>
          {resolvedAt === null ? (
            <>
              for <Lasting since={sinceAt} />
            </>
          ) : (
            <>lasted {f.span(resolvedAt - sinceAt)}</>
          )}
        </span>
      </div>
      {resolvedAt === null && <Acts alert={alert} />}
    </li>
  );
}

// Where it leads.

/** Rules whose subject is a queue, with the jobs that they are about. */
const QUEUE_RULES: ReadonlyMap<string, "pending" | "failed" | null> = new Map([
  ["pending-old", "pending"],
  ["no-worker", "pending"],
  ["backlog-growing", "pending"],
  ["failure-rate", "failed"],
  ["dead-letters", "failed"],
  ["canary-late", null],
  ["canary-lost", null],
]);

/** The page of a subject, by its rule. */
function pathOf({ rule, subject }: Alert): string | null {
  if (subject === "") return null;
  if (QUEUE_RULES.has(rule)) return to(["queues", subject]);
  switch (rule) {
    case "worker-stale":
    case "worker-hung":
      return to(["workers", subject]);
    case "singleton-exceeded":
    case "version-drift":
      return to("workers", { type: subject });
    case "enqueuer-drift":
      return to("jobs", { build: subject });
    case "lock-timeouts":
    case "lock-contention":
      return to("locks");
    default:
      return null;
  }
}

export function AlertSubject({ alert }: { readonly alert: Alert }): JSX.Element {
  const path = pathOf(alert);
  return path === null ? (
    <span class="dim">{alert.subject}</span>
  ) : (
    <a href={path}>{alert.subject}</a>
  );
}

const OFFENDERS = 5;

/** What a check found, and the jobs behind an alert of a queue. */
function Leads({ alert }: { readonly alert: Alert }): JSX.Element | null {
  const { rule, subject, facts } = alert;
  const status = QUEUE_RULES.get(rule);
  const offenders = Array.isArray(facts["offenders"]) ? facts["offenders"].map(String) : [];
  const more = offenders.length - OFFENDERS;
  if (offenders.length === 0 && (status ?? null) === null) return null;
  return (
    <p class="sm line wrap">
      {typeof status === "string" && (
        <a href={to("jobs", { status, queue: subject })}>
          {status === "failed" ? "Failed jobs" : "Pending jobs"}
        </a>
      )}
      {rule === "no-worker" && <a href={to("workers")}>Workers</a>}
      {offenders.slice(0, OFFENDERS).map((one) => (
        <Subject key={one} text={one} />
      ))}
      {(more > 0 || facts["more"] === true) && (
        <span class="faint">{more > 0 ? `and ${f.count(more)} more` : "and more"}</span>
      )}
    </p>
  );
}

// Who knows of it.

function Known({ alert }: { readonly alert: Alert }): JSX.Element | null {
  const now = useNow();
  const { acknowledgedAt, acknowledgedBy, silencedUntil, silencedBy, note } = alert;
  const isSilent = silencedUntil !== null && silencedUntil > now && alert.resolvedAt === null;
  const isPending = alert.status === "pending";
  if (acknowledgedAt === null && !isSilent && !isPending) return null;
  return (
    <p class="sm line wrap">
      {isPending && <Tag>not raised yet</Tag>}
      {acknowledgedAt !== null && (
        <Tag title={f.exact(acknowledgedAt)}>acknowledged by {acknowledgedBy}</Tag>
      )}
      {isSilent && (
        <Tag title={f.exact(silencedUntil)}>
          silenced until {f.moment(silencedUntil, now)} by {silencedBy}
        </Tag>
      )}
      {note !== null && <span class="dim wraps">“{note}”</span>}
    </p>
  );
}

// What to do.

function Acts({ alert }: { readonly alert: Alert }): JSX.Element {
  const now = useNow();
  const isSilent = alert.silencedUntil !== null && alert.silencedUntil > now;
  return (
    <div class="acts line wrap">
      {alert.acknowledgedAt === null && (
        <Act
          kind="quiet"
          onClick={() => askAcknowledge(alert)}
          title={`Acknowledge ${nameOf(alert)}`}
        >
          Acknowledge…
        </Act>
      )}
      {isSilent ? (
        <Act
          kind="quiet"
          onClick={() => endSilence(alert)}
          title={`End the silence of ${nameOf(alert)}`}
        >
          End silence
        </Act>
      ) : (
        <Act kind="quiet" onClick={() => askSilence(alert)} title={`Silence ${nameOf(alert)}`}>
          Silence…
        </Act>
      )}
    </div>
  );
}

function nameOf({ rule, subject }: Alert): string {
  return subject === "" ? rule : `${rule} ${subject}`;
}

function askAcknowledge(alert: Alert): void {
  ask({
    title: `Acknowledge ${nameOf(alert)}?`,
    body: <p>It stays open. Webhooks are notified only of its end.</p>,
    reason: true,
    confirm: "Acknowledge",
    run: (answers) => post("alerts/{id}/acknowledge", { id: alert.id, ...reasonIn(answers) }),
  });
}

const TIMES = [
  { value: "30m", text: "30 minutes" },
  { value: "2h", text: "2 hours" },
  { value: "8h", text: "8 hours" },
  { value: "1d", text: "1 day" },
  { value: "7d", text: "7 days, the longest" },
] as const;

function askSilence(alert: Alert): void {
  ask({
    title: `Silence ${nameOf(alert)}?`,
    body: (
      <p>
        Webhooks are not notified for this time. If it still holds then, it comes back by itself.
      </p>
    ),
    fields: [{ name: "for", label: "For how long", kind: "choice", value: "2h", choices: TIMES }],
    reason: true,
    confirm: "Silence",
    run: async (answers) => {
      const { silencedUntil } = await silence(alert, String(answers["for"]), reasonIn(answers));
      if (silencedUntil === null) return;
      toast(`Silenced until ${f.moment(silencedUntil, serverNow())}.`, {
        undo: () => silence(alert, 0),
      });
    },
  });
}

async function endSilence(alert: Alert): Promise<void> {
  await silence(alert, 0);
  toast(`${nameOf(alert)} is no longer silenced.`);
}

function silence(
  { id }: Alert,
  time: string | number,
  why: { readonly reason?: string } = {},
): Promise<Alert> {
  return post("alerts/{id}/silence", { id, for: time, ...why });
}
