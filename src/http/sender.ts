/**
 * Who sent a request, and its body: of a request that this server received, or of one that an application passed on.
 *
 * An application decides itself which hosts it serves and how many connections it accepts, so those checks apply to our own
 * server only.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { neighbourhood } from "../core/ip.ts";
import { readBytes, readStream } from "./body.ts";
import { checkAim, checkOrigin, proxySign } from "./guards.ts";
import type { Limits } from "./limits.ts";

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
    const hosts = [this.header("host"), this.header("x-forwarded-host"), hostOf(this.request.url)];
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
