/**
 * Request guards: checks that every request passes before it is routed.
 *
 * A browser on this machine sends requests for any page opened in it. A page may resolve its own name to the loopback interface
 * (DNS rebinding): the Host header reveals that. Or it may send a cross-origin request: Origin and Sec-Fetch-Site, which no
 * page can change, reveal that.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { neighbourhood } from "../core/ip.ts";
import { readBytes, readStream } from "./body.ts";
import type { Limits } from "./limits.ts";
import { Problem } from "./problem.ts";

/** Sent with every response. The API serves no pages, so the strictest policy fits; the dashboard has its own. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cache-Control": "no-store",
};

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]"];

export function isLoopback(host: string): boolean {
  return (
    host === "localhost" || host === "::1" || host === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(host)
  );
}

/** The Host names accepted for this address; null: any, because the server is not on the loopback interface. */
export function hostNames(host: string): ReadonlySet<string> | null {
  if (!isLoopback(host)) return null;
  return new Set([
    ...LOOPBACK_NAMES,
    host.includes(":") && !host.startsWith("[") ? `[${host}]` : host,
  ]);
}

const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i;

/** Checks that the request is meant for this server. An absolute target is meant for a proxy. */
function checkAim(
  { url, headers, rawHeaders }: Pick<IncomingMessage, "url" | "headers" | "rawHeaders">,
  names: ReadonlySet<string> | null,
): void {
  // Node keeps the first Host header; a proxy in front may have used another.
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host");
  const { host = "" } = headers;
  if (hosts.length !== 1 || !HOST.test(host) || !URL.canParse(`http://${host}`)) {
    const detail = "Send exactly one Host header, with a name or address and perhaps a port.";
    throw new Problem({ status: 400, code: "UNREADABLE", detail });
  }
  if (url?.startsWith("/") !== true) {
    const detail = "The request target must be a path. This server is not a proxy.";
    throw new Problem({ status: 400, code: "UNREADABLE", detail });
  }
  if (names === null) return;
  const name = host.toLowerCase().replace(/:\d{1,5}$/, "");
  if (names.has(name)) return;
  const detail = `This server accepts only the host names ${[...names].join(", ")}. To use another name, bind it to another address (HOLDFAST_HOST).`;
  throw new Problem({ status: 421, code: "WRONG_HOST", detail });
}

/** Longest header name quoted in a message. */
const SIGN_LENGTH_MAX = 40;
const FORWARDING = new Set(["forwarded", "via", "x-real-ip"]);

/**
 * The sign that a proxy forwarded the request; null: none. Local programs speak HTTP/1.1; nginx by default speaks HTTP/1.0 to
 * its upstream and adds no header.
 */
function proxySign({
  headers,
  httpVersion,
}: Pick<IncomingMessage, "headers" | "httpVersion">): string | null {
  const header = Object.keys(headers).find(isForwarding)?.slice(0, SIGN_LENGTH_MAX);
  return header ?? (httpVersion === "1.0" ? "HTTP/1.0" : null);
}

function isForwarding(header: string): boolean {
  return FORWARDING.has(header) || header.startsWith("x-forwarded");
}

interface OriginTerms {
  /** Refuses a request that has neither header. */
  readonly mustSay?: boolean;
  /** The names this server has. Default: that of the Host header. */
  readonly hosts?: readonly (string | undefined)[];
}

/**
 * Programs send neither header. A browser sends at least one of them, except with same-origin requests to read; a request
 * that a cookie authenticates must have one, because every browser sends cookies without being asked.
 */
function checkOrigin(
  headers: Pick<IncomingHttpHeaders, "origin" | "sec-fetch-site" | "host">,
  { mustSay = false, hosts = [headers.host] }: OriginTerms = {},
): void {
  const site = headers["sec-fetch-site"];
  // The browser compared the origins itself; a proxy may have changed the Host header since.
  if (site === "same-origin") return;
  if (site !== undefined && site !== "none") throw foreign();
  const { origin } = headers;
  if (origin !== undefined) {
    const isOurs = hosts.some(
      (host) => origin === `http://${host}` || origin === `https://${host}`,
    );
    if (!isOurs) throw foreign();
  } else if (mustSay) throw foreign();
}

function foreign(): Problem {
  const detail =
    "Cross-origin requests from browsers are not allowed. Use a page of this server's origin, or a program.";
  return new Problem({ status: 403, code: "FOREIGN_ORIGIN", detail });
}

// Who sent a request, and its body: of a request that this server received, or of one that an application passed on.
//
// An application decides itself which hosts it serves and how many connections it accepts, so those checks apply to our own
// server only.

export interface Sender {
  /** The address, or the IPv6 network, that rate limits are for. */
  readonly address: string;
  /** The sign that a proxy forwarded the request; null: none. */
  readonly proxy: string | null;
  /** Only if an application passed it on. */
  readonly request?: Request;
  header(name: string): string | undefined;
  /** Checks that the request is meant for this server. */
  checkAim(hosts: ReadonlySet<string> | null): void;
  /** Refuses requests that a page of another origin sent; with `mustSay`, also those that do not say. */
  checkOrigin(mustSay?: boolean): void;
  /** The request is authenticated. */
  admitted(): void;
  body(limits: Limits): Promise<Buffer>;
}

interface Protecting {
  admit(incoming: IncomingMessage, outgoing: ServerResponse): void;
}

export class NodeSender implements Sender {
  readonly address: string;
  readonly proxy: string | null;
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  readonly #connections: Protecting;

  constructor(incoming: IncomingMessage, outgoing: ServerResponse, connections: Protecting) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#connections = connections;
    this.address = neighbourhood(incoming.socket.remoteAddress ?? "unknown");
    this.proxy = proxySign(incoming);
  }

  header(name: string): string | undefined {
    const value = this.#incoming.headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  checkAim(hosts: ReadonlySet<string> | null): void {
    checkAim(this.#incoming, hosts);
  }

  checkOrigin(mustSay = false): void {
    checkOrigin(this.#incoming.headers, { mustSay });
  }

  admitted(): void {
    this.#connections.admit(this.#incoming, this.#outgoing);
  }

  body(limits: Limits): Promise<Buffer> {
    return readBytes(this.#incoming, limits);
  }
}

/** All requests of an application share its rate limits for addresses: it knows who sent them, and we do not. */
const APPLICATION = "application";

export class RequestSender implements Sender {
  readonly address = APPLICATION;
  readonly proxy = null;
  readonly request: Request;

  constructor(request: Request) {
    this.request = request;
  }

  header(name: string): string | undefined {
    return this.request.headers.get(name) ?? undefined;
  }

  checkAim(): void {}

  /** A proxy may have changed the Host header. A page cannot set any of these for a request to another origin. */
  checkOrigin(mustSay = false): void {
    const host = this.header("host") ?? hostOf(this.request.url);
    const hosts = [host, this.header("x-forwarded-host")];
    const headers = {
      "sec-fetch-site": this.header("sec-fetch-site"),
      origin: this.header("origin"),
    };
    checkOrigin(headers, { mustSay, hosts });
  }

  admitted(): void {}

  body(limits: Limits): Promise<Buffer> {
    return readStream(this.request.body, limits, Number(this.header("content-length") ?? 0));
  }
}

function hostOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).host : undefined;
}
