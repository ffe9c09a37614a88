/**
 * The connections of a server, and which of them are idle.
 *
 * Node knows of idle ones, too, but counts one as busy that has not asked for anything yet; browsers open such ones in advance, and
 * a server that closes would wait for them.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { sleep, type Runtime } from "../core/runtime.ts";

/** While a server closes, it looks so often for connections that have become idle. */
const LOOK_EVERY_MS = 20;

export class Connections {
  readonly #http: Server;
  /** How many requests are under way on each. */
  readonly #open = new Map<Socket, number>();

  constructor(http: Server) {
    this.#http = http;
    http.on("connection", (socket: Socket) => {
      this.#open.set(socket, 0);
      socket.once("close", () => this.#open.delete(socket));
    });
    http.on("request", ({ socket }, response) => {
      this.#count(socket, 1);
      response.once("close", () => this.#count(socket, -1));
    });
  }

  /** Takes no more, ends what is idle or becomes so, and after `ms` whatever is left. */
  async close(runtime: Runtime, ms: number): Promise<void> {
    const endAt = runtime.monotonic() + ms;
    const closed = new AbortController();
    this.#http.close(() => closed.abort());
    while (!closed.signal.aborted) {
      const isOver = runtime.monotonic() >= endAt;
      for (const [socket, requests] of this.#open) if (requests === 0 || isOver) socket.destroy();
      await sleep(runtime, LOOK_EVERY_MS, { signal: closed.signal });
    }
  }

  #count(socket: Socket, more: number): void {
    const requests = this.#open.get(socket);
    if (requests !== undefined) this.#open.set(socket, requests + more);
  }
}
