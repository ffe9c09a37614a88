/** Servers that end with this process, even when it is killed: a process of their own owns them. */
import { fork, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Reply, Request, ServerFacts, Sweep } from "./owner-process.ts";
import type { StartOptions } from "./server-pool.ts";
import type { ServerName } from "./names.ts";
import { LOG_FILE } from "./server.ts";

const PROGRAM = join(import.meta.dirname, "owner-process.ts");

export class ServerOwner {
  readonly #owner: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<ServerFacts | null>>();
  #calls = 0;

  constructor() {
    // In a session of its own: what ends us by a signal to our group leaves it time to clean up.
    this.#owner = fork(PROGRAM, {
      execArgv: [],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      detached: true,
    });
    this.#owner.on("message", (reply) => this.#hear(reply as Reply));
    this.#owner.on("exit", () => this.#giveUp());
    // It is there as long as we are, but we need not stay for it.
    this.#owner.unref();
    this.#owner.channel?.unref();
  }

  get pid(): number {
    return this.#owner.pid ?? 0;
  }

  async start(name: ServerName, options: StartOptions = {}): Promise<GuardedServer> {
    const ask = async (request: Request): Promise<ServerFacts> => {
      const facts = await this.#ask(request);
      if (facts === null) throw new Error("The owner process said nothing about the server.");
      return facts;
    };
    return new GuardedServer(await ask({ kind: "start", name, options }), ask);
  }

  /** Has scratch databases dropped at the end, on a server that is not ours. */
  async sweep(sweep: Sweep): Promise<void> {
    await this.#ask({ kind: "sweep", sweep });
  }

  /** Ends the servers and removes what they had. */
  async end(): Promise<void> {
    if (!this.#owner.connected) return;
    await this.#ask({ kind: "end" });
    this.#owner.disconnect();
  }

  async #ask(request: Request): Promise<ServerFacts | null> {
    if (!this.#owner.connected) throw new Error("The process that owns the servers is gone.");
    this.#calls += 1;
    const waiting = Promise.withResolvers<ServerFacts | null>();
    this.#waiting.set(this.#calls, waiting);
    this.#owner.channel?.ref();
    this.#owner.send({ call: this.#calls, request });
    return waiting.promise;
  }

  #hear(reply: Reply): void {
    if (reply.kind === "death") return console.error(`\n*** ${reply.sentence} ***\n`);
    const waiting = this.#waiting.get(reply.call);
    this.#waiting.delete(reply.call);
    if (this.#waiting.size === 0) this.#owner.channel?.unref();
    if (reply.kind === "value") waiting?.resolve(reply.value);
    else waiting?.reject(new Error(reply.message));
  }

  #giveUp(): void {
    for (const { reject } of this.#waiting.values()) {
      reject(new Error("The process that owns the servers ended before it answered."));
    }
    this.#waiting.clear();
  }
}

export class GuardedServer implements AsyncDisposable {
  #facts: ServerFacts;
  readonly #ask: (request: Request) => Promise<ServerFacts>;

  constructor(facts: ServerFacts, ask: (request: Request) => Promise<ServerFacts>) {
    this.#facts = facts;
    this.#ask = ask;
  }

  get url(): string {
    return this.#facts.url;
  }

  get port(): number {
    return this.#facts.port;
  }

  /** Its process, which is another one after a restart; 0 while it does not run. */
  get pid(): number {
    return this.#facts.pid;
  }

  get version(): string {
    return this.#facts.version;
  }

  /** Where the data folders are that other owner processes may copy. */
  get templates(): string {
    return this.#facts.templates;
  }

  /** Everything it printed since its first start. */
  log(): string {
    return readFileSync(join(this.#facts.folder, LOG_FILE), "utf8");
  }

  /** Ends it in order, without waiting for its clients. `restart` brings it back. */
  async stop(): Promise<void> {
    await this.#change("stop");
  }

  /** Ends it without a chance to put anything in order. `restart` brings it back. */
  async kill(): Promise<void> {
    await this.#change("kill");
  }

  /** Starts it again on the same port and data; one that still runs is stopped in order first. */
  async restart(): Promise<void> {
    await this.#change("restart");
  }

  /** Ends it and removes its data. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#change("discard");
  }

  async #change(kind: "stop" | "kill" | "restart" | "discard"): Promise<void> {
    this.#facts = await this.#ask({ kind, server: this.#facts.server });
  }
}
