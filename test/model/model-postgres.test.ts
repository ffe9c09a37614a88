/** The model on PostgreSQL. */
import { checkEngine } from "./check.ts";
import { engines } from "./open.ts";

for (const engine of engines) {
  if (engine.name === "PostgreSQL") checkEngine(engine);
}
