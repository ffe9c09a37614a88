/**
 * A database, as the stores use it: its engine, the hints that processes send each other about what they changed, and the
 * look-up of writes whose answer was lost.
 */
import { OutcomeUnknownError, StoreBusyError, StoreUnavailableError } from "../core/errors.ts";
import { sleep } from "../core/runtime.ts";
import type { Engine, Hint, PushState, StoreAddress, Transaction } from "./engine.ts";
import type { Condition, Load } from "./pool-stats.ts";
import { sql } from "./sql.ts";

export interface Database {
  readonly engine: Engine;
  /** The engine's name and location, fit for a log line: no secrets. */
  readonly name: string;
  /** The database's own name, the same in every process that uses it, by whatever way. */
  readonly database: string;
  /** How many poll cycles of a worker gain from being under way at once. */
  readonly lanes: number;
  /** How another thread opens this same database; null where it cannot (a database in memory). */
  readonly address: StoreAddress | null;

  /** What this process has asked of the database since it opened it, from memory. */
  load(): Load;
  /** What the database says about itself; null: this one has nothing to say. */
  condition(): Promise<Condition | null>;
  /** The database's clock. */
  clock(): Promise<number>;

  /** Writes; if the answer is lost, looks up what became of it, as soon as the database answers again. */
  write<T>(write: () => Promise<T>, lookUp: () => Promise<T>): Promise<T>;

  /** This process changed something: other processes and the listeners here get the hint. */
  announce(hint: Hint): void;
  /** The same for the listeners in this process alone. */
  hint(hint: Hint): void;
  /**
   * Calls back soon after something changed, by this process or another. A hint and nothing more: hints may come late,
   * twice or not at all, so a caller that waits for one also polls.
   */
  watch(listener: (hint: Hint) => void): () => void;
  /** Whether changes of other processes are pushed to this one. Null: nothing pushes here, and polling finds them. */
  pushState(): PushState | null;
  /** Whether this process would hear what another announces, tried for a few seconds. Null: there is no push. */
  pushWorks(): Promise<boolean | null>;

  /** Runs statements in a transaction of the user's. Runs the body once; begins and ends nothing. */
  inUserTransaction<T>(tx: unknown, body: (joined: JoinedTransaction) => Promise<T>): Promise<T>;
  /** Hints about what is written in this transaction of ours are collected: its owner announces them after the commit. */
  collectHints(tx: object, hints: Hint[]): void;

  close(): Promise<void>;
}

/** A transaction of the user's, in which we send statements. What they write is there if, and when, the user commits. */
export interface JoinedTransaction {
  readonly tx: Transaction;
  /** Other processes hear it when the transaction commits, and never otherwise. */
  readonly notify: (hint: Hint) => Promise<void>;
}

/** How processes tell each other what they changed. */
export interface Push {
  listen(hear: (hint: Hint) => void): () => void;
  tell(hint: Hint): void;
  /** Left out: this way pushes nothing, and others are noticed by polling alone. */
  pushState?(): PushState;
  close(): Promise<void>;
}

/** A connection that does not listen after six seconds does not. */
const PUSH_LOOK_MS = 20;

const PUSH_LOOKS_MAX = 300;

export class EngineDatabase implements Database {
  readonly engine: Engine;
  readonly #push: Push;
  readonly #listeners = new Set<(hint: Hint) => void>();
  /** What is to be announced when a transaction of ours commits in which its user enqueued or emitted. */
  readonly #collected = new WeakMap<object, Hint[]>();
  #stopListening: (() => void) | null = null;

  /** Hints travel through the engine, unless there is a better way. */
  constructor(engine: Engine, push: Push = engine) {
    this.engine = engine;
    this.#push = push;
  }

  get name(): string {
    return this.engine.name;
  }

  get database(): string {
    return this.engine.database;
  }

  get lanes(): number {
    return this.engine.lanes;
  }

  get address(): StoreAddress | null {
    return this.engine.address;
  }

  load(): Load {
    return this.engine.load();
  }

  condition(): Promise<Condition | null> {
    return this.engine.condition();
  }

  async clock(): Promise<number> {
    const [row] = await this.engine.all<{ now: number }>(sql`select ${this.engine.now()} as now`);
    return (row as { now: number }).now;
  }

  write<T>(write: () => Promise<T>, lookUp: () => Promise<T>): Promise<T> {
    return writeOrLookUp(this.engine, write, lookUp);
  }

  announce(hint: Hint): void {
    this.#push.tell(hint);
    this.hint(hint);
  }

  hint(hint: Hint): void {
    for (const listener of this.#listeners) {
      try {
        listener(hint);
      } catch {
        // The change is committed: the caller that made it must not see it fail. A hint may be lost.
      }
    }
  }

  watch(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    this.#stopListening ??= this.#push.listen((hint) => this.hint(hint));
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#stopListening?.();
      this.#stopListening = null;
    };
  }

  pushState(): PushState | null {
    return this.#push.pushState?.() ?? null;
  }

  async pushWorks(): Promise<boolean | null> {
    if (this.pushState() === null) return null;
    const stop = this.watch(() => {});
    for (let looks = 0; looks < PUSH_LOOKS_MAX && this.pushState() !== "up"; looks += 1) {
      await sleep(this.engine.runtime, PUSH_LOOK_MS);
    }
    const works = this.pushState() === "up";
    stop();
    return works;
  }

  inUserTransaction<T>(user: unknown, body: (joined: JoinedTransaction) => Promise<T>): Promise<T> {
    const { engine } = this;
    const collected = this.#collected.get(user as object);
    return engine.inUserTransaction(user, (tx) => {
      const notify = async (hint: Hint): Promise<void> => {
        await engine.notifyInUserTx(tx, hint);
        collected?.push(hint);
      };
      return body({ tx, notify });
    });
  }

  collectHints(tx: object, hints: Hint[]): void {
    this.#collected.set(tx, hints);
  }

  async close(): Promise<void> {
    this.#stopListening?.();
    this.#stopListening = null;
    this.#listeners.clear();
    if (this.#push !== this.engine) await this.#push.close();
    await this.engine.close();
  }
}

/** A server that restarts is back within half a minute, or an operator knows about it. */
const LOOKS_MAX = 20;

const LOOK_PAUSE_MS_FIRST = 25;

const LOOK_PAUSE_MS_MAX = 2_000;

const LOOK_MS_MAX = 30_000;

/** Writes; if the answer is lost, looks up what became of it, as soon as the database answers again. */
export async function writeOrLookUp<T>(
  engine: Engine,
  write: () => Promise<T>,
  lookUp: () => Promise<T>,
): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof OutcomeUnknownError)) throw error;
    return persist(engine, lookUp, error);
  }
}

async function persist<T>(
  engine: Engine,
  lookUp: () => Promise<T>,
  unknown: OutcomeUnknownError,
): Promise<T> {
  const startedAt = engine.runtime.monotonic();
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    if (engine.runtime.monotonic() - startedAt > LOOK_MS_MAX) break;
    const pauseMs = Math.min(LOOK_PAUSE_MS_MAX, LOOK_PAUSE_MS_FIRST * 2 ** look);
    await sleep(engine.runtime, pauseMs * (0.5 + engine.runtime.random() / 2));
    try {
      // What was lost may be on its way still, and would be committed after we looked.
      if (unknown.session !== null) await engine.endSession(unknown.session);
      return await lookUp();
    } catch (error) {
      if (!isAway(error)) throw error;
    }
  }
  throw unknown;
}

function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailableError ||
    error instanceof StoreBusyError ||
    error instanceof OutcomeUnknownError
  );
}
