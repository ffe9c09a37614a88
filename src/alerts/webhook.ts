/**
 * The webhooks that receive alerts, each a target with its own name.
 *
 * A URL may contain a secret, so only its origin is shown, and the target's name is the host with a few digits of a hash.
 * With a secret, requests are signed: the receiver can verify who sent them, and when.
 */
import { createHash, createHmac } from "node:crypto";
import type { ClientRequest, IncomingMessage } from "node:http";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { urlToHttpOptions } from "node:url";
import { SECRET_LENGTH_MIN } from "../config/kind.ts";
import { formatMs } from "../core/duration.ts";
import { describeError } from "../core/error-record.ts";
import { invalid } from "../core/errors.ts";
import { ipv6Groups } from "../core/ip.ts";
import {
  by,
  checkFunction,
  checkList,
  checkText,
  needed,
  optionsOf,
  yes,
} from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { type Alert, type AlertEvent, deliveryKey } from "./alert.ts";
import { WEBHOOKS_MAX } from "./options.ts";

/** Where alerts are sent, and the secret that signs them. */
export interface WebhookOptions {
  /** Where alerts are sent. */
  readonly urls: readonly string[];
  /** The key that signs requests. At least 16 characters. */
  readonly secret?: string;
  /** Also allow loopback and private addresses, and http to these. Default false. */
  readonly allowPrivate?: boolean;
  /** Resolves names to addresses; for tests. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
}

interface WebhookMessage {
  readonly event: AlertEvent | "test";
  readonly alert: Alert;
  /** When a silence ended: it is another message than the first. */
  readonly again?: number;
}

/** The URLs are checked when it is known whether private addresses are allowed. */
const webhookOptions = optionsOf<WebhookOptions>()({
  urls: needed(by(checkUrls)),
  secret: by(checkSecret),
  allowPrivate: yes(false),
  resolve: by(checkFunction<Resolve>),
});

const WEBHOOKS = { field: "webhooks" };

const URL_LENGTH_MAX = 2_048;

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
    const { urls, secret, allowPrivate, resolve } = webhookOptions.read(options, WEBHOOKS);
    const checked = urls.map((url, index) => checkUrl(url, index, allowPrivate));
    this.#urls = new Map(checked.map((url) => [targetOf(url), url]));
    this.#secret = secret ?? null;
    this.#allowPrivate = allowPrivate;
    this.#resolve = resolve ?? resolveBySystem;
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
      "holdfast-delivery": idOf(message),
    };
    if (this.#secret !== null)
      headers["holdfast-signature"] = signature(this.#secret, body, this.#runtime.now());
    const request = { url, headers, body, allowPrivate: this.#allowPrivate, signal };
    return ask(request, { runtime: this.#runtime, resolve: this.#resolve });
  }
}

function idOf({ alert, event, again }: WebhookMessage): string {
  if (event === "test") return `${alert.id}.test`;
  return deliveryKey({ alert: alert.id, event, ...(again === undefined ? {} : { again }) });
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
  const field = `webhooks.urls[${index}]`;
  if (checkText(field, text).length > URL_LENGTH_MAX) {
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

function checkUrls(field: string, urls: readonly string[]): readonly string[] {
  if (checkList(field, urls).length <= WEBHOOKS_MAX) return urls;
  throw invalid(field, `at most ${WEBHOOKS_MAX} are allowed.`);
}

function checkSecret(field: string, secret: string): string {
  if (checkText(field, secret).length >= SECRET_LENGTH_MIN) return secret;
  throw invalid(field, `must have at least ${SECRET_LENGTH_MIN} characters.`);
}

// One request to a webhook, and its answer.
//
// The name is resolved first, all its addresses are checked, and only checked addresses are connected to, so DNS rebinding
// changes nothing. Redirects are not followed. A request takes at most ten seconds, and only the start of an answer is read.

export const REQUEST_MS_MAX = 10_000;

const ANSWER_BYTES_MAX = 4_096;

const ERROR_LENGTH_MAX = 300;

interface WebhookRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly allowPrivate: boolean;
  /** Ends it early. */
  readonly signal?: AbortSignal | undefined;
}

export interface WebhookAnswer {
  readonly ok: boolean;
  /** Null: there was no answer. */
  readonly status: number | null;
  /** The start of the answer. */
  readonly text: string;
  /** Why it was not accepted. Of the URL it contains only the origin. */
  readonly error: string | null;
  readonly mayRetry: boolean;
}

type Resolve = (host: string) => Promise<readonly string[]>;

const resolveBySystem: Resolve = async (host) => {
  const { lookup } = await import("node:dns/promises"); // Most processes have no webhooks.
  const found = await lookup(host, { all: true, order: "verbatim" });
  return found.map(({ address }) => address);
};

/** No request may be made to this address, now or later. */
class Refused extends Error {}

async function ask(
  request: WebhookRequest,
  { runtime, resolve }: { runtime: Runtime; resolve: Resolve },
): Promise<WebhookAnswer> {
  const late = new AbortController();
  const problem = `no answer within ${formatMs(REQUEST_MS_MAX)}`;
  const timer = runtime.timer(REQUEST_MS_MAX, () => late.abort(new Error(problem)));
  const { signal = late.signal } = request;
  const end = AbortSignal.any([late.signal, signal]);
  try {
    const addresses = await addressesOf(request, resolve, end);
    return await post(request, addresses, end);
  } catch (error) {
    const mayRetry = !(error instanceof Refused);
    const { message, code } = describeError(error);
    const reason = (message === "" ? (code ?? "unknown error") : message).slice(
      0,
      ERROR_LENGTH_MAX,
    );
    return { ok: false, status: null, text: "", error: reason, mayRetry };
  } finally {
    timer.cancel();
  }
}

async function addressesOf(
  { url, allowPrivate }: WebhookRequest,
  resolve: Resolve,
  end: AbortSignal,
): Promise<readonly string[]> {
  const host = hostOf(url);
  const addresses = isIP(host) === 0 ? await orEnd(resolve(host), end) : [host];
  if (addresses.length === 0) throw new Error(`${host} has no address`);
  const refusal = refusalOf(url, addresses, allowPrivate);
  if (refusal !== null) throw new Refused(refusal);
  return addresses;
}

/** Why no request may be made to these addresses; null: it may. */
function refusalOf(url: URL, addresses: readonly string[], allowPrivate: boolean): string | null {
  const inside = addresses.find((address) => !isPublic(address));
  if (inside !== undefined && !allowPrivate) {
    return `${hostOf(url)} is ${inside}, which is not a public address; private addresses must be allowed first`;
  }
  if (url.protocol === "http:" && addresses.some(isPublic)) {
    return `${hostOf(url)} is public; use https`;
  }
  return null;
}

/** Without the brackets of IPv6. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

function orEnd<T>(promise: Promise<T>, end: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    whenOver(end, reject);
    promise.then(resolve, reject);
  });
}

function whenOver(end: AbortSignal, listener: (why: Error) => void): void {
  const notify = (): void => listener(end.reason as Error);
  if (end.aborted) notify();
  else end.addEventListener("abort", notify, { once: true });
}

async function post(
  { url, headers, body }: WebhookRequest,
  addresses: readonly string[],
  end: AbortSignal,
): Promise<WebhookAnswer> {
  // Loaded here because most processes never send anything, and these modules use several megabytes.
  const protocol = url.protocol === "https:" ? import("node:https") : import("node:http");
  const { request: begin } = await protocol;
  return new Promise((resolve, reject) => {
    const request = begin({
      ...urlToHttpOptions(url),
      method: "POST",
      headers: { ...headers, "content-length": Buffer.byteLength(body) },
      lookup: pinnedTo(addresses),
      agent: false, // A shared agent might reuse a connection to another address.
    });
    request.on("response", (response) => resolve(read(response, request)));
    request.on("error", reject);
    // After an upgrade to another protocol there is neither an answer nor an error.
    request.on("close", () => reject(new Error("the connection was closed without an answer")));
    whenOver(end, (why) => request.destroy(why));
    request.end(body);
  });
}

/** Called only for names: an IP address is used as it is. */
function pinnedTo(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_host, options, give) => {
    const [first = { address: "", family: 0 }] = all;
    if (options.all === true) give(null, all);
    else give(null, first.address, first.family);
  };
}

/** The status is known by now, so a failure to read the rest is no error. */
async function read(response: IncomingMessage, request: ClientRequest): Promise<WebhookAnswer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      chunks.push(chunk as Buffer);
      bytes += (chunk as Buffer).length;
      if (bytes >= ANSWER_BYTES_MAX) break;
    }
  } catch {
    // The connection was cut.
  } finally {
    request.destroy();
  }
  const text = Buffer.concat(chunks).subarray(0, ANSWER_BYTES_MAX).toString("utf8");
  return judged(response.statusCode ?? 0, text);
}

const TOO_SOON = new Set([408, 425, 429]);

function judged(status: number, text: string): WebhookAnswer {
  const ok = status >= 200 && status < 300;
  const mayRetry = status >= 500 || TOO_SOON.has(status);
  const isRedirect = status >= 300 && status < 400;
  const error = isRedirect
    ? `it answered with ${status}: redirects are not followed; use the URL it redirects to`
    : `it answered with ${status}`;
  return { ok, status, text, error: ok ? null : error, mayRetry };
}

// Public and private addresses. A request to a URL that another person may choose must not reach services of our own
// network: a database, or the metadata service of a cloud, which hands out credentials. So an address counts as public
// only if it is known to be. IPv6 addresses that embed an IPv4 address are judged by that.

/** All other IPv4 addresses are public. */
const NOT_PUBLIC: readonly (readonly [net: string, bits: number])[] = [
  ["0.0.0.0", 8], // this host
  ["10.0.0.0", 8],
  ["100.64.0.0", 10], // carriers' own; clouds have metadata here
  ["127.0.0.0", 8],
  ["168.63.129.16", 32], // a cloud's own service, on an address that looks public
  ["169.254.0.0", 16], // link-local; metadata of most clouds
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24], // documentation
  ["192.31.196.0", 24], // AS112, which answers for names of private networks
  ["192.52.193.0", 24], // relays of multicast (AMT)
  ["192.88.99.0", 24], // relays to 6to4
  ["192.168.0.0", 16],
  ["192.175.48.0", 24], // AS112
  ["198.18.0.0", 15], // benchmarks
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4], // multicast
  ["240.0.0.0", 4], // reserved, and broadcast
];

/** IPv6 addresses in 2000::/3 are public, except these. */
const NOT_PUBLIC_6: readonly (readonly [net: string, bits: number])[] = [
  ["2001::", 23], // protocols, among them Teredo, which embeds an obfuscated IPv4 address
  ["2001:db8::", 32], // documentation
  ["2002::", 16], // 6to4: embeds one, too
  ["2620:4f:8000::", 48], // AS112
  ["3fff::", 20], // documentation
];

/** Prefixes of IPv6 addresses that embed an IPv4 address: mapped, and NAT64. */
const CARRIERS = ["::ffff:", "64:ff9b::"];

const CARRIER_BITS = 96;

const ISATAP = 0x5efe;

/** The bit of an interface identifier that marks it as globally unique; ISATAP may set it. */
const UNIVERSAL = 0x200;

const refused = new BlockList();

const possible = new BlockList();

possible.addSubnet("2000::", 3, "ipv6");

for (const [net, bits] of NOT_PUBLIC_6) refused.addSubnet(net, bits, "ipv6");

for (const [net, bits] of NOT_PUBLIC) refused.addSubnet(net, bits, "ipv4");

for (const carrier of CARRIERS) {
  possible.addSubnet(`${carrier}0.0.0.0`, CARRIER_BITS, "ipv6");
  for (const [net, bits] of NOT_PUBLIC)
    refused.addSubnet(`${carrier}${net}`, CARRIER_BITS + bits, "ipv6");
}

/** Whether a text is a public IP address. */
export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !refused.check(address, "ipv4");
  // An address with a zone belongs to a local network.
  if (family === 0 || address.includes("%")) return false;
  return (
    possible.check(address, "ipv6") && !refused.check(address, "ipv6") && !isTunnelled(address)
  );
}

/** ISATAP: in any network, the lower half is 0:5efe or 200:5efe and an IPv4 address. */
function isTunnelled(address: string): boolean {
  const [, , , , first = 0, second] = ipv6Groups(address) ?? [];
  return second === ISATAP && (first | UNIVERSAL) === UNIVERSAL;
}
