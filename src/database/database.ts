/**
 * A database, as the stores use it: its engine, the hints that processes send each other about changes, and commit
 * recovery, which looks up writes whose answer was lost.
 */
import { OutcomeUnknownError, StoreBusyError, StoreUnavailableError } from "../core/errors.ts";
import { sleep } from "../core/runtime.ts";
import {
  type Condition,
  type Engine,
  type Hint,
  type Load,
  type PushState,
  readNow,
  type StoreAddress,
  type Transaction,
  withAnswerLimit,
} from "./engine.ts";

export interface Database {
  readonly engine: Engine;
  /** The engine's name and location, without secrets. */
  readonly name: string;
  /** The database's name, which is the same in every process that uses it. */
  readonly database: string;
  /** How many poll cycles a worker should run at once. */
  readonly pollCycles: number;
  /** How another thread opens the same database; null: it cannot (a database in memory). */
  readonly address: StoreAddress | null;

  /** Connections and transactions of this process. */
  load(): Load;
  /** The condition that the database reports; null: it reports none. */
  condition(): Promise<Condition | null>;
  /** What may surprise the application about this database, in sentences for its log. */
  hazards(): Promise<string[]>;
  /** The database's clock. */
  clock(): Promise<number>;

  /** Writes; if the answer is lost, looks up the result as soon as the database answers again. */
  write<T>(write: () => Promise<T>, lookUp: () => Promise<T>): Promise<T>;

  /** For a caller that found its rows instead of writing them: waits until they are as durable as if it had. */
  confirmFound(): Promise<void>;

  /** Sends a hint to other processes and to the listeners here. */
  announce(hint: Hint): void;
  /** Sends a hint to the listeners here alone. */
  hint(hint: Hint): void;
  /**
   * Calls back soon after this or another process changed something. Hints may come late, twice or not at all, so a caller
   * that waits for one also polls.
   */
  watch(listener: (hint: Hint) => void): () => void;
  /** Whether changes of other processes are pushed to this one. Null: there is no push, only polling. */
  pushState(): PushState | null;
  /** Tries for a few seconds whether announcements of other processes would arrive. Null: there is no push. */
  pushWorks(): Promise<boolean | null>;

  /** Runs the body once with a user transaction; neither begins nor ends the transaction. */
  inUserTransaction<T>(tx: unknown, body: (joined: JoinedTransaction) => Promise<T>): Promise<T>;
  /** Collects the hints about writes in this transaction of ours: its owner announces them after the commit. */
  collectHints(tx: object, hints: Hint[]): void;

  close(): Promise<void>;
}

/** A user transaction in which we send statements. Their writes exist if, and when, the user commits. */
export interface JoinedTransaction {
  readonly tx: Transaction;
  /** Other processes get the hint if, and when, the transaction commits. */
  readonly notify: (hint: Hint) => Promise<void>;
}

/** Carries hints between processes. */
export type Push = Pick<Engine, "listen" | "tell" | "pushState" | "close">;

/** A connection that does not listen after six seconds never will. */
const PUSH_LOOK_MS = 20;

const PUSH_LOOKS_MAX = 300;

export class EngineDatabase implements Database {
  readonly engine: Engine;
  readonly name: string;
  readonly database: string;
  readonly pollCycles: number;
  readonly address: StoreAddress | null;
  readonly #push: Push;
  readonly #listeners = new Set<(hint: Hint) => void>();
  /** Hints of users who enqueue or emit inside a transaction of ours. */
  readonly #collected = new WeakMap<object, Hint[]>();
  #stopListening: (() => void) | null = null;

  constructor(engine: Engine, push: Push = engine) {
    this.engine = engine;
    this.name = engine.name;
    this.database = engine.database;
    this.pollCycles = engine.pollCycles;
    this.address = engine.address;
    this.#push = push;
  }

  load(): Load {
    return this.engine.load();
  }

  condition(): Promise<Condition | null> {
    return this.engine.condition();
  }

  async hazards(): Promise<string[]> {
    return (await this.engine.hazards?.()) ?? [];
  }

  clock(): Promise<number> {
    return readNow(this.engine);
  }

  write<T>(write: () => Promise<T>, lookUp: () => Promise<T>): Promise<T> {
    return writeOrLookUp(this.engine, write, lookUp);
  }

  confirmFound(): Promise<void> {
    const confirm = (): Promise<void> =>
      withAnswerLimit(LOOK_ANSWER_MS_MAX, () => this.engine.confirm("found"));
    return this.write(confirm, confirm);
  }

  announce(hint: Hint): void {
    this.#push.tell(hint);
    this.hint(hint);
  }

  hint(hint: Hint): void {
    for (const listener of this.#listeners) {
      try {
        withAnswerLimit(undefined, () => listener(hint)); // a look-up may send hints
      } catch {
        // The change is committed, so its caller must not see an error. A hint may be lost.
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

/** A server that restarts is back within half a minute. */
const LOOKS_MAX = 20;

const LOOK_PAUSE_MS_FIRST = 25;

const LOOK_PAUSE_MS_MAX = 2_000;

const LOOK_MS_MAX = 30_000;

/** A caller that has waited for its answer for long does not wait as long again for the look-up. */
const WRITE_MS_MAX = 45_000;

const LOOK_MS_MIN = 5_000;

/** For each answer of a look-up: it reads little, and a standby that commits wait for is quick, or away. */
const LOOK_ANSWER_MS_MAX = 5_000;

export async function writeOrLookUp<T>(
  engine: Engine,
  write: () => Promise<T>,
  lookUp: () => Promise<T>,
): Promise<T> {
  const startedAt = engine.runtime.monotonic();
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof OutcomeUnknownError)) throw error;
    const leftMs = WRITE_MS_MAX - (engine.runtime.monotonic() - startedAt);
    const lookMs = Math.max(LOOK_MS_MIN, Math.min(LOOK_MS_MAX, leftMs));
    return withAnswerLimit(LOOK_ANSWER_MS_MAX, () =>
      persist(engine, lookUp, { unknown: error, lookMs }),
    );
  }
}

async function persist<T>(
  engine: Engine,
  lookUp: () => Promise<T>,
  { unknown, lookMs }: { unknown: OutcomeUnknownError; lookMs: number },
): Promise<T> {
  const startedAt = engine.runtime.monotonic();
  const lost = new LostSessions(engine);
  lost.add(unknown);
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    if (engine.runtime.monotonic() - startedAt > lookMs) break;
    const pauseMs = Math.min(LOOK_PAUSE_MS_MAX, LOOK_PAUSE_MS_FIRST * 2 ** look);
    await sleep(engine.runtime, pauseMs * (0.5 + engine.runtime.random() / 2));
    try {
      // The lost write may still be under way, and would be committed after the look-up.
      await lost.end();
      const found = await lookUp();
      // What the look-up saw may be on this server alone.
      await engine.confirm("looked up");
      return found;
    } catch (error) {
      if (!isAway(error)) throw error;
      lost.add(error);
    }
  }
  await lost.end().catch(() => {}); // those of look-ups
  throw unknown;
}

/** The sessions of a write and of its look-ups whose answers were lost. */
class LostSessions {
  readonly #engine: Engine;
  readonly #sessions = new Set<number>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  add(error: unknown): void {
    if (error instanceof OutcomeUnknownError && error.session !== null) {
      this.#sessions.add(error.session);
    }
  }

  async end(): Promise<void> {
    for (const session of this.#sessions) {
      await this.#engine.endSession(session);
      this.#sessions.delete(session);
    }
  }
}

function isAway(error: unknown): boolean {
  return (
    error instanceof StoreUnavailableError ||
    error instanceof StoreBusyError ||
    error instanceof OutcomeUnknownError
  );
}
