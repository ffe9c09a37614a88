import { missingPrograms, startPostgres } from "../support/servers.ts";
import { torture } from "./torture.ts";

torture("PostgreSQL", { skip: missingPrograms("postgres"), start: startPostgres });
