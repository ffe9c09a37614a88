/**
 * The store contract over several processes that have the same database open.
 *
 * Every call goes to the next process in turn, so a job is enqueued by one, claimed by another and
 * settled by a third. What a test sees can only be true if it stands in the database.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import * as errors from "../../src/core/errors.ts";
import * as workerErrors from "../../src/registry/worker-types.ts";
import * as scheduleErrors from "../../src/schedules/schedule.ts";
import * as workflowErrors from "../../src/workflows/errors.ts";
import type { Database } from "../../src/database/database.ts";
import { type Hint, type Load, newTally, type StoreAddress } from "../../src/database/engine.ts";
import type { Store } from "../../src/app/store.ts";
import type { TestClock } from "./runtime.ts";
import type { Opened, Reply, Request, SentError } from "./store-process.ts";

const PROGRAM = join(import.meta.dirname, "store-process.ts");

/** Processes that outlive the stores in them: starting one takes longer than most tests. */
export class StoreProcesses {
  readonly #members: Member[];
  #opened = 0;

  constructor(count: number) {
    this.#members = Array.from({ length: count }, () => new Member());
  }

  /** Opens one database in all of them at once. */
  async open(url: string, clock: TestClock): Promise<Store> {
    this.#opened += 1;
    const number = this.#opened;
    const request: Request = { kind: "open", store: number, url, now: clock.now() };
    const opened = await Promise.all(this.#members.map((member) => member.ask(request)));
    const remote = new Remote({ members: this.#members, clock, number });
    return remoteStore(remote, opened[0] as Opened);
  }

  /** How many calls each process was asked to do so far, by process id. */
  calls(): Map<number, number> {
    return new Map(this.#members.map((member) => [member.pid, member.calls]));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.stop()));
  }
}

/** One child process and the calls that wait for its answer. */
class Member {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly listeners = new Set<(hint: Hint) => void>();
  calls = 0;

  constructor() {
    this.#process = fork(PROGRAM, { execArgv: [], serialization: "advanced" });
    this.#process.on("message", (reply) => this.#hear(reply as Reply));
    this.#process.on("exit", (code) => this.#giveUp(code));
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  ask(request: Request): Promise<unknown> {
    this.calls += 1;
    const answer = Promise.withResolvers<unknown>();
    this.#waiting.set(this.calls, answer);
    this.#process.send({ call: this.calls, request });
    return answer.promise;
  }

  async stop(): Promise<void> {
    const exited = once(this.#process, "exit");
    this.#process.disconnect();
    await exited;
  }

  #hear(reply: Reply): void {
    if (reply.kind === "hint") {
      for (const listener of this.listeners) listener(reply.hint);
      return;
    }
    const answer = this.#waiting.get(reply.call);
    this.#waiting.delete(reply.call);
    if (reply.kind === "value") answer?.resolve(reply.value);
    else answer?.reject(errorFrom(reply.error));
  }

  #giveUp(code: number | null): void {
    for (const answer of this.#waiting.values()) {
      answer.reject(new Error(`The store's process ended with code ${code}.`));
    }
    this.#waiting.clear();
  }
}

/** The same class with the same facts, so that `instanceof` and fields read as if it was thrown here. */
function errorFrom({ name, message, stack, facts }: SentError): Error {
  const known: Record<string, unknown> = {
    ...errors,
    ...workerErrors,
    ...workflowErrors,
    ...scheduleErrors,
  };
  const family = known[name];
  const prototype: object =
    typeof family === "function" ? (family.prototype as object) : Error.prototype;
  const error = Object.create(prototype) as Error;
  const hidden = { message: { value: message }, stack: { value: stack } };
  return Object.assign(Object.defineProperties(error, hidden), facts);
}

/** A transaction of the user's does not travel to another process. */
function notHere(): never {
  throw new Error("This store is in other processes: it joins no transaction of this one.");
}

class RemoteDatabase implements Database {
  readonly name: string;
  readonly database: string;
  readonly pollCycles: number;
  readonly address: StoreAddress | null;
  readonly condition: Database["condition"];
  readonly clock: Database["clock"];
  readonly hazards: Database["hazards"];
  readonly pushWorks: Database["pushWorks"];
  readonly #remote: Remote;
  readonly #listeners = new Set<(hint: Hint) => void>();

  constructor(remote: Remote, opened: Opened) {
    this.#remote = remote;
    this.name = opened.name;
    this.database = opened.database;
    this.pollCycles = opened.pollCycles;
    this.address = opened.address;
    const { condition, hazards, clock, pushWorks } = remote.part("db", [
      "condition",
      "hazards",
      "clock",
      "pushWorks",
    ]);
    this.condition = condition;
    this.clock = clock;
    this.hazards = hazards;
    this.pushWorks = pushWorks;
  }

  get engine(): never {
    return notHere();
  }

  /** The processes are not asked for it. */
  load(): Load {
    return { pools: [], transactions: newTally() };
  }

  /** Hints of the other processes come by messages. */
  pushState(): null {
    return null;
  }

  /** One of the processes watches; most of what it hears of was done by the others. */
  watch(listener: (hint: Hint) => void): () => void {
    const { watcher, number } = this.#remote;
    this.#listeners.add(listener);
    watcher.listeners.add(listener);
    if (this.#listeners.size === 1) void watcher.ask({ kind: "watch", store: number });
    return () => {
      watcher.listeners.delete(listener);
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      void watcher.ask({ kind: "unwatch", store: number });
    };
  }

  async close(): Promise<void> {
    for (const listener of this.#listeners) this.#remote.watcher.listeners.delete(listener);
    this.#listeners.clear();
    await this.#remote.close();
  }

  readonly write = notHere;
  readonly confirmFound = notHere;
  readonly announce = notHere;
  readonly hint = notHere;
  readonly inUserTransaction = notHere;
  readonly collectHints = notHere;
}

/** The processes of one store, which are asked in turn. */
class Remote {
  readonly #members: readonly Member[];
  readonly #clock: TestClock;
  /** Which of the stores in the processes it is. */
  readonly number: number;
  #turn = 0;

  constructor(parts: { members: readonly Member[]; clock: TestClock; number: number }) {
    this.#members = parts.members;
    this.#clock = parts.clock;
    this.number = parts.number;
  }

  get watcher(): Member {
    return this.#members[0] as Member;
  }

  /** The verbs of one part of the store. */
  part<P extends Part, V extends keyof Store[P]>(part: P, verbs: readonly V[]): Pick<Store[P], V> {
    const calls = verbs.map((verb) => [verb, this.verb(`${part}.${String(verb)}`)]);
    return Object.fromEntries(calls) as Pick<Store[P], V>;
  }

  verb(verb: string): (...args: readonly unknown[]) => Promise<unknown> {
    return (...args) => {
      const member = this.#members[this.#turn % this.#members.length] as Member;
      this.#turn += 1;
      const now = this.#clock.now();
      return member.ask({ kind: "verb", store: this.number, verb, args, now });
    };
  }

  async close(): Promise<void> {
    const request: Request = { kind: "close", store: this.number };
    await Promise.all(this.#members.map((member) => member.ask(request)));
  }
}

type Part = Exclude<keyof Store, "migrate" | "planMigration" | "checkSchema" | "close">;

const VERBS = {
  jobs: [
    "enqueue",
    "claim",
    "settle",
    "settleAndClaim",
    "extend",
    "release",
    "settleCompleted",
    "settleOutages",
    "reclaimExpired",
    "promoteDue",
    "expireLate",
    "upcoming",
    "cancel",
    "retry",
    "runNow",
    "edit",
    "delete",
    "replay",
    "cancelAll",
    "prune",
    "find",
    "attempts",
    "revisions",
    "snoozes",
    "findFinished",
    "list",
    "page",
    "count",
    "now",
    "neighbours",
    "leases",
    "cancelRequests",
    "stats",
    "hasPending",
    "reclaimFrom",
    "after",
    "endedSince",
  ],
  steps: [
    "list",
    "put",
    "drop",
    "commit",
    "expect",
    "forget",
    "emit",
    "findEvent",
    "effectsInDoubt",
    "resolveEffect",
    "takenBack",
    "planRerun",
    "rerun",
  ],
  reports: ["put", "list", "last", "standing"],
  workers: [
    "register",
    "heartbeat",
    "noteBlocked",
    "desiredStateOf",
    "move",
    "closeDead",
    "command",
    "types",
    "changeLimit",
    "list",
    "find",
    "prune",
    "noteEnqueuer",
    "enqueuers",
    "taskNames",
    "unclaimable",
    "noteUnregistered",
    "forgetUnregistered",
    "unregistered",
    "outsideQueues",
  ],
  items: [
    "declare",
    "findWorkflow",
    "change",
    "find",
    "list",
    "progressOf",
    "counts",
    "history",
    "after",
    "due",
    "jobsOf",
    "postpone",
    "prune",
    "lines",
    "workflowNames",
    "neighbours",
  ],
  locks: [
    "take",
    "noteNext",
    "standing",
    "extend",
    "release",
    "abandon",
    "find",
    "list",
    "prune",
    "putStats",
    "stats",
    "pruneStats",
    "heat",
    "putWaits",
    "dropWaits",
    "waits",
  ],
  flows: [
    "enqueue",
    "add",
    "edges",
    "find",
    "list",
    "jobs",
    "named",
    "flowOf",
    "dependencies",
    "dependents",
    "waitsFor",
    "sweep",
    "repair",
  ],
  audit: ["note", "list", "head", "prune"],
  bulk: ["create", "find", "get", "list", "next", "look", "carry", "fail", "stop", "resume"],
  stats: [
    "takeCounts",
    "counts",
    "foldMinutes",
    "minutes",
    "pruneMinutes",
    "series",
    "putTimes",
    "usual",
    "tasks",
    "task",
    "builds",
    "build",
  ],
  schedules: [
    "create",
    "edit",
    "pause",
    "resume",
    "delete",
    "run",
    "declare",
    "due",
    "fire",
    "release",
    "noteError",
    "pruneRuns",
    "find",
    "list",
    "runs",
    "recent",
    "runOf",
    "standing",
  ],
  alerts: ["note", "clear", "open", "list", "find", "count", "change", "prune"],
  tokens: ["create", "find", "any", "list", "revoke", "noteUse"],
  sessions: ["begin", "find", "end", "prune"],
  requests: ["begin", "answer", "takeOver", "abandon", "prune"],
  traces: ["list"],
  checks: ["list", "examine", "fix"],
  queues: [
    "pause",
    "resume",
    "pauseAll",
    "resumeAll",
    "change",
    "list",
    "find",
    "lanes",
    "countLeases",
    "pruneGates",
  ],
  explain: ["job", "queue"],
  dashboard: [
    "running",
    "marks",
    "names",
    "find",
    "relations",
    "brief",
    "builds",
    "noteTasks",
    "tasks",
  ],
  errorKinds: ["list", "find", "withPrefix", "counts", "change"],
} as const;

function remoteStore(remote: Remote, opened: Opened): Store {
  const db = new RemoteDatabase(remote, opened);
  const joins = { in: notHere };
  return {
    db,
    jobs: { ...remote.part("jobs", VERBS.jobs), ...joins },
    bulk: remote.part("bulk", VERBS.bulk),
    steps: { ...remote.part("steps", VERBS.steps), ...joins },
    flows: { ...remote.part("flows", VERBS.flows), ...joins },
    reports: { ...remote.part("reports", VERBS.reports), ...joins },
    workers: remote.part("workers", VERBS.workers),
    items: { ...remote.part("items", VERBS.items), ...joins },
    queues: remote.part("queues", VERBS.queues),
    explain: remote.part("explain", VERBS.explain),
    dashboard: remote.part("dashboard", VERBS.dashboard),
    errorKinds: remote.part("errorKinds", VERBS.errorKinds),
    locks: remote.part("locks", VERBS.locks),
    audit: remote.part("audit", VERBS.audit),
    stats: remote.part("stats", VERBS.stats),
    alerts: remote.part("alerts", VERBS.alerts),
    schedules: remote.part("schedules", VERBS.schedules),
    tokens: remote.part("tokens", VERBS.tokens),
    sessions: remote.part("sessions", VERBS.sessions),
    requests: remote.part("requests", VERBS.requests),
    traces: remote.part("traces", VERBS.traces),
    checks: remote.part("checks", VERBS.checks),
    migrate: remote.verb("migrate") as Store["migrate"],
    planMigration: remote.verb("planMigration") as Store["planMigration"],
    checkSchema: remote.verb("checkSchema") as Store["checkSchema"],
    close: () => db.close(),
  };
}
