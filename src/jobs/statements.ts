/** The hot statements: enqueue, settle, claim and extend, written by hand for each database. */
import type { Engine } from "../database/engine.ts";
import type { JobStatements } from "./store.ts";

/** Loads only the file of this engine. Its `kind` tells its class, which only that file imports. */
export async function statementsFor(engine: Engine): Promise<JobStatements> {
  switch (engine.kind) {
    case "postgres": {
      const { PostgresStatements } = await import("./postgres.ts");
      return pollingSoon(engine as never, new PostgresStatements(engine as never));
    }
    case "mysql": {
      const { MysqlStatements } = await import("./mysql.ts");
      return pollingSoon(engine as never, new MysqlStatements(engine as never));
    }
    case "sqlite": {
      const { sqliteStatements } = await import("./sqlite.ts");
      return sqliteStatements(engine as never);
    }
  }
}

/** New and claimed jobs mean that more may follow, so the engine polls sooner. */
function pollingSoon(engine: { pollSoon(): void }, hot: JobStatements): JobStatements {
  return {
    insert(jobs) {
      engine.pollSoon();
      return hot.insert(jobs);
    },
    async settleAndClaim(settlements, wanted, turn) {
      const cycle = await hot.settleAndClaim(settlements, wanted, turn);
      if (cycle.claimed.length > 0) engine.pollSoon();
      return cycle;
    },
    extend: (fences, leaseMs) => hot.extend(fences, leaseMs),
  };
}
