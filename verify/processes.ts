/** The processes of a run: started, killed, frozen, and replaced so that there are always as many. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { sleep, systemRuntime } from "../src/core/runtime.ts";
import { programFile } from "../src/core/version.ts";
import type { Database } from "./database.ts";
import type { Fault, FaultKind, Role } from "./plan.ts";
import { type Order, type ProcessConfig, type ProcessLog, processLogPath } from "./process.ts";

/** What all processes of a run share. */
interface ProcessesConfig extends Omit<ProcessConfig, "name" | "url" | "processLog" | "place"> {
  readonly folder: string;
  readonly workers: number;
  /** Roles whose processes are killed. */
  readonly victims: readonly Role[];
  /** The database URL of a process, and its extra environment variables. */
  readonly url: (role: Role, place: number) => string;
  readonly env: (role: Role, place: number) => Readonly<Record<string, string>>;
  /** A working worker process ended without a fault. */
  readonly onEnd: (name: string, how: string) => void;
}

/** The state of a worker's place. */
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

/** How many characters of the processes' standard error are kept. */
const ERRORS_MAX = 20_000;

/** A process that starts while the database is away fails and is replaced. More than this in a row is a failure of the kit. */
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
    await within(START_MS_MAX, started.map(readyOrEnded));
    this.#started = true;
  }

  /** The state of each worker's place. A place whose next process is not ready yet is still dead. */
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

  /** True: processes fail again and again; `errors` may say why. */
  get hasFailed(): boolean {
    return this.#surprises > SURPRISES_MAX;
  }

  get isProducing(): boolean {
    const finished = [...this.#members].filter((member) => member.finished);
    return finished.length < this.#config.producers;
  }

  /**
   * False: there is no process to kill now. The kill is announced first: a busy machine may take a second to start the
   * next process, and other workers take the dead one's jobs sooner.
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

  /** Kills all workers, also those that are frozen. Those that are starting say first who they are, for the checker. */
  async killAll(announce: (name: string) => void): Promise<boolean> {
    await within(START_MS_MAX, [...this.#members].map(readyOrEnded));
    if (this.#stopping) return false;
    const workers = [...this.#members].filter(({ role }) => role === "worker");
    for (const { name } of workers) announce(name);
    for (const member of workers) {
      member.child.kill("SIGKILL");
      this.#members.delete(member);
    }
    for (const { place } of workers) this.#add("worker", place);
    return true;
  }

  /** Stops all its threads, and resumes them later: what it does then is too late. */
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

  /** Stops all processes, and kills those that take too long. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const members = [...this.#members];
    await within(STOP_MS_MAX, members.map(readyOrEnded));
    for (const member of members) tell(member, { kind: "stop" });
    await within(
      STOP_MS_MAX,
      members.map(({ ended }) => ended),
    );
    await this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true;
    for (const { child } of this.#members) child.kill("SIGKILL");
    await Promise.all([...this.#members].map(({ ended }) => ended));
  }

  /** With fewer workers awake, no worker might be left for a fault. */
  get #isWeak(): boolean {
    if (this.#stopping) return true;
    const awake = [...this.#members].filter(
      ({ role, isReady, frozen }) => role === "worker" && isReady && !frozen,
    );
    return awake.length < this.#config.workers / 2;
  }

  /** Picks a process that is at work, so that the fault has an effect. */
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
    const { folder, workers: _w, victims: _v, url, env, onEnd: _e, ...shared } = this.#config;
    const processLog = processLogPath(folder, name);
    const config: ProcessConfig = { ...shared, name, url: url(role, place), processLog, place };
    const child = fork(programFile(`../verify/${role}-process`), [JSON.stringify(config)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      // Later processes reuse what the first ones compiled.
      env: { NODE_COMPILE_CACHE: join(folder, "compiled"), ...process.env, ...env(role, place) },
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.errors = (this.errors + text).slice(-ERRORS_MAX);
    });
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
      // A process that could not be started has ended too.
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
}

/** Waits for all of them, at most this long. */
async function within(ms: number, all: readonly Promise<unknown>[]): Promise<void> {
  await Promise.race([Promise.all(all), sleep(systemRuntime, ms, { kind: "background" })]);
}

function readyOrEnded({ ready, ended }: Member): Promise<unknown> {
  return Promise.race([ready, ended]);
}

function tell({ child }: Member, order: Order): void {
  if (child.connected) child.send(order, () => {});
}

// Injects the faults of the plan at their times, and logs each.

interface NemesisParts {
  readonly processes: Processes;
  readonly database: Database;
  readonly proxy: Proxy | null;
  readonly processLog: ProcessLog;
  /** Kills the server and starts it again; null: we may not. */
  readonly restart: (() => Promise<void>) | null;
  /** Fills the queue with limits, and waits until as many of its jobs run as may. */
  readonly fill: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** Right after a fault the next one may have no target. It looks again up to this often, and is late on a busy machine. */
const LOOKS_MAX = 400;

const LOOK_MS = 50;

export class Nemesis {
  readonly done: Partial<Record<FaultKind, number>> = {};
  readonly #parts: NemesisParts;
  readonly #lasting: Promise<unknown>[] = [];

  constructor(parts: NemesisParts) {
    this.#parts = parts;
  }

  /** Resolves when all faults are over. Those that would begin later than `untilMs` are left out, but for the last. */
  async carryOut(faults: readonly Fault[], untilMs: number): Promise<void> {
    const { signal } = this.#parts;
    const startedAt = systemRuntime.monotonic();
    for (const fault of faults) {
      const waitMs = startedAt + fault.atMs - systemRuntime.monotonic();
      if (waitMs > 0) await sleep(systemRuntime, waitMs, { signal });
      if (signal.aborted) break;
      const isLast = fault === faults.at(-1);
      const mayTry = (): boolean => isLast || systemRuntime.monotonic() - startedAt <= untilMs;
      if (await this.#strike(fault, mayTry))
        this.done[fault.kind] = (this.done[fault.kind] ?? 0) + 1;
    }
    await Promise.all(this.#lasting);
  }

  async #strike(fault: Fault, mayTry: () => boolean): Promise<boolean> {
    for (let looks = 0; looks < LOOKS_MAX && mayTry() && !this.#parts.signal.aborted; looks += 1) {
      if (await this.#try(fault)) return true;
      await sleep(systemRuntime, LOOK_MS);
    }
    return false;
  }

  /** False: the fault has no target now. */
  async #try({ kind, whom, ms }: Fault): Promise<boolean> {
    const { processes, database, proxy, processLog, fill, signal } = this.#parts;
    switch (kind) {
      case "kill":
        return processes.kill(whom, (name) => this.#say(kind, name));
      case "kill-all":
        await fill();
        processLog.say({ f: "fault", kind });
        return processes.killAll((name) => void this.#say("kill", name));
      case "freeze": {
        const frozen = processes.freeze(whom, ms, signal);
        if (frozen !== null) this.#lasting.push(frozen.thawed);
        return this.#say(kind, frozen?.name ?? null);
      }
      case "block":
        return this.#say(kind, processes.block(whom, ms));
      case "cut":
        return (await database.cut(whom).catch(() => false)) && this.#say(kind, "");
      case "deafen":
        if (proxy !== null) this.#lasting.push(proxy.deafen(ms));
        return this.#say(kind, proxy === null ? null : "");
      case "storm":
        this.#lasting.push(database.storm(ms));
        return this.#say(kind, "");
      case "restart":
        return this.#restart();
    }
  }

  async #restart(): Promise<boolean> {
    const { restart, processLog } = this.#parts;
    if (restart === null) return false;
    processLog.say({ f: "fault", kind: "restart" });
    await restart();
    processLog.say({ f: "fault", kind: "back" });
    return true;
  }

  #say(kind: FaultKind, worker: string | null): boolean {
    if (worker === null) return false;
    this.#parts.processLog.say({ f: "fault", kind, worker });
    return true;
  }
}

// A loopback proxy between some processes and the server, which can lose the server's answers.

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
