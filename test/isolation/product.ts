/**
 * The product as it would speak to the database: asked, after any answers, what it says next.
 *
 * Nothing of its SQL and none of its decisions is written down in these tests. Every verb runs in the product's own code,
 * on a connection that either passes on what is said, or gives prepared answers and notes the first question beyond.
 */
import type { Client, QueryConfig } from "pg";
import type { Engine } from "../../src/database/engine.ts";
import { migrate } from "../../src/database/migrate.ts";
import { PostgresEngine } from "../../src/database/postgres/engine.ts";
import { SCHEMA, type PgQuery, type PgResult } from "../../src/database/postgres/address.ts";
import { testRuntime, type TestRuntime } from "../support/runtime.ts";
import type { Verb } from "./verbs.ts";

/** What the product does next: it asks the database, or is done and tells its caller. */
export type Next = { readonly asks: PgQuery } | { readonly tells: unknown };

type Line = (query: PgQuery) => Promise<PgResult>;

export class Product {
  readonly #runtime: TestRuntime;
  readonly #real: Line;
  #line: Line;
  #engine: Engine | null = null;

  private constructor(client: Client) {
    this.#runtime = testRuntime();
    this.#real = (query) => client.query(query as QueryConfig);
    this.#line = this.#real;
  }

  /** Brings the tables into the database. */
  static async open(client: Client): Promise<Product> {
    const product = new Product(client);
    product.#engine = await PostgresEngine.open({
      address: { connection: {}, schema: SCHEMA },
      runtime: product.#runtime,
      pool: { connect: () => Promise.resolve(product.#connection()) },
      ownPools: false, // everything it says, it says to us
    });
    await migrate(product.#engine);
    return product;
  }

  /** Does it. */
  perform(verb: Verb): Promise<unknown> {
    this.#line = this.#real;
    return this.#run(verb);
  }

  /** What the product does once it has heard these answers. */
  async next(verb: Verb, answers: readonly PgResult[]): Promise<Next> {
    return new Promise((resolve) => {
      let heard = 0;
      this.#line = async (query) => {
        const answer = answers[heard];
        heard += 1;
        if (answer !== undefined) return answer;
        resolve({ asks: query });
        return new Promise<never>(() => {}); // the call is left as it stands
      };
      this.#run(verb).then(
        (told) => resolve({ tells: told }),
        (error: unknown) => resolve({ tells: { threw: String(error) } }),
      );
    });
  }

  #run(verb: Verb): Promise<unknown> {
    this.#runtime.clock.set(verb.at);
    return verb.run(this.#engine as Engine);
  }

  #connection() {
    return {
      query: (query: PgQuery) => this.#line(query),
      release() {},
      on() {},
      listenerCount: () => 1,
    };
  }
}
