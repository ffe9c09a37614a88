import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missingPrograms, startMariadb } from "../support/servers.ts";
import { torture } from "./torture.ts";

torture("MariaDB", {
  skip: reasonOf(missingPrograms("mysql"), notItsTurn("mysql")),
  start: startMariadb,
});
