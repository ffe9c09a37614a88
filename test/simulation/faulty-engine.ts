/**
 * The engine as one machine sees it: over a network on which calls are slow, overtake each other and get lost.
 *
 * Behind it is the real SQLite engine, whose clock is the database's; this machine's own clocks are what it brings. It
 * fails as the engines of the servers do: OutcomeUnknownError where the answer to a write was lost.
 */
import {
  OutcomeUnknownError,
  StoreBusyError,
  StoreUnavailableError,
} from "../../src/core/errors.ts";
import type { Fence, Settlement } from "../../src/core/job.ts";
import type { Runtime } from "../../src/core/runtime.ts";
import type { UserTransaction } from "../../src/core/task.ts";
import type {
  Change,
  Condition,
  Engine,
  Hint,
  Load,
  Migration,
  Put,
  Row,
  Transaction,
  WaitLimits,
} from "../../src/database/engine.ts";
import type {
  Claiming,
  CycleResult,
  Enqueued,
  Extended,
  NewJob,
  GovernedTurn,
  JobStatements,
} from "../../src/jobs/store.ts";
import { sql, type Sql, type SqlValue } from "../../src/database/sql.ts";
import type { Machine } from "./machine.ts";
import type { Network } from "./network.ts";
import { noMachine } from "./world.ts";

const BUSY_MS = 30_000;

/** A read can be asked again; the outcome of a write whose answer was lost is unknown. */
type Kind = "read" | "write" | "transaction";

export class FaultyEngine implements Engine, JobStatements {
  readonly kind = "sqlite";
  readonly name = "the database";
  readonly migrations: readonly Migration[];
  readonly migrationDialect: Engine["migrationDialect"];
  readonly address = null;
  readonly database = "simulated";
  readonly runtime: Runtime;
  readonly pollCycles: number;
  readonly dialect: Engine["dialect"];
  readonly #inner: Engine;
  readonly #statements: JobStatements;
  readonly #machine: Machine;
  readonly #network: Network;

  constructor(parts: {
    inner: Engine;
    statements: JobStatements;
    machine: Machine;
    network: Network;
    pollCycles: number;
  }) {
    this.#inner = parts.inner;
    this.#statements = parts.statements;
    this.#machine = parts.machine;
    this.#network = parts.network;
    this.migrations = parts.inner.migrations;
    this.migrationDialect = parts.inner.migrationDialect;
    this.dialect = parts.inner.dialect;
    this.runtime = parts.machine.runtime;
    this.pollCycles = parts.pollCycles;
  }

  /** Read where the statement is executed, and not where it is sent. */
  now(): Sql {
    return sql`cast(sim_now() as integer)`;
  }
  among(column: Sql, values: readonly string[]): Sql {
    return this.#inner.among(column, values);
  }
  typed(value: SqlValue): Sql {
    return this.#inner.typed(value);
  }
  lockFreeRows(): Sql {
    return this.#inner.lockFreeRows();
  }

  byPrimaryKey(): Sql {
    return this.#inner.byPrimaryKey();
  }

  byEnd(): Sql {
    return this.#inner.byEnd();
  }

  insertOrIgnore(into: Sql): Sql {
    return this.#inner.insertOrIgnore(into);
  }

  lockRows(): Sql {
    return this.#inner.lockRows();
  }
  reportRows(json: string): Sql {
    return this.#inner.reportRows(json);
  }
  mayBeId(text: string): boolean {
    return this.#inner.mayBeId(text);
  }

  all<T = Row>(query: Sql): Promise<T[]> {
    return this.#call(nameOf(query), "read", () => this.#inner.all<T>(query));
  }

  change<T = Row>(change: Change): Promise<T[]> {
    return this.#call("change", "write", () => this.#inner.change<T>(change));
  }

  put<T = Row>(put: Put): Promise<T[]> {
    return this.#call("put", "write", () => this.#inner.put<T>(put));
  }

  run(query: Sql): Promise<number> {
    return this.#call(nameOf(query), "write", () => this.#inner.run(query));
  }

  transaction<T>(body: (tx: Transaction) => Promise<T>, waitLimits?: WaitLimits): Promise<T> {
    return this.#call("transaction", "transaction", (isMadeAgain) =>
      isMadeAgain ? this.#twice(body, waitLimits) : this.#inner.transaction(body, waitLimits),
    );
  }

  userTransaction<T>(
    body: (user: UserTransaction) => Promise<T>,
    last: (tx: Transaction, value: T) => Promise<void>,
  ): Promise<T> {
    const cut = Promise.withResolvers<never>();
    cut.promise.catch(() => {});
    const onCut = (): void => cut.reject(lost());
    return this.#call("user transaction", "write", async () => {
      if (this.#machine.life !== "up") throw lost();
      this.#machine.onCut.add(onCut);
      try {
        return await this.#inner.userTransaction(
          (user) => Promise.race([body(user), cut.promise]),
          last,
        );
      } finally {
        this.#machine.onCut.delete(onCut);
      }
    });
  }

  inUserTransaction<T>(): Promise<T> {
    throw new Error("a simulation has no user transactions");
  }

  async notifyInUserTx(): Promise<void> {}

  async notifyInTx(): Promise<void> {}

  hasTable(name: string): Promise<boolean> {
    return this.#call("has table", "read", () => this.#inner.hasTable(name));
  }

  migrationLock<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#call("migration", "write", () => this.#inner.migrationLock(body));
  }

  buildIndex(...building: Parameters<Engine["buildIndex"]>): Promise<void> {
    return this.#inner.buildIndex(...building);
  }

  insert(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    return this.#call("insert", "write", () => this.#statements.insert(jobs));
  }

  settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Claiming | null,
    turn?: GovernedTurn,
  ): Promise<CycleResult> {
    const name = `settle ${settlements.length} claim ${wanted?.limit ?? 0}`;
    return this.#call(name, "write", () =>
      this.#statements.settleAndClaim(settlements, wanted, turn),
    );
  }

  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    return this.#call(`extend ${fences.length}`, "write", () =>
      this.#statements.extend(fences, leaseMs),
    );
  }

  endSession(session: number): Promise<void> {
    return this.#call(`end session ${session}`, "read", async () => this.#network.forget(session));
  }

  async confirm(): Promise<void> {}

  load(): Load {
    return this.#inner.load();
  }

  condition(): Promise<Condition | null> {
    return this.#call("condition", "read", () => this.#inner.condition());
  }

  async dropPartitions(): Promise<void> {}

  listen(hear: (hint: Hint) => void): () => void {
    return this.#network.listen(this.#machine, hear);
  }

  tell(hint: Hint): void {
    this.#network.tell(this.#machine, hint);
  }

  async close(): Promise<void> {}

  /** The first time is undone, as after a deadlock. */
  async #twice<T>(body: (tx: Transaction) => Promise<T>, waitLimits?: WaitLimits): Promise<T> {
    const undone = new Error("made again");
    try {
      await this.#inner.transaction(async (tx) => {
        await body(tx);
        throw undone;
      }, waitLimits);
    } catch (error) {
      if (error !== undone) throw error;
    }
    return this.#inner.transaction(body, waitLimits);
  }

  #call<T>(name: string, kind: Kind, make: (isMadeAgain: boolean) => Promise<T>): Promise<T> {
    const { world } = this.#machine;
    const { fault, thereMs, backMs, session, number } = this.#network.draw(this.#machine, kind);
    const label = `${name} #${number}`;
    return new Promise<T>((resolve, reject) => {
      const answer = (what: string, tell: () => void): void => {
        world.trace.say(this.#machine.name, `${label}: ${what}`);
        world.after(backMs, this.#machine, "answer", tell);
      };
      const refuse = (what: string, error: Error): void => answer(what, () => reject(error));
      const arrive = (): void => {
        if (fault === "refused") return refuse(fault, lost());
        if (fault === "busy")
          return refuse(fault, new StoreBusyError({ store: this.name, waitedMs: BUSY_MS }));
        if (fault === "request lost") return refuse(fault, unknown(kind, null));
        void make(fault === "made again").then(
          (value) => {
            if (fault === "late")
              return world.trace.say(this.#machine.name, `${label}: arrived late`);
            if (fault === "answer lost") return refuse(fault, unknown(kind, null));
            return answer(describe(value), () => resolve(value));
          },
          (error: unknown) => {
            if (fault !== "late") refuse((error as Error).name, error as Error);
          },
        );
      };
      if (fault === "late") {
        this.#network.remember(session, world.after(thereMs, noMachine, label, arrive));
        world.after(backMs, this.#machine, "answer", () => reject(unknown(kind, session)));
      } else {
        this.#network.send(this.#machine, world.after(thereMs, noMachine, label, arrive));
      }
    });
  }
}

function lost(): StoreUnavailableError {
  return new StoreUnavailableError({ problem: "The connection was lost.", remedy: "Try again." });
}

function unknown(kind: Kind, session: number | null): Error {
  return kind === "read" ? lost() : new OutcomeUnknownError({ store: "the database", session });
}

/** Short, and the same for the same answer. */
function describe(value: unknown): string {
  if (Array.isArray(value)) return `${value.length} rows`;
  if (typeof value !== "object" || value === null) return String(value);
  if ("claimed" in value && "settled" in value) {
    const { claimed, settled } = value as {
      claimed: Fence[];
      settled: CycleResult["settled"][number][];
    };
    const taken = claimed.map(({ id, epoch }) => `${short(id)}@${epoch}`);
    const ended = settled.map(({ id, epoch, status }) => `${short(id)}@${epoch} ${status}`);
    return `claimed [${taken.join(", ")}] settled [${ended.join(", ")}]`;
  }
  return "done";
}

const names = new WeakMap<readonly string[], string>();

/** What a statement does to which table, as far as its own text tells. */
function nameOf({ strings }: Sql): string {
  let name = names.get(strings);
  if (name === undefined) {
    const text = strings.join(" ");
    const verb = /\w+/.exec(text)?.[0] ?? "";
    const table = /(?:from|update|into) holdfast\.(\w+)/.exec(text)?.[1] ?? "";
    name = `${verb} ${table}`;
    names.set(strings, name);
  }
  return name;
}

/** The digits of an id that differ. */
export function short(id: string): string {
  return id.slice(-6);
}
