/** The hot statements: enqueue, settle, claim and extend, written by hand for each database. */
import { OutcomeUnknownError, StoreUnavailableError } from "../core/errors.ts";
import type { Fence } from "../core/job.ts";
import { sleep } from "../core/runtime.ts";
import type { Engine } from "../database/engine.ts";
import type { Extended, JobStatements } from "./store.ts";

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

const EXTEND_TRIES_MAX = 3;

const EXTEND_PAUSE_MS = 25;

/** Extending is idempotent, and the caller cannot wait long for an answer. */
export async function extendAgain(
  { engine, statements }: { engine: Engine; statements: JobStatements },
  fences: readonly Fence[],
  leaseMs: number,
): Promise<Extended[]> {
  const real = fences.filter(({ id }) => engine.mayBeId(id));
  if (real.length === 0) return [];
  for (let tries = 1; ; tries += 1) {
    try {
      return await statements.extend(real, leaseMs);
    } catch (error) {
      const isLost = error instanceof OutcomeUnknownError || error instanceof StoreUnavailableError;
      if (!isLost || tries === EXTEND_TRIES_MAX) throw error;
      await sleep(engine.runtime, EXTEND_PAUSE_MS * tries);
    }
  }
}
