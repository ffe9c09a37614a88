/** The processes of a run: started, killed, frozen, and replaced so that there are always as many. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { systemRuntime, sleep } from "../core/runtime.ts";
import { journalPath } from "./journal.ts";
import type { Order, ProcessConfig } from "./process.ts";

export type Role = "worker" | "producer";

/** What all processes of a run are told. */
export interface CrewConfig extends Pick<ProcessConfig, "bank" | "seed" | "jobs" | "ms"> {
  readonly folder: string;
  readonly workers: number;
  readonly producers: number;
  /** Where a process finds the database, and what it is told besides. */
  readonly url: (role: Role, place: number) => string;
  readonly env: (role: Role, place: number) => Readonly<Record<string, string>>;
}

interface Member {
  readonly role: Role;
  readonly place: number;
  readonly name: string;
  readonly child: ChildProcess;
  readonly ready: Promise<unknown>;
  readonly ended: Promise<unknown>;
  isReady: boolean;
  frozen: boolean;
  finished: boolean;
}

const START_MS_MAX = 60_000;
const STOP_MS_MAX = 15_000;
/** Standard error of all processes together, as much of it as is kept. */
const ERRORS_MAX = 20_000;
/** Whoever starts while the database is away fails, and another one is started. So many in a row mean that something is broken. */
const SURPRISES_MAX = 30;
const AGAIN_MS = 250;

export class Crew implements AsyncDisposable {
  readonly #config: CrewConfig;
  readonly #members = new Set<Member>();
  #count = 0;
  #surprises = 0;
  #stopping = false;
  errors = "";

  constructor(config: CrewConfig) {
    this.#config = config;
  }

  async start(): Promise<void> {
    const { workers, producers } = this.#config;
    const started = [
      ...Array.from({ length: workers }, (_, place) => this.#add("worker", place)),
      ...Array.from({ length: producers }, (_, place) => this.#add("producer", place)),
    ];
    const all = Promise.all(started.map(({ ready, ended }) => Promise.race([ready, ended])));
    await Promise.race([all, sleep(systemRuntime, START_MS_MAX, { kind: "background" })]);
  }

  /** True: something is broken, and `errors` may tell what. */
  get hasFailed(): boolean {
    return this.#surprises > SURPRISES_MAX;
  }

  get isProducing(): boolean {
    const over = [...this.#members].filter(({ finished }) => finished);
    return over.length < this.#config.producers;
  }

  /** Its name; null: there is nobody to be killed now. */
  kill(whom: number): string | null {
    const member = this.#isWeak ? undefined : this.#pick(whom, ["worker", "producer"]);
    if (member === undefined) return null;
    member.child.kill("SIGKILL");
    this.#members.delete(member);
    this.#add(member.role, member.place);
    return member.name;
  }

  /** Stops every thread of it, and lets it go on after a while: what it does then, it does too late. */
  freeze(whom: number, ms: number): { name: string; thawed: Promise<void> } | null {
    const member = this.#isWeak ? undefined : this.#pick(whom, ["worker"]);
    if (member === undefined) return null;
    member.frozen = true;
    member.child.kill("SIGSTOP");
    const thawed = sleep(systemRuntime, ms).then(() => {
      member.child.kill("SIGCONT");
      member.frozen = false;
    });
    return { name: member.name, thawed };
  }

  block(whom: number, ms: number): string | null {
    const member = this.#pick(whom, ["worker"]);
    if (member === undefined) return null;
    tell(member, { kind: "block", ms });
    return member.name;
  }

  /** Tells all to stop, and waits until they have. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const members = [...this.#members];
    const ready = Promise.all(members.map((member) => Promise.race([member.ready, member.ended])));
    await Promise.race([ready, sleep(systemRuntime, STOP_MS_MAX, { kind: "background" })]);
    for (const member of members) tell(member, { kind: "stop" });
    const all = Promise.all(members.map(({ ended }) => ended));
    await Promise.race([all, sleep(systemRuntime, STOP_MS_MAX, { kind: "background" })]);
    await this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true;
    for (const { child } of this.#members) child.kill("SIGKILL");
    await Promise.all([...this.#members].map(({ ended }) => ended));
  }

  /** So few work that there would soon be nobody to take over from. */
  get #isWeak(): boolean {
    if (this.#stopping) return true;
    const awake = [...this.#members].filter(
      ({ role, isReady, frozen }) => role === "worker" && isReady && !frozen,
    );
    return awake.length < this.#config.workers / 2;
  }

  /** Of those that work, so that a fault meets somebody who feels it. */
  #pick(whom: number, roles: readonly Role[]): Member | undefined {
    const able = [...this.#members].filter(
      ({ role, isReady, frozen, finished }) =>
        roles.includes(role) && isReady && !frozen && !finished,
    );
    return able[Math.floor(whom * able.length)];
  }

  #add(role: Role, place: number): Member {
    this.#count += 1;
    // Producers go on with the journal of the one before: it tells where to go on.
    const name = role === "worker" ? `worker-${this.#count}` : `producer-${place}`;
    const { folder, bank, seed, jobs, ms, producers, url, env } = this.#config;
    const journal = journalPath(folder, name);
    const told = { name, url: url(role, place), journal, bank, seed, place, producers, jobs, ms };
    const child = fork(programOf(role), [JSON.stringify(told satisfies ProcessConfig)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      // Many are started: what the first ones have compiled, the others need not.
      env: { NODE_COMPILE_CACHE: join(folder, "compiled"), ...process.env, ...env(role, place) },
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => this.#keep(text));
    const member: Member = {
      role,
      place,
      name,
      child,
      ready: once(child, "message").then(
        () => {
          member.isReady = true;
          this.#surprises = 0;
        },
        () => {},
      ),
      // One that could not be started has ended too.
      ended: once(child, "exit").catch(() => {}),
      isReady: false,
      frozen: false,
      finished: false,
    };
    child.on("message", (message) => (member.finished ||= message === "finished"));
    child.on("exit", () => this.#noteEnd(member));
    this.#members.add(member);
    return member;
  }

  #noteEnd(member: Member): void {
    if (this.#stopping || member.finished || !this.#members.has(member)) return;
    this.#members.delete(member);
    this.#surprises += 1;
    systemRuntime.timer(AGAIN_MS, () => {
      if (!this.#stopping && !this.hasFailed) this.#add(member.role, member.place);
    });
  }

  #keep(text: string): void {
    this.errors = (this.errors + text).slice(-ERRORS_MAX);
  }
}

function tell({ child }: Member, order: Order): void {
  if (child.connected) child.send(order, () => {});
}

/** Sources run as they are in a checkout; the published package has JavaScript only. */
function programOf(role: Role): URL {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  return new URL(`./${role}-process.${extension}`, import.meta.url);
}
