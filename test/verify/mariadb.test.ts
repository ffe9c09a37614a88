import { notItsTurn } from "../support/scale.ts";
import { missingPrograms, startMariadb } from "../support/servers.ts";
import { torture } from "./torture.ts";

torture("MariaDB", { skip: missingPrograms("mysql") || notItsTurn("mysql"), start: startMariadb });
