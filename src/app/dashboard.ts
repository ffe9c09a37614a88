/** Published as `holdfast/dashboard`: the dashboard and its API inside of an application, behind its own login. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { BASE_PATH_ALLOWED, basePathIn } from "../core/base-path.ts";
import { invalid } from "../core/errors.ts";
import { by, needed, optionsOf, passed } from "../core/options.ts";
import { type Role, roles } from "../core/role.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Task } from "../core/task.ts";
import { Assets } from "../dashboard/assets.ts";
import type { Pages } from "../http-kernel/app.ts";
import {
  type AccessRule,
  type Admission,
  allowed,
  type Credentials,
  type Principal,
} from "../http-kernel/auth.ts";
import { RequestSender } from "../http-kernel/guards.ts";
import type { Limits } from "../http-kernel/limits.ts";
import { Problem, problemOf } from "../http-kernel/problem.ts";
import { dropRest, refusalOf, type Reply, send } from "../http-kernel/server.ts";
import { thrifty } from "../http-kernel/thrift.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";
import { embed } from "./embedded.ts";
import type { Holdfast } from "./holdfast.ts";

export type { Role } from "../core/role.ts";

/** A person, as the application knows them. */
export interface DashboardPrincipal {
  /** The audit log shows it as the actor. */
  readonly name: string;
  /** Viewers only read. */
  readonly role: Role;
}

/** Which Holdfast the dashboard shows, where it is mounted, and who is signed in. */
export interface DashboardOptions {
  /** The Holdfast that it shows. */
  readonly holdfast: Holdfast;
  /** The path that the handler is served below, such as "/admin/jobs". Default: the root. */
  readonly basePath?: string;
  /** Who sent this request; null: not signed in. It is called for every request, and for open event streams again. */
  readonly principal: (
    request: Request,
  ) => DashboardPrincipal | null | Promise<DashboardPrincipal | null>;
  /** Tasks whose schemas validate jobs that are enqueued here; other tasks are accepted unchecked. */
  readonly tasks?: readonly Task[];
  /** Workflows whose items can be moved here. */
  readonly workflows?: readonly AnyWorkflow[];
  /** @internal Serves the pages. Default: the dashboard. */
  readonly pages?: Pages;
  /** @internal */
  readonly limits?: Partial<Limits>;
}

/** Answers the requests of the dashboard and its API. */
export interface DashboardHandler {
  (request: Request): Promise<Response>;
  /** Ends open streams and background work. Call it before `holdfast.close()`. */
  close(): Promise<void>;
}

const dashboardOptions = optionsOf<DashboardOptions>()({
  holdfast: needed(passed<Holdfast>()),
  basePath: by(checkBasePath, ""),
  principal: needed(by(checkPrincipal)),
  tasks: passed<readonly Task[]>(),
  workflows: passed<readonly AnyWorkflow[]>(),
  pages: passed<Pages>(),
  limits: passed<Partial<Limits>>(),
});

/** Serves the dashboard and its API for standard requests: of Hono, Next.js, or with `toNodeListener` of Node's frameworks. */
export function dashboardHandler(options: DashboardOptions): DashboardHandler {
  const { principal, pages = new Assets(), ...checked } = dashboardOptions.read(options);
  const embedded = embed({ ...checked, pages, auth: new ApplicationAuth(principal) });
  const handle = async (request: Request): Promise<Response> => {
    const url = URL.parse(request.url);
    const target = url === null ? "" : `${url.pathname}${url.search}`;
    const sender = fromNode.has(request) ? new RequestSender(request) : new PlainSender(request);
    const asked = { method: request.method, target, sender };
    const { body, ...rest } = await thrifty(await embedded.answer(asked), asked);
    return new Response(body as RequestInit["body"], rest);
  };
  return Object.assign(handle, { close: () => embedded.close() });
}

/** Made from requests of Node, to which the response goes as it is. */
const fromNode = new WeakSet<Request>();

/** Gets no packed response: Next.js drops `Content-Encoding`, and the browser would show the packed bytes. */
class PlainSender extends RequestSender {
  override header(name: string): string | undefined {
    return name === "accept-encoding" ? undefined : super.header(name);
  }
}

function checkBasePath(field: string, given: string): string {
  const path = typeof given === "string" ? basePathIn(given) : null;
  if (path !== null) return path;
  throw invalid(field, `must ${BASE_PATH_ALLOWED}.`);
}

function checkPrincipal(field: string, given: DashboardOptions["principal"]) {
  if (typeof given === "function") return given;
  throw invalid(field, "give a function that returns { name, role } for a request, or null.");
}

/** How often the login may fail for an open stream, one time after the other: it is asked every 15 seconds. */
const LOGIN_FAILURES_MAX = 20;

/** The application says who sent a request. */
class ApplicationAuth implements Admission {
  readonly #ask: DashboardOptions["principal"];
  readonly #failures = new WeakMap<Request, number>();

  constructor(ask: DashboardOptions["principal"]) {
    this.#ask = ask;
  }

  async admit({ request }: Credentials, rule: AccessRule): Promise<Principal | null> {
    if (rule === "public" || request === undefined) return null;
    const found = await this.#ask(request);
    if (found === null || found === undefined) {
      const detail = "The application did not say who sent this request. Sign in there.";
      throw new Problem({ status: 401, code: "NO_PRINCIPAL", detail });
    }
    return allowed(principalOf(found), rule);
  }

  async isStillAdmitted({ request }: Credentials): Promise<boolean> {
    if (request === undefined) return false;
    try {
      const found = (await this.#ask(request)) ?? null;
      this.#failures.delete(request);
      return found !== null;
    } catch {
      // Unknown, as while the database of the application does not respond.
      const failures = (this.#failures.get(request) ?? 0) + 1;
      this.#failures.set(request, failures);
      return failures < LOGIN_FAILURES_MAX;
    }
  }
}

function principalOf({ name, role }: DashboardPrincipal): Principal {
  if (typeof name !== "string" || name === "" || !roles.includes(role)) {
    // A mistake of the application: the request gets 500, and the log the reason.
    throw new Error(`principal() must return a name, and one of the roles ${roles.join(", ")}.`);
  }
  return { id: `app ${name}`, name: `app ${name}`, role, via: "app" };
}

// For frameworks on Node's own requests: Express, Fastify, NestJS.

/**
 * Passes Node's requests to the handler, with their whole path: `basePath` must include what the framework cuts off.
 *
 * The promise does not reject: where no framework waits for it, that would end the process.
 */
export function toNodeListener(
  handler: (request: Request) => Promise<Response>,
): (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void> {
  return async (incoming, outgoing) => {
    // Node drops a body that nothing reads, but not one that was made a stream; the next request is behind it.
    outgoing.once("finish", () => dropRest(incoming, systemRuntime));
    try {
      await send(await replyOf(handler, incoming, outgoing), outgoing);
    } catch {
      outgoing.destroy();
    }
  };
}

async function replyOf(
  handler: (request: Request) => Promise<Response>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<Reply> {
  const aborted = new AbortController();
  outgoing.once("close", () => aborted.abort());
  const request = requestOf(incoming, aborted.signal);
  if (request instanceof Problem) return refusalOf(request);
  try {
    const { status, headers, body } = await handler(request);
    return { status, headers: Object.fromEntries(headers), body };
  } catch (error) {
    // `dashboardHandler` does not throw, so this is what the application put around it.
    process.emitWarning(error instanceof Error ? error : String(error));
    return refusalOf(problemOf(error));
  }
}

/** What frameworks add: the path before they cut off a prefix, and a body that they parsed. */
interface Adorned extends IncomingMessage {
  readonly originalUrl?: string;
  readonly body?: unknown;
}

/** A standard Request cannot have these methods. */
const UNSUPPORTED: ReadonlySet<string> = new Set(["CONNECT", "TRACE", "TRACK"]);

/**
 * The host of every request that Node received. Only the path says where a request goes: a Host header may hold another path.
 * No page can have this name as its origin.
 */
const HOST = "host.invalid";

/** A problem: there can be no such request. */
function requestOf(incoming: Adorned, signal: AbortSignal): Request | Problem {
  const { method = "GET", headers, socket } = incoming;
  if (UNSUPPORTED.has(method)) return wrongMethod();
  const path = incoming.originalUrl ?? incoming.url ?? "/";
  // An absolute target is meant for a proxy, and a URL would take a backslash for a slash.
  if (!path.startsWith("/") || path.includes("\\")) return unreadable();
  const isSecure = socket !== null && "encrypted" in socket && socket.encrypted === true;
  const list = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [value].flat().map((one) => [name, one]),
  );
  try {
    const body = method === "GET" || method === "HEAD" ? null : bodyOf(incoming);
    const init = { method, headers: list, signal, body, duplex: "half" };
    const url = `${isSecure ? "https" : "http"}://${HOST}${path}`;
    const request = new Request(url, init as RequestInit);
    fromNode.add(request);
    return request;
  } catch {
    return unreadable();
  }
}

function wrongMethod(): Problem {
  const detail = "Method not allowed. Use GET or POST.";
  const headers = { Allow: "GET, POST" };
  return new Problem({ status: 405, code: "WRONG_METHOD", detail, headers });
}

function unreadable(): Problem {
  const detail = "The request is malformed. Its target must be a path.";
  return new Problem({ status: 400, code: "UNREADABLE", detail });
}

/** A framework that parsed the body has read the stream to its end. */
function bodyOf(incoming: Adorned): RequestInit["body"] {
  const { body } = incoming;
  if (!incoming.readableEnded || body === undefined)
    return Readable.toWeb(incoming) as RequestInit["body"];
  return typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body);
}
