/**
 * A service outside of the database, on loopback: it charges, knows idempotency keys, counts how often it was asked, and
 * now and then its answer is lost after it has charged.
 */
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Charges } from "./check/history.ts";

/** Not imported: an import reads every name of the module, and one of them loads all of `fetch`, which takes long. */
const { Agent, createServer, request } = process.getBuiltinModule("node:http");

const HOST = "127.0.0.1";

/** Every so many charges one answer is lost. */
const LOST_EVERY = 50;

const PATIENCE_MS = 10_000;

interface Account {
  cents: number;
  calls: number;
}

export class Bank implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;
  readonly #accounts = new Map<string, Account>();
  #charges = 0;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://${HOST}:${(server.address() as AddressInfo).port}`;
    server.on("request", (asked: IncomingMessage, response: ServerResponse) =>
      this.#answer(asked, response),
    );
  }

  static async open(): Promise<Bank> {
    const server = createServer();
    server.listen(0, HOST);
    await once(server, "listening");
    return new Bank(server);
  }

  /** What a worker sends. */
  static async charge(bank: string, key: string, cents: number): Promise<number> {
    const url = `${bank}/charge?key=${encodeURIComponent(key)}&cents=${cents}`;
    return Number(await ask(url, "POST"));
  }

  /** What was charged under a key; null: nothing. */
  static async find(bank: string, key: string): Promise<number | null> {
    const url = `${bank}/find?key=${encodeURIComponent(key)}`;
    const said = await ask(url, "GET");
    return said === "" ? null : Number(said);
  }

  get charges(): Charges[] {
    return [...this.#accounts].map(([key, { cents, calls }]) => ({ key, cents, calls }));
  }

  charged(key: string): number | null {
    return this.#accounts.get(key)?.cents ?? null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #answer(asked: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(asked.url ?? "/", this.url);
    const key = searchParams.get("key") ?? "";
    if (pathname === "/find") return void response.end(String(this.charged(key) ?? ""));
    const account = this.#accounts.get(key) ?? {
      cents: Number(searchParams.get("cents")),
      calls: 0,
    };
    account.calls += 1;
    this.#accounts.set(key, account);
    this.#charges += 1;
    if (this.#charges % LOST_EVERY === 0) asked.socket.destroy();
    else response.end(String(account.cents));
  }
}

/** Nobody waits for ever: what became of the request is not known then. Not `fetch`, which takes long to load. */
async function ask(url: string, method: string): Promise<string> {
  const asked = request(url, { method, agent, timeout: PATIENCE_MS });
  asked.on("timeout", () => asked.destroy(new Error("the bank does not answer")));
  asked.end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return text(answer);
}

const agent = new Agent({ keepAlive: true });
