/**
 * A TCP proxy on loopback: it stands between a client and a server and does what networks do.
 *
 * It passes everything until a test wants a fault. It knows no protocol: a test says by which bytes a message is
 * recognised, and finds out by other means what the server made of it.
 */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

const HOST = "127.0.0.1";
/** A word that ends one packet and begins the next is found if it is not longer than this. */
const WORD_CHARS_MAX = 64;

/** A fault that waits for its message, and then hits the one connection that carried it. */
export interface Fault {
  /** The message has come by. */
  readonly fired: Promise<void>;
  /** The server has answered it. */
  readonly answered: Promise<void>;
  /** How many bytes of the answer the client never saw. */
  readonly swallowed: number;
  /** Resets the client's connection. The server keeps its own, as it does when only one side learns of the loss. */
  reset(): void;
}

export interface Counters {
  readonly connections: number;
  readonly swallowedBytes: number;
  /** Messages that never reached the server. */
  readonly withheld: number;
  readonly resets: number;
}

type Kind = "answer" | "request";

interface Armed {
  readonly kind: Kind;
  readonly message: RegExp;
  hit(link: Link): void;
  swallow(bytes: number): void;
}

export class Proxy implements AsyncDisposable {
  /** The server's URL, by way of the proxy. */
  readonly url: string;
  readonly #target: { readonly host: string; readonly port: number };
  readonly #port: number;
  readonly #links = new Set<Link>();
  readonly #counters = { connections: 0, swallowedBytes: 0, withheld: 0, resets: 0 };
  #server: Server | null;
  #armed: Armed | null = null;
  #banned: RegExp | null = null;
  #hangs = false;

  private constructor(server: Server, url: string) {
    const parsed = new URL(url);
    this.#target = { host: parsed.hostname, port: Number(parsed.port) };
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
    parsed.host = `${HOST}:${this.#port}`;
    this.url = parsed.href;
    server.on("connection", (client) => this.#take(client));
  }

  /** A proxy before the server of this URL. */
  static async before(url: string): Promise<Proxy> {
    return new Proxy(await listening(0), url);
  }

  get counters(): Counters {
    return { ...this.#counters };
  }

  /** Connections that are open on the client's side. */
  get open(): number {
    return [...this.#links].filter((link) => link.hasClient).length;
  }

  /**
   * The next message that matches reaches the server, and nothing that the server says on that connection from then on
   * reaches the client.
   */
  loseAnswer(message: RegExp): Fault {
    return this.#arm("answer", message);
  }

  /** The next message that matches does not reach the server; its connection is reset on both sides. */
  loseRequest(message: RegExp): Fault {
    return this.#arm("request", message);
  }

  /** A client that sends such a message is cut off, until `ban(null)`. */
  ban(message: RegExp | null): void {
    this.#banned = message;
  }

  /** Nothing moves any more, in either direction; connections stay open, and new ones are accepted. */
  hang(): void {
    this.#hangs = true;
    for (const link of this.#links) link.pause();
  }

  /** What was held up by `hang` moves on. */
  flow(): void {
    this.#hangs = false;
    for (const link of this.#links) link.resume();
  }

  /**
   * The connections that are open now, or those whose client said this last, are silent for ever, as if a firewall had
   * forgotten them. New ones work. Says how many they are.
   */
  forget(message: RegExp = /^/): number {
    const forgotten = [...this.#links].filter((link) => message.test(link.words));
    for (const link of forgotten) link.forget();
    return forgotten.length;
  }

  /** Resets every connection, on both sides. */
  cut(): void {
    for (const link of this.#links) this.#cut(link);
  }

  /** Stops listening: new connections are refused. Those that are open stay. */
  refuse(): void {
    this.#server?.close();
    this.#server = null;
  }

  /** Listens again where it did. */
  async accept(): Promise<void> {
    this.#server = await listening(this.#port);
    this.#server.on("connection", (client) => this.#take(client));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = this.#server === null ? null : once(this.#server, "close");
    this.refuse();
    this.cut();
    await closed;
  }

  #arm(kind: Kind, message: RegExp): Fault {
    const fired = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    let hit: Link | null = null;
    let swallowed = 0;
    for (const link of this.#links) link.forgetWords();
    this.#armed = {
      kind,
      message,
      hit(link) {
        hit = link;
        fired.resolve();
      },
      swallow(bytes) {
        swallowed += bytes;
        answered.resolve();
      },
    };
    return {
      fired: fired.promise,
      answered: answered.promise,
      get swallowed() {
        return swallowed;
      },
      reset: () => {
        if (hit === null) return;
        this.#counters.resets += 1;
        hit.resetClient();
      },
    };
  }

  #take(client: Socket): void {
    // It came while we stopped listening.
    if (this.#server === null) return reset(client);
    this.#counters.connections += 1;
    const link = new Link(client, connect(this.#target), {
      fromClient: (chunk) => this.#fromClient(link, chunk),
      fromServer: (chunk) => this.#fromServer(link, chunk),
      ended: () => this.#links.delete(link),
    });
    this.#links.add(link);
    if (this.#hangs) link.pause();
  }

  #fromClient(link: Link, chunk: Buffer): void {
    const words = link.wordsWith(chunk);
    if (this.#banned?.test(words) === true) return this.#cut(link);
    const armed = this.#armed;
    if (armed === null || !armed.message.test(words)) return link.toServer(chunk);
    this.#armed = null;
    if (armed.kind === "answer") {
      link.swallow = (bytes) => armed.swallow(bytes);
      link.toServer(chunk);
    } else {
      this.#counters.withheld += 1;
      this.#cut(link);
    }
    armed.hit(link);
  }

  #fromServer(link: Link, chunk: Buffer): void {
    if (link.swallow === null) return link.toClient(chunk);
    this.#counters.swallowedBytes += chunk.length;
    link.swallow(chunk.length);
  }

  #cut(link: Link): void {
    this.#counters.resets += 1;
    link.cut();
  }
}

/** One connection of a client, and the one made to the server for it. */
class Link {
  /** Who counts what the server says and the client shall not hear; null: the client hears it. */
  swallow: ((bytes: number) => void) | null = null;
  readonly #client: Socket;
  readonly #server: Socket;
  #words = "";
  #forgotten = false;

  constructor(
    client: Socket,
    server: Socket,
    on: {
      fromClient: (chunk: Buffer) => void;
      fromServer: (chunk: Buffer) => void;
      ended: () => void;
    },
  ) {
    this.#client = client;
    this.#server = server;
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on("error", () => {}); // "close" follows
    }
    client.on("data", on.fromClient);
    server.on("data", on.fromServer);
    client.on("end", () => server.end());
    server.on("end", () => client.end());
    const ended = (): void => {
      if (client.destroyed && server.destroyed) on.ended();
    };
    // A client that goes while its answer is swallowed was sent away by us; the server shall not learn of it.
    client
      .on("close", () => (this.swallow === null ? server.destroy() : undefined))
      .on("close", ended);
    server.on("close", () => client.destroy()).on("close", ended);
  }

  get hasClient(): boolean {
    return !this.#client.destroyed;
  }

  /** The end of what the client said, as text with one character for each byte. */
  get words(): string {
    return this.#words;
  }

  wordsWith(chunk: Buffer): string {
    const words = this.#words + chunk.toString("latin1");
    this.#words = words.slice(-WORD_CHARS_MAX);
    return words;
  }

  forgetWords(): void {
    this.#words = "";
  }

  toServer(chunk: Buffer): void {
    this.#server.write(chunk);
  }

  toClient(chunk: Buffer): void {
    this.#client.write(chunk);
  }

  pause(): void {
    this.#client.pause();
    this.#server.pause();
  }

  resume(): void {
    if (this.#forgotten) return;
    this.#client.resume();
    this.#server.resume();
  }

  forget(): void {
    this.#forgotten = true;
    this.pause();
  }

  resetClient(): void {
    reset(this.#client);
  }

  cut(): void {
    this.swallow = null;
    reset(this.#client);
    reset(this.#server);
  }
}

/** With a reset where there can be one: Node loses the handle of a socket that is being shut down. */
function reset(socket: Socket): void {
  if (socket.writableEnded || socket.connecting) socket.destroy();
  else if (!socket.destroyed) socket.resetAndDestroy();
}

async function listening(port: number): Promise<Server> {
  // What is left of a connection that was ended stays until we end it, too.
  const server = createServer({ allowHalfOpen: true });
  server.listen(port, HOST);
  await once(server, "listening");
  return server;
}
