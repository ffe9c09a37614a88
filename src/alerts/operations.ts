/** The verbs of alerts: which are raised, and which rules raise them. */
import { formatMs } from "../core/duration.ts";
import { shortIds } from "../core/id.ts";
import { type Severity, severities } from "../database/check.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, plain, right, tableOf } from "../operations/show.ts";
import { wholeId } from "../terminal/ids.ts";
import { type Cell, counted, relative } from "../terminal/table.ts";
import type { Colors } from "../terminal/terminal.ts";
import { alertStatuses, isSilenced, OPEN_MAX } from "./alert.ts";
import { type AlertHistory, AlertNotFoundError, LIMIT_DEFAULT } from "./history.ts";
import { alertRules } from "./rules.ts";
import type { AlertsStore } from "./store.ts";

export interface AlertsApp {
  readonly alerts: AlertHistory;
  readonly store: { readonly alerts: AlertsStore };
}

const operation = operationsOf<AlertsApp>("operations");

export const alert = s
  .object({
    id: s.id,
    rule: s.text(),
    subject: s.text(),
    severity: s.choice(severities),
    status: s.choice(alertStatuses),
    message: s.text(),
    facts: s.map(s.text(), s.anything()),
    sinceAt: s.instant,
    seenAt: s.instant,
    raisedAt: s.instant.nullable(),
    resolvedAt: s.instant.nullable(),
    notifiedAt: s.instant
      .nullable()
      .about("When webhooks were last notified; null: not yet, or it is silenced."),
    acknowledgedAt: s.instant.nullable(),
    acknowledgedBy: s.text().nullable(),
    silencedUntil: s.instant
      .nullable()
      .about("Webhooks are not notified before; a silence that is over is removed."),
    silencedBy: s.text().nullable(),
    note: s.text().nullable().about("Why it was acknowledged or silenced last."),
  })
  .named("Alert", "A condition that needs attention; raised once and resolved once.");

const rule = s
  .object({
    name: s.text(),
    severity: s.choice(severities),
    holdMs: s.number().about("The condition must hold this long."),
    when: s.text().about("The condition, with the default limits."),
  })
  .named("AlertRule", "A rule that raises alerts.");

type Shown = s.TypeOf<typeof alert>;

const TONES = { info: "cyan", warning: "yellow", critical: "red" } as const satisfies Record<
  Severity,
  keyof Colors
>;

/** Resolved alerts are dimmed. */
function severityCell(severity: Severity, colors: Colors, isOver = false): Cell {
  return { text: severity, paint: isOver ? colors.dim : colors[TONES[severity]] };
}

interface Listed {
  readonly isAll: boolean;
  readonly now: number;
  /** The shortest prefixes of open alerts; a pipe gets whole ids. */
  readonly short: ReadonlyMap<string, string>;
}

function alertColumns({ isAll, now, short }: Listed): Columns<Shown> {
  const resolved = right<Shown>("RESOLVED", ({ resolvedAt: at }) =>
    at === null ? "" : relative(at, now),
  );
  return [
    plain("ID", ({ id }) => short.get(id) ?? id),
    plain("SEVERITY", ({ severity, resolvedAt }, { colors }) =>
      severityCell(severity, colors, resolvedAt !== null),
    ),
    flexible("RULE", (one) => one.rule),
    flexible("SUBJECT", ({ subject }) => subject),
    right("SINCE", ({ sinceAt }) => relative(sinceAt, now)),
    ...(isAll ? [resolved] : []),
    plain("KNOWN", (one) => knownText(one, now)),
    flexible("MESSAGE", ({ message }) => message),
  ];
}

const RULES: Columns<s.TypeOf<typeof rule>> = [
  plain("RULE", ({ name }) => name),
  plain("SEVERITY", ({ severity }, { colors }) => severityCell(severity, colors)),
  right("HOLDS FOR", ({ holdMs }) => (holdMs === 0 ? "" : formatMs(holdMs))),
  flexible("RAISED WHEN", ({ when }) => when),
];

const itsId = s.id.about("The id of an open alert.");
const itsArgument = { id: "the alert's id, or its start" };

function wholeAlertId({ store }: AlertsApp, typed: string): Promise<string> {
  return wholeId(typed, {
    what: "alert",
    find: async (id, limit) => {
      const found = await store.alerts.list({ which: "open", id, limit });
      return found.map((one) => ({ id: one.id, about: nameOf(one) }));
    },
    notFound: (id) => new AlertNotFoundError({ id }),
  });
}

/** "no-worker mail". */
function nameOf({ rule: of, subject }: Pick<Shown, "rule" | "subject">): string {
  return subject === "" ? of : `${of} ${subject}`;
}

/** "by ada", "silenced for 1h 50m". */
function knownText(one: Shown, now: number): string {
  if (one.resolvedAt !== null) return "";
  if (one.silencedUntil !== null && isSilenced(one, now))
    return `silenced for ${formatMs(one.silencedUntil - now)}`;
  return one.acknowledgedBy === null ? "" : `by ${one.acknowledgedBy}`;
}

export const alertOperations = {
  list: operation({
    name: "listAlerts",
    summary: "List alerts: open ones worst first, all of them newest first",
    access: "viewer",
    input: {
      which: s
        .choice(["raised", "open", "all"])
        .optional()
        .about(
          "`raised` (the default), `open` (raised and pending) or `all`, including those resolved in the last 30 days.",
        ),
      before: s.id.optional().about("The id of the last alert on the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "A page of alerts, and how many are open.",
    result: s.object({
      alerts: s.list(alert),
      open: s.object({
        raised: s.count.about("Silenced ones too."),
        pending: s.count.about("Their conditions have not held for long enough."),
        silenced: s.count,
      }),
    }),
    run: async ({ alerts }, input) => ({
      alerts: await alerts.list(input),
      open: await alerts.count(),
    }),
    http: { method: "GET", path: "/api/v1/alerts" },
    cli: {
      command: "alerts list",
      about: "list raised alerts, worst first",
      flags: {
        which: {
          flag: "all",
          means: "all",
          about: "also show pending alerts, and those resolved in the last 30 days; newest first",
        },
        before: { value: "<id>", about: "only alerts older than this one (next page)" },
        limit: { about: "maximum number of alerts", initial: LIMIT_DEFAULT },
      },
      examples: ["alerts list --all"],
      show: async ({ alerts }, { app, terminal, input: { which } }) => {
        const { dim } = terminal.colors;
        if (alerts.length === 0) return [dim("No alerts.")];
        // Prefixes are looked up among open alerts.
        const { now, alerts: open } = await app.store.alerts.open(OPEN_MAX);
        const ids = open.map(({ id }) => id);
        const short = terminal.columns === null ? new Map() : shortIds(ids, []);
        const columns = alertColumns({ isAll: which === "all", now, short });
        return [...tableOf(columns, alerts, terminal), "", dim(counted(alerts.length, "alert"))];
      },
    },
    agent: "Conditions that need attention now, such as a queue whose jobs wait too long.",
  }),

  acknowledge: operation({
    name: "acknowledgeAlert",
    summary: "Acknowledge an open alert: webhooks are not notified again",
    access: "operator",
    input: { id: itsId },
    isAudited: true,
    returns: "The alert.",
    result: alert,
    run: ({ alerts }, { id }, { by, ids: [once] }) => alerts.acknowledge(id, by, once),
    http: { method: "POST", path: "/api/v1/alerts/{id}/acknowledge", repeatable: true },
    cli: {
      command: "alerts ack",
      about: "acknowledge an open alert: webhooks are not notified again",
      arguments: itsArgument,
      ids: { id: wholeAlertId },
      examples: ["alerts ack 01a00000 --reason 'ada looks at it'"],
      show: (one) => [`Acknowledged ${nameOf(one)}`],
    },
    agent: "Acknowledge an open alert: webhooks are not notified again. It stays open.",
  }),

  silence: operation({
    name: "silenceAlert",
    summary: "Silence an open alert for a time; it comes back by itself",
    access: "operator",
    input: {
      id: itsId,
      for: s.duration.about("At most 7d; 0 or 0s ends a silence."),
    },
    isAudited: true,
    returns: "The alert.",
    result: alert,
    run: ({ alerts }, { id, for: time }, { by, ids: [once] }) => alerts.silence(id, time, by, once),
    http: { method: "POST", path: "/api/v1/alerts/{id}/silence", repeatable: true },
    cli: {
      command: "alerts silence",
      about: "do not send an open alert for a time; it comes back by itself",
      arguments: itsArgument,
      flags: { for: { about: "how long, at most 7d; 0s ends a silence", isRequired: true } },
      ids: { id: wholeAlertId },
      examples: ["alerts silence 01a00000 --for 2h --reason 'the provider is down'"],
      show: async (one, { app }) => {
        const { now } = await app.store.alerts.open(1);
        const left = one.silencedUntil === null ? 0 : one.silencedUntil - now;
        const what = nameOf(one);
        return [
          left > 0 ? `Silenced ${what} for ${formatMs(left)}` : `No longer silenced: ${what}`,
        ];
      },
    },
    agent:
      "Silence an open alert for a time; it comes back by itself if its condition still holds.",
  }),

  rules: operation({
    name: "listAlertRules",
    summary: "List the rules that raise alerts",
    access: "viewer",
    returns: "The rules.",
    result: s.object({ rules: s.list(rule) }),
    run: async () => ({ rules: alertRules().map(({ find: _find, ...one }) => one) }),
    http: { method: "GET", path: "/api/v1/alert-rules" },
    cli: {
      command: "alerts rules",
      opensNothing: true,
      examples: ["alerts rules"],
      show: ({ rules }, { terminal }) => tableOf(RULES, rules, terminal),
    },
    agent: "Which conditions raise an alert, with their default limits.",
  }),
};
