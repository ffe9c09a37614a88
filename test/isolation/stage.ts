/** A database in which races are rehearsed and played. */
import { Client, DatabaseError, escapeLiteral, type QueryConfig, type QueryResult } from "pg";
import type { PgQuery, PgResult } from "../../src/database/postgres/address.ts";
import { copyOf, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { PLAY } from "./players.ts";
import { Product } from "./product.ts";
import type { Verb } from "./verbs.ts";

const BACK_TO_ASKED = "rollback to savepoint asked; release savepoint asked";

/** The rows of all tables. */
export type Picture = Readonly<Record<string, readonly Record<string, unknown>[]>>;

/** An answer as the product gets it, and as a player recognises it: a text for every row. */
export interface Answer {
  readonly result: PgResult;
  readonly rows: readonly string[];
}

export class Stage implements AsyncDisposable {
  readonly url: string;
  readonly client: Client;
  readonly product: Product;
  readonly #database: ScratchDatabase;

  private constructor(parts: { database: ScratchDatabase; client: Client; product: Product }) {
    this.url = parts.database.url;
    this.client = parts.client;
    this.product = parts.product;
    this.#database = parts.database;
  }

  /**
   * So many alike, with the settings that the product gives its own sessions, because plans depend on them. A copy of a
   * database is there sooner than one that is filled.
   */
  static async openMany(count: number, settings: string): Promise<Stage[]> {
    await using model = await scratchDatabase("postgres");
    const first = await Stage.#on(model, settings);
    await first.client.query(PLAY);
    await first.client.end();
    const copies = Array.from({ length: count }, async () =>
      Stage.#on(await copyOf(model), settings),
    );
    return await Promise.all(copies);
  }

  static async #on(database: ScratchDatabase, settings: string): Promise<Stage> {
    const client = new Client({ connectionString: database.url, options: settings });
    await client.connect();
    return new Stage({ database, client, product: await Product.open(client) });
  }

  /** What stands in the tables once these have been performed on what stood there before. */
  async picture(before: Picture | null, verbs: readonly Verb[]): Promise<Picture> {
    await this.client.query("call iso.restore($1)", [JSON.stringify(before ?? {})]);
    for (const verb of verbs) await this.product.perform(verb);
    const { rows } = await this.client.query("select iso.picture() as picture");
    return rows[0].picture;
  }

  /** Calls the body on a picture; nothing of what it does stays. */
  async on<T>(picture: Picture, body: () => Promise<T>): Promise<T> {
    return this.#undo("begin", "rollback", async () => {
      await this.client.query("call iso.restore($1)", [JSON.stringify(picture)]);
      return body();
    });
  }

  /** Inside `on`: asks, and calls the body on what the question made of the tables. Null: it was refused. */
  async after(query: PgQuery, body: (answer: Answer) => Promise<void>): Promise<Answer | null> {
    return this.#undo("savepoint asked", BACK_TO_ASKED, async () => {
      const answer = await this.#answer(query);
      if (answer !== null) await body(answer);
      return answer;
    });
  }

  async #answer(query: PgQuery): Promise<Answer | null> {
    try {
      const { text, values = [], types, rowMode } = query;
      await this.client.query("savepoint asked");
      const config = { text, values, types, ...(rowMode === undefined ? {} : { rowMode }) };
      const result = await this.client.query(config as QueryConfig);
      await this.client.query(BACK_TO_ASKED);
      const asked = await this.client.query("select iso.ask($1, $2, $3) as rows", [
        ...spoken(query, result),
      ]);
      return { result, rows: asked.rows[0].rows };
    } catch (error) {
      // Rows that stand in the way of this path: no race takes it.
      if (error instanceof DatabaseError && error.code?.startsWith("23") === true) return null;
      throw error;
    }
  }

  async #undo<T>(mark: string, undo: string, body: () => Promise<T>): Promise<T> {
    await this.client.query(mark);
    try {
      return await body();
    } finally {
      await this.client.query(undo);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.end();
    await this.#database.drop();
  }
}

/** How a player asks: prepared, as the product does it; without rows, as a text, whose count of rows can be read. */
export function spoken(query: PgQuery, result: PgResult): [string, string[], boolean] {
  const literals = ((query.values ?? []) as Value[]).map(literal);
  if (hasRows(result)) return [query.text, literals, true];
  const text = query.text.replaceAll(/\$(\d+)/g, (_, position) => literals[Number(position) - 1]!);
  return [text, [], false];
}

function hasRows(result: PgResult): boolean {
  return (result as QueryResult).fields.length > 0;
}

type Value = string | number | null;

function literal(value: Value | readonly Value[] | undefined): string {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return escapeLiteral(`{${value.map(element).join(",")}}`);
  return escapeLiteral(String(value));
}

function element(value: Value): string {
  return value === null ? "null" : `"${String(value).replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
