/**
 * Schemas for tests, in one scratch database: used again after their rows are deleted, because making the tables takes
 * longer than most tests.
 */
import { Client } from "pg";
import { openStore } from "../../src/app/store.ts";
import { FORGET, FORGET_ACTIONS, GUARDED_TABLES, TABLES, WORKFLOW_TABLES } from "./tables.ts";

export interface SchemaPlace {
  readonly url: string;
  free(): Promise<void>;
}

export class Schemas {
  readonly #admin: Client;
  readonly #url: string;
  readonly #idle: string[] = [];
  #made = 0;

  private constructor(admin: Client, url: string) {
    this.#admin = admin;
    this.#url = url;
  }

  static async open(url: string): Promise<Schemas> {
    const admin = new Client({ connectionString: url });
    await admin.connect();
    return new Schemas(admin, url);
  }

  /** A schema without jobs, named in the URL; with `migrate: false` one without tables. */
  async place(url: string, { migrate }: { migrate: boolean }): Promise<SchemaPlace> {
    const schema = (migrate ? this.#idle.pop() : undefined) ?? (await this.#make({ migrate }));
    return {
      url: named(url, schema),
      free: async () => {
        if (migrate) await this.#empty(schema);
        else await this.#admin.query(`drop schema if exists "${schema}" cascade`);
      },
    };
  }

  close(): Promise<void> {
    return this.#admin.end();
  }

  async #make({ migrate }: { migrate: boolean }): Promise<string> {
    this.#made += 1;
    const schema = `test_${process.pid}_${this.#made}`;
    if (!migrate) return schema;
    const store = await openStore(named(this.#url, schema));
    await store.migrate();
    await store.close();
    return schema;
  }

  async #empty(schema: string): Promise<void> {
    const { rowCount } = await this.#admin.query(`select from "${schema}".workflow limit 1`);
    if (rowCount !== 0) await this.#emptyWorkflows(schema);
    const { rowCount: lines } = await this.#admin.query(`select from "${schema}".audit limit 1`);
    const emptying = [
      ...(lines === 0 ? [] : [FORGET_ACTIONS.postgres]),
      FORGET,
      ...TABLES.map((table) => `delete from holdfast.${table}`),
      "delete from holdfast.migration where name like 'pretended%'",
    ].join(";");
    await this.#admin.query(emptying.replaceAll("holdfast.", `"${schema}".`));
    this.#idle.push(schema);
  }

  /** Some of their triggers would refuse it. */
  async #emptyWorkflows(schema: string): Promise<void> {
    const guarded = GUARDED_TABLES.map((table) => `alter table "${schema}".${table}`);
    const texts = [
      ...guarded.map((table) => `${table} disable trigger user`),
      ...[...GUARDED_TABLES, ...WORKFLOW_TABLES].map((table) => `delete from "${schema}".${table}`),
      ...guarded.map((table) => `${table} enable trigger user`),
    ];
    await this.#admin.query(texts.join(";"));
  }
}

function named(url: string, schema: string): string {
  const parsed = new URL(url);
  parsed.searchParams.set("schema", schema);
  return parsed.href;
}
