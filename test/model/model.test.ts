/** The model on SQLite and MariaDB. */
import { checkEngine } from "./check.ts";
import { engines } from "./open.ts";

for (const engine of engines) {
  if (engine.name === "SQLite" || engine.name === "MariaDB") checkEngine(engine);
}
