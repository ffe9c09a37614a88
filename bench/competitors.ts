/** The processes of those who take part, and how they are asked. */
import { fork, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import type { Answer } from "./competitor-process.ts";
import type { Figures, Order } from "./questions/question.ts";
import { keyOf, type System } from "./systems/system.ts";

const HERE = join(import.meta.dirname, "..");
/** No system takes longer than this for one run. */
const ORDER_MS_MAX = 10 * 60_000;

export class Competitor implements Disposable {
  readonly system: System;
  readonly #process: ChildProcess;

  /** Of this checkout, or of another one of the project. */
  constructor(system: System, checkout = HERE) {
    this.system = system;
    // What peers print is not ours to show, but what they complain about is.
    this.#process = fork(join(checkout, "bench/competitor-process.ts"), [keyOf(system)], {
      cwd: checkout,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
  }

  async ask(order: Order): Promise<Figures> {
    const jobs = Math.ceil(order.jobs * this.system.share);
    const said = await this.#said({ ...order, jobs });
    if ("figures" in said) return said.figures;
    throw new Error(said.problem);
  }

  end(): void {
    if (this.#process.connected) this.#process.disconnect();
  }

  [Symbol.dispose](): void {
    this.end();
  }

  async #said(order: Order): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const onExit = (): void => reject(new Error("its process ended"));
    const late = setTimeout(() => {
      this.#process.kill("SIGKILL");
      reject(new Error(`it took longer than ${ORDER_MS_MAX} ms`));
    }, ORDER_MS_MAX);
    this.#process.once("message", resolve);
    this.#process.once("exit", onExit);
    if (this.#process.connected) this.#process.send(order);
    else onExit();
    return promise.finally(() => {
      clearTimeout(late);
      this.#process.off("message", resolve);
      this.#process.off("exit", onExit);
    });
  }
}
