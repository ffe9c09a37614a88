/** The processes of a run: started, killed, frozen, and replaced so that there are always as many. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { programFile } from "../core/files.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import type { Role } from "./plan.ts";
import { processLogPath } from "./process-log.ts";
import type { Order, ProcessConfig } from "./process.ts";

/** What all processes of a run are told. */
export interface ProcessesConfig extends Omit<
  ProcessConfig,
  "name" | "url" | "processLog" | "place"
> {
  readonly folder: string;
  readonly workers: number;
  /** The processes that are killed. */
  readonly victims: readonly Role[];
  /** Where a process finds the database, and what it is told besides. */
  readonly url: (role: Role, place: number) => string;
  readonly env: (role: Role, place: number) => Readonly<Record<string, string>>;
  /** A worker process that worked has ended, and the plan did not ask for it. */
  readonly onEnd: (name: string, how: string) => void;
}

/** How a worker's place is filled. */
export type Health = "starting" | "working" | "frozen" | "dead";

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

export class Processes implements AsyncDisposable {
  readonly #config: ProcessesConfig;
  readonly #members = new Set<Member>();
  #count = 0;
  #surprises = 0;
  #stopping = false;
  #started = false;
  errors = "";

  constructor(config: ProcessesConfig) {
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
    this.#started = true;
  }

  /** Of the workers, place by place. A place whose next process is not ready yet is still dead. */
  get health(): Health[] {
    const health = Array.from<Health>({ length: this.#config.workers }).fill("dead");
    for (const { role, place, isReady, frozen } of this.#members) {
      if (role !== "worker") continue;
      if (frozen) health[place] = "frozen";
      else if (isReady) health[place] = "working";
      else if (!this.#started) health[place] = "starting";
    }
    return health;
  }

  /** True: something is broken, and `errors` may tell what. */
  get hasFailed(): boolean {
    return this.#surprises > SURPRISES_MAX;
  }

  get isProducing(): boolean {
    const over = [...this.#members].filter(({ finished }) => finished);
    return over.length < this.#config.producers;
  }

  /**
   * False: there is no process to kill now. The kill is announced before it happens: a busy machine may take a second to
   * start the next process, and others take the jobs of the dead one in less.
   */
  kill(whom: number, announce: (name: string) => void): boolean {
    const member = this.#isWeak ? undefined : this.#pick(whom, this.#config.victims);
    if (member === undefined) return false;
    announce(member.name);
    member.child.kill("SIGKILL");
    this.#members.delete(member);
    this.#add(member.role, member.place);
    return true;
  }

  /** Stops every thread of it, and lets it go on after a while: what it does then, it does too late. */
  freeze(
    whom: number,
    ms: number,
    signal: AbortSignal,
  ): { name: string; thawed: Promise<void> } | null {
    const member = this.#isWeak ? undefined : this.#pick(whom, ["worker"]);
    if (member === undefined) return null;
    member.frozen = true;
    member.child.kill("SIGSTOP");
    const thawed = sleep(systemRuntime, ms, { signal }).then(() => {
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
    // A producer continues the process log of its predecessor, which says where to continue.
    const name = role === "worker" ? `worker-${this.#count}` : `producer-${place}`;
    const {
      folder,
      workers: _workers,
      victims: _victims,
      url,
      env,
      onEnd: _onEnd,
      ...shared
    } = this.#config;
    const processLog = processLogPath(folder, name);
    const told = { ...shared, name, url: url(role, place), processLog, place };
    const child = fork(
      programFile(`verify/${role}-process`),
      [JSON.stringify(told satisfies ProcessConfig)],
      {
        stdio: ["ignore", "ignore", "pipe", "ipc"],
        // Many are started: what the first ones have compiled, the others need not.
        env: { NODE_COMPILE_CACHE: join(folder, "compiled"), ...process.env, ...env(role, place) },
      },
    );
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
    child.on("exit", (code, signal) => this.#noteEnd(member, signal ?? `exit code ${code}`));
    this.#members.add(member);
    return member;
  }

  #noteEnd(member: Member, how: string): void {
    if (this.#stopping || member.finished || !this.#members.has(member)) return;
    if (member.role === "worker" && member.isReady) this.#config.onEnd(member.name, how);
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
