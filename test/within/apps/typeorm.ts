/** Applications that use TypeORM. */
import { DataSource, type DataSourceOptions, type EntityManager } from "typeorm";
import { Rollback, rolledBack, type App, type Kind } from "./app.ts";
import { readsBigInts, readsTexts } from "./drivers.ts";

async function open(options: DataSourceOptions): Promise<App> {
  const db = await new DataSource(options).initialize();
  const idle = db.createQueryRunner();
  return {
    over: /dataSource\.transaction/,
    notTx: [
      [db, /dataSource\.transaction/],
      [db.manager, /dataSource\.transaction/],
      [idle, /startTransaction\(\)/],
    ],
    order: async (tx, id) => void (await tx.query(`insert into orders values (${id})`)),
    transaction: (body, level) =>
      level?.serializable ? db.transaction("SERIALIZABLE", body) : db.transaction(body),
    nested: (outer, inner) =>
      db.transaction(async (tx: EntityManager) => {
        await outer(tx);
        await rolledBack(() =>
          tx.transaction(async (deeper) => {
            await inner(deeper);
            throw new Rollback();
          }),
        );
      }),
    async [Symbol.asyncDispose]() {
      await idle.release();
      await db.destroy();
    },
  };
}

/** The same, with transactions begun and ended by hand. */
async function openRunner(options: DataSourceOptions): Promise<App> {
  const db = await new DataSource(options).initialize();
  return {
    over: /dataSource\.transaction/,
    notTx: [],
    order: async (tx, id) => void (await tx.query(`insert into orders values (${id})`)),
    async transaction(body, level) {
      const runner = db.createQueryRunner();
      try {
        await runner.startTransaction(level?.serializable ? "SERIALIZABLE" : undefined);
        const value = await body(runner);
        await runner.commitTransaction();
        return value;
      } catch (error) {
        await runner.rollbackTransaction();
        throw error;
      } finally {
        await runner.release();
      }
    },
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}

const onPostgres = (url: string): DataSourceOptions => ({
  type: "postgres",
  url,
  extra: readsBigInts,
});

export const typeorms: readonly Kind[] = [
  { name: "TypeORM", database: "PostgreSQL", open: (url) => open(onPostgres(url)) },
  {
    name: "TypeORM with a QueryRunner",
    database: "PostgreSQL",
    open: (url) => openRunner(onPostgres(url)),
  },
  {
    name: "TypeORM",
    database: "MariaDB",
    open: (url) => open({ type: "mariadb", url, ...readsTexts }),
  },
];
