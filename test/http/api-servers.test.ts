/** The same API on PostgreSQL and MariaDB, one of them in a sample. */
import { after, describe } from "node:test";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { apiSuite } from "./api.ts";

const databases: ScratchDatabase[] = [];

for (const kind of ["postgres", "mysql"] as const) {
  describe(kind, { skip: reasonOf(missing(kind), notItsTurn(kind)) }, () => {
    apiSuite(kind, async () => {
      const database = await scratchDatabase(kind);
      databases.push(database);
      return database.url;
    });
  });
}

after(async () => {
  for (const database of databases) await database.drop();
  await assertNothingRuns();
});
