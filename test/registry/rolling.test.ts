/**
 * A rolling deployment: workers of this version and of a later one, on one database, through the migration, under load.
 *
 * Nothing was published yet, so the later version is a copy of the sources with two more migrations: one adds columns to
 * tables in use, and one builds an index online.
 */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { openHoldfast, type Holdfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { drawnEngines } from "./places.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The most that a producer makes: both versions have had their share long before. */
const JOBS_MAX = 10_000;
const FEW = 100;

/** The same program for both versions: produces jobs, or works them off and writes down which. */
const programOf = (root: string): string => `
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { defineTask, openHoldfast } from ${JSON.stringify(join(root, "src/index.ts"))};
const [url, journal, produces] = process.argv.slice(2);
const note = defineTask({
  name: "note",
  async run(input) {
    await pause(2);
    appendFileSync(journal, input + "\\n");
  },
});
const holdfast = await openHoldfast(url);
if (produces === "no") await holdfast.startWorker({ tasks: [note], concurrency: 4, poll: "200ms" });
process.send("ready");
const told = new Promise((resolve) => process.once("message", resolve));
let producing = produces === "yes";
void told.then(() => (producing = false));
for (let job = 0; producing && job < ${JOBS_MAX}; job += 1) {
  await holdfast.enqueue(note, "job-" + job);
  await pause(3);
}
await told;
await holdfast.close();
process.disconnect();
`;

/** The rows that exist get a default; the other version writes rows without the columns. */
const COLUMNS = ["ready", "lease", "finished"].map(
  (table) => `alter table holdfast_${table} add column later int not null default 0;\n`,
);
const INDEX = "create index later on holdfast_finished (later, id);\n";

const later = mkdtempSync(join(tmpdir(), "holdfast-later-"));

function makeLater(): void {
  cpSync(join(ROOT, "src"), join(later, "src"), { recursive: true });
  cpSync(join(ROOT, "package.json"), join(later, "package.json"));
  symlinkSync(join(ROOT, "node_modules"), join(later, "node_modules"));
  for (const engine of ["sqlite", "postgres", "mysql"]) {
    const named = (text: string): string =>
      engine === "postgres" ? text.replaceAll("holdfast_", "holdfast.") : text;
    const folder = join(later, "src/database/migrations", engine);
    writeFileSync(join(folder, "0002-columns.sql"), COLUMNS.map(named).join(""));
    writeFileSync(join(folder, "0003-index.online.sql"), named(INDEX));
  }
}

class Crew implements AsyncDisposable {
  readonly #children: ChildProcess[] = [];
  readonly folder = mkdtempSync(join(tmpdir(), "holdfast-rolling-"));

  async start(
    root: string,
    url: string,
    { name, produces }: { name: string; produces: "yes" | "no" },
  ): Promise<ChildProcess> {
    const program = join(this.folder, `${name}.mts`);
    writeFileSync(program, programOf(root));
    const child = fork(program, [url, this.journal(name), produces], {
      execArgv: [],
      cwd: root,
    });
    this.#children.push(child);
    await once(child, "message");
    return child;
  }

  journal(name: string): string {
    return join(this.folder, `${name}.txt`);
  }

  done(name: string): string[] {
    try {
      return readFileSync(this.journal(name), "utf8").trim().split("\n").filter(Boolean);
    } catch {
      return [];
    }
  }

  async stop(child: ChildProcess): Promise<void> {
    const exited = once(child, "exit");
    child.send("stop");
    await exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function countJobs(holdfast: Holdfast): Promise<number> {
  const [stats] = await holdfast.stats();
  return Object.values(stats?.counts ?? {}).reduce((sum, some) => sum + some, 0);
}

makeLater();

// The databases side by side: what they do hardly overlaps.
describe("two versions on one database", { concurrency: true }, () => {
  for (const { name, skip, place: open } of drawnEngines("rolling")) {
    describe(`a rolling deployment on ${name}`, { skip, timeout: 120_000 }, () => {
      test("loses nothing and does nothing twice", async (t) => {
        await using place = await open();
        await using crew = new Crew();
        const old = await crew.start(ROOT, place.url, { name: "old", produces: "no" });
        const producer = await crew.start(ROOT, place.url, {
          name: "producer",
          produces: "yes",
        });
        await until("the old one works", () => crew.done("old").length > FEW);
        // The later version migrates it at its start, while the others produce and work.
        const young = await crew.start(later, place.url, { name: "young", produces: "no" });
        const holdfast = await openHoldfast(place.url, { migrate: false });
        try {
          await until("both work", () => crew.done("young").length > FEW);
          await crew.stop(producer);
          const jobs = await countJobs(holdfast);
          const inputs = Array.from({ length: jobs }, (_, job) => `job-${job}`);
          await crew.stop(old);
          await until(
            "all is done",
            () => crew.done("old").length + crew.done("young").length >= jobs,
            60_000,
          );
          await crew.stop(young);
          const [stats] = await holdfast.stats();
          t.diagnostic(`old ${crew.done("old").length}, young ${crew.done("young").length}`);
          assert.equal(stats?.counts.done, jobs);
          assert.deepEqual(
            [...crew.done("old"), ...crew.done("young")].toSorted(),
            inputs.toSorted(),
          );
        } finally {
          await holdfast.close();
        }
        const store = await openStore(place.url);
        const { from } = await store.migrate();
        await store.close();
        assert.equal(from, 3, "both migrations ran");
      });
    });
  }
});

after(() => rmSync(later, { recursive: true, force: true }));
after(assertNothingRuns);
