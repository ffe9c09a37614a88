/**
 * A server for tests and a client that believes nothing: every answer is compared with the OpenAPI document, problems too, and
 * carries the headers that everything carries.
 */
import assert from "node:assert/strict";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { Logger } from "../../src/core/log.ts";
import { SECURITY_HEADERS } from "../../src/http-kernel/guards.ts";
import { type ServerParts, startServer, type Server } from "../../src/app/server.ts";
import { Tokens } from "../../src/tokens/tokens.ts";
import type { Role } from "../../src/core/role.ts";
import { openHoldfast, type Holdfast } from "../../src/app/holdfast.ts";
import { within } from "../support/waiting.ts";

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** What the text stands for, if it is JSON. */
  readonly json: any;
}

export interface Asked {
  readonly method?: string;
  readonly body?: unknown;
  /** In place of a body as JSON. */
  readonly raw?: string | Buffer;
  readonly headers?: Record<string, string>;
  readonly token?: string;
}

export class TestServer implements AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly server: Server;
  /** Everything that was logged, as text. */
  readonly log: string[];
  readonly #document: Document;

  private constructor(parts: { holdfast: Holdfast; server: Server; log: string[] }) {
    this.holdfast = parts.holdfast;
    this.server = parts.server;
    this.log = parts.log;
    this.#document = Document.of(parts.server);
  }

  static async open(
    url = "sqlite::memory:",
    parts: Partial<Omit<ServerParts, "holdfast">> = {},
  ): Promise<TestServer> {
    const log: string[] = [];
    const holdfast = await openHoldfast(url);
    const server = await startServer({ holdfast, port: 0, logger: keeping(log), ...parts });
    return new TestServer({ holdfast, server, log });
  }

  async ask(path: string, asked: Asked = {}): Promise<Reply> {
    const method =
      asked.method ?? (asked.body === undefined && asked.raw === undefined ? "GET" : "POST");
    const reply = await send(this.server, path, { ...asked, method });
    this.#document.check(method, path, reply);
    return reply;
  }

  /** Asks, and expects this status. The value is what came back. */
  async get(path: string, status = 200, more: Asked = {}): Promise<any> {
    return expecting(await this.ask(path, { ...more, method: "GET" }), status);
  }

  async post(path: string, body: unknown = {}, status = 200, more: Asked = {}): Promise<any> {
    return expecting(await this.ask(path, { ...more, method: "POST", body }), status);
  }

  token(role: Role, name: string = role, expires?: string): Promise<string> {
    const terms = { name, role, ...(expires === undefined ? {} : { expires }) };
    return new Tokens(this.holdfast).create(terms, { actor: "test" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.close();
    await this.holdfast.close();
  }
}

function expecting(reply: Reply, status: number): any {
  assert.equal(reply.status, status, `${reply.status} ${reply.text}`);
  return reply.json;
}

export function send(server: { url: string }, path: string, asked: Asked): Promise<Reply> {
  const { body, raw, headers = {}, token, method = "GET" } = asked;
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const url = new URL(server.url);
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const request = httpRequest(
    {
      host: url.hostname.replaceAll(/^\[|\]$/g, ""),
      port: url.port,
      path,
      method,
      agent: false,
      headers: {
        ...(method === "POST" ? { "content-type": "application/json" } : {}),
        ...(payload === undefined ? {} : { "content-length": Buffer.byteLength(payload) }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
    },
    (response) => {
      // A stream does not end: that it has begun is all that is asked here.
      if (response.headers["content-type"]?.startsWith("text/event-stream") === true) {
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: "",
          json: null,
        });
        return void response.destroy();
      }
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = (response.headers["content-type"] ?? "").includes("json");
        const json = isJson && text !== "" ? JSON.parse(text) : undefined;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json });
      });
    },
  );
  request.on("error", reject);
  request.end(payload);
  return promise;
}

/** Remembers what was logged, errors with all that they carry. */
function keeping(log: string[]): Logger {
  const keep =
    (level: string) =>
    (facts: object, message: string): void => {
      const plain = JSON.stringify(facts, (_key, value: unknown) =>
        value instanceof Error ? Object.assign({}, value, { text: value.stack }) : value,
      );
      log.push(`${level} ${message} ${plain}`);
    };
  return { debug: keep("debug"), info: keep("info"), warn: keep("warn"), error: keep("error") };
}

export class Document {
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true });
  readonly #checks = new Map<string, ValidateFunction>();
  readonly #document: any;
  readonly #routes: Server["routes"];
  static readonly #known = new Map<string, Document>();

  /** Servers with the same routes have the same document: its schemas are compiled once. */
  static of(server: Server): Document {
    const routes = server.routes.map(({ method, path }) => `${method} ${path}`).join("\n");
    const document = Document.#known.get(routes) ?? new Document(server);
    Document.#known.set(routes, document);
    return document;
  }

  private constructor({ document, routes }: Pick<Server, "document" | "routes">) {
    this.#document = document;
    this.#routes = routes;
    this.#ajv.addSchema({ $id: "http://holdfast/api.json", ...document });
  }

  check(method: string, path: string, reply: Reply): void {
    const { status, headers, text } = reply;
    const json: any = reply.json;
    const what = `${method} ${path} ${status}`;
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) {
      assert.equal(headers[name.toLowerCase()], value, `${what}: ${name}`);
    }
    assert.equal(headers["access-control-allow-origin"], undefined);
    const [type = ""] = (headers["content-type"] ?? "").split(";");
    const pointer = this.#pointer(method === "HEAD" ? "GET" : method, path, status, type);
    if (pointer === null) {
      assert.equal(text, "", what);
      return;
    }
    if (method === "HEAD" || type === "text/event-stream" || type === "text/plain") return;
    const check = this.#checks.get(pointer) ?? this.#ajv.compile({ $ref: pointer });
    this.#checks.set(pointer, check);
    assert.ok(check(json), `${what}: ${this.#ajv.errorsText(check.errors)}\n${text.slice(0, 500)}`);
    if (status >= 400 && type !== "application/json")
      assert.equal((json as { requestId: string }).requestId, headers["x-request-id"]);
  }

  /** Where the document describes such an answer. Null: it has no body. */
  #pointer(method: string, path: string, status: number, type: string): string | null {
    const [bare = ""] = path.split("?");
    const all = this.#routes.filter((one) => one.method === method && matches(one.path, bare));
    // OpenAPI: a path without parameters goes first.
    const route = all.find((one) => one.path === bare) ?? all[0];
    if (route === undefined) {
      assert.ok(
        [400, 404, 405, 421, 429].includes(status),
        `${method} ${path} is not described: ${status}`,
      );
      assert.equal(type, "application/problem+json");
      return "http://holdfast/api.json#/components/schemas/Problem";
    }
    const answer = this.#document.paths[route.path][method.toLowerCase()].responses[status];
    assert.ok(answer !== undefined, `${method} ${route.path} does not describe ${status}`);
    if (answer.content === undefined) return null;
    assert.ok(
      type in answer.content,
      `${method} ${route.path} ${status} does not describe ${type}`,
    );
    const steps = ["paths", route.path, method.toLowerCase(), "responses", status, "content", type];
    const escaped = steps.map((step) =>
      encodeURIComponent(String(step).replaceAll("~", "~0").replaceAll("/", "~1")),
    );
    return `http://holdfast/api.json#/${escaped.join("/")}/schema`;
  }
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

export interface Heard {
  readonly id: string | null;
  readonly event: string;
  readonly data: any;
}

/** Whatever a test waits for comes sooner. */
const EAR_MS = 15_000;

/** A client of a stream, which reads only when it is asked to. */
export class Ear implements AsyncDisposable {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  readonly #end: AbortController;
  readonly comments: string[] = [];
  #text = "";

  private constructor(response: Response, end: AbortController) {
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader();
    this.#end = end;
  }

  static async open(
    { url }: { url: string },
    path: string,
    headers: Record<string, string> = {},
  ): Promise<Ear> {
    const end = new AbortController();
    const response = await fetch(url + path, {
      headers: { accept: "text/event-stream", ...headers },
      signal: end.signal,
    });
    assert.equal(response.status, 200);
    assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
    return new Ear(response, end);
  }

  /** The next event; null: the stream has ended. */
  async next(): Promise<Heard | null> {
    for (;;) {
      const at = this.#text.indexOf("\n\n");
      if (at !== -1) {
        const block = this.#text.slice(0, at);
        this.#text = this.#text.slice(at + 2);
        const heard = this.#read(block);
        if (heard !== null) return heard;
        continue;
      }
      const read = await within(EAR_MS, this.#reader.read());
      assert.ok(read !== null, "nothing came any more");
      if (read.done) return null;
      this.#text += this.#decoder.decode(read.value, { stream: true });
    }
  }

  /** Until one of this kind comes that fits. */
  async until(event: string, fits: (data: any) => boolean = () => true): Promise<Heard> {
    for (;;) {
      const heard = await this.next();
      assert.ok(heard !== null, `the stream ended before ${event}`);
      if (heard.event === event && fits(heard.data)) return heard;
    }
  }

  #read(block: string): Heard | null {
    const lines = block.split("\n");
    const field = (name: string): string | null =>
      lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? null;
    if (lines.every((line) => line.startsWith(":"))) this.comments.push(block);
    const [event, data] = [field("event"), field("data")];
    if (event === null || data === null) return null;
    return { id: field("id"), event, data: JSON.parse(data) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#reader.cancel().catch(() => {});
  }
}
