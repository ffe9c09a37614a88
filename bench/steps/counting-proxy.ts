/**
 * Counts round trips: a TCP proxy that knows no protocol. Whatever a client sends between two answers of the server is
 * one trip, however many messages it is.
 */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

const HOST = "127.0.0.1";

export class CountingProxy implements AsyncDisposable {
  /** The server's URL, by way of the proxy. */
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #trips = 0;

  private constructor(server: Server, url: string) {
    const parsed = new URL(url);
    const target = { host: parsed.hostname, port: Number(parsed.port) };
    parsed.host = `${HOST}:${(server.address() as AddressInfo).port}`;
    this.url = parsed.href;
    this.#server = server;
    server.on("connection", (client) => this.#link(client, connect(target)));
  }

  static async before(url: string): Promise<CountingProxy> {
    const server = createServer();
    server.listen(0, HOST);
    await once(server, "listening");
    return new CountingProxy(server, url);
  }

  /** On all connections, so far. */
  get trips(): number {
    return this.#trips;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, "close");
  }

  #link(client: Socket, server: Socket): void {
    let isAnswered = true;
    client.on("data", (chunk) => {
      if (isAnswered) this.#trips += 1;
      isAnswered = false;
      server.write(chunk);
    });
    server.on("data", (chunk) => {
      isAnswered = true;
      client.write(chunk);
    });
    this.#pair(client, server);
    this.#pair(server, client);
  }

  #pair(socket: Socket, other: Socket): void {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => {
      this.#sockets.delete(socket);
      other.destroy();
    });
  }
}
