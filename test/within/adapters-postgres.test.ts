import { promisesOf } from "./promises.ts";

await promisesOf("PostgreSQL");
