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
import * as workerErrors from "../../src/core/worker-errors.ts";
import * as workflowErrors from "../../src/core/workflow-errors.ts";
import { newTally, type Load } from "../../src/store/load.ts";
import type { Hint, Store, StoreAddress } from "../../src/store/store.ts";
import type { TestClock } from "./runtime.ts";
import type { Opened, Reply, Request, SentError, Verb } from "./store-process.ts";

const PROGRAM = join(import.meta.dirname, "store-process.ts");

/** Processes that outlive the stores in them: starting one takes longer than most tests. */
export class StoreProcesses {
  readonly #members: Member[];
  #opened = 0;

  constructor(count: number) {
    this.#members = Array.from({ length: count }, () => new Member());
  }

  /** Opens one database in all of them at once. */
  async open(url: string, clock: TestClock): Promise<RemoteStore> {
    this.#opened += 1;
    const number = this.#opened;
    const request: Request = { kind: "open", store: number, url, now: clock.now() };
    const opened = await Promise.all(this.#members.map((member) => member.ask(request)));
    return new RemoteStore({ members: this.#members, clock, number }, opened[0] as Opened);
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
    else answer?.reject(revived(reply.error));
  }

  #giveUp(code: number | null): void {
    for (const answer of this.#waiting.values()) {
      answer.reject(new Error(`The store's process ended with code ${code}.`));
    }
    this.#waiting.clear();
  }
}

/** The same class with the same facts, so that `instanceof` and fields read as if it was thrown here. */
function revived({ name, message, stack, facts }: SentError): Error {
  const known: Record<string, unknown> = { ...errors, ...workerErrors, ...workflowErrors };
  const family = known[name];
  const prototype: object =
    typeof family === "function" ? (family.prototype as object) : Error.prototype;
  const error = Object.create(prototype) as Error;
  const hidden = { message: { value: message }, stack: { value: stack } };
  return Object.assign(Object.defineProperties(error, hidden), facts);
}

export class RemoteStore implements Store {
  readonly name: string;
  readonly database: string;
  readonly lanes: number;
  readonly address: StoreAddress | null;
  readonly #members: readonly Member[];
  readonly #clock: TestClock;
  /** Which of the stores in the processes it is. */
  readonly #number: number;
  readonly #listeners = new Set<(hint: Hint) => void>();
  #turn = 0;

  constructor(
    parts: { members: readonly Member[]; clock: TestClock; number: number },
    opened: Opened,
  ) {
    this.#members = parts.members;
    this.#clock = parts.clock;
    this.#number = parts.number;
    this.name = opened.name;
    this.database = opened.database;
    this.lanes = opened.lanes;
    this.address = opened.address;
  }

  /** Hints of the other processes come by messages. */
  pushState(): null {
    return null;
  }

  readonly migrate = this.#verb("migrate");
  readonly checkSchema = this.#verb("checkSchema");
  readonly enqueue = this.#verb("enqueue");
  readonly claim = this.#verb("claim");
  readonly settle = this.#verb("settle");
  readonly settleAndClaim = this.#verb("settleAndClaim");
  readonly extend = this.#verb("extend");
  readonly release = this.#verb("release");
  readonly settleCompleted = this.#verb("settleCompleted");
  readonly settleOutages = this.#verb("settleOutages");
  readonly reclaimExpired = this.#verb("reclaimExpired");
  readonly promoteDue = this.#verb("promoteDue");
  readonly upcoming = this.#verb("upcoming");
  readonly cancel = this.#verb("cancel");
  readonly revive = this.#verb("revive");
  readonly lookAt = this.#verb("lookAt");
  readonly reviveAll = this.#verb("reviveAll");
  readonly cancelAll = this.#verb("cancelAll");
  readonly prune = this.#verb("prune");
  readonly find = this.#verb("find");
  readonly attempts = this.#verb("attempts");
  readonly findFinished = this.#verb("findFinished");
  readonly list = this.#verb("list");
  readonly neighbours = this.#verb("neighbours");
  readonly leases = this.#verb("leases");
  readonly cancelRequests = this.#verb("cancelRequests");
  readonly stats = this.#verb("stats");
  readonly hasPending = this.#verb("hasPending");
  readonly reclaimFrom = this.#verb("reclaimFrom");
  readonly register = this.#verb("register");
  readonly beat = this.#verb("beat");
  readonly wishOf = this.#verb("wishOf");
  readonly moveWorker = this.#verb("moveWorker");
  readonly closeDead = this.#verb("closeDead");
  readonly command = this.#verb("command");
  readonly workerTypes = this.#verb("workerTypes");
  readonly changeLimit = this.#verb("changeLimit");
  readonly workers = this.#verb("workers");
  readonly findWorker = this.#verb("findWorker");
  readonly pruneWorkers = this.#verb("pruneWorkers");
  readonly noteEnqueuer = this.#verb("noteEnqueuer");
  readonly enqueuers = this.#verb("enqueuers");
  readonly stranded = this.#verb("stranded");
  readonly noteUnregistered = this.#verb("noteUnregistered");
  readonly forgetUnregistered = this.#verb("forgetUnregistered");
  readonly unregistered = this.#verb("unregistered");
  readonly outsideQueues = this.#verb("outsideQueues");
  readonly steps = this.#verb("steps");
  readonly putStep = this.#verb("putStep");
  readonly dropStep = this.#verb("dropStep");
  readonly commitStep = this.#verb("commitStep");
  readonly expect = this.#verb("expect");
  readonly forget = this.#verb("forget");
  readonly emit = this.#verb("emit");
  readonly within = this.#verb("within");
  readonly findEvent = this.#verb("findEvent");
  readonly doubts = this.#verb("doubts");
  readonly resolveDoubt = this.#verb("resolveDoubt");
  readonly putReports = this.#verb("putReports");
  readonly reports = this.#verb("reports");
  readonly lastReport = this.#verb("lastReport");
  readonly standing = this.#verb("standing");
  readonly planMigration = this.#verb("planMigration");
  readonly declareWorkflow = this.#verb("declareWorkflow");
  readonly findWorkflow = this.#verb("findWorkflow");
  readonly changeItems = this.#verb("changeItems");
  readonly findItem = this.#verb("findItem");
  readonly listItems = this.#verb("listItems");
  readonly progressOf = this.#verb("progressOf");
  readonly itemHistory = this.#verb("itemHistory");
  readonly itemsAfter = this.#verb("itemsAfter");
  readonly dueItems = this.#verb("dueItems");
  readonly itemJobs = this.#verb("itemJobs");
  readonly postponeItem = this.#verb("postponeItem");
  readonly pruneItems = this.#verb("pruneItems");
  readonly takeLock = this.#verb("takeLock");
  readonly noteNext = this.#verb("noteNext");
  readonly lockStanding = this.#verb("lockStanding");
  readonly extendLock = this.#verb("extendLock");
  readonly releaseLock = this.#verb("releaseLock");
  readonly abandonLock = this.#verb("abandonLock");
  readonly findLock = this.#verb("findLock");
  readonly locks = this.#verb("locks");
  readonly pruneLocks = this.#verb("pruneLocks");
  readonly putLockStats = this.#verb("putLockStats");
  readonly lockStats = this.#verb("lockStats");
  readonly pruneLockStats = this.#verb("pruneLockStats");
  readonly takeCensus = this.#verb("takeCensus");
  readonly census = this.#verb("census");
  readonly foldMinutes = this.#verb("foldMinutes");
  readonly minutes = this.#verb("minutes");
  readonly pruneMinutes = this.#verb("pruneMinutes");
  readonly noteAlert = this.#verb("noteAlert");
  readonly clearAlert = this.#verb("clearAlert");
  readonly openAlerts = this.#verb("openAlerts");
  readonly alerts = this.#verb("alerts");
  readonly pruneAlerts = this.#verb("pruneAlerts");
  readonly takeDeliveries = this.#verb("takeDeliveries");
  readonly settleDelivery = this.#verb("settleDelivery");
  readonly noteAction = this.#verb("noteAction");
  readonly actions = this.#verb("actions");
  readonly auditHead = this.#verb("auditHead");
  readonly pruneActions = this.#verb("pruneActions");
  readonly itemLines = this.#verb("itemLines");
  readonly traces = this.#verb("traces");
  readonly condition = this.#verb("condition");

  /** Of the processes nobody asks it. */
  load(): Load {
    return { pools: [], transactions: newTally() };
  }
  readonly createToken = this.#verb("createToken");
  readonly findToken = this.#verb("findToken");
  readonly hasTokens = this.#verb("hasTokens");
  readonly tokens = this.#verb("tokens");
  readonly revokeToken = this.#verb("revokeToken");
  readonly noteTokenUse = this.#verb("noteTokenUse");
  readonly beginRequest = this.#verb("beginRequest");
  readonly answerRequest = this.#verb("answerRequest");
  readonly takeOverRequest = this.#verb("takeOverRequest");
  readonly abandonRequest = this.#verb("abandonRequest");
  readonly pruneRequests = this.#verb("pruneRequests");
  readonly jobsAfter = this.#verb("jobsAfter");
  readonly endedSince = this.#verb("endedSince");
  readonly clock = this.#verb("clock");
  readonly workflowNames = this.#verb("workflowNames");
  readonly checks = this.#verb("checks");
  readonly examine = this.#verb("examine");
  readonly fix = this.#verb("fix");

  /** One of the processes watches; most of what it hears of was done by the others. */
  watch(listener: (hint: Hint) => void): () => void {
    const watcher = this.#members[0] as Member;
    this.#listeners.add(listener);
    watcher.listeners.add(listener);
    if (this.#listeners.size === 1) void watcher.ask({ kind: "watch", store: this.#number });
    return () => {
      watcher.listeners.delete(listener);
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      void watcher.ask({ kind: "unwatch", store: this.#number });
    };
  }

  async close(): Promise<void> {
    for (const listener of this.#listeners) this.#members[0]?.listeners.delete(listener);
    this.#listeners.clear();
    const request: Request = { kind: "close", store: this.#number };
    await Promise.all(this.#members.map((member) => member.ask(request)));
  }

  #verb<V extends Verb>(verb: V): Store[V] {
    const call = (...args: readonly unknown[]): Promise<unknown> => {
      const member = this.#members[this.#turn % this.#members.length] as Member;
      this.#turn += 1;
      const now = this.#clock.now();
      return member.ask({ kind: "verb", store: this.#number, verb, args, now });
    };
    return call as Store[V];
  }
}
