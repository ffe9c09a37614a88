/**
 * Tools for agents: the routes that say what to tell an agent.
 *
 * A call is a request to the API in this process. So validation, roles, redaction, limits and the audit log are those of the
 * API, and an agent can do nothing that its role could not do there.
 */
import { z } from "zod";
import type { Principal } from "../http-kernel/auth.ts";
import type { Sender } from "../http-kernel/guards.ts";
import type { Route } from "../http-kernel/route.ts";
import { isStream, type Reply, type Requested } from "../http-kernel/server.ts";
import { cut, pick } from "./cut.ts";

type Json = Readonly<Record<string, unknown>>;

/** As `tools/list` returns it. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: Json;
  readonly annotations: Json;
}

export interface ToolResult {
  readonly content: readonly { readonly type: "text"; readonly text: string }[];
  readonly structuredContent: Json;
  readonly isError: boolean;
}

export interface Agent {
  readonly principal: Principal;
  /** The W3C trace context that its requests belong to. */
  readonly traceparent?: string;
  readonly tracestate?: string;
}

/** The API of this process: a tool call is a request to it. */
export type Ask = (request: Requested) => Promise<Reply>;

const FIELDS_MAX = 50;

/** An argument of every tool. */
const FIELDS = {
  type: "array",
  items: { type: "string" },
  maxItems: FIELDS_MAX,
  description: "Return only these parts, such as jobs.id or attempts.0.error.stack@4000.",
};

export class Tools {
  readonly #ask: Ask;
  readonly #routes: ReadonlyMap<string, Route>;
  /** Made when they are first asked for. */
  readonly #made = new Map<string, Tool>();

  constructor({ routes, ask }: { readonly routes: readonly Route[]; readonly ask: Ask }) {
    this.#ask = ask;
    const ours = routes.filter(({ agent }) => agent !== undefined);
    this.#routes = new Map(ours.map((route) => [route.name, route]));
  }

  /** Those that a role may call. The API decides again at every call. */
  list({ role }: Principal): Tool[] {
    return [...this.#routes.values()]
      .filter(({ access }) => access !== "operator" || role === "operator")
      .map((route) => this.#tool(route));
  }

  /** Null: there is no such tool. Any other refusal is a result that says why. */
  async call(name: string, given: Json, agent: Agent): Promise<ToolResult | null> {
    const route = this.#routes.get(name);
    if (route === undefined) return null;
    const { fields, ...args } = given;
    if (fields !== undefined && !isFields(fields)) {
      return refused("INVALID_ARGUMENT", `fields must be a list of at most ${FIELDS_MAX} texts.`);
    }
    const missing = namesIn(route.path).find((one) => typeof args[one] !== "string");
    if (missing !== undefined) {
      return refused("INVALID_ARGUMENT", `${missing} is required and must be a string.`);
    }
    const reply = await this.#ask(requestOf(route, args, agent));
    const answer = await jsonOf(reply);
    if (reply.status >= 400)
      return refused(String(answer["code"]), String(answer["detail"]), answer);
    if (fields === undefined) return resultOf(cut(answer));
    const found = pick(answer, fields);
    if ("picked" in found) return resultOf(cut(found.picked));
    const has = Object.keys(answer).join(", ");
    const detail = `The answer has no field '${found.missing}'. At the top it has: ${has}.`;
    return refused("INVALID_ARGUMENT", detail);
  }

  #tool(route: Route): Tool {
    const tool = this.#made.get(route.name) ?? toolOf(route);
    this.#made.set(route.name, tool);
    return tool;
  }
}

function isFields(given: unknown): given is readonly string[] {
  return (
    Array.isArray(given) &&
    given.length <= FIELDS_MAX &&
    given.every((field) => typeof field === "string")
  );
}

function toolOf(route: Route): Tool {
  const { name, summary: title, agent: description = "", method } = route;
  const isRead = method === "GET";
  return {
    name,
    title,
    description,
    inputSchema: inputOf(route),
    annotations: {
      readOnlyHint: isRead,
      // A job that runs again may do anything, so every change counts.
      destructiveHint: !isRead,
      idempotentHint: isRead,
      openWorldHint: false,
    },
  };
}

/** One flat object: path, query and body. */
function inputOf({ params, query, body }: Route): Json {
  const fields = body instanceof z.ZodObject ? (body.shape as z.ZodRawShape) : {};
  const shape = { ...params.shape, ...query.shape, ...fields };
  const json = z.toJSONSchema(z.strictObject(shape), { io: "input" }) as Json;
  const { type, properties, required, additionalProperties } = plain(json, json["$defs"]) as Json;
  return {
    type,
    properties: { ...(properties as Json), fields: FIELDS },
    ...(required === undefined ? {} : { required }),
    additionalProperties,
  };
}

/** Not every client follows references, and the API checks patterns better than a model does. */
function plain(node: unknown, definitions: unknown): unknown {
  if (Array.isArray(node)) return node.map((one) => plain(one, definitions));
  if (typeof node !== "object" || node === null) return node;
  if ("$ref" in node) {
    const name = String(node.$ref).replace("#/$defs/", "");
    return plain((definitions as Json)[name], definitions);
  }
  const left = Object.entries(node).filter(
    ([key, value]) => !DROPPED.has(key) && value !== Number.MAX_SAFE_INTEGER,
  );
  return Object.fromEntries(left.map(([key, inner]) => [key, plain(inner, definitions)]));
}

const DROPPED = new Set(["$defs", "$schema", "id", "pattern"]);

function namesIn(path: string): string[] {
  return Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = ""]) => name);
}

function requestOf({ method, path }: Route, args: Json, agent: Agent): Requested {
  const inPath = new Set(namesIn(path));
  const target = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent(String(args[name])),
  );
  const rest = Object.entries(args).filter(([name]) => !inPath.has(name));
  if (method === "POST") {
    return requestBy(agent, { method, target, body: Object.fromEntries(rest) });
  }
  const words = rest.flatMap(([name, value]): [string, string][] =>
    (Array.isArray(value) ? value : [value]).map((one) => [name, textOf(one)]),
  );
  const search = new URLSearchParams(words);
  const whole = search.size === 0 ? target : `${target}?${search.toString()}`;
  return requestBy(agent, { method, target: whole, body: null });
}

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : JSON.stringify(value ?? null);

interface Asked {
  readonly method: string;
  readonly target: string;
  readonly body: object | null;
}

function requestBy(agent: Agent, { method, target, body }: Asked): Requested {
  const { principal, traceparent, tracestate } = agent;
  const headers: Readonly<Record<string, string | undefined>> = {
    "content-type": "application/json",
    traceparent,
    tracestate,
  };
  const sender: Sender = {
    address: principal.id,
    proxy: null,
    header: (name) => headers[name],
    checkAim: () => {},
    checkOrigin: () => {},
    admitted: () => {},
    body: () => Promise.resolve(Buffer.from(body === null ? "" : JSON.stringify(body))),
  };
  return { method, target, sender, principal };
}

async function jsonOf({ body }: Reply): Promise<Json> {
  if (body === null) return {};
  if (isStream(body)) {
    await body.cancel();
    return {};
  }
  return JSON.parse(String(body)) as Json;
}

function resultOf(answer: Json): ToolResult {
  return {
    content: textContent(JSON.stringify(answer)),
    structuredContent: answer,
    isError: false,
  };
}

/** The code and the sentence of the API, which says what to do. */
function refused(code: string, detail: string, more: Json = {}): ToolResult {
  return {
    content: textContent(`${code}: ${detail}`),
    structuredContent: { ...more, code, detail },
    isError: true,
  };
}

function textContent(text: string): ToolResult["content"] {
  return [{ type: "text", text }];
}
