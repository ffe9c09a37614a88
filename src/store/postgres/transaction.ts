/** A transaction for the shared SQL, on a connection of ours or of the user's. */
import type { Row, Taking, Transaction } from "../engine.ts";
import { inTurn, type Sql } from "../sql.ts";
import type { PgResult } from "./options.ts";
import type { Send, Sending } from "./session.ts";
import { take } from "./take.ts";

export interface TransactionParts {
  readonly send: Send;
  readonly compile: (query: Sql) => Sending;
  readonly spell: (text: string) => string;
  /** With the name that it is prepared under. */
  readonly name: (text: string) => { readonly text: string; readonly name: string };
  /** The connection takes a statement before it has answered the one before. */
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

  /** The table itself knows the columns' types. A text: drivers of users' make JSON of what they hear is JSON. */
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
