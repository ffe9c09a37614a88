/** `holdfast alerts`, with a test of the webhooks, which needs no database. */
import { Command } from "commander";
import { HoldfastError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { systemRuntime } from "../core/runtime.ts";
import { BadUsageError } from "../terminal/usage.ts";
import { counted, cut, printable } from "../terminal/table.ts";
import type { Colors, Terminal } from "../terminal/terminal.ts";
import type { Alert } from "./alert.ts";
import { alertOperations } from "./operations.ts";
import { monitoringSettings } from "./options.ts";
import type { WebhookAnswer, WebhookOptions } from "./webhook.ts";

const ANSWER_SHOWN_MAX = 120;

class NotDeliveredError extends HoldfastError {
  constructor(count: number) {
    super("WEBHOOK_FAILED", `${counted(count, "webhook")} did not accept the test alert.`);
  }
}

const { list, acknowledge, silence, rules } = alertOperations;

export const alertCommands = {
  name: "alerts",
  about: "list, acknowledge and silence alerts, and test their delivery",
  parts: [list, acknowledge, silence, rules, testCommand],
};

function testCommand({ terminal }: { readonly terminal: Terminal }): Command {
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
    .action(() => test(terminal));
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
    notifiedAt: now,
    acknowledgedAt: null,
    acknowledgedBy: null,
    silencedUntil: null,
    silencedBy: null,
    note: null,
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
