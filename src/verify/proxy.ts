/** A loopback proxy between some processes and the server, which can lose the server's answers. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { sleep, systemRuntime } from "../core/runtime.ts";

const HOST = "127.0.0.1";

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  deaf: boolean;
}

export class Proxy implements AsyncDisposable {
  /** The server's URL, by way of the proxy. */
  readonly url: string;
  readonly #server: Server;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #links = new Set<Link>();

  private constructor(server: Server, url: string) {
    const parsed = new URL(url);
    const defaultPort = parsed.protocol.startsWith("postgres") ? 5432 : 3306;
    const port = parsed.port === "" ? defaultPort : Number(parsed.port);
    this.#target = { host: parsed.hostname.replaceAll(/[[\]]/g, ""), port };
    parsed.host = `${HOST}:${(server.address() as AddressInfo).port}`;
    this.url = parsed.href;
    this.#server = server;
    server.on("connection", (client) => this.#take(client));
  }

  static async before(url: string): Promise<Proxy> {
    const server = createServer();
    server.listen(0, HOST);
    await once(server, "listening");
    return new Proxy(server, url);
  }

  /** Drops the server's answers on all current connections, then closes these. The server may have done what they asked. */
  async deafen(ms: number): Promise<void> {
    const links = [...this.#links];
    for (const link of links) link.deaf = true;
    await sleep(systemRuntime, ms);
    for (const { client } of links) client.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const { client, server } of this.#links) {
      client.destroy();
      server.destroy();
    }
    await closed;
  }

  #take(client: Socket): void {
    const link: Link = { client, server: connect(this.#target), deaf: false };
    const { server } = link;
    this.#links.add(link);
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on("error", () => {}); // "close" follows
    }
    client.on("data", (chunk) => server.write(chunk));
    server.on("data", (chunk) => {
      if (!link.deaf) client.write(chunk);
    });
    // The server still does what it was sent before.
    client.on("close", () => server.end());
    server.on("close", () => client.destroy());
    server.on("close", () => this.#links.delete(link));
  }
}
