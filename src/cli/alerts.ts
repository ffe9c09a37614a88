/** `holdfast alerts`: what is wrong now, what was, by which rules that is decided, and whether webhooks hear of it. */
import { Command } from "commander";
import type { Alert } from "../core/alert.ts";
import { formatMs } from "../core/duration.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Severity } from "../core/finding.ts";
import { makeIds } from "../core/id.ts";
import { systemRuntime } from "../core/runtime.ts";
import { LIMIT_DEFAULT, listAlerts } from "../ops/alert-list.ts";
import { alertRules } from "../ops/alert-rules.ts";
import type { WebhookAnswer } from "../ops/webhook-request.ts";
import type { WebhookOptions } from "../ops/webhook.ts";
import { wholeNumber } from "./arguments.ts";
import { openForLooking, urlOption, type DatabaseOptions } from "./database.ts";
import { BadUsage } from "./failure.ts";
import { cut, printable, table, type Cell } from "./table.ts";
import type { Colors, Terminal } from "./terminal.ts";
import { counted, relative } from "./words.ts";

interface ListOptions extends DatabaseOptions {
  readonly all?: boolean;
  readonly before?: string;
  readonly limit: number;
}

const ANSWER_SHOWN_MAX = 120;
const YES = new Set(["1", "true", "yes", "on"]);

class NotTold extends HoldfastError {
  constructor(count: number) {
    super("WEBHOOK_FAILED", `${counted(count, "webhook")} did not take the test alert.`);
  }
}

export function alertsCommand(terminal: Terminal): Command {
  const command = new Command("alerts").description("list alerts, and try whether they arrive");
  command.addCommand(listCommand(terminal), { isDefault: true });
  command.addCommand(rulesCommand(terminal));
  command.addCommand(testCommand(terminal));
  return command;
}

function listCommand(terminal: Terminal): Command {
  return new Command("list")
    .description("list the alerts that are raised, those that were noticed last first")
    .addOption(urlOption())
    .option("--all", "also those that were resolved, within 30 days")
    .option("--before <id>", "only those that were noticed before this one: the next page")
    .option("--limit <n>", "how many at most", wholeNumber, LIMIT_DEFAULT)
    .action((options: ListOptions) => list(terminal, options));
}

function rulesCommand(terminal: Terminal): Command {
  return new Command("rules")
    .description("say when alerts are raised")
    .action(() => rules(terminal));
}

function testCommand(terminal: Terminal): Command {
  return new Command("test")
    .description("send a test alert to the webhooks of HOLDFAST_WEBHOOK_URLS")
    .addHelpText(
      "after",
      `
Environment:
  HOLDFAST_WEBHOOK_URLS     where alerts are sent, comma-separated
  HOLDFAST_WEBHOOK_SECRET   what they are signed with
  HOLDFAST_WEBHOOK_PRIVATE  true: addresses of this machine and its surroundings are allowed`,
    )
    .action(() => test(terminal));
}

async function list(terminal: Terminal, options: ListOptions): Promise<void> {
  const { url, all = false, before, limit } = options;
  await using holdfast = await openForLooking(url);
  const alerts = await listAlerts(holdfast.store, {
    which: all ? "all" : "raised",
    limit,
    ...(before === undefined ? {} : { before }),
  });
  if (terminal.json) {
    terminal.printJson({ alerts });
    return;
  }
  const { now } = await holdfast.store.openAlerts(1);
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

/** What is over does not shout. */
function severityCell(severity: Severity, colors: Colors, isOver: boolean): Cell {
  return { text: severity, paint: isOver ? colors.dim : colors[TONES[severity]] };
}

function rules(terminal: Terminal): void {
  const known = alertRules();
  if (terminal.json) {
    const told = known.map(({ name, severity, holdMs, when }) => ({
      name,
      severity,
      holdMs,
      when,
    }));
    terminal.printJson({ rules: told });
    return;
  }
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
  const { Webhooks } = await import("../ops/webhook.ts"); // No other command sends anything.
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
  if (failed.length > 0) throw new NotTold(failed.length);
}

/** The webhooks that the environment names. */
function webhooksFrom(env: NodeJS.ProcessEnv): WebhookOptions {
  const given = env["HOLDFAST_WEBHOOK_URLS"] ?? "";
  const urls = given.split(",").map((url) => url.trim());
  if (given.trim() === "") {
    throw new BadUsage("No webhooks. Name them, comma-separated, in HOLDFAST_WEBHOOK_URLS.");
  }
  const secret = env["HOLDFAST_WEBHOOK_SECRET"] ?? "";
  return {
    urls: urls.filter((url) => url !== ""),
    allowPrivate: YES.has((env["HOLDFAST_WEBHOOK_PRIVATE"] ?? "").toLowerCase()),
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
    message: "This is a test: nothing is wrong.",
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
  const said = cut(printable(text.trim()), ANSWER_SHOWN_MAX);
  const words = ok ? `it answered with ${status}` : (error ?? "");
  const mark = ok ? colors.green("ok") : colors.red("failed");
  return `${mark}  ${webhook}: ${printable(words)}${said === "" ? "" : colors.dim(`  ${said}`)}`;
}
