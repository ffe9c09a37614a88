/** A transaction for the shared SQL, on a connection of ours or of the user. */
import type { UserTransaction } from "../../core/task.ts";
import { type Hint, type Row, TABLES, type Taking, type Transaction } from "../engine.ts";
import { noteOf } from "../notify.ts";
import { inTurn, nothing, type Sql, sql } from "../sql.ts";
import { asTheyAre } from "../user-errors.ts";
import { elsewhere } from "../user-tx/drivers.ts";
import { askOf } from "../user-tx/recognise.ts";
import type { PgClient, PgResult } from "./address.ts";
import { codeOf, translate } from "./errors.ts";
import {
  type Send,
  type Sending,
  type Sessions,
  SILENCE_MS,
  silentFor,
  types,
  USER_SILENCE_MS,
} from "./session.ts";

interface TransactionParts {
  readonly send: Send;
  readonly compile: (query: Sql) => Sending;
  readonly spell: (text: string) => string;
  /** Adds the name under which the text is prepared. */
  readonly name: (text: string) => { readonly text: string; readonly name: string };
  /** The connection accepts a statement before the previous one is answered. */
  readonly ahead?: boolean;
  readonly answerMs?: number;
}

export class SharedTransaction implements Transaction {
  readonly #parts: TransactionParts;

  constructor(parts: TransactionParts) {
    this.#parts = parts;
  }

  async all<T = Row>(query: Sql): Promise<T[]> {
    return (await this.#ask(query)).rows as T[];
  }

  async run(query: Sql): Promise<number> {
    return (await this.#ask(query)).rowCount ?? 0;
  }

  async allOf<T = Row>(queries: readonly Sql[]): Promise<T[][]> {
    return (await this.#askAll(queries)).map(({ rows }) => rows as T[]);
  }

  async runAll(queries: readonly Sql[]): Promise<number[]> {
    return (await this.#askAll(queries)).map(({ rowCount }) => rowCount ?? 0);
  }

  async script(text: string): Promise<void> {
    await this.#send({ text: this.#parts.spell(text) });
  }

  take<T = Row>(from: Taking): Promise<T[]> {
    return this.all<T>(take(from));
  }

  /** The columns' types come from the table. The rows are a text, because users' drivers may encode a JSON parameter again. */
  async insert(table: string, rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const columns = Object.keys(rows[0] ?? {}).join(", ");
    const { spell, name } = this.#parts;
    const text = spell(`
      insert into holdfast.${table} (${columns})
      select ${columns}
        from json_populate_recordset(null::holdfast.${table}, $1::text::json)`);
    await this.#send({ ...name(text), values: [JSON.stringify(rows)] });
  }

  #ask(query: Sql): Promise<PgResult> {
    return this.#send(this.#parts.compile(query));
  }

  #askAll(queries: readonly Sql[]): Promise<PgResult[]> {
    const ask = (query: Sql): Promise<PgResult> => this.#ask(query);
    return this.#parts.ahead === true ? Promise.all(queries.map(ask)) : inTurn(queries, ask);
  }

  #send(sending: Sending): Promise<PgResult> {
    const { send, answerMs } = this.#parts;
    return send(answerMs === undefined ? sending : { ...sending, answerMs });
  }
}

/** Sends statements in a user transaction. */
export function sendIn(tx: unknown, store: string): Send {
  const ask = askOf("postgres", tx, { types });
  return async ({ text, values = [] }) => {
    try {
      const { rows, count } = await ask(text, values);
      return { rows, rowCount: count };
    } catch (error) {
      if (NO_TABLES.has(codeOf(error))) throw elsewhere(databaseOf(tx), store, error);
      throw translate(error, store);
    }
  };
}

/** The schema or the table does not exist. Holdfast was opened, so its own database has them. */
const NO_TABLES = new Set(["3F000", "42P01"]);

/** A client of `pg` knows it; after an error, the transaction can no longer be asked. */
function databaseOf(tx: unknown): string | null {
  const { database, session } = tx as { database?: unknown; session?: { client?: unknown } };
  if (typeof database === "string") return database;
  return session?.client === undefined ? null : databaseOf(session.client);
}

/**
 * Rows that SKIP LOCKED took are found again by their ctid. `finished` is partitioned, so its ctids are not unique, but
 * its rows never change. Otherwise the condition is in the DELETE and is checked again under the row's lock.
 */
function take({ table, where, orderBy, limit, skipLocked }: Taking): Sql {
  const from = TABLES[table];
  if (skipLocked !== true) return sql`delete from ${from} where ${where} returning *`;
  const mark = table === "finished" ? sql`id` : sql`ctid`;
  return sql`
    delete from ${from}
     where ${mark} = any(array(select ${mark}
                                 from ${from}
                                where ${where}
                                ${orderBy === undefined ? nothing : sql`order by ${orderBy}`}
                                ${limit === undefined ? nothing : sql`limit ${limit}`}
                                  for update skip locked))
    returning *`;
}

type Body<T> = (user: UserTransaction) => Promise<T>;

/** Runs after the user's function. */
type Last<T> = (send: Send, value: T) => Promise<void>;

export function userTransaction<T>(sessions: Sessions, body: Body<T>, last: Last<T>): Promise<T> {
  const run = (theirs: Body<T>): Promise<T> =>
    sessions.transaction(
      async (send, client) => {
        const user: UserTransaction = {
          client,
          query: async <R>(text: string, values: readonly unknown[] = []) =>
            (await send({ text, values: [...values] })).rows as R[],
        };
        const value = await oneAtATime(client, () => theirs(user));
        // From here on, only our own statements follow, under locks that others wait for. Sent ahead of them.
        const hurrying = send({ text: silentFor(SILENCE_MS) });
        hurrying.catch(() => {}); // the next statement fails too
        await last(send, value);
        return value;
      },
      { once: true, idleMs: USER_SILENCE_MS },
    );
  return asTheyAre(body, run);
}

/** The driver's cursors and streams do not work on a connection with pipelining. */
async function oneAtATime<T>(client: PgClient, body: () => Promise<T>): Promise<T> {
  const { pipeline } = client;
  if (pipeline === true) client.pipeline = false;
  try {
    return await body();
  } finally {
    if (pipeline === true) client.pipeline = true;
  }
}

/**
 * Notes that a transaction of ours sends with its commit: if the process dies right after the commit, its jobs need not
 * wait for the next poll.
 *
 * Commits with a note wait for one another on the whole server, each for the disk. So in one process only one transaction
 * at a time carries notes; the others send theirs after the commit.
 */
export class CommitNotes {
  readonly #channel: string;
  readonly #sender: string;
  readonly #sent = new WeakSet<Hint>();
  #carrier: Transaction | null = null;

  constructor({ channel, sender }: { readonly channel: string; readonly sender: string }) {
    this.#channel = channel;
    this.#sender = sender;
  }

  /** Runs a transaction, which calls `begin` each time it starts. */
  async during<T>(run: (begin: (tx: Transaction) => Transaction) => Promise<T>): Promise<T> {
    let current: Transaction | null = null;
    const end = (): void => {
      if (this.#carrier === current) this.#carrier = null;
    };
    try {
      return await run((tx) => {
        end();
        current = tx;
        return tx;
      });
    } finally {
      end();
    }
  }

  async send(tx: Transaction, hints: readonly Hint[]): Promise<void> {
    if (hints.length === 0 || (this.#carrier !== null && this.#carrier !== tx)) return;
    this.#carrier = tx;
    const notes = hints.map((hint) => `${this.#sender}:${noteOf(hint)}`);
    await tx.all(
      sql`select pg_notify(${this.#channel}, note) from unnest(${notes}::text[]) as n (note)`,
    );
    for (const hint of hints) this.#sent.add(hint);
  }

  /** Whether the hint was sent with its transaction. */
  has(hint: Hint): boolean {
    return this.#sent.has(hint);
  }
}
