/**
 * A rolling deployment: workers of an earlier version of this package and of this one, on one database, through the
 * migration, under load.
 *
 * The earlier version is a recorded commit of this repository, the first whose schema this one upgrades: nothing was published
 * before, so migrations were changed in place until then.
 */
import assert from "node:assert/strict";
import { execFileSync, fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { openHoldfast, type Holdfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { drawnEngines } from "./places.ts";

const ROOT = join(import.meta.dirname, "../..");
const EARLIER = "7817ce7";
/** Nobody produces more than this: both versions have had their share long before. */
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

const earlier = mkdtempSync(join(tmpdir(), "holdfast-earlier-"));

/** Why the earlier version cannot be had, or false. */
function unpack(): string | false {
  try {
    const archive = execFileSync(
      "git",
      ["archive", "--format=tar", EARLIER, "src", "package.json"],
      {
        cwd: ROOT,
        maxBuffer: 2 ** 28,
        stdio: ["ignore", "pipe", "ignore"],
      },
    );
    execFileSync("tar", ["-x", "-C", earlier], { input: archive });
    symlinkSync(join(ROOT, "node_modules"), join(earlier, "node_modules"));
    return false;
  } catch {
    return `the commit ${EARLIER} is not here: this is no clone with its history`;
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

const absent = unpack();

// The databases side by side: what they do hardly overlaps.
describe("two versions on one database", { concurrency: true }, () => {
  for (const { name, skip, place: open } of drawnEngines("rolling")) {
    describe(
      `a rolling deployment on ${name}`,
      { skip: absent === false ? skip : absent, timeout: 120_000 },
      () => {
        test("loses nothing and does nothing twice", async (t) => {
          await using place = await open();
          await using crew = new Crew();
          const old = await crew.start(earlier, place.url, { name: "old", produces: "no" });
          const producer = await crew.start(earlier, place.url, {
            name: "producer",
            produces: "yes",
          });
          await until("the old one works", () => crew.done("old").length > FEW);
          // Opening it with this version migrates it, while the others produce and work.
          const holdfast = await openHoldfast(place.url);
          try {
            const young = await crew.start(ROOT, place.url, { name: "young", produces: "no" });
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
        });
      },
    );
  }
});

after(() => rmSync(earlier, { recursive: true, force: true }));
after(assertNothingRuns);
