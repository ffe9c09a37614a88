/** The verbs of alerts: which are raised, and which rules raise them. */
import { formatMs } from "../core/duration.ts";
import { type Severity, severities } from "../database/check.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, plain, right, tableOf } from "../operations/show.ts";
import { type Cell, counted, relative } from "../terminal/table.ts";
import type { Colors } from "../terminal/terminal.ts";
import { alertStatuses } from "./alert.ts";
import { type AlertHistory, LIMIT_DEFAULT } from "./history.ts";
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

function alertColumns(isAll: boolean, now: number): Columns<Shown> {
  const resolved = right<Shown>("RESOLVED", ({ resolvedAt: at }) =>
    at === null ? "" : relative(at, now),
  );
  return [
    plain("SEVERITY", ({ severity, resolvedAt }, { colors }) =>
      severityCell(severity, colors, resolvedAt !== null),
    ),
    flexible("RULE", (one) => one.rule),
    flexible("SUBJECT", ({ subject }) => subject),
    right("SINCE", ({ sinceAt }) => relative(sinceAt, now)),
    ...(isAll ? [resolved] : []),
    flexible("MESSAGE", ({ message }) => message),
  ];
}

const RULES: Columns<s.TypeOf<typeof rule>> = [
  plain("RULE", ({ name }) => name),
  plain("SEVERITY", ({ severity }, { colors }) => severityCell(severity, colors)),
  right("HOLDS FOR", ({ holdMs }) => (holdMs === 0 ? "" : formatMs(holdMs))),
  flexible("RAISED WHEN", ({ when }) => when),
];

export const alertOperations = {
  list: operation({
    name: "listAlerts",
    summary: "List alerts, newest first",
    access: "viewer",
    input: {
      which: s
        .choice(["raised", "open", "all"])
        .optional()
        .about(
          "`raised` (the default), `open` (raised and pending) or `all`, including resolved alerts.",
        ),
      before: s.id.optional().about("The id of the last alert on the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "A page of alerts.",
    result: s.object({ alerts: s.list(alert) }),
    run: async ({ alerts }, input) => ({ alerts: await alerts.list(input) }),
    http: { method: "GET", path: "/api/v1/alerts" },
    cli: {
      command: "alerts list",
      about: "list raised alerts, newest first",
      flags: {
        which: {
          flag: "all",
          means: "all",
          about: "also show alerts resolved in the last 30 days",
        },
        before: { value: "<id>", about: "only alerts older than this one (next page)" },
        limit: { about: "maximum number of alerts", initial: LIMIT_DEFAULT },
      },
      examples: ["alerts list --all"],
      show: async ({ alerts }, { app, terminal, input: { which } }) => {
        const { dim } = terminal.colors;
        if (alerts.length === 0) return [dim("No alerts.")];
        const { now } = await app.store.alerts.open(1);
        const columns = alertColumns(which === "all", now);
        return [...tableOf(columns, alerts, terminal), "", dim(counted(alerts.length, "alert"))];
      },
    },
    agent: "Conditions that need attention now, such as a queue whose jobs wait too long.",
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
