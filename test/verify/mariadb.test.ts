import { missingPrograms, startMariadb } from "../support/servers.ts";
import { torture } from "./torture.ts";

torture("MariaDB", { skip: missingPrograms("mysql"), start: startMariadb });
