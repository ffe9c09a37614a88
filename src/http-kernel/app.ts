/**
 * From a request to its response: request guards, authentication, rate limits, validation, and only then the route.
 *
 * Every failure on the way becomes a problem document here, and every response carries the same headers.
 */
import { makeIds } from "../core/id.ts";
import type { Logger } from "../core/log.ts";
import { hasHidden, HIDDEN, type Redaction } from "../config/redaction.ts";
import type { Runtime } from "../core/runtime.ts";
import { withReadLimit } from "../database/engine.ts";
import {
  type Admission,
  allowed,
  type Credentials,
  type Principal,
  secretIn,
  tooMany,
} from "./auth.ts";
import { checkBodyHeaders, parseBody } from "./body.ts";
import { SECURITY_HEADERS, type Sender } from "./guards.ts";
import { KEY_PATTERN, type Once } from "./idempotency.ts";
import { Buckets, type Limits } from "./limits.ts";
import { Problem, problemOf, retryAfter } from "./problem.ts";
import { type Answer, type Call, JSON_TYPE, type Route } from "./route.ts";
import { isStream, type Reply, type Requested } from "./server.ts";
import { type EventSource, type Streams, TOO_MANY_STREAMS } from "./sse.ts";

interface AppParts {
  readonly routes: readonly Route[];
  readonly auth: Admission;
  readonly once: Once;
  readonly streams: Streams;
  readonly limits: Limits;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Null: any. */
  readonly hosts: ReadonlySet<string> | null;
  /** The port that is part of the cookie's name; asked when a request comes. Null: there are no sessions. */
  readonly port: () => number | null;
  /** The path below which everything is, without a slash at its end; empty: none. */
  readonly basePath?: string;
  /** A proxy may cut the base path off: requests without it are answered too. */
  readonly isMapped?: boolean;
  /** Serves the pages. */
  readonly pages?: Pages;
  readonly redaction: Redaction;
}

/** Serves what is not in the table of routes. */
export interface Pages {
  /** Null: there is no such page. */
  answer(asked: PageRequest): Promise<PageAnswer | null>;
}

export interface PageRequest {
  /** Below the base path, from its slash on. */
  readonly path: string;
  readonly basePath: string;
  header(name: string): string | undefined;
}

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array | null;
}

/** A request whose target has been read. */
interface Asked extends Requested {
  /** Below the base path. */
  readonly path: string;
  readonly query: URLSearchParams;
}

/** The request that a response belongs to. */
interface Answered {
  readonly principal: Principal;
  readonly credentials: Credentials;
  readonly requestId: string;
}

const ANONYMOUS: Principal = { id: "anonymous", name: "anonymous", role: "viewer", via: "open" };

const PROBLEM_TYPE = "application/problem+json; charset=utf-8";

/** How often the same warning is logged: once a minute. */
const WARNINGS = { burst: 1, perSecond: 1 / 60, remembered: 10 };

/** Longest path that is logged. */
const PATH_LOGGED_MAX = 200;

export class App {
  readonly #parts: AppParts;
  readonly #table: readonly { readonly route: Route; readonly pattern: readonly string[] }[];
  readonly #rates: Buckets;
  readonly #refusals: Buckets;
  readonly #warnings: Buckets;
  readonly #newId: () => string;

  constructor(parts: AppParts) {
    const { limits, runtime, routes } = parts;
    this.#parts = parts;
    this.#table = routes
      .map((route) => ({ route, pattern: route.path.split("/") }))
      .toSorted((one, other) => rankOf(one.pattern) - rankOf(other.pattern));
    this.#newId = makeIds(runtime);
    this.#rates = new Buckets(runtime, {
      burst: limits.rateBurst,
      perSecond: limits.ratePerSecond,
      remembered: limits.remembered,
    });
    this.#warnings = new Buckets(runtime, WARNINGS);
    this.#refusals = new Buckets(runtime, {
      burst: limits.refusedBurst,
      perSecond: limits.refusedPerSecond,
      remembered: limits.remembered,
    });
  }

  /** Does not throw. */
  async answer(request: Requested): Promise<Reply> {
    const asked = { ...request, ...this.#aimOf(request.target) };
    const isHead = asked.method === "HEAD";
    const found = this.#find(isHead ? "GET" : asked.method, asked.path);
    const reply = await (found === null ? this.#lost(asked) : this.#handle(asked, ...found));
    return isHead ? { ...reply, body: null } : reply;
  }

  /** A path outside of the base path fits no route. */
  #aimOf(target: string): Pick<Asked, "path" | "query"> {
    const { basePath = "", isMapped = false } = this.#parts;
    // A URL takes a backslash for a slash; a proxy in front does not.
    const isPath = target.startsWith("/") && !target.includes("\\");
    const url = isPath ? URL.parse(`http://localhost${target}`) : null;
    if (url === null) return { path: OUTSIDE, query: new URLSearchParams() };
    // `%25` stays as it is: parameters are decoded once more.
    const path = decoded(url.pathname, (text) => decodeURI(text.replaceAll("%25", "%2525")));
    const query = url.searchParams;
    if (basePath === "") return { path, query };
    if (path === basePath) return { path: "/", query };
    const isBelow = path.startsWith(`${basePath}/`);
    if (isBelow) return { path: path.slice(basePath.length), query };
    return { path: isMapped ? path : OUTSIDE, query };
  }

  #find(method: string, path: string): [Route, Params] | null {
    const segments = path.split("/");
    for (const { route, pattern } of this.#table) {
      if (route.method === method && fits(pattern, segments)) {
        return [route, paramsOf(pattern, segments)];
      }
    }
    return null;
  }

  async #handle(asked: Asked, route: Route, params: Params): Promise<Reply> {
    const requestId = this.#newId();
    const { runtime, logger } = this.#parts;
    const startedAt = runtime.monotonic();
    const answer = this.#answer(asked, { route, params, requestId });
    const reply = await this.#inTime(answer).catch((error: unknown) =>
      this.#failed(error, asked, requestId),
    );
    const tookMs = Math.round(runtime.monotonic() - startedAt);
    const facts = { event: "http:request", request: requestId, status: reply.status, tookMs };
    logger.debug(facts, `${route.method} ${route.path}`);
    return reply;
  }

  /** Answers 503 after the time limit; the work already begun continues. */
  async #inTime(answer: Promise<Reply>): Promise<Reply> {
    return this.#within(this.#parts.limits.answerMs, answer, () => {
      // A stream that opens after the limit has no reader.
      void answer.then(cancelStream).catch(() => {});
      return tookTooLong();
    });
  }

  async #answer(
    { sender, ...asked }: Asked,
    { route, requestId, ...found }: { route: Route; params: Params; requestId: string },
  ): Promise<Reply> {
    const { principal, credentials } = await this.#admit(sender, route, asked.principal);
    const params = route.readParams(found.params);
    const query = route.readQuery(asked.query);
    const bytes = await this.#body(sender, route);
    const body =
      route.body === null ? undefined : route.readBody(parseBody(bytes, this.#parts.limits));
    this.#refuseHidden(body, route);
    const call = {
      params,
      query,
      body,
      principal,
      credentials,
      requestId,
      headers: {
        accept: sender.header("accept"),
        origin: sender.header("origin"),
        "last-event-id": sender.header("last-event-id"),
        traceparent: sender.header("traceparent"),
        tracestate: sender.header("tracestate"),
        "mcp-protocol-version": sender.header("mcp-protocol-version"),
        "mcp-method": sender.header("mcp-method"),
        "mcp-name": sender.header("mcp-name"),
      },
    };
    const key = sender.header("idempotency-key");
    if (route.method === "POST" && key !== undefined && route.unsaved !== true) {
      return this.#once(asked, route, call, { key, bytes });
    }
    const run = (): Promise<Answer> => route.run({ ...call, ids: this.#ids(route, body) });
    const isRead = route.method === "GET" && route.access !== "public";
    const answer = await (isRead ? withReadLimit(this.#parts.limits.readMs, run) : run());
    // A HEAD request does not read the stream, so it would never end.
    const wanted =
      "events" in answer && asked.method === "HEAD" ? { events: async () => {} } : answer;
    return this.#respond(wanted, route, { principal, credentials, requestId });
  }

  async #admit(
    sender: Sender,
    route: Route,
    known: Principal | undefined,
  ): Promise<{ principal: Principal; credentials: Credentials }> {
    const { auth, hosts } = this.#parts;
    const { address } = sender;
    const credentials = this.#credentials(sender);
    const writes = route.method === "POST";
    const principal = await this.#counting(address, async () => {
      if (known !== undefined) return allowed(known, route.access);
      sender.checkAim(hosts);
      // Any page may link to the probes; everything else is for our own pages and for programs.
      if (route.access !== "public" || writes) sender.checkOrigin();
      const found = await auth.admit(credentials, route.access);
      if (found?.via === "cookie" && writes) sender.checkOrigin(true);
      return found;
    });
    const seconds = this.#rates.take(principal?.id ?? `${route.name} ${address}`);
    if (seconds > 0) throw tooMany("Rate limit exceeded.", seconds);
    if (principal !== null) sender.admitted();
    return { principal: principal ?? ANONYMOUS, credentials };
  }

  #credentials(sender: Sender): Credentials {
    const { address, proxy, request } = sender;
    const port = this.#parts.port();
    return {
      header: sender.header("authorization"),
      address,
      proxy,
      session: port === null ? null : secretIn(sender.header("cookie"), port),
      ...(request === undefined ? {} : { request }),
    };
  }

  /** Counts the refused requests of an address, also those refused because the database is down. */
  async #counting<T>(address: string, look: () => T | Promise<T>): Promise<T> {
    try {
      return await look();
    } catch (error) {
      this.#countRefusal(address);
      throw error;
    }
  }

  #countRefusal(address: string): void {
    const seconds = this.#refusals.take(address);
    if (seconds > 0)
      throw tooMany("Too many requests from this address were refused recently.", seconds);
  }

  async #body(sender: Sender, { method }: Route): Promise<Buffer> {
    if (method !== "POST") return Buffer.alloc(0);
    checkBodyHeaders({
      "content-encoding": sender.header("content-encoding"),
      "content-type": sender.header("content-type"),
    });
    return this.#within(this.#parts.limits.bodyMs, sender.body(this.#parts.limits), tooSlow);
  }

  /** Rejects with the problem when the time is over; what was begun continues. */
  async #within<T>(ms: number, promise: Promise<T>, problem: () => Problem): Promise<T> {
    const late = Promise.withResolvers<never>();
    const timer = this.#parts.runtime.timer(ms, () => late.reject(problem()), "background");
    try {
      return await Promise.race([promise, late.promise]);
    } finally {
      timer.cancel();
    }
  }

  #ids(route: Route, body: unknown): string[] {
    return Array.from({ length: route.idCount(body) }, () => this.#newId());
  }

  async #once(
    { path }: Pick<Asked, "path">,
    route: Route,
    call: Omit<Call<unknown, unknown, unknown>, "ids">,
    { key, bytes }: { key: string; bytes: Buffer },
  ): Promise<Reply> {
    if (!KEY_PATTERN.test(key)) throw badKey();
    const { method, repeatable = false } = route;
    const request = {
      principal: call.principal.id,
      key,
      method,
      path,
      body: bytes,
      repeatable,
      newIds: () => this.#ids(route, call.body),
    };
    const { status, body, replayed } = await this.#parts.once.answer(request, async (ids) => {
      const answer = await route.run({ ...call, ids });
      if (!("json" in answer)) throw new Error("only JSON responses can be saved");
      return { status: answer.status, body: this.#text(answer.json, route) };
    });
    // A replayed problem carries the id of this request.
    const isProblem = status >= 400;
    const again = {
      ...(isProblem ? {} : this.#placed(route, JSON.parse(body))),
      ...(replayed ? { "Idempotency-Replayed": "true" } : {}),
    };
    const text = isProblem
      ? JSON.stringify({ ...(JSON.parse(body) as object), requestId: call.requestId })
      : body;
    const type = isProblem ? PROBLEM_TYPE : JSON_TYPE;
    return this.#reply(text, { status, type, requestId: call.requestId, headers: again });
  }

  #respond(answer: Answer, route: Route, request: Answered): Reply {
    const { requestId } = request;
    if ("events" in answer) return this.#stream(answer.events, request);
    if ("bytes" in answer) {
      const { status, type, bytes } = answer;
      const headers = { "Content-Length": String(bytes.length) };
      return this.#reply(bytes, { status, type, requestId, headers });
    }
    if (!("json" in answer))
      return this.#reply(null, { status: answer.status, type: null, requestId });
    const { status, json, headers: more } = answer;
    const headers = { ...this.#placed(route, json), ...more };
    const text = this.#text(json, route);
    return this.#reply(text, { status, type: JSON_TYPE, requestId, headers });
  }

  #placed({ location }: Route, json: unknown): Record<string, string> {
    const { basePath = "" } = this.#parts;
    return location === undefined ? {} : { Location: `${basePath}${location(json)}` };
  }

  #text(json: unknown, { isWhole = false }: Route): string {
    return JSON.stringify(isWhole ? json : this.#parts.redaction.answer(json));
  }

  /** A hidden value that comes back must not replace the value that it stands for. */
  #refuseHidden(body: unknown, { restores = false }: Route): void {
    if (this.#parts.redaction.isEmpty || restores || !hasHidden(body)) return;
    const detail = `The body contains '${HIDDEN}', which stands for a value that a redaction rule hides. Send the value itself.`;
    throw new Problem({ status: 422, code: "INVALID_ARGUMENT", detail });
  }

  #stream(source: EventSource, { principal, credentials, requestId }: Answered): Reply {
    const { streams, auth, logger } = this.#parts;
    const stream = streams.open(principal.id, source, {
      onError: (error) => {
        const facts = { event: "http:stream-failed", err: error, request: requestId };
        logger.warn(facts, "event stream failed");
      },
      isAdmitted: () => auth.isStillAdmitted(credentials),
      shown: (data) => this.#parts.redaction.answer(data),
    });
    const type = "text/event-stream; charset=utf-8";
    // A buffering proxy would hold events back.
    const headers = { "X-Accel-Buffering": "no" };
    return this.#reply(stream.body, { status: 200, type, requestId, headers });
  }

  #failed(error: unknown, { method, path }: Asked, requestId: string): Reply {
    const problem = problemOf(error, method);
    if (problem.code === TOO_MANY_STREAMS) this.#warnOfStreams(requestId);
    else if (problem.isOurs) {
      const facts = {
        event: "http:failed",
        err: problem.cause ?? problem,
        request: requestId,
        method,
        path: path.slice(0, PATH_LOGGED_MAX),
      };
      this.#parts.logger.error(facts, `request failed: ${problem.code}`);
    }
    return this.#refuse(problem, requestId);
  }

  /** A client can cause it as often as it likes, so most of it is not logged. */
  #warnOfStreams(request: string): void {
    if (this.#warnings.take(TOO_MANY_STREAMS) > 0) return;
    const facts = { event: "http:too-many-streams", request };
    this.#parts.logger.warn(facts, "an event stream was refused: too many are open");
  }

  #refuse(problem: Problem, requestId: string): Reply {
    const { status, headers } = problem;
    const body = JSON.stringify({ ...problem.toBody(), requestId });
    return this.#reply(body, { status, type: PROBLEM_TYPE, requestId, headers });
  }

  /** The path does not exist, or not with this method; or it is a page. */
  async #lost(asked: Asked): Promise<Reply> {
    const requestId = this.#newId();
    const { sender, path } = asked;
    try {
      sender.checkAim(this.#parts.hosts);
      const page = await this.#page(asked, requestId);
      if (page !== null) return page;
      this.#countRefusal(sender.address);
    } catch (error) {
      return this.#failed(error, asked, requestId);
    }
    const segments = path.split("/");
    const there = this.#table.filter(({ pattern }) => fits(pattern, segments));
    if (there.length === 0) {
      const detail = "No such path. See /api/v1/openapi.json for all paths.";
      return this.#refuse(new Problem({ status: 404, code: "NOT_FOUND", detail }), requestId);
    }
    const methods = new Set(there.map(({ route }) => route.method));
    const detail = `Method not allowed. Use ${[...methods].join(" or ")}.`;
    const headers = { Allow: [...methods].join(", ") };
    const problem = new Problem({ status: 405, code: "WRONG_METHOD", detail, headers });
    return this.#refuse(problem, requestId);
  }

  async #page(asked: Asked, requestId: string): Promise<Reply | null> {
    const { pages, basePath = "" } = this.#parts;
    const { method, path, sender } = asked;
    if (pages === undefined || path === OUTSIDE || (method !== "GET" && method !== "HEAD")) {
      return null;
    }
    const seconds = this.#rates.take(`page ${sender.address}`);
    if (seconds > 0) throw tooMany("Rate limit exceeded.", seconds);
    const header = (name: string): string | undefined => sender.header(name);
    const page = await pages.answer({ path, basePath, header });
    if (page === null) return null;
    const { status, headers, bytes } = page;
    return this.#reply(bytes, { status, type: null, requestId, headers });
  }

  #reply(
    body: Reply["body"],
    facts: {
      readonly status: number;
      readonly type: string | null;
      readonly requestId: string;
      readonly headers?: Readonly<Record<string, string>>;
    },
  ): Reply {
    const { status, type, requestId, headers = {} } = facts;
    const typed = type === null ? {} : { "Content-Type": type };
    const all = { ...SECURITY_HEADERS, ...typed, "X-Request-Id": requestId, ...headers };
    return { status, headers: all, body };
  }
}

/** No route and no page has it. */
const OUTSIDE = "/.outside";

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, at) =>
      part.startsWith("{") ? segments[at] !== "" : part === segments[at],
    )
  );
}

/** A fixed part goes before a parameter, in whatever order the routes are: `/jobs/count` is not the job `count`. */
function rankOf(pattern: readonly string[]): number {
  return pattern.reduce((rank, part) => rank * 2 + (part.startsWith("{") ? 1 : 0), 0);
}

type Params = Readonly<Record<string, string>>;

function paramsOf(pattern: readonly string[], segments: readonly string[]): Params {
  const params: Record<string, string> = {};
  for (const [at, part] of pattern.entries()) {
    if (!part.startsWith("{")) continue;
    params[part.slice(1, -1)] = decoded(segments[at] ?? "", decodeURIComponent);
  }
  return params;
}

/** Text with an invalid escape stays as it is. */
function decoded(text: string, decode: (text: string) => string): string {
  try {
    return decode(text);
  } catch {
    return text;
  }
}

async function cancelStream({ body }: Reply): Promise<void> {
  if (isStream(body)) await body.cancel();
}

function tookTooLong(): Problem {
  const detail =
    "The request timed out, but may still complete. Check before you retry, or send an Idempotency-Key.";
  return new Problem({ status: 503, code: "TOOK_TOO_LONG", detail, headers: retryAfter("5") });
}

function tooSlow(): Problem {
  const detail = "The client sent the body too slowly.";
  const headers = { Connection: "close" };
  return new Problem({ status: 408, code: "TOO_SLOW", detail, headers });
}

function badKey(): Problem {
  const detail = "Idempotency-Key must be 1 to 255 visible ASCII characters.";
  return new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field: "Idempotency-Key" });
}
