/** `holdfast alerts`: raised and resolved alerts, the alert rules, and a test of the webhooks. */
import { Command } from "commander";
import { formatMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Severity } from "../database/check.ts";
import { makeIds } from "../core/id.ts";
import { systemRuntime } from "../core/runtime.ts";
import { wholeNumber } from "../terminal/arguments.ts";
import { BadUsageError } from "../terminal/failure.ts";
import { type Cell, counted, cut, printable, relative, table } from "../terminal/table.ts";
import {
  type Colors,
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { Alert } from "./alert.ts";
import { LIMIT_DEFAULT, listAlerts } from "./alerts.ts";
import { monitoringSettings } from "./options.ts";
import { alertRules } from "./rules.ts";
import type { AlertsStore } from "./store.ts";
import type { WebhookAnswer, WebhookOptions } from "./webhook.ts";

type Kit = CommandKit<{ readonly store: { readonly alerts: AlertsStore } }>;

interface ListOptions extends DatabaseOptions {
  readonly all?: boolean;
  readonly before?: string;
  readonly limit: number;
}

const ANSWER_SHOWN_MAX = 120;

class NotDeliveredError extends HoldfastError {
  constructor(count: number) {
    super("WEBHOOK_FAILED", `${counted(count, "webhook")} did not accept the test alert.`);
  }
}

export function alertsCommand(kit: Kit): Command {
  const command = new Command("alerts").description("list alerts and test their delivery");
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(
    new Command("rules")
      .description("list the rules that raise alerts")
      .action(() => rules(kit.terminal)),
  );
  command.addCommand(testCommand(kit));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list raised alerts, newest first")
    .addOption(urlOption())
    .option("--all", "also show alerts resolved in the last 30 days")
    .option("--before <id>", "only alerts older than this one (next page)")
    .option("--limit <n>", "maximum number of alerts", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(kit, options));
}

function testCommand(kit: Kit): Command {
  return new Command("test")
    .description("send a test alert to the webhooks of HOLDFAST_WEBHOOK_URLS")
    .addHelpText(
      "after",
      `
Environment:
  HOLDFAST_WEBHOOK_URLS     comma-separated URLs that receive alerts
  HOLDFAST_WEBHOOK_SECRET   the key that signs the requests
  HOLDFAST_WEBHOOK_PRIVATE  true: allow loopback and private network addresses`,
    )
    .action(() => test(kit.terminal));
}

async function list({ terminal, open }: Kit, options: ListOptions): Promise<void> {
  const { url, all = false, before, limit } = options;
  await using holdfast = await open(url);
  const alerts = await listAlerts(holdfast.store.alerts, {
    which: all ? "all" : "raised",
    limit,
    ...(before === undefined ? {} : { before }),
  });
  if (terminal.json) {
    terminal.printJson({ alerts });
    return;
  }
  const { now } = await holdfast.store.alerts.open(1);
  const lines = alerts.length === 0 ? [] : [...alertTable(alerts, { terminal, all, now }), ""];
  const words = alerts.length === 0 ? "No alerts." : counted(alerts.length, "alert");
  terminal.print(...lines, terminal.colors.dim(words));
}

function alertTable(
  alerts: readonly Alert[],
  { terminal, all, now }: { terminal: Terminal; all: boolean; now: number },
): string[] {
  const { columns, colors } = terminal;
  return table({
    columns: [
      { title: "SEVERITY" },
      { title: "RULE", flexible: true },
      { title: "SUBJECT", flexible: true },
      { title: "SINCE", align: "right" },
      ...(all ? [{ title: "RESOLVED", align: "right" as const }] : []),
      { title: "MESSAGE", flexible: true },
    ],
    rows: alerts.map(({ severity, rule, subject, sinceAt, resolvedAt, message }) => [
      severityCell(severity, colors, resolvedAt !== null),
      rule,
      subject,
      relative(sinceAt, now),
      ...(all ? [resolvedAt === null ? "" : relative(resolvedAt, now)] : []),
      message,
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

const TONES = { info: "cyan", warning: "yellow", critical: "red" } as const satisfies Record<
  Severity,
  keyof Colors
>;

/** Resolved alerts are dimmed. */
function severityCell(severity: Severity, colors: Colors, isOver: boolean): Cell {
  return { text: severity, paint: isOver ? colors.dim : colors[TONES[severity]] };
}

function rules(terminal: Terminal): void {
  const known = alertRules();
  if (terminal.json)
    return terminal.printJson({ rules: known.map(({ find: _find, ...rule }) => rule) });
  const { colors, columns } = terminal;
  terminal.print(
    ...table({
      columns: [
        { title: "RULE" },
        { title: "SEVERITY" },
        { title: "HOLDS FOR", align: "right" },
        { title: "RAISED WHEN", flexible: true },
      ],
      rows: known.map(({ name, severity, holdMs, when }) => [
        name,
        severityCell(severity, colors, false),
        holdMs === 0 ? "" : formatMs(holdMs),
        when,
      ]),
      width: columns,
      paintTitle: colors.bold,
    }),
  );
}

async function test(terminal: Terminal): Promise<void> {
  const { Webhooks } = await import("./webhook.ts"); // No other command sends anything.
  const webhooks = new Webhooks(webhooksFrom(terminal.env), systemRuntime);
  const alert = testAlert();
  const sent = webhooks.targets.map(async (target) => ({
    webhook: webhooks.originOf(target),
    ...(await webhooks.send(target, { event: "test", alert })),
  }));
  const answers = await Promise.all(sent);
  if (terminal.json) terminal.printJson({ answers });
  else terminal.print(...answers.map((answer) => answerLine(answer, terminal.colors)));
  const failed = answers.filter(({ ok }) => !ok);
  if (failed.length > 0) throw new NotDeliveredError(failed.length);
}

function webhooksFrom(env: NodeJS.ProcessEnv): WebhookOptions {
  const given = env["HOLDFAST_WEBHOOK_URLS"] ?? "";
  const urls = given.split(",").map((url) => url.trim());
  if (given.trim() === "") {
    throw new BadUsageError(
      "No webhooks are configured. Set HOLDFAST_WEBHOOK_URLS to a comma-separated list of URLs.",
    );
  }
  const secret = env["HOLDFAST_WEBHOOK_SECRET"] ?? "";
  return {
    urls: urls.filter((url) => url !== ""),
    allowPrivate:
      monitoringSettings.webhookPrivate.kind.read(env["HOLDFAST_WEBHOOK_PRIVATE"]) === true,
    ...(secret === "" ? {} : { secret }),
  };
}

function testAlert(): Alert {
  const now = systemRuntime.now();
  return {
    id: makeIds(systemRuntime)(),
    rule: "test",
    subject: "",
    severity: "info",
    status: "raised",
    message: "This is a test. Nothing is wrong.",
    facts: {},
    sinceAt: now,
    seenAt: now,
    raisedAt: now,
    resolvedAt: null,
  };
}

function answerLine(
  { webhook, ok, status, text, error }: WebhookAnswer & { readonly webhook: string },
  colors: Colors,
): string {
  const shown = cut(printable(text.trim()), ANSWER_SHOWN_MAX);
  const result = ok ? `answered with status ${status}` : (error ?? "");
  const mark = ok ? colors.green("ok") : colors.red("failed");
  return `${mark}  ${webhook}: ${printable(result)}${shown === "" ? "" : colors.dim(`  ${shown}`)}`;
}
