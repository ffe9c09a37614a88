/**
 * A service outside of the database, on loopback: it charges, honours idempotency keys, counts its calls, and sometimes
 * loses the answer after it has charged.
 */
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Charges } from "./check/history.ts";

/** Not imported: an import reads every name of the module, and one of these loads all of `fetch`, which is slow. */
const { Agent, createServer, request } = process.getBuiltinModule("node:http");

const HOST = "127.0.0.1";

/** One answer in this many charges is lost. */
const LOST_EVERY = 50;

const ANSWER_MS_MAX = 10_000;

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

  /** Called by a worker. */
  static async charge(bank: string, key: string, cents: number): Promise<number> {
    const url = `${bank}/charge?key=${encodeURIComponent(key)}&cents=${cents}`;
    return Number(await ask(url, "POST"));
  }

  /** The cents charged under a key, or null. */
  static async find(bank: string, key: string): Promise<number | null> {
    const cents = await ask(`${bank}/find?key=${encodeURIComponent(key)}`, "GET");
    return cents === "" ? null : Number(cents);
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

/** After the timeout the outcome of the request is unknown. Not `fetch`, which is slow to load. */
async function ask(url: string, method: string): Promise<string> {
  const asked = request(url, { method, agent, timeout: ANSWER_MS_MAX });
  asked.on("timeout", () => asked.destroy(new Error("the bank does not answer")));
  asked.end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return text(answer);
}

const agent = new Agent({ keepAlive: true });
