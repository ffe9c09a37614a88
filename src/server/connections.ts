/**
 * The connections of a server: how many there may be, what each may ask for at once, and which are given up first.
 *
 * A connection is protected while a request of a principal that was let in is under way on it: a call, a stream. All others
 * are waiting. When there are too many, of one address or of all, the waiting connection that was used least recently is
 * closed, one of the address that has most of them. So a new connection is always accepted: a client that holds many
 * without a token pushes out its own, and a probe gets through.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { neighbourhood } from "../core/ip.ts";
import { sleep, type Runtime, type Timer } from "../core/runtime.ts";
import type { Limits } from "./limits.ts";

/** While a server closes, it looks so often for connections that have become idle. */
const LOOK_EVERY_MS = 20;
/** How often it looks for clients that do not read. */
const CHECK_EVERY_MS = 1_000;

interface Connection {
  readonly address: string;
  /** Of the requests that are under way. Node counts a connection as busy that has not asked for anything yet; we do not. */
  readonly answers: Set<ServerResponse>;
  /** How many of them are of principals that were let in. */
  admitted: number;
  /** How many bytes the system took, and when that last changed or there was nothing to take. */
  taken: number;
  takenAt: number;
}

export class Connections {
  readonly #runtime: Runtime;
  readonly #limits: Limits;
  readonly #open = new Map<Socket, Connection>();
  /** Those that are not protected, by address, the one that was used least recently first. */
  readonly #waiting = new Map<string, Set<Socket>>();
  /** How many requests stand behind another of their connection. */
  #pipelined = 0;
  #check: Timer | null = null;
  #http: Server | null = null;

  constructor(runtime: Runtime, limits: Limits) {
    this.#runtime = runtime;
    this.#limits = limits;
  }

  watch(http: Server): void {
    this.#http = http;
    http.on("connection", (socket: Socket) => this.#accept(socket));
    this.#checkAgain();
  }

  /** A request came. False: its connection is closed, because the client asks for more than it reads. */
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

  /** The client was let in: its connection is protected until the answer is over. */
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

  /** Whether a refusal of what came last could be taken for the answer to another request. */
  isAnswering(socket: Socket): boolean {
    const answers = [...(this.#open.get(socket)?.answers ?? [])];
    if (answers.length > 1) return true;
    return answers.some(({ headersSent, req }) => headersSent || req.complete);
  }

  /** Takes no more, ends what is idle or becomes so, and after `ms` whatever is left. */
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

  /** Of those that wait it is now the one that was used last; one that is protected does not wait. */
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

  /** Of the address that has most; there is one, because the newest connection waits. */
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
    const everyMs = Math.min(CHECK_EVERY_MS, this.#limits.stallMs);
    const check = (): void => {
      this.#closeStalled();
      this.#checkAgain();
    };
    this.#check = this.#runtime.timer(everyMs, check, "background");
  }

  /** A client that takes nothing of what is there for it is not waited for. */
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
