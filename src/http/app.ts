/**
 * From a request to its response: request guards, authentication, rate limits, validation, and only then the route.
 *
 * Every failure on the way becomes a problem document here, and every response carries the same headers.
 */
import type { IncomingMessage } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { makeIds } from "../core/id.ts";
import { neighbourhood } from "../core/ip.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { type Auth, type Credentials, type Principal, tooMany } from "./auth.ts";
import { checkBodyHeaders, parseBody, readBytes } from "./body.ts";
import { checkAim, checkOrigin, proxySign, SECURITY_HEADERS } from "./guards.ts";
import { KEY_PATTERN, type Once } from "./idempotency.ts";
import { Buckets, type Limits } from "./limits.ts";
import { Problem, problemOf, retryAfter } from "./problem.ts";
import { type Answer, type Call, JSON_TYPE, type Route } from "./route.ts";
import type { Connections } from "./server.ts";
import type { EventSource, Streams } from "./sse.ts";

interface AppParts {
  readonly routes: readonly Route[];
  readonly auth: Auth;
  readonly once: Once;
  readonly streams: Streams;
  readonly connections: Connections;
  readonly limits: Limits;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Null: any. */
  readonly hosts: ReadonlySet<string> | null;
}

interface Env {
  Bindings: HttpBindings;
}

type Ctx = Context<Env>;

/** The request that a response belongs to. */
interface Answered {
  readonly principal: Principal;
  readonly credentials: Credentials;
  readonly requestId: string;
}

const NO_EVENTS: Answer = { events: async () => {} };

const ANONYMOUS: Principal = { id: "anonymous", name: "anonymous", role: "viewer" };

const PROBLEM_TYPE = "application/problem+json; charset=utf-8";

/** Longest path that is logged. */
const PATH_LOGGED_MAX = 200;

export class App {
  readonly hono = new Hono<Env>();
  readonly #parts: AppParts;
  readonly #rates: Buckets;
  readonly #refusals: Buckets;
  readonly #newId: () => string;

  constructor(parts: AppParts) {
    const { limits, runtime, routes } = parts;
    this.#parts = parts;
    this.#newId = makeIds(runtime);
    this.#rates = new Buckets(runtime, {
      burst: limits.rateBurst,
      perSecond: limits.ratePerSecond,
      remembered: limits.remembered,
    });
    this.#refusals = new Buckets(runtime, {
      burst: limits.refusedBurst,
      perSecond: limits.refusedPerSecond,
      remembered: limits.remembered,
    });
    for (const route of routes) {
      const path = route.path.replaceAll(/\{(\w+)\}/g, ":$1");
      this.hono.on(route.method, path, (ctx) => this.#handle(ctx, route));
    }
    this.hono.notFound((ctx) => this.#lost(ctx));
  }

  /** A response to a request that Node itself could not parse. */
  refusal(status: number, detail: string): Response {
    const problem = new Problem({ status, code: "UNREADABLE", detail });
    return this.#refuse(problem, this.#newId(), { Connection: "close" });
  }

  async #handle(ctx: Ctx, route: Route): Promise<Response> {
    const requestId = this.#newId();
    const { runtime, logger } = this.#parts;
    const startedAt = runtime.monotonic();
    const response = await this.#inTime(this.#answer(ctx, route, requestId)).catch(
      (error: unknown) => this.#failed(error, ctx, requestId),
    );
    const tookMs = Math.round(runtime.monotonic() - startedAt);
    const facts = { event: "http:request", request: requestId, status: response.status, tookMs };
    logger.debug(facts, `${route.method} ${route.path}`);
    return response;
  }

  /** Answers 503 after the time limit; the work already begun continues. */
  async #inTime(answer: Promise<Response>): Promise<Response> {
    const { runtime, limits } = this.#parts;
    const late = Promise.withResolvers<never>();
    const giveUp = (): void => {
      late.reject(tookTooLong());
      // A stream that opens after the limit has no reader.
      void answer.then((response) => response.body?.cancel()).catch(() => {});
    };
    const timer = runtime.timer(limits.answerMs, giveUp, "background");
    try {
      return await Promise.race([answer, late.promise]);
    } finally {
      timer.cancel();
    }
  }

  async #answer(ctx: Ctx, route: Route, requestId: string): Promise<Response> {
    const { principal, credentials } = await this.#admit(ctx, route);
    const { headers } = ctx.env.incoming;
    const params = route.readParams(ctx.req.param());
    const query = route.readQuery(new URL(ctx.req.url).searchParams);
    const bytes = await this.#body(ctx, route);
    const body =
      route.body === null ? undefined : route.readBody(parseBody(bytes, this.#parts.limits));
    const call = {
      params,
      query,
      body,
      principal,
      requestId,
      headers: {
        accept: headers.accept,
        "last-event-id": headers["last-event-id"] as string | undefined,
        traceparent: headers["traceparent"] as string | undefined,
        tracestate: headers["tracestate"] as string | undefined,
      },
    };
    const key = headers["idempotency-key"];
    if (route.method === "POST" && key !== undefined) {
      return this.#once(ctx, route, call, { key: String(key), bytes });
    }
    const answer = await route.run({ ...call, ids: this.#ids(route, body) });
    // A HEAD request does not read the stream, so it would never end.
    const wanted = "events" in answer && ctx.req.method === "HEAD" ? NO_EVENTS : answer;
    return this.#respond(wanted, route, { principal, credentials, requestId });
  }

  async #admit(
    ctx: Ctx,
    route: Route,
  ): Promise<{ principal: Principal; credentials: Credentials }> {
    const { auth, hosts, connections } = this.#parts;
    const { incoming, outgoing } = ctx.env;
    const { headers } = incoming;
    const address = addressOf(incoming);
    const credentials = { header: headers.authorization, address, proxy: proxySign(incoming) };
    const principal = await this.#counting(address, () => {
      checkAim(incoming, hosts);
      // Any page may link to the probes; everything else is for our own pages and for programs.
      if (route.access !== "public") checkOrigin(headers);
      return auth.admit(credentials, route.access);
    });
    const seconds = this.#rates.take(principal?.id ?? `${route.name} ${address}`);
    if (seconds > 0) throw tooMany("Rate limit exceeded.", seconds);
    if (principal !== null) connections.admit(incoming, outgoing);
    return { principal: principal ?? ANONYMOUS, credentials };
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

  async #body(ctx: Ctx, { method }: Route): Promise<Buffer> {
    const { incoming } = ctx.env;
    if (method !== "POST") return Buffer.alloc(0);
    checkBodyHeaders(incoming.headers);
    return readBytes(incoming, this.#parts.limits);
  }

  #ids(route: Route, body: unknown): string[] {
    return Array.from({ length: route.idCount(body) }, () => this.#newId());
  }

  async #once(
    ctx: Ctx,
    route: Route,
    call: Omit<Call<unknown, unknown, unknown>, "ids">,
    { key, bytes }: { key: string; bytes: Buffer },
  ): Promise<Response> {
    if (!KEY_PATTERN.test(key)) throw badKey();
    const { method, repeatable = false } = route;
    const request = {
      principal: call.principal.id,
      key,
      method,
      path: ctx.req.path,
      body: bytes,
      repeatable,
      newIds: () => this.#ids(route, call.body),
    };
    const { status, body, replayed } = await this.#parts.once.answer(request, async (ids) => {
      const answer = await route.run({ ...call, ids });
      if (!("json" in answer)) throw new Error("only JSON responses can be saved");
      return { status: answer.status, body: JSON.stringify(answer.json) };
    });
    // A replayed problem carries the id of this request.
    const isProblem = status >= 400;
    const again = {
      ...(isProblem ? {} : placed(route, JSON.parse(body))),
      ...(replayed ? { "Idempotency-Replayed": "true" } : {}),
    };
    const text = isProblem
      ? JSON.stringify({ ...(JSON.parse(body) as object), requestId: call.requestId })
      : body;
    const type = isProblem ? PROBLEM_TYPE : JSON_TYPE;
    return this.#response(text, { status, type, requestId: call.requestId, headers: again });
  }

  #respond(answer: Answer, route: Route, request: Answered): Response {
    const { requestId } = request;
    if ("events" in answer) return this.#stream(answer.events, request);
    if ("bytes" in answer) {
      const { status, type, bytes } = answer;
      const headers = { "Content-Length": String(bytes.length) };
      return this.#response(shared(bytes), { status, type, requestId, headers });
    }
    if (!("json" in answer)) return this.#response(null, { status: 204, type: null, requestId });
    const { status, json } = answer;
    const headers = placed(route, json);
    return this.#response(JSON.stringify(json), { status, type: JSON_TYPE, requestId, headers });
  }

  #stream(source: EventSource, { principal, credentials, requestId }: Answered): Response {
    const { streams, auth, logger } = this.#parts;
    const stream = streams.open(principal.id, source, {
      onError: (error) => {
        const facts = { event: "http:stream-failed", err: error, request: requestId };
        logger.warn(facts, "event stream failed");
      },
      isAdmitted: () => auth.isStillAdmitted(credentials),
    });
    const type = "text/event-stream; charset=utf-8";
    // A buffering proxy would hold events back.
    const headers = { "X-Accel-Buffering": "no" };
    return this.#response(stream.body, { status: 200, type, requestId, headers });
  }

  #failed(error: unknown, ctx: Ctx, requestId: string): Response {
    const problem = problemOf(error);
    if (problem.isOurs) {
      const path = ctx.req.path.slice(0, PATH_LOGGED_MAX);
      const facts = {
        event: "http:failed",
        err: problem.cause ?? problem,
        request: requestId,
        method: ctx.req.method,
        path,
      };
      this.#parts.logger.error(facts, `request failed: ${problem.code}`);
    }
    return this.#refuse(problem, requestId);
  }

  #refuse(problem: Problem, requestId: string, more: Record<string, string> = {}): Response {
    const { status } = problem;
    const headers = { ...problem.headers, ...more };
    const body = JSON.stringify({ ...problem.toBody(), requestId });
    return this.#response(body, { status, type: PROBLEM_TYPE, requestId, headers });
  }

  /** The path does not exist, or not with this method. */
  #lost(ctx: Ctx): Response {
    const requestId = this.#newId();
    const { incoming } = ctx.env;
    try {
      this.#countRefusal(addressOf(incoming));
      checkAim(incoming, this.#parts.hosts);
    } catch (error) {
      return this.#failed(error, ctx, requestId);
    }
    const allowed = this.#parts.routes.filter(({ path }) => matches(path, ctx.req.path));
    if (allowed.length === 0) {
      const detail = "No such path. See /api/v1/openapi.json for all paths.";
      return this.#refuse(new Problem({ status: 404, code: "NOT_FOUND", detail }), requestId);
    }
    const methods = new Set(allowed.map(({ method }) => method));
    const detail = `Method not allowed. Use ${[...methods].join(" or ")}.`;
    const headers = { Allow: [...methods].join(", ") };
    const problem = new Problem({ status: 405, code: "WRONG_METHOD", detail, headers });
    return this.#refuse(problem, requestId);
  }

  #response(
    body: string | ReadableStream<Uint8Array> | null,
    facts: {
      readonly status: number;
      readonly type: string | null;
      readonly requestId: string;
      readonly headers?: Readonly<Record<string, string>>;
    },
  ): Response {
    const { status, type, requestId, headers = {} } = facts;
    return new Response(body, {
      status,
      headers: {
        ...SECURITY_HEADERS,
        ...(type === null ? {} : { "Content-Type": type }),
        "X-Request-Id": requestId,
        ...headers,
      },
    });
  }
}

function addressOf({ socket }: IncomingMessage): string {
  return neighbourhood(socket.remoteAddress ?? "unknown");
}

/** A response would copy the bytes. */
function shared(bytes: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(bytes);
      controller.close();
    },
  });
}

function matches(pattern: string, path: string): boolean {
  const [wanted, given] = [pattern.split("/"), path.split("/")];
  return (
    wanted.length === given.length &&
    wanted.every((part, index) =>
      part.startsWith("{") ? given[index] !== "" : part === given[index],
    )
  );
}

function placed({ location }: Route, json: unknown): Record<string, string> {
  return location === undefined ? {} : { Location: location(json) };
}

function tookTooLong(): Problem {
  const detail =
    "The request timed out, but may still complete. Check before you retry, or send an Idempotency-Key.";
  return new Problem({ status: 503, code: "TOOK_TOO_LONG", detail, headers: retryAfter("5") });
}

function badKey(): Problem {
  const detail = "Idempotency-Key must be 1 to 255 visible ASCII characters.";
  return new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field: "Idempotency-Key" });
}
