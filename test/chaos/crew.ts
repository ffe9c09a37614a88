/** Worker processes that are killed and frozen, and replaced so that there are always as many. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { WorkerConfig } from "./plan.ts";

const PROGRAM = join(import.meta.dirname, "worker.ts");

interface Member {
  readonly process: ChildProcess;
  readonly ready: Promise<unknown>;
  readonly ended: Promise<unknown>;
  frozen: boolean;
}

export class Crew implements AsyncDisposable {
  readonly #config: WorkerConfig;
  readonly #members = new Set<Member>();
  /** Everything that processes wrote to standard error. */
  errors = "";
  killed = 0;
  frozen = 0;

  constructor(config: WorkerConfig) {
    this.#config = config;
  }

  async start(count: number): Promise<void> {
    const started = Array.from({ length: count }, () => this.#add());
    await Promise.all(started.map(({ ready }) => ready));
  }

  kill(whom: number): boolean {
    const member = this.#pick(whom);
    if (member === undefined) return false;
    member.process.kill("SIGKILL");
    this.killed += 1;
    this.#members.delete(member);
    this.#add();
    return true;
  }

  /** Stops every thread of it, and lets it go on after a while: what it does then, it does too late. */
  freeze(whom: number, ms: number): Promise<void> | null {
    const member = this.#pick(whom);
    if (member === undefined) return null;
    member.frozen = true;
    member.process.kill("SIGSTOP");
    this.frozen += 1;
    return new Promise((resolve) => {
      setTimeout(() => {
        member.process.kill("SIGCONT");
        member.frozen = false;
        resolve();
      }, ms);
    });
  }

  /** Tells all to stop, and waits until they have. */
  async stop(): Promise<void> {
    const members = [...this.#members];
    await Promise.all(members.map(({ ready, ended }) => Promise.race([ready, ended])));
    for (const { process: child } of members) if (child.connected) child.send("stop");
    await Promise.all(members.map(({ ended }) => ended));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { process: child } of this.#members) child.kill("SIGKILL");
    await Promise.all([...this.#members].map(({ ended }) => ended));
  }

  /** Of those that work, so that a deed is done to somebody who feels it. */
  #pick(whom: number): Member | undefined {
    const awake = [...this.#members].filter(({ frozen }) => !frozen);
    return awake[Math.floor(whom * awake.length)];
  }

  #add(): Member {
    const child = fork(PROGRAM, [JSON.stringify(this.#config)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.errors += text));
    const member: Member = {
      process: child,
      ready: once(child, "message").catch(() => {}),
      ended: once(child, "exit"),
      frozen: false,
    };
    this.#members.add(member);
    return member;
  }
}
