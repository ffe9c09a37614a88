/** The databases that the registry is tried on: a file, and one of each server. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { everyNth, notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";

export interface Place extends AsyncDisposable {
  readonly url: string;
}

export interface EngineUnderTest {
  readonly name: string;
  readonly skip: string | false;
  readonly place: () => Promise<Place>;
}

async function file(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-registry-"));
  return {
    url: `sqlite:${join(folder, "jobs.db")}`,
    async [Symbol.asyncDispose]() {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const database = (name: "postgres" | "mysql") => async (): Promise<Place> => {
  const scratch = await scratchDatabase(name);
  return { url: scratch.url, [Symbol.asyncDispose]: () => scratch.drop() };
};

export const engines: readonly EngineUnderTest[] = [
  { name: "SQLite", skip: false, place: file },
  { name: "PostgreSQL", skip: missing("postgres"), place: database("postgres") },
  { name: "MariaDB", skip: missing("mysql"), place: database("mysql") },
];

const turns: Readonly<Record<string, string | false>> = {
  PostgreSQL: notItsTurn("postgres"),
  MariaDB: notItsTurn("mysql"),
};

/** One of the three, by the seed and the battery: for what is tried on each of them elsewhere. A long run has all of them. */
export function drawnEngines(battery: string): readonly EngineUnderTest[] {
  const drawn = everyNth(engines.length, engines, battery);
  return engines.map((engine) => ({
    ...engine,
    skip: reasonOf(engine.skip, drawn.includes(engine) ? false : "drawn with another seed"),
  }));
}

/** A file, and the server whose turn it is: for what depends little on the database. A long run has all of them. */
export const sampledEngines: readonly EngineUnderTest[] = engines.map((engine) => ({
  ...engine,
  skip: reasonOf(engine.skip, turns[engine.name] ?? false),
}));
