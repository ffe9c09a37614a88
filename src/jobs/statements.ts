/** The hot statements: enqueue, settle, claim and extend, written by hand for each database. */
import type { Engine } from "../database/engine.ts";
import type { JobStatements } from "./store.ts";

/** Loads those of the engine alone. Its kind says which class it is, and only that file imports the class. */
export async function statementsFor(engine: Engine): Promise<JobStatements> {
  switch (engine.kind) {
    case "postgres": {
      const { postgresStatements } = await import("./postgres.ts");
      return postgresStatements(engine as never);
    }
    case "mysql": {
      const { mysqlStatements } = await import("./mysql.ts");
      return mysqlStatements(engine as never);
    }
    case "sqlite": {
      const { sqliteStatements } = await import("./sqlite.ts");
      return sqliteStatements(engine as never);
    }
  }
}
