/**
 * The connections of a server: how many there may be, how many requests each may pipeline, and which are closed first.
 *
 * A connection is protected while an authenticated request or stream is in progress on it. All others are waiting. When there
 * are too many, in total or of one address, the least recently used waiting connection of the address with the most is closed.
 * So a new connection is always accepted: a client that opens many without a token evicts its own, and a probe gets through.
 */
import { once } from "node:events";
import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { neighbourhood } from "../core/ip.ts";
import type { Principal } from "./auth.ts";
import { NodeSender, SECURITY_HEADERS, type Sender } from "./guards.ts";
import { type Runtime, sleep, type Timer } from "../core/runtime.ts";
import type { Limits } from "./limits.ts";
import { Problem } from "./problem.ts";

/** Not imported: an import reads every name of the module, and one of these loads all of `fetch`, which takes 8 MB. */
const { createServer } = process.getBuiltinModule("node:http");

/** How often Node checks for clients that are too slow. */
const CHECK_EVERY_MS = 1_000;

/** How often a closing server checks for idle connections. */
const LOOK_EVERY_MS = 20;

/** How often it checks for clients that do not read. */
const SWEEP_EVERY_MS = 1_000;

interface Connection {
  readonly address: string;
  /** Requests in progress. Node also counts a connection without a request as busy; this does not. */
  readonly answers: Set<ServerResponse>;
  /** How many of them are authenticated. */
  admitted: number;
  /** Bytes the system has accepted, and when that last changed or nothing was pending. */
  taken: number;
  takenAt: number;
}

export class Connections {
  readonly #runtime: Runtime;
  readonly #limits: Limits;
  readonly #open = new Map<Socket, Connection>();
  /** Unprotected connections by address, least recently used first. */
  readonly #waiting = new Map<string, Set<Socket>>();
  /** Requests that wait behind another on their connection. */
  #pipelined = 0;
  #check: Timer | null = null;
  #http: HttpServer | null = null;

  constructor(runtime: Runtime, limits: Limits) {
    this.#runtime = runtime;
    this.#limits = limits;
  }

  watch(http: HttpServer): void {
    this.#http = http;
    http.on("connection", (socket: Socket) => this.#accept(socket));
    this.#checkAgain();
  }

  /** Registers a request. False: the connection was closed because the client sends more than it reads. */
  begin({ socket }: IncomingMessage, answer: ServerResponse): boolean {
    const connection = this.#open.get(socket);
    if (connection === undefined || socket.destroyed) return false;
    const { answers } = connection;
    const isPipelined = answers.size > 0;
    if (isPipelined && !this.#mayPipeline(connection)) {
      socket.destroy();
      return false;
    }
    answers.add(answer);
    if (isPipelined) this.#pipelined += 1;
    this.#use(socket, connection);
    answer.once("prefinish", () => {
      if (answers.size > 1 && this.#isUnread(connection)) socket.destroy();
    });
    answer.once("close", () => {
      answers.delete(answer);
      if (isPipelined) this.#pipelined -= 1;
      this.#use(socket, connection);
    });
    return true;
  }

  /** The request is authenticated: its connection is protected until the response has ended. */
  admit({ socket }: IncomingMessage, answer: ServerResponse): void {
    const connection = this.#open.get(socket);
    if (connection === undefined || answer.closed) return;
    connection.admitted += 1;
    this.#use(socket, connection);
    answer.once("close", () => {
      connection.admitted -= 1;
      this.#use(socket, connection);
    });
  }

  /** Whether a refusal of the last input could be taken for the response to another request. */
  isAnswering(socket: Socket): boolean {
    const answers = [...(this.#open.get(socket)?.answers ?? [])];
    if (answers.length > 1) return true;
    return answers.some(({ headersSent, req }) => headersSent || req.complete);
  }

  /** Accepts no more, closes connections as they become idle, and after `ms` all that are left. */
  async close(ms: number): Promise<void> {
    const endAt = this.#runtime.monotonic() + ms;
    const closed = new AbortController();
    this.#check?.cancel();
    this.#http?.close(() => closed.abort());
    while (!closed.signal.aborted) {
      const isOver = this.#runtime.monotonic() >= endAt;
      for (const [socket, { answers }] of this.#open) {
        if (answers.size === 0 || isOver) socket.destroy();
      }
      await sleep(this.#runtime, LOOK_EVERY_MS, { signal: closed.signal });
    }
  }

  #accept(socket: Socket): void {
    const address = neighbourhood(socket.remoteAddress ?? "unknown");
    const connection = {
      address,
      answers: new Set<ServerResponse>(),
      admitted: 0,
      taken: 0,
      takenAt: this.#runtime.monotonic(),
    };
    this.#open.set(socket, connection);
    this.#use(socket, connection);
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#stopWaiting(socket, address);
    });
    const own = this.#waiting.get(address);
    if (own !== undefined && own.size > this.#limits.connectionsEach) closeFirst(own);
    else if (this.#open.size > this.#limits.connections) closeFirst(this.#mostWaiting());
  }

  /** Marks a waiting connection as most recently used; a protected one is not waiting. */
  #use(socket: Socket, { address, admitted }: Connection): void {
    this.#stopWaiting(socket, address);
    if (admitted > 0 || !this.#open.has(socket)) return;
    const waiting = this.#waiting.get(address) ?? new Set();
    this.#waiting.set(address, waiting.add(socket));
  }

  #stopWaiting(socket: Socket, address: string): void {
    const waiting = this.#waiting.get(address);
    waiting?.delete(socket);
    if (waiting?.size === 0) this.#waiting.delete(address);
  }

  /** The waiting connections of the address with the most. Never empty: the newest connection is waiting. */
  #mostWaiting(): ReadonlySet<Socket> {
    let most: ReadonlySet<Socket> = new Set();
    for (const waiting of this.#waiting.values()) if (waiting.size > most.size) most = waiting;
    return most;
  }

  #mayPipeline(connection: Connection): boolean {
    const { pipelined, pipelinedEach } = this.#limits;
    return (
      connection.answers.size < pipelinedEach &&
      this.#pipelined < pipelined &&
      !this.#isUnread(connection)
    );
  }

  #isUnread({ answers }: Connection): boolean {
    let bytes = 0;
    for (const answer of answers) bytes += answer.writableLength;
    return bytes > this.#limits.unreadBytes;
  }

  #checkAgain(): void {
    const everyMs = Math.min(SWEEP_EVERY_MS, this.#limits.stallMs);
    const check = (): void => {
      this.#closeStalled();
      this.#checkAgain();
    };
    this.#check = this.#runtime.timer(everyMs, check, "background");
  }

  /** Closes connections of clients that do not read. */
  #closeStalled(): void {
    const now = this.#runtime.monotonic();
    for (const [socket, connection] of this.#open) {
      const taken = socket.bytesWritten - socket.writableLength;
      if (socket.writableLength === 0 || taken !== connection.taken) {
        connection.taken = taken;
        connection.takenAt = now;
      } else if (now - connection.takenAt >= this.#limits.stallMs) socket.destroy();
    }
  }
}

function closeFirst(sockets: ReadonlySet<Socket>): void {
  const [first] = sockets;
  first?.destroy();
}

/** A request of Node's server, or one that an application passed on. */
export interface Requested {
  readonly method: string;
  /** The path and the query. */
  readonly target: string;
  readonly sender: Sender;
  /** Who sent it, if this process has admitted them already: the tool call of an agent. */
  readonly principal?: Principal;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | ReadableStream<Uint8Array> | null;
}

interface HttpParts {
  readonly app: { answer(request: Requested): Promise<Reply> };
  readonly connections: Connections;
  readonly limits: Limits;
  readonly runtime: Runtime;
}

export function httpServer({ app, connections, limits, runtime }: HttpParts): HttpServer {
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { method = "GET", url: target = "/" } = incoming;
    outgoing.once("finish", () => dropRest(incoming, runtime));
    const sender = new NodeSender(incoming, outgoing, connections);
    await send(await app.answer({ method, target, sender }), outgoing);
  };
  const http = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersMs),
      // Node's own refusal would lack our headers; the listener refuses such requests as well.
      requireHostHeader: false,
    },
    (incoming, outgoing) => {
      if (!connections.begin(incoming, outgoing)) return;
      serve(incoming, outgoing).catch(() => outgoing.destroy());
    },
  );
  connections.watch(http);
  http.maxRequestsPerSocket = limits.requestsPerConnection;
  const refuse = (error: { readonly code?: string | undefined }, socket: Socket): void => {
    if (connections.isAnswering(socket)) socket.destroy();
    else refuseRaw(error, socket, runtime);
  };
  http.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => refuse(error, socket));
  // Upgrades are not supported, and neither is any expectation but 100-continue.
  http.on("checkExpectation", ({ socket }) => refuse({}, socket));
  http.on("upgrade", (_request, socket: Socket) => refuse({}, socket));
  http.on("connect", (_request, socket: Socket) => refuse({}, socket));
  return http;
}

/** Events are sent as they come; everything else is there already. */
export function isStream(body: Reply["body"]): body is ReadableStream<Uint8Array> {
  return body !== null && typeof body !== "string" && !(body instanceof Uint8Array);
}

/** Rejects if the client leaves before the end of a stream, and ends the stream then. */
export async function send(
  { status, headers, body }: Reply,
  outgoing: ServerResponse,
): Promise<void> {
  outgoing.statusCode = status;
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
  if (isStream(body)) {
    outgoing.flushHeaders(); // a stream may be silent for a while
    return sendStream(body, outgoing);
  }
  // Node adds it for HTTP/1.1 alone.
  if (body !== null) outgoing.setHeader("Content-Length", Buffer.byteLength(body));
  outgoing.end(body);
}

async function sendStream(
  body: ReadableStream<Uint8Array>,
  outgoing: ServerResponse,
): Promise<void> {
  if (outgoing.destroyed) return body.cancel();
  const reader = body.getReader();
  // A stream that fails ends its connection at once, also while the client does not read.
  reader.closed.catch(() => outgoing.destroy());
  const left = new AbortController();
  outgoing.once("close", () => {
    left.abort();
    void reader.cancel().catch(() => {});
  });
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return void outgoing.end();
    if (!outgoing.write(value)) await once(outgoing, "drain", { signal: left.signal });
  }
}

/** The client may still send a body that was refused. It is dropped for a moment: a reset could overtake the response. */
export function dropRest(incoming: IncomingMessage, runtime: Runtime): void {
  if (incoming.readableEnded || incoming.destroyed) return;
  const timer = runtime.timer(LINGER_MS, () => incoming.socket.destroySoon(), "background");
  for (const over of ["end", "close"]) incoming.once(over, () => timer.cancel());
  incoming.removeAllListeners("data").resume();
}

export function listen(http: HttpServer, at: { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    http.once("error", reject);
    http.listen(at.port, at.host, () => resolve());
  });
}

// Refusals without a request to answer, only a socket: input that Node cannot parse, slow requests, and unsupported protocols.
//
// Ending our half is not enough. A client that keeps its own half open would keep its connection, so the socket is destroyed
// soon after.

/** How long the client may keep sending before it is cut off. An immediate reset could overtake the refusal. */
const LINGER_MS = 500;

const REFUSALS: Readonly<Record<string, { status: number; detail: string }>> = {
  HPE_HEADER_OVERFLOW: { status: 431, detail: "The headers are too large." },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, detail: "The client sent the request too slowly." },
};

function refuseRaw(
  { code = "" }: { readonly code?: string | undefined },
  socket: Socket,
  runtime: Runtime,
): void {
  if (!socket.writable || code === "ECONNRESET") return void socket.destroy();
  // After an upgrade node no longer listens for errors, and an error without a listener ends the process.
  socket.on("error", () => {});
  // Further input is read and dropped without being parsed.
  socket.removeAllListeners("data").on("data", () => {});
  const timer = runtime.timer(LINGER_MS, () => socket.destroy(), "background");
  socket.once("close", () => timer.cancel());
  socket.end(textOf(REFUSALS[code] ?? { status: 400, detail: "The request is malformed." }));
}

function textOf(facts: { status: number; detail: string }): string {
  const problem = new Problem({ ...facts, code: "UNREADABLE" });
  const { status, headers, body } = refusalOf(problem);
  const all = {
    ...headers,
    "Content-Length": String(Buffer.byteLength(body)),
    Connection: "close",
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `HTTP/1.1 ${status} ${problem.toBody().title}\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** The answer to what is no request yet. It carries the same headers as every other response. */
export function refusalOf(problem: Problem): Reply & { readonly body: string } {
  const headers = {
    ...SECURITY_HEADERS,
    "Content-Type": "application/problem+json; charset=utf-8",
    ...problem.headers,
  };
  const body = JSON.stringify({ ...problem.toBody(), requestId: "none" });
  return { status: problem.status, headers, body };
}
