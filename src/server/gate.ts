/**
 * What every request has to pass before anybody looks at what it asks for.
 *
 * A browser on this machine sends requests for any page that somebody opens in it. Such a page may have a name of its own that
 * leads to the loopback interface (DNS rebinding): the Host header gives it away. Or it sends something to us from another
 * origin: Origin and Sec-Fetch-Site, which no page can change, give that away.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Problem } from "./problem.ts";

/** On every answer. Nothing of the API is a page; the strictest policy fits all of it. */
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

/** The names that a server on this address goes by; null: any, because others than a browser of this machine reach it. */
export function hostNames(host: string): ReadonlySet<string> | null {
  if (!isLoopback(host)) return null;
  return new Set([
    ...LOOPBACK_NAMES,
    host.includes(":") && !host.startsWith("[") ? `[${host}]` : host,
  ]);
}

/** Whom the request is for. A target that names a host is for a proxy, which this is not. */
export function checkAim(
  { url, headers, rawHeaders }: Pick<IncomingMessage, "url" | "headers" | "rawHeaders">,
  names: ReadonlySet<string> | null,
): void {
  if (hostsIn(rawHeaders) > 1) {
    const detail = "The request has more than one Host header: send one.";
    throw new Problem({ status: 400, code: "UNREADABLE", detail });
  }
  if (url?.startsWith("/") !== true) {
    const detail = "Name the path alone: this is no proxy.";
    throw new Problem({ status: 400, code: "UNREADABLE", detail });
  }
  if (names === null) return;
  const name = (headers.host ?? "").toLowerCase().replace(/:\d{1,5}$/, "");
  if (names.has(name)) return;
  const detail = `This server is ${[...names].join(" or ")}. Bind it to another address (HOLDFAST_HOST) to reach it by another name.`;
  throw new Problem({ status: 421, code: "WRONG_HOST", detail });
}

/** Node keeps the first; a proxy in front may have gone by another. */
function hostsIn(rawHeaders: readonly string[]): number {
  return rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
}

/** Of the name of a header in a message. */
const SIGN_LENGTH_MAX = 40;
const FORWARDING = new Set(["forwarded", "via", "x-real-ip"]);

/**
 * What shows that a proxy passed the request on; null: nothing does. Programs of this machine speak HTTP/1.1; nginx speaks
 * HTTP/1.0 to what stands behind it, and adds no header, unless it is told to.
 */
export function proxySign({
  headers,
  httpVersion,
}: Pick<IncomingMessage, "headers" | "httpVersion">): string | null {
  const header = Object.keys(headers).find(isForwarding)?.slice(0, SIGN_LENGTH_MAX);
  return header ?? (httpVersion === "1.0" ? "HTTP/1.0" : null);
}

function isForwarding(header: string): boolean {
  return FORWARDING.has(header) || header.startsWith("x-forwarded");
}

/** Whoever is no browser sends neither header; a browser always sends one of them, except for what it asks of its own origin. */
export function checkOrigin(headers: IncomingHttpHeaders): void {
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none") throw foreign();
  const { origin, host } = headers;
  if (origin === undefined) return;
  if (origin !== `http://${host ?? ""}` && origin !== `https://${host ?? ""}`) throw foreign();
}

function foreign(): Problem {
  const detail =
    "A page of another origin sent this. Pages of this server's own origin may, and programs.";
  return new Problem({ status: 403, code: "FOREIGN_ORIGIN", detail });
}
