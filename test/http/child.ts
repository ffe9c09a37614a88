/** Starts servers in processes of their own, and ends them. */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Order } from "./server-process.ts";

const PROGRAM = join(import.meta.dirname, "server-process.ts");

export interface Facts {
  readonly rss: number;
  readonly errors: readonly string[];
}

export class ServerProcess implements AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly #child: ChildProcess;
  readonly ended: Promise<void>;

  private constructor(child: ChildProcess, port: number, ended: Promise<void>) {
    this.#child = child;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.ended = ended;
  }

  static async start(order: Order): Promise<ServerProcess> {
    const child = fork(PROGRAM, [JSON.stringify(order)], { execArgv: ["--expose-gc"] });
    const ended = new Promise<void>((resolve) => void child.once("exit", () => resolve()));
    const [said] = (await Promise.race([once(child, "message"), ended.then(() => [null])])) as [
      { port: number } | null,
    ];
    assert.ok(said !== null, "the server did not start");
    return new ServerProcess(child, said.port, ended);
  }

  async facts(): Promise<Facts> {
    const told = once(this.#child, "message");
    this.#child.send("facts");
    return (await told)[0] as Facts;
  }

  get signal(): NodeJS.Signals | null {
    return this.#child.signalCode;
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
