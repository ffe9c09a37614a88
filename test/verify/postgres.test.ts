import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missingPrograms, startPostgres } from "../support/servers.ts";
import { torture } from "./torture.ts";

torture("PostgreSQL", {
  skip: reasonOf(missingPrograms("postgres"), notItsTurn("postgres")),
  start: startPostgres,
});
