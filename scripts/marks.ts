/**
 * The size of the code base, in three figures: `node scripts/marks.ts`. A figure that rises needs a reason in the commit that
 * raises its mark. A change that lowers a figure lowers its mark here too.
 */
import { globSync, readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { defineTask, openHoldfast } from "../src/index.ts";

const ROOT = join(import.meta.dirname, "..");

const MARKS: Readonly<Record<string, number>> = {
  "lines of src/": 83_300,
  "names exported by index.ts": 45,
  "files that an enqueue enters": 22,
};

function lines(): number {
  const files = globSync("**/*.ts", { cwd: join(ROOT, "src") });
  const counted = files.map(
    (file) => readFileSync(join(ROOT, "src", file), "utf8").split("\n").length - 1,
  );
  return counted.reduce((all, one) => all + one, 0);
}

function exportedNames(): number {
  const index = readFileSync(join(ROOT, "src/index.ts"), "utf8");
  const lists = [...index.matchAll(/export (?:type )?\{([^}]*)\}/g)].map(([, names = ""]) => names);
  return lists.flatMap((names) => names.split(",")).filter((name) => name.trim() !== "").length;
}

/** The files with a function that runs during one enqueue on SQLite. */
async function filesEntered(): Promise<number> {
  await using holdfast = await openHoldfast("sqlite::memory:");
  const task = defineTask({ name: "mail.send", run: (_input: { to: string }) => null });
  await holdfast.enqueue(task, { to: "ada" }); // opens what is opened once
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  await holdfast.enqueue(task, { to: "bob" });
  const { result } = await session.post("Profiler.takePreciseCoverage");
  session.disconnect();
  const src = pathToFileURL(join(ROOT, "src/")).href;
  return result.filter(
    ({ url, functions }) =>
      url.startsWith(src) && functions.some(({ ranges }) => ranges.some(({ count }) => count > 0)),
  ).length;
}

const figures: Readonly<Record<string, number>> = {
  "lines of src/": lines(),
  "names exported by index.ts": exportedNames(),
  "files that an enqueue enters": await filesEntered(),
};
for (const [name, found] of Object.entries(figures)) {
  const mark = MARKS[name] ?? 0;
  const isOver = found > mark;
  console.log(`${isOver ? "OVER" : "    "} ${name.padEnd(34)} ${found} of ${mark}`);
  if (isOver) process.exitCode = 1;
}
