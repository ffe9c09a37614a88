import { promisesOf } from "./promises.ts";

await promisesOf("MariaDB");
