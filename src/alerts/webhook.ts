/**
 * The webhooks that receive alerts, each a target with its own name.
 *
 * A URL may contain a secret, so only its origin is shown, and the target's name is the host with a few digits of a hash.
 * With a secret, requests are signed: the receiver can verify who sent them, and when.
 */
import { createHash, createHmac } from "node:crypto";
import { isIP } from "node:net";
import { formatMs } from "../core/duration.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { checkKnown, checkList, checkText } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Alert, AlertEvent } from "./alert.ts";
import { WEBHOOKS_MAX } from "./options.ts";
import {
  ask,
  hostOf,
  refusalOf,
  type Resolve,
  resolveBySystem,
  type WebhookAnswer,
} from "./webhook-request.ts";

export interface WebhookOptions {
  readonly urls: readonly string[];
  /** The key that signs requests. At least 16 characters. */
  readonly secret?: string;
  /** Also allow loopback and private addresses, and http to these. Default false. */
  readonly allowPrivate?: boolean;
  /** Resolves names to addresses; for tests. */
  readonly resolve?: Resolve;
}

interface WebhookMessage {
  readonly event: AlertEvent | "test";
  readonly alert: Alert;
}

const OPTIONS = new Set(["urls", "secret", "allowPrivate", "resolve"]);

const URL_LENGTH_MAX = 2_048;

const SECRET_LENGTH_MIN = 16;

/** A target's name has at most 64 characters in the database. */
const HOST_LENGTH_MAX = 48;

const HASH_LENGTH = 8;

export const BODY_BYTES_MAX = 65_536;

export class Webhooks {
  readonly #urls: ReadonlyMap<string, URL>;
  readonly #secret: string | null;
  readonly #allowPrivate: boolean;
  readonly #resolve: Resolve;
  readonly #runtime: Runtime;

  constructor(options: WebhookOptions, runtime: Runtime) {
    checkKnown(options, OPTIONS);
    const { urls, secret, allowPrivate = false, resolve = resolveBySystem } = options;
    if (checkList("webhooks.urls", urls).length > WEBHOOKS_MAX) {
      throw invalid("urls", `at most ${WEBHOOKS_MAX} are allowed.`);
    }
    const checked = urls.map((url, index) => checkUrl(url, index, allowPrivate));
    this.#urls = new Map(checked.map((url) => [targetOf(url), url]));
    this.#secret = secret === undefined ? null : checkSecret(secret);
    this.#allowPrivate = allowPrivate;
    this.#resolve = resolve;
    this.#runtime = runtime;
  }

  get targets(): readonly string[] {
    return [...this.#urls.keys()];
  }

  /** For log lines. */
  originOf(target: string): string {
    return this.#urls.get(target)?.origin ?? target;
  }

  /** Never throws: a failure is an answer. */
  send(target: string, message: WebhookMessage, signal?: AbortSignal): Promise<WebhookAnswer> {
    const url = this.#urls.get(target);
    if (url === undefined) return Promise.resolve(NOT_KNOWN);
    const body = bodyOf(message);
    const headers: Record<string, string> = {
      "content-type": "application/json; charset=utf-8",
      "user-agent": "holdfast",
      "holdfast-delivery": `${message.alert.id}.${message.event}`,
    };
    if (this.#secret !== null)
      headers["holdfast-signature"] = signature(this.#secret, body, this.#runtime.now());
    const request = { url, headers, body, allowPrivate: this.#allowPrivate, signal };
    return ask(request, { runtime: this.#runtime, resolve: this.#resolve });
  }
}

const NOT_KNOWN: WebhookAnswer = {
  ok: false,
  status: null,
  text: "",
  error: "the target is no longer configured",
  mayRetry: false,
};

/** `t=<unix seconds>,v1=<hex>`: an HMAC-SHA256 of the time, a dot and the body. */
export function signature(secret: string, body: string, now: number): string {
  const time = Math.floor(now / 1_000);
  const hash = createHmac("sha256", secret).update(`${time}.${body}`).digest("hex");
  return `t=${time},v1=${hash}`;
}

/** Slack and similar services show `text`. A body that is too long omits the facts. */
export function bodyOf({ event, alert }: WebhookMessage): string {
  const text = textOf(event, alert);
  const body = JSON.stringify({ text, event, alert });
  if (Buffer.byteLength(body) <= BODY_BYTES_MAX) return body;
  return JSON.stringify({ text, event, alert: { ...alert, facts: {} } });
}

function textOf(event: WebhookMessage["event"], alert: Alert): string {
  const { severity, rule, subject, message, sinceAt, resolvedAt } = alert;
  const of = subject === "" ? rule : `${rule} (${subject})`;
  const text =
    event === "resolved"
      ? `[resolved] ${of} after ${formatMs((resolvedAt ?? sinceAt) - sinceAt)}: ${message}`
      : `[${event === "test" ? "test" : severity}] ${of}: ${message}`;
  // Slack interprets these: a queue named `<!channel>` would notify the whole channel.
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function targetOf(url: URL): string {
  const hash = createHash("sha256").update(url.href).digest("hex");
  return `${url.host.slice(0, HOST_LENGTH_MAX)} ${hash.slice(0, HASH_LENGTH)}`;
}

/** The error does not contain the URL, which may contain a secret. */
function checkUrl(text: string, index: number, allowPrivate: boolean): URL {
  const field = `urls[${index}]`;
  if (checkText(`webhooks.${field}`, text).length > URL_LENGTH_MAX) {
    throw invalid(field, `at most ${URL_LENGTH_MAX} characters are allowed.`);
  }
  const url = URL.parse(text);
  if (url === null) throw invalid(field, "is not a URL such as https://example.com/hook.");
  if (url.protocol !== "https:" && !(url.protocol === "http:" && allowPrivate)) {
    const scheme = url.protocol.slice(0, -1);
    const http = scheme === "http" ? " For http, private addresses must be allowed." : "";
    throw invalid(field, `must begin with https://, not ${scheme}://.${http}`);
  }
  const host = hostOf(url);
  const refusal = isIP(host) === 0 ? null : refusalOf(url, [host], allowPrivate);
  if (refusal !== null) throw invalid(field, `${refusal}.`);
  return url;
}

function checkSecret(secret: string): string {
  if (checkText("webhooks.secret", secret).length >= SECRET_LENGTH_MIN) return secret;
  throw invalid("secret", `must have at least ${SECRET_LENGTH_MIN} characters.`);
}

function invalid(field: string, problem: string): InvalidArgumentError {
  return new InvalidArgumentError({ field: `webhooks.${field}`, problem });
}
