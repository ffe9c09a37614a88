/** An EntityManager or a QueryRunner of TypeORM. */
import { call, can, give, type Ask, type Shape, type Wanted } from "./ask.ts";
import { askConnection } from "./drivers.ts";

export function askTypeorm(tx: Shape, wanted: Wanted): Ask | null {
  if (isRunner(tx)) return askRunner(tx, wanted);
  if (!can(tx, "getRepository", "transaction")) return null;
  const { queryRunner } = tx;
  if (!isRunner(queryRunner)) throw outside();
  return askRunner(queryRunner, wanted);
}

function askRunner(runner: Shape, wanted: Wanted): Ask {
  return askConnection("TypeORM", wanted, () => {
    if (runner["isTransactionActive"] !== true) throw outside();
    return call(runner, "connect"); // the one that it has
  });
}

function isRunner(tx: unknown): tx is Shape {
  return can(tx, "connect", "startTransaction", "commitTransaction");
}

function outside(): Error {
  return give(
    "give the `manager` that `dataSource.transaction(async (manager) => …)` of TypeORM hands to its function, or a QueryRunner after `startTransaction()`.",
  );
}
