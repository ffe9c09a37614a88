import { notItsTurn } from "../support/scale.ts";
import { missingPrograms, startPostgres } from "../support/servers.ts";
import { torture } from "./torture.ts";

torture("PostgreSQL", {
  skip: missingPrograms("postgres") || notItsTurn("postgres"),
  start: startPostgres,
});
